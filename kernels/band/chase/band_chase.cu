// Owns bulge chasing on the device, a block per matrix and two warps per sweep. Sweep s clears
// column s below the subdiagonal (step 0) and pushes the bulge that this makes down by kBand rows
// per step. Step k works on two 32 x 32 windows: first it applies the reflector of step k - 1 to
// the columns of the window below the diagonal and clears that window's first column with a new
// reflector (half step 2k), then it applies the new one to both sides of the diagonal window (half
// step 2k + 1).
//
// Lock step. A sweep may do a half step once the sweep before has done the one two later, and three
// half steps behind it does: so neighbouring sweeps lag 3 half steps, all sweeps do one half step,
// then the block meets at a barrier. Windows of one time step never share an element.
//
// Memory. The sweeps of a group walk down the band together, so what they touch is a window of a
// dozen blocks of kBand columns that slides down: it lies in shared memory as a ring (a block is
// read one step ahead of the first sweep and written back two behind the last), and the band itself
// is read and written once per group instead of once per sweep. Two warps more do nothing but move
// it. The next group starts at the top the moment a pair of warps is free, while the others are
// still at the bottom.
//
// In the ring, and in global memory from the first pass on, a column takes 2 kBand elements, from
// its diagonal down. A warp holds half a window, 16 columns, as 8 x 4 lanes of 4 x 4 elements: lane
// `group * 8 + rank` has rows rank + 8 a and columns 8 * group + 4 * half + b. With that layout the
// loads are free of bank conflicts (columns 63 elements apart, so 8 of them half the banks), and
// sums over rows or columns end with lane i holding row i or one column after 3 or 4 exchanges.
//
// Formulas of a half step are those of host/cpu/band/simd_band_chase.cpp, with kBand = 32 in place
// of 16; they stand beside the code in chase_window.hpp. Source: Haidar, Ltaief, Dongarra 2011.
//
// Why a block per matrix and not a grid for one: sweeps of one matrix must meet at every half step,
// which costs a barrier within a block and microseconds across blocks, and a batch has matrices
// enough. Groups of sweeps meet less often: shared_chase.cu, which takes over where it passed its
// trial.
#include "band_chase.hpp"
#include "chase_columns.hpp"
#include "chase_window.hpp"
#include "shared_chase_layout.hpp"

#include "kernels/device/launch.hpp"

#include <algorithm>
#include <intrinsics.hpp>
#include <limits>

namespace vindex::kernels {

namespace {

using device::chase::kColumn;
using device::chase::kHalves;
using device::chase::kScratch;
using device::chase::kSize;
using device::chase::Windows;

using chase_layout::kMinSweeps;
using chase_layout::ring_blocks_for;

/// Float64 fills the registers and the shared memory of a multiprocessor with 7 sweeps; float32
/// with twice as many, and the barriers of a block, of which there are 16, end at 14.
constexpr int kMaxSweeps = 7;
using chase_layout::kMaxSweeps32;
template <typename Real>
constexpr int kMaxSweepsOf = sizeof(Real) == sizeof(float) ? kMaxSweeps32 : kMaxSweeps;
/// Warps that move columns: more where a thread would run out of registers for what it fetches.
template <typename Stored>
constexpr int kMoverWarps = static_cast<int>(sizeof(Stored)) / 2;
constexpr int kWholeBlock = 15;  ///< its barrier; those of the sweeps are 1 to 14

template <typename Stored>
constexpr int threads_for(int sweeps) {
  return 32 * (kHalves * sweeps + kMoverWarps<Stored>);
}

/// Steps after which the next group may start: the last block is done with the columns that the
/// next group reads first, and they are written back.
__host__ __device__ constexpr int min_period(int sweeps) { return (3 * sweeps + 9) / 2; }

std::size_t shared_bytes_for(int sweeps, std::size_t element_bytes) {
  const auto ring = static_cast<std::size_t>(ring_blocks_for(sweeps)) * kSize * kColumn;
  return (ring + static_cast<std::size_t>(sweeps) * kScratch) * element_bytes;
}

/// Where a sweep stands. `slot` is the place in the ring of block `step`, counted over all groups.
struct Clock {
  std::int64_t first = 0;  ///< first column of the group
  int period = 0;          ///< steps until the next group
  int step = 0;
  int slot = 0;

  __host__ __device__ void start(std::int64_t n, int sweeps) {
    const std::int64_t steps = (n - first - 1 + kSize - 1) / kSize;
    const auto least = static_cast<std::int64_t>(min_period(sweeps));
    period = static_cast<int>(steps + 1 > least ? steps + 1 : least);
    step = 0;
  }
  __device__ void advance(std::int64_t n, int sweeps, int ring_blocks) {
    slot = slot + 1 == ring_blocks ? 0 : slot + 1;
    if (++step == period) {
      first += sweeps;
      start(n, sweeps);
    }
  }
};

/// Half steps until the last sweep has done its last.
std::int64_t half_steps_for(std::int64_t n, int sweeps) {
  std::int64_t half_steps = 3 * (sweeps - 1);
  Clock clock;
  for (clock.start(n, sweeps); clock.first < n; clock.start(n, sweeps)) {
    half_steps += 2 * clock.period;
    clock.first += sweeps;
  }
  return half_steps;
}

/// All that one of the movers' threads takes of a block at once.
template <typename Stored, typename Real>
using WholeMover = device::chase::ColumnMover<Stored, Real, 32 * kMoverWarps<Stored>, 1>;

/// What a sweep's two warps do until `half_steps` are over.
template <typename Stored, typename Real>
__device__ void chase_sweeps(Windows<Real>& windows, int sweep, int sweeps, bool writes,
                             std::int64_t n, int ring_blocks, int half_steps, double* diagonal,
                             double* off_diagonal) {
  Clock clock;
  clock.start(n, sweeps);
  for (int time = -3 * sweep; time < half_steps - 3 * sweep; ++time) {
    if (time >= 0) {
      const std::int64_t column = clock.first + sweep;
      const std::int64_t row = column + 1 + static_cast<std::int64_t>(clock.step) * kSize;
      const int place = clock.slot * kSize + sweep + 1;  // of column `row`
      if (time % 2 == 0) {
        if (clock.step == 0 && column < n) {
          const Real pivot = windows.at(place - 1, 0);
          const Real beta = row < n ? windows.start(place - 1) : Real{0};
          if (writes) {
            diagonal[column] = static_cast<double>(pivot);
            off_diagonal[column] = static_cast<double>(beta);
          }
        } else if (row < n) {
          windows.move_bulge(place - kSize);
        }
      } else {
        if (row < n) {
          windows.apply_both_sides(place);
        }
        clock.advance(n, sweeps, ring_blocks);
      }
    }
    device::meet(kWholeBlock, threads_for<Stored>(sweeps));
  }
}

/// What the movers do meanwhile. A block of columns is asked for in an even half step and put into
/// the ring in the next, so that nobody waits for global memory.
template <typename Stored, typename Real>
__device__ void move_columns(WholeMover<Stored, Real>& mover, int sweeps, std::int64_t n,
                             int ring_blocks, int half_steps) {
  Clock ahead;   // of the first sweep, which decides what is read
  Clock behind;  // of the last, which decides what is written back
  ahead.start(n, sweeps);
  behind.start(n, sweeps);
  std::int64_t left[2] = {n, n};  // first columns of the blocks one and two steps behind the last
  for (int time = 0; time < half_steps; ++time) {
    const int behind_time = time - 3 * (sweeps - 1);
    if (behind_time >= 0 && behind_time % 2 == 0) {
      const int slot = behind.slot - 2;
      mover.write_back(left[1], slot < 0 ? slot + ring_blocks : slot);
    }
    if (time % 2 == 0) {
      const int next = ahead.step + 2;
      const bool same_group = next < ahead.period;
      mover.fetch(0,
                  same_group ? ahead.first + static_cast<std::int64_t>(next) * kSize
                             : ahead.first + sweeps +
                                   static_cast<std::int64_t>(next - ahead.period) * kSize,
                  same_group && ahead.first == 0);
    } else {
      const int slot = ahead.slot + 2;
      mover.deposit(0, slot >= ring_blocks ? slot - ring_blocks : slot);
      ahead.advance(n, sweeps, ring_blocks);
    }
    if (behind_time >= 0 && behind_time % 2 == 1) {
      left[1] = left[0];
      left[0] = behind.first + static_cast<std::int64_t>(behind.step) * kSize;
      behind.advance(n, sweeps, ring_blocks);
    }
    device::meet(kWholeBlock, threads_for<Stored>(sweeps));
  }
}

// Grid: a block per matrix. Block: two warps per sweep, then the movers: a loop for each, as they
// share no registers. Shared: the windows of all sweeps (ChaseShape::shared_bytes), nearly all that
// a block may ask for. Bound by: latency, the sums of a half step that wait for one another.
template <typename Stored, typename Real>
__global__ __launch_bounds__(threads_for<Stored>(kMaxSweepsOf<Real>),
                             1) void chase_kernel(Stored* bands, std::int64_t band_stride,
                                                  std::int64_t n, int sweeps, int ring_blocks,
                                                  int half_steps, double* diagonal,
                                                  double* off_diagonal) {
  const auto matrix = static_cast<std::int64_t>(blockIdx.x);
  const int warp = device::warp_of_block();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int sweep = warp / kHalves;
  Real* ring = reinterpret_cast<Real*>(device::dynamic_shared());
  if (sweep >= sweeps) {
    WholeMover<Stored, Real> mover(bands + matrix * band_stride, n, ring,
                                   static_cast<int>(threadIdx.x) - 32 * kHalves * sweeps);
    for (int block = 0; block < 2; ++block) {
      mover.fetch(0, static_cast<std::int64_t>(block) * kSize, true);
      mover.deposit(0, block);
    }
    device::meet(kWholeBlock, threads_for<Stored>(sweeps));
    move_columns(mover, sweeps, n, ring_blocks, half_steps);
  } else {
    const int half = warp % kHalves;
    Real* scratch = ring + ring_blocks * kSize * kColumn + sweep * kScratch;
    Windows<Real> windows(ring, ring_blocks, scratch, half, 1 + sweep, lane);
    device::meet(kWholeBlock, threads_for<Stored>(sweeps));
    chase_sweeps<Stored>(windows, sweep, sweeps, half == 0 && lane == 0, n, ring_blocks, half_steps,
                         diagonal + matrix * n, off_diagonal + matrix * n);
  }
}

}  // namespace

ChaseShape chase_shape(std::size_t shared_limit, std::size_t element_bytes, int most_sweeps) {
  const int most = element_bytes == sizeof(float) ? kMaxSweeps32 : kMaxSweeps;
  for (int sweeps = std::min(most, most_sweeps); sweeps >= kMinSweeps; --sweeps) {
    const std::size_t bytes = shared_bytes_for(sweeps, element_bytes);
    if (bytes <= shared_limit) {
      return {.sweeps = sweeps, .ring_blocks = ring_blocks_for(sweeps), .shared_bytes = bytes};
    }
  }
  throw UsageError(
      "E-CUDA-SHARED",
      "bulge chasing needs " + std::to_string(shared_bytes_for(kMinSweeps, element_bytes)) +
          " bytes of shared memory per block, the device has " + std::to_string(shared_limit));
}

template <typename Stored, typename Real>
void chase_bands(Stored* bands, std::int64_t n, std::int64_t batch, const ChaseShape& shape,
                 double* diagonal, double* off_diagonal, cudaStream_t stream) {
  expects(n >= 0 && batch >= 0, "sizes of a batch of bands");
  expects(shape.sweeps >= kMinSweeps && shape.sweeps <= kMaxSweepsOf<Real> &&
              shape.ring_blocks >= ring_blocks_for(shape.sweeps),
          "a shape from chase_shape()");
  if (n == 0 || batch == 0) {
    return;
  }
  const std::int64_t half_steps = half_steps_for(n, shape.sweeps);
  expects(half_steps <= std::numeric_limits<int>::max(), "an order that the chase can count");
  launch(chase_kernel<Stored, Real>, dim3(static_cast<unsigned int>(batch)),
         dim3(static_cast<unsigned int>(threads_for<Stored>(shape.sweeps))), shape.shared_bytes,
         stream, bands, chase_elements(n), n, shape.sweeps, shape.ring_blocks,
         static_cast<int>(half_steps), diagonal, off_diagonal);
}

template void chase_bands<double, double>(double*, std::int64_t, std::int64_t, const ChaseShape&,
                                          double*, double*, cudaStream_t);
template void chase_bands<float, double>(float*, std::int64_t, std::int64_t, const ChaseShape&,
                                         double*, double*, cudaStream_t);
template void chase_bands<float, float>(float*, std::int64_t, std::int64_t, const ChaseShape&,
                                        double*, double*, cudaStream_t);

}  // namespace vindex::kernels
