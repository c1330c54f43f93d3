// Owns bulge chasing without a common beat. What a sweep does, and the ring that its block's sweeps
// share, are those of band_chase.cu; who may do what when is not said by a barrier of the block but
// by flags, numbers that only grow, one writer each:
//
//   a sweep's two warps   half steps done; the next sweep does half step t once both have done t +
//   2 the reader            blocks of columns put into the ring; the first sweep waits for them the
//   writer            blocks written back to the band; the reader waits for one of them before
//                         it uses the place in the ring again
//
// So one sweep's sums, whose latency binds a block in lock step, overlap with the loads and stores
// of others, which bind it otherwise. A sweep never touches again what it has passed on, so it may
// run ahead of those behind it as far as the ring reaches; waits are for sweeps before it alone.
//
// Several blocks of one matrix take groups of sweeps in turn. A group reads a block of columns once
// the writer of the group before, in whichever block that is, has written it and the next, since
// groups begin `sweeps` columns apart: one flag more, in global memory. A group follows some 15
// steps behind the one before (7 sweeps), so that as many blocks as that goes into the steps of a
// band are busy.
//
// Nothing waits for itself: with half step t of sweep s in group g, reads and writes of its columns
// placed at the times that band_chase.cu gives them, every wait is for something earlier, groups
// before this one included; the last half steps of a group wait for the end of the sweep before in
// this group at most, never for the next. Every part does its work in that order, so whatever is
// earliest can go on, if all blocks are under way: hence a cooperative launch.
//
// Two warps of a sweep meet once per half step that has sums, and pass their parts in alternate
// places (Windows): the one that is ahead writes to the other place, and cannot reach the first
// again before the one behind has arrived at the meeting between.
//
// Bits: every element goes through the same operations in the same order for every plan.
#include "chase_apart_window.hpp"
#include "chase_columns.hpp"
#include "shared_chase.hpp"
#include "shared_chase_layout.hpp"

#include "kernels/device/launch.hpp"
#include "kernels/device/trap_report.hpp"

#include <algorithm>
#include <intrinsics.hpp>
#include <limits>
#include <type_traits>

namespace vindex::kernels {

namespace {

using device::Patience;
using device::chase::ApartWindows;
using device::chase::ColumnMover;
using device::chase::kApartScratch;
using device::chase::kColumn;
using device::chase::kHalves;
using device::chase::kSize;

template <typename Real>
constexpr int kMovers = chase_layout::mover_warps(sizeof(Real));
template <typename Real>
constexpr int kMostThreads = chase_layout::threads_for(chase_layout::max_sweeps(sizeof(Real)),
                                                       sizeof(Real));
constexpr int kFlagsPerBlock = 2;  ///< in global memory, of its writers
static_assert(chase_flags(1, 2) == 2 * kFlagsPerBlock);

/// Who waits, for the report of a wait without end.
enum class Part : std::uint32_t { kSweep, kFirstSweep, kReader, kReaderOfOther, kWriter };
__device__ constexpr std::uint32_t code_of(Part part) {
  return trap_code(TrapSite::kChaseFlag, static_cast<std::uint32_t>(part), 0);
}

/// What all parts of a block know.
struct Setting {
  int n;
  int sweeps, ring_blocks;
  int blocks, block;  ///< of the matrix, and which of them this is
  int* flags;         ///< in shared memory
  int* global_flags;  ///< of the matrix
  Patience patience;

  __device__ int* sweep_flags(int sweep) const { return flags + kHalves * sweep; }
  __device__ int* reader_flags() const { return flags + kHalves * sweeps; }
  __device__ int* writer_flags() const { return flags + kHalves * sweeps + kFlagsPerBlock; }
};

/// The groups of one block of a matrix in their order. Blocks of columns are numbered through all
/// of them; `begin` is the number of this group's first.
struct Group {
  int first = 0;  ///< column
  int begin = 0;
  int steps = 0;

  __device__ Group(const Setting& at, int block) : first(block * at.sweeps) { count_steps(at); }
  __device__ bool exists(const Setting& at) const { return first < at.n; }
  __device__ int end() const { return begin + steps; }
  __device__ void advance(const Setting& at) {
    begin += steps;
    first += at.blocks * at.sweeps;
    count_steps(at);
  }

 private:
  __device__ void count_steps(const Setting& at) {
    steps = first < at.n ? static_cast<int>(chase_layout::steps_of_group(at.n, first)) : 0;
  }
};

/// What one of a sweep's two warps does.
template <typename Real>
class SweepWarp {
 public:
  __device__ SweepWarp(const Setting& at, ApartWindows<Real>& windows, int sweep, int half,
                       int lane)
      : at_(at),
        windows_(windows),
        sweep_(sweep),
        lane_(lane),
        own_flag_(at.sweep_flags(sweep) + half),
        // Of the sweep before both, of the readers one for each; by turns of lanes.
        awaited_(sweep > 0 ? at.sweep_flags(sweep - 1) + lane % kHalves
                           : at.reader_flags() + lane % kMovers<Real>) {}

  __device__ void run(bool writes, double* diagonal, double* off_diagonal) {
    int slot = 0;  // in the ring, of the block of columns of this step
    for (Group group(at_, at_.block); group.exists(at_); group.advance(at_)) {
      const int column = group.first + sweep_;
      int step = 0;
      for (int row = column + 1; step < group.steps; ++step, row += kSize) {
        if (step == 0 ? column >= at_.n : row >= at_.n) {
          break;
        }
        const int place = slot * kSize + sweep_ + 1;  // of column `row`
        const int time = 2 * (group.begin + step);
        await(group, step, time);
        if (step > 0) {
          windows_.move_bulge(place - kSize);
        } else {
          const Real pivot = windows_.at(place - 1, 0);
          const Real beta = row < at_.n ? windows_.start(place - 1) : Real{0};
          if (writes) {
            diagonal[column] = static_cast<double>(pivot);
            off_diagonal[column] = static_cast<double>(beta);
          }
        }
        device::publish_in_block(own_flag_, time + 1, lane_);
        if (row < at_.n) {
          await(group, step, time + 1);
          windows_.apply_both_sides(place);
        }
        device::publish_in_block(own_flag_, time + 2, lane_);
        slot = slot + 1 == at_.ring_blocks ? 0 : slot + 1;
      }
      if (step < group.steps) {
        // Nothing more to do: done when the sweep before is.
        if (sweep_ > 0) {
          device::await_in_block(awaited_, 2 * group.end(), at_.patience, code_of(Part::kSweep));
        }
        device::publish_in_block(own_flag_, 2 * group.end(), lane_);
        slot = (slot + group.steps - step) % at_.ring_blocks;
      }
    }
  }

 private:
  __device__ void await(const Group& group, int step, int time) const {
    if (sweep_ > 0) {
      device::await_in_block(awaited_, min(time + 3, 2 * group.end()), at_.patience,
                             code_of(Part::kSweep));
    } else if (time % 2 == 0) {
      // The windows of a step lie in its block of columns, the one before and the next.
      device::await_in_block(awaited_, min(group.begin + step + 2, group.end()), at_.patience,
                             code_of(Part::kFirstSweep));
    }
  }

  const Setting& at_;
  ApartWindows<Real>& windows_;
  int sweep_, lane_;
  int* own_flag_;
  const int* awaited_;
};

template <typename Stored, typename Real>
using Mover = ColumnMover<Stored, Real, 32 * kMovers<Real>, 2>;

template <typename Stored, typename Real>
__device__ void read_in_rounds(Mover<Stored, Real>& mover, std::int64_t first, bool first_pass,
                               int slot) {
#pragma unroll 1
  for (int round = 0; round < 2; ++round) {
    mover.fetch(round, first, first_pass);
    mover.deposit(round, slot);
  }
}

/// What a reader's warp does.
template <typename Stored, typename Real>
__device__ void read_columns(const Setting& at, Mover<Stored, Real>& mover, int warp, int lane) {
  int* const own_flag = at.reader_flags() + warp;
  const int* const room = at.writer_flags() + lane % kMovers<Real>;
  const int block_before = at.block > 0 ? at.block - 1 : at.blocks - 1;
  const int* const source = at.global_flags + block_before * kFlagsPerBlock + lane % kMovers<Real>;
  Group before(at, block_before);  // the group before this one
  int known = 0;                   // of what it has written
  int slot = 0;
  for (Group group(at, at.block); group.exists(at); group.advance(at)) {
    const bool is_first = group.first == 0;
    for (int step = 0; step < group.steps; ++step) {
      if (!is_first) {
        const int written = min(before.begin + step + 2, before.end());
        if (at.blocks > 1) {
          if (known < written) {
            known = device::await_on_device(source, written, at.patience,
                                            code_of(Part::kReaderOfOther));
          }
        } else {
          device::await_in_block(room, written, at.patience, code_of(Part::kReader));
        }
      }
      const int number = group.begin + step;
      device::await_in_block(room, number - at.ring_blocks + 1, at.patience,
                             code_of(Part::kReader));
      const std::int64_t first = group.first + step * kSize;
      if constexpr (std::is_same_v<Stored, Real>) {
        if (is_first) {
          read_in_rounds<Stored, Real>(mover, first, true, slot);
        } else {
          mover.copy(first, slot);
          device::copy_async_wait<0>();
        }
      } else {
        read_in_rounds<Stored, Real>(mover, first, is_first, slot);
      }
      device::publish_in_block(own_flag, number + 1, lane);
      slot = slot + 1 == at.ring_blocks ? 0 : slot + 1;
    }
    if (!is_first) {
      before.advance(at);
    }
  }
}

/// What a writer's warp does.
template <typename Stored, typename Real>
__device__ void write_columns(const Setting& at, Mover<Stored, Real>& mover, int warp, int lane) {
  int* const own_flag = at.writer_flags() + warp;
  int* const global_flag = at.global_flags + at.block * kFlagsPerBlock + warp;
  const int* const last_sweep = at.sweep_flags(at.sweeps - 1) + lane % kHalves;
  int slot = 0;
  for (Group group(at, at.block); group.exists(at); group.advance(at)) {
    if (group.first + at.sweeps >= at.n) {
      return;  // nobody needs what the last group leaves
    }
    for (int step = 0; step < group.steps; ++step) {
      const int number = group.begin + step;
      device::await_in_block(last_sweep, 2 * min(number + 2, group.end()), at.patience,
                             code_of(Part::kWriter));
      mover.write_back(group.first + step * kSize, slot);
      // First the room in the ring: other blocks are told once the columns have arrived.
      device::publish_in_block(own_flag, number + 1, lane);
      if (at.blocks > 1) {
        device::publish_on_device(global_flag, number + 1, lane);
      }
      slot = slot + 1 == at.ring_blocks ? 0 : slot + 1;
    }
  }
}

// Grid: `blocks` blocks per matrix, together where more than one. Block: two warps per sweep, then
// readers and writers. Shared: the ring, what the warps of a sweep pass to each other, flags:
// shared_bytes_for(). Bound in float32 by issue and by the shared-memory pipe alike (248
// instructions a warp and half step, of which 61 are loads, stores and shuffles), in float64 by
// that pipe, and by the latency of a half step where few sweeps share a multiprocessor.
template <typename Stored, typename Real>
__global__ __launch_bounds__(kMostThreads<Real>, 1) void shared_chase_kernel(
    Stored* bands, std::int64_t band_stride, std::int64_t n, int sweeps, int ring_blocks,
    int blocks, int* global_flags, Patience patience, double* diagonal, double* off_diagonal) {
  const std::int64_t matrix = blockIdx.x / static_cast<unsigned int>(blocks);
  const int block = static_cast<int>(blockIdx.x % static_cast<unsigned int>(blocks));
  const int warp = device::warp_of_block();
  const int lane = static_cast<int>(threadIdx.x & 31U);
  Real* const ring = reinterpret_cast<Real*>(device::dynamic_shared());
  Real* const scratch = ring + ring_blocks * kSize * kColumn;
  int* const flags = reinterpret_cast<int*>(scratch + sweeps * kApartScratch);
  const int flag_count = chase_layout::flags_for(sweeps);
  if (static_cast<int>(threadIdx.x) < flag_count) {
    flags[threadIdx.x] = 0;
  }
  __syncthreads();
  const Setting at = {static_cast<int>(n),
                      sweeps,
                      ring_blocks,
                      blocks,
                      block,
                      flags,
                      global_flags + (blocks > 1 ? matrix * blocks * kFlagsPerBlock : 0),
                      patience};
  const int mover = warp - kHalves * sweeps;
  if (mover >= 0) {
    const bool reads = mover < kMovers<Real>;
    const int thread =
        static_cast<int>(threadIdx.x) - 32 * (kHalves * sweeps + (reads ? 0 : kMovers<Real>));
    Mover<Stored, Real> columns(bands + matrix * band_stride, n, ring, thread);
    if (reads) {
      read_columns<Stored, Real>(at, columns, mover, lane);
    } else {
      write_columns<Stored, Real>(at, columns, mover - kMovers<Real>, lane);
    }
  } else {
    const int sweep = static_cast<int>(static_cast<unsigned int>(warp) / kHalves);
    const int half = static_cast<int>(static_cast<unsigned int>(warp) % kHalves);
    ApartWindows<Real> windows(ring, ring_blocks, scratch + sweep * kApartScratch, half, 1 + sweep,
                               lane);
    SweepWarp<Real>(at, windows, sweep, half, lane)
        .run(half == 0 && lane == 0, diagonal + matrix * n, off_diagonal + matrix * n);
  }
}

}  // namespace

template <typename Stored, typename Real>
void shared_chase(Stored* bands, std::int64_t n, std::int64_t batch, const ChasePlan& plan,
                  int* flags, double* diagonal, double* off_diagonal, cudaStream_t stream,
                  long long patience) {
  const int sweeps = plan.shape.sweeps;
  expects(n >= 0 && batch >= 0, "sizes of a batch of bands");
  expects(sweeps >= chase_layout::kMinSweeps && sweeps <= chase_layout::max_sweeps(sizeof(Real)) &&
              plan.shape.ring_blocks >= chase_layout::ring_blocks_for(sweeps) && plan.blocks >= 1,
          "a plan from chase_plan()");
  expects(plan.blocks == 1 || flags != nullptr, "flags for several blocks a matrix");
  if (n == 0 || batch == 0) {
    return;
  }
  const std::int64_t most_half_steps =
      2 * (n / sweeps + 1) * chase_layout::steps_of_group(n, 0) + 3;
  expects(most_half_steps <= std::numeric_limits<int>::max(), "an order that the chase can count");
  if (plan.blocks > 1) {
    check(cudaMemsetAsync(
        flags, 0, static_cast<std::size_t>(chase_flags(batch, plan.blocks)) * sizeof(int), stream));
  }
  launch(plan.blocks > 1 ? Blocks::kTogether : Blocks::kApart, shared_chase_kernel<Stored, Real>,
         dim3(static_cast<unsigned int>(batch * plan.blocks)),
         dim3(static_cast<unsigned int>(chase_layout::threads_for(sweeps, sizeof(Real)))),
         plan.shape.shared_bytes, stream, bands, chase_elements(n), n, sweeps,
         plan.shape.ring_blocks, plan.blocks, flags,
         Patience{.cycles = patience, .report = trap_report()}, diagonal, off_diagonal);
}

template void shared_chase<double, double>(double*, std::int64_t, std::int64_t, const ChasePlan&,
                                           int*, double*, double*, cudaStream_t, long long);
template void shared_chase<float, double>(float*, std::int64_t, std::int64_t, const ChasePlan&,
                                          int*, double*, double*, cudaStream_t, long long);
template void shared_chase<float, float>(float*, std::int64_t, std::int64_t, const ChasePlan&, int*,
                                         double*, double*, cudaStream_t, long long);

}  // namespace vindex::kernels
