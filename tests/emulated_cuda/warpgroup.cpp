// What sm_90a adds, by the PTX ISA.
//   mbarrier   a phase ends when no arrival and no byte is pending; then its parity turns and the
//              next phase begins with as many arrivals pending
//   bulk copy  lands at the latest when someone looks at its barrier; until then its destination
//              holds NaN, so that a missing wait shows
//   wgmma      operand addresses by descriptor, the 128-byte swizzle applied to the address: bits 4
//              to 6 are exchanged by xor with bits 7 to 9
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <vector>
#include <warpgroup.hpp>

namespace vindex::emulated {

namespace {

/// What a SharedBarrier holds here.
struct BarrierState {
  std::uint16_t arrivals = 0;  ///< of every phase
  std::uint16_t pending = 0;
  std::int32_t bytes_and_parity = 0;  ///< pending bytes times 2, plus the parity of the phase

  int parity() const { return bytes_and_parity & 1; }
  void add_bytes(std::int32_t bytes) { bytes_and_parity += 2 * bytes; }
  void end_phase_if_done() {
    if (pending == 0 && bytes_and_parity >> 1 == 0) {
      pending = arrivals;
      bytes_and_parity ^= 1;
    }
  }
};
static_assert(sizeof(BarrierState) == sizeof(kernels::device::SharedBarrier));

struct BulkCopy {
  void* shared;
  const void* global;
  std::int32_t bytes;
  kernels::device::SharedBarrier* barrier;
};
/// Under way in the block that this OS thread runs.
thread_local std::vector<BulkCopy> copies;

BarrierState state_of(const kernels::device::SharedBarrier* barrier) {
  return std::bit_cast<BarrierState>(*barrier);
}

template <typename Change>
void change(kernels::device::SharedBarrier* barrier, const Change& how) {
  BarrierState state = state_of(barrier);
  const int parity = state.parity();
  how(state);
  state.end_phase_if_done();
  *barrier = std::bit_cast<kernels::device::SharedBarrier>(state);
  if (state.parity() != parity) {
    wake(barrier);
  }
}

void arrive(BarrierState& state, std::source_location where) {
  if (state.pending == 0) {
    fault("more arrivals at a barrier than it was initialised for", where);
  }
  --state.pending;
}

void land_copies(const kernels::device::SharedBarrier* barrier) {
  std::vector<BulkCopy> landing;
  std::erase_if(copies, [&](const BulkCopy& copy) {
    if (copy.barrier == barrier) {
      landing.push_back(copy);
    }
    return copy.barrier == barrier;
  });
  for (const BulkCopy& copy : landing) {
    std::memcpy(copy.shared, copy.global, static_cast<std::size_t>(copy.bytes));
    change(copy.barrier, [&](BarrierState& state) { state.add_bytes(-copy.bytes); });
  }
}

void require_aligned(const void* pointer, std::uintptr_t alignment, const char* what,
                     std::source_location where) {
  if (reinterpret_cast<std::uintptr_t>(pointer) % alignment != 0) {
    fault(std::string(what) + " is not aligned to " + std::to_string(alignment) + " bytes", where);
  }
}

/// The fields of an operand descriptor.
struct Descriptor {
  std::uint32_t start, leading, stride;

  Descriptor(std::uint64_t bits, std::source_location where)
      : start(field(bits, 0)), leading(field(bits, 16)), stride(field(bits, 32)) {
    if (bits >> 62U != 1) {
      fault("an operand descriptor without the 128-byte swizzle", where);
    }
    if ((bits >> 49U & 7U) != 0) {
      fault("an operand descriptor with a base offset", where);
    }
  }
  static std::uint32_t field(std::uint64_t bits, unsigned at) {
    return static_cast<std::uint32_t>(bits >> at & 0x3FFFU) << 4U;
  }
  /// The number at `line` and `step`.
  std::uint16_t at(std::uint32_t line, std::uint32_t step, bool lines_along_rows) const {
    const std::uint32_t along = lines_along_rows ? line : step;
    const std::uint32_t row = lines_along_rows ? step : line;
    std::uint32_t address = start + row / 8 * stride + row % 8 * 128 + along % 64 * 2;
    if (lines_along_rows) {
      address += along / 64 * leading;
    }
    address ^= (address >> 7U & 7U) << 4U;
    std::uint16_t number = 0;
    std::memcpy(&number, shared_memory() + address, sizeof number);
    return number;
  }
};

}  // namespace

void meet_warp(const char* kind, std::source_location where) {
  constexpr std::uint32_t kAll = 0xFFFFFFFFU;
  if (existing_lanes() != kAll) {
    fault(std::string(kind) + " in a warp of fewer than 32 threads", where);
  }
  warp_operation(kind, kAll, nullptr, nullptr, where);
}

void warpgroup_product(float (&d)[64], std::uint64_t a, std::uint64_t b, bool accumulate,
                       bool lines_along_rows, bool bfloat16, std::source_location where) {
  const Descriptor from_a(a, where);
  const Descriptor from_b(b, where);
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t warp = threadIdx.x / 32 % 4;
  std::uint16_t lines[2][16];
  std::uint16_t columns[32][16];
  for (std::uint32_t step = 0; step < 16; ++step) {
    for (std::uint32_t i = 0; i < 2; ++i) {
      lines[i][step] = from_a.at(warp * 16 + lane / 4 + 8 * i, step, lines_along_rows);
    }
    for (std::uint32_t j = 0; j < 32; ++j) {
      columns[j][step] = from_b.at(j / 2 * 8 + lane % 4 * 2 + j % 2, step, lines_along_rows);
    }
  }
  if (!accumulate) {
    std::fill(std::begin(d), std::end(d), 0.0F);
  }
  add_warpgroup_products(d, lines, columns, bfloat16);
}

}  // namespace vindex::emulated

namespace vindex::kernels::device {

using emulated::BarrierState;

void barrier_init(SharedBarrier* barrier, int arrivals, std::source_location where) {
  emulated::require_aligned(barrier, 8, "a barrier", where);
  std::erase_if(emulated::copies, [&](const auto& copy) { return copy.barrier == barrier; });
  const auto count = static_cast<std::uint16_t>(arrivals);
  *barrier = std::bit_cast<SharedBarrier>(BarrierState{count, count, 0});
}

void barrier_arrive(SharedBarrier* barrier, std::source_location where) {
  emulated::change(barrier, [&](BarrierState& state) { emulated::arrive(state, where); });
}

void barrier_arrive_expecting(SharedBarrier* barrier, int bytes, std::source_location where) {
  emulated::change(barrier, [&](BarrierState& state) {
    state.add_bytes(bytes);
    emulated::arrive(state, where);
  });
}

void barrier_wait(SharedBarrier* barrier, int parity, std::source_location where) {
  emulated::land_copies(barrier);
  while (emulated::state_of(barrier).parity() == parity) {
    emulated::sleep_on(barrier, "a barrier in shared memory", where);
    emulated::land_copies(barrier);
  }
}

void copy_bulk(void* shared, const void* global, int bytes, SharedBarrier* barrier,
               std::source_location where) {
  emulated::require_aligned(shared, 16, "the destination of a bulk copy", where);
  emulated::require_aligned(global, 16, "the source of a bulk copy", where);
  if (bytes <= 0 || bytes % 16 != 0) {
    emulated::fault("a bulk copy of " + std::to_string(bytes) + " bytes", where);
  }
  emulated::poison(shared, static_cast<std::size_t>(bytes));
  emulated::copies.push_back({shared, global, bytes, barrier});
  emulated::wake(barrier);
}

std::uint64_t operand_descriptor(const void* shared, int leading_bytes, int stride_bytes) {
  const auto start = static_cast<std::uint64_t>(static_cast<const unsigned char*>(shared) -
                                                emulated::shared_memory());
  return (start & 0x3FFFFU) >> 4U | static_cast<std::uint64_t>(leading_bytes >> 4) << 16U |
         static_cast<std::uint64_t>(stride_bytes >> 4) << 32U | std::uint64_t{1} << 62U;
}

}  // namespace vindex::kernels::device
