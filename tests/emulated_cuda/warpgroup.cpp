// What sm_90a adds, by the PTX ISA.
//   mbarrier   a phase ends when no arrival and no byte is pending; then its parity turns and the
//              next phase begins with as many arrivals pending
//   bulk copy  lands at the latest when someone looks at its barrier; until then its destination
//              holds NaN, so that a missing wait shows
//   wgmma      operand addresses by descriptor, the 128-byte swizzle applied to the address: bits 4
//              to 6 are exchanged by xor with bits 7 to 9. Asynchronous at its worst: operands are
//              read, and sums written, at the wait that covers their group, sums are NaN until
//              then, and touching them meanwhile is a fault
#include "block.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <deque>
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
std::atomic<int> copies_until_the_lost_one = 0;

/// A product that was issued and not waited for.
struct Product {
  void* sums;
  std::uint64_t a, b;
  bool accumulate, lines_along_rows;
  WarpgroupOperand operand;
  std::source_location where;
};

/// The products of one thread. Chains of products have their true sums in `values` while they run.
struct ThreadProducts {
  std::vector<Product> open;
  std::deque<std::vector<Product>> groups;
  bool fenced = false;
  void* sums = nullptr;                    ///< of the products under way
  std::array<std::uint32_t, 64> values{};  ///< bits of float32 or of 32-bit integers

  bool none_under_way() const { return open.empty() && groups.empty(); }
};
/// By block of a cluster and thread of the block.
thread_local std::vector<std::vector<ThreadProducts>> products;
thread_local bool barriers_unfenced = false;

ThreadProducts& own_products() {
  const std::size_t thread =
      threadIdx.x + blockDim.x * (threadIdx.y + std::size_t{blockDim.y} * threadIdx.z);
  const std::size_t block = block_of_launch();
  if (products.size() <= block) {
    products.resize(block + 1);
  }
  if (products[block].size() <= thread) {
    products[block].resize(thread + 1);
  }
  return products[block][thread];
}

/// While products are under way their sums are what poison() left there.
void require_untouched(const ThreadProducts& own, std::source_location where) {
  std::array<std::uint32_t, 64> poisoned;
  poison(poisoned.data(), sizeof poisoned);
  if (std::memcmp(own.sums, poisoned.data(), sizeof poisoned) != 0) {
    fault("sums were touched while products that write them are under way", where);
  }
}

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
  /// Where the number at `along` of `row` lies; it and the others of its 16 bytes lie together.
  std::uint32_t address_of(std::uint32_t row, std::uint32_t along, bool lines_along_rows) const {
    std::uint32_t address = start + row / 8 * stride + row % 8 * 128 + along % 64 * 2;
    if (lines_along_rows) {
      address += along / 64 * leading;
    }
    return address ^ (address >> 7U & 7U) << 4U;
  }
  /// The 16 steps of a line.
  void read(const unsigned char* shared, std::uint32_t line, bool lines_along_rows,
            std::uint16_t (&steps)[16]) const {
    if (!lines_along_rows) {
      std::memcpy(steps, shared + address_of(line, 0, false), 16);
      std::memcpy(steps + 8, shared + address_of(line, 8, false), 16);
      return;
    }
    for (std::uint32_t step = 0; step < 16; ++step) {
      std::memcpy(&steps[step], shared + address_of(step, line, true), sizeof steps[step]);
    }
  }
};

/// Of 32 signed bytes to a line, where binary16 has 16 numbers, in 32 bits.
void add_byte_products(std::array<std::uint32_t, 64>& sums, const std::uint16_t (&a)[2][16],
                       const std::uint16_t (&b)[32][16]) {
  std::int8_t lines[2][32];
  std::int8_t columns[32][32];
  std::memcpy(lines, a, sizeof lines);
  std::memcpy(columns, b, sizeof columns);
  for (std::size_t column = 0; column < 32; ++column) {
    for (std::size_t line = 0; line < 2; ++line) {
      int sum = 0;
      for (std::size_t step = 0; step < 32; ++step) {
        sum += lines[line][step] * columns[column][step];
      }
      sums[column / 2 * 4 + 2 * line + column % 2] += static_cast<std::uint32_t>(sum);
    }
  }
}

void complete(const Product& one, ThreadProducts& own) {
  const Descriptor from_a(one.a, one.where);
  const Descriptor from_b(one.b, one.where);
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t warp = threadIdx.x / 32 % 4;
  std::uint16_t lines[2][16];
  std::uint16_t columns[32][16];
  const unsigned char* const shared = shared_memory();
  for (std::uint32_t i = 0; i < 2; ++i) {
    from_a.read(shared, warp * 16 + lane / 4 + 8 * i, one.lines_along_rows, lines[i]);
  }
  for (std::uint32_t j = 0; j < 32; ++j) {
    from_b.read(shared, j / 2 * 8 + lane % 4 * 2 + j % 2, one.lines_along_rows, columns[j]);
  }
  if (!one.accumulate) {
    own.values.fill(0);  // of either type
  }
  if (one.operand == WarpgroupOperand::kByte) {
    add_byte_products(own.values, lines, columns);
    return;
  }
  float sums[64];
  std::memcpy(sums, own.values.data(), sizeof sums);
  add_warpgroup_products(sums, lines, columns, one.operand == WarpgroupOperand::kBfloat16);
  std::memcpy(own.values.data(), sums, sizeof sums);
}

}  // namespace

void begin_block() {
  for (std::vector<ThreadProducts>& block : products) {
    block.assign(block.size(), {});
  }
  copies.clear();
  barriers_unfenced = false;
}

void lose_bulk_copy(int number) { copies_until_the_lost_one = number; }

void meet_warp(const char* kind, std::source_location where) {
  constexpr std::uint32_t kAll = 0xFFFFFFFFU;
  if (existing_lanes() != kAll) {
    fault(std::string(kind) + " in a warp of fewer than 32 threads", where);
  }
  warp_operation(kind, kAll, nullptr, nullptr, where);
}

void warpgroup_fence(std::source_location where) {
  meet_warp("warpgroup_fence", where);
  own_products().fenced = true;
}

void warpgroup_product(void* d, std::uint64_t a, std::uint64_t b, bool accumulate,
                       bool lines_along_rows, WarpgroupOperand operand,
                       std::source_location where) {
  ThreadProducts& own = own_products();
  if (!own.fenced) {
    fault("a product of a warpgroup without a fence since its registers were last touched", where);
  }
  if (own.none_under_way()) {
    own.sums = d;
    std::memcpy(own.values.data(), d, sizeof own.values);
    poison(d, sizeof own.values);
  } else if (own.sums != d) {
    fault("two arrays of sums under way at once, which this emulation does not know", where);
  }
  require_untouched(own, where);
  own.open.push_back({d, a, b, accumulate, lines_along_rows, operand, where});
}

void warpgroup_commit(std::source_location where) {
  meet_warp("warpgroup_commit", where);
  ThreadProducts& own = own_products();
  own.groups.push_back(std::move(own.open));
  own.open.clear();
}

void warpgroup_wait(std::size_t pending, std::source_location where) {
  meet_warp("warpgroup_wait", where);
  ThreadProducts& own = own_products();
  if (own.sums != nullptr && !own.none_under_way()) {
    require_untouched(own, where);
  }
  while (own.groups.size() > pending) {
    for (const Product& one : own.groups.front()) {
      complete(one, own);
    }
    own.groups.pop_front();
  }
  if (own.sums != nullptr && own.none_under_way()) {
    std::memcpy(own.sums, own.values.data(), sizeof own.values);
    own.sums = nullptr;
    own.fenced = false;  // whoever reads the sums touches them
  }
  // No lane goes on, and gives a stage back, before all have read their operands.
  meet_warp("warpgroup_wait", where);
}

}  // namespace vindex::emulated

namespace vindex::kernels::device {

using emulated::BarrierState;

void barrier_init(SharedBarrier* barrier, int arrivals, std::source_location where) {
  emulated::require_aligned(barrier, 8, "a barrier", where);
  std::erase_if(emulated::copies, [&](const auto& copy) { return copy.barrier == barrier; });
  const auto count = static_cast<std::uint16_t>(arrivals);
  *barrier = std::bit_cast<SharedBarrier>(BarrierState{count, count, 0});
  emulated::barriers_unfenced = true;
}

void barrier_init_fence() { emulated::barriers_unfenced = false; }

void barrier_arrive(SharedBarrier* barrier, std::source_location where) {
  emulated::change(barrier, [&](BarrierState& state) { emulated::arrive(state, where); });
}

void barrier_arrive_expecting(SharedBarrier* barrier, int bytes, std::source_location where) {
  emulated::change(barrier, [&](BarrierState& state) {
    state.add_bytes(bytes);
    emulated::arrive(state, where);
  });
}

void barrier_wait(SharedBarrier* barrier, int parity, std::uint64_t cycles, void* report,
                  std::uint32_t code, std::source_location where) {
  emulated::land_copies(barrier);
  const emulated::LastWords words{static_cast<std::uint32_t*>(report), code};
  for (std::uint64_t looks = 0; emulated::state_of(barrier).parity() == parity; ++looks) {
    if (looks >= cycles) {
      words.say(blockIdx, threadIdx);
      emulated::fault("a wait of " + std::to_string(cycles) + " cycles for a barrier", where);
    }
    emulated::sleep_on(barrier, "a barrier in shared memory", where, words);
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
  if (emulated::barriers_unfenced) {
    emulated::fault("a bulk copy to barriers that no barrier_init_fence() made known", where);
  }
  emulated::poison(shared, static_cast<std::size_t>(bytes));
  if (emulated::copies_until_the_lost_one > 0 && --emulated::copies_until_the_lost_one == 0) {
    return;
  }
  emulated::copies.push_back({shared, global, bytes, barrier});
  emulated::wake(barrier);
}

namespace {

/// What lies in block `rank` of the cluster where `own` lies in this one.
template <typename T>
T* in_block(T* own, std::size_t rank, std::source_location where) {
  return reinterpret_cast<T*>(reinterpret_cast<unsigned char*>(own) - emulated::shared_memory() +
                              emulated::shared_memory_of(rank, where));
}

}  // namespace

void cluster_meet(std::source_location where) { emulated::cluster_barrier(where); }

void barrier_arrive_at(SharedBarrier* barrier, int rank, std::source_location where) {
  barrier_arrive(in_block(barrier, static_cast<std::size_t>(rank), where), where);
}

void copy_bulk_to_pair(void* shared, const void* global, int bytes, SharedBarrier* barrier,
                       std::source_location where) {
  for (std::size_t rank = 0; rank < 2; ++rank) {
    copy_bulk(in_block(static_cast<unsigned char*>(shared), rank, where), global, bytes,
              in_block(barrier, rank, where), where);
  }
}

void require_swizzle_alignment(const void* shared, void* report, std::uint32_t code,
                               std::source_location where) {
  if (reinterpret_cast<std::uintptr_t>(shared) % 1024 != 0) {
    emulated::LastWords{static_cast<std::uint32_t*>(report), code}.say(blockIdx, threadIdx);
  }
  emulated::require_aligned(shared, 1024, "an operand's memory", where);
}

std::uint64_t operand_descriptor(const void* shared, int leading_bytes, int stride_bytes) {
  const auto start = static_cast<std::uint64_t>(static_cast<const unsigned char*>(shared) -
                                                emulated::shared_memory());
  return (start & 0x3FFFFU) >> 4U | static_cast<std::uint64_t>(leading_bytes >> 4) << 16U |
         static_cast<std::uint64_t>(stride_bytes >> 4) << 32U | std::uint64_t{1} << 62U;
}

}  // namespace vindex::kernels::device
