// Owns eigenvalues of tridiagonal matrices by many threads. Each step of a thread is one pass over
// T: the leading minors of T - x I by the three-term recurrence m' = (d - x) m - e^2 m_before,
// rescaled every 16 rows. Quotients m' / m, the usual form, would need a reciprocal per row on the
// critical path (about 10 times the latency of the one multiply-add here), and the minors also give
// the determinant for interpolation.
//
// No off-diagonal is allowed to vanish: raising the small ones to 2^-55 of the norm moves a value
// by less than its rounding error, and then no two minors in a row are zero and 16 rows stay within
// the exponents of float64.
//
// Where float64 runs at 1/64 of float32 (sm_89) this is the dearest stage. Pairs of float32 numbers
// would do: about 12 passes in them from brackets found in plain float32. Not written.
//
// Why not QL: a serial chain of roots and divisions. Why not divide and conquer: without vectors
// nothing is left of what it gains. Here an eigenvalue is a thread, and a batch of matrices fills
// the device. Sources: Barth, Martin, Wilkinson 1967; Chandrupatla 1997 for the interpolation.
#include "sturm_search.hpp"
#include "tridiagonal_values.hpp"

#include "core/integers.hpp"
#include "kernels/device/launch.hpp"

#include <algorithm>
#include <cmath>
#include <intrinsics.hpp>
#include <limits>

namespace vindex::kernels {

namespace {

using device::sturm::kRowsBetweenRescales;
using device::sturm::kTolerance;
using device::sturm::Minors;
using device::sturm::Point;
using device::sturm::Row;
using device::sturm::Search;

constexpr int kMaxThreads = 256;
constexpr int kMonotoneThreads = 256;
constexpr double kMinOffDiagonal = 0x1p-55;
constexpr unsigned int kAll = 0xFFFFFFFFU;

/// What a block knows of its matrix.
struct Scaled {
  int exponent;  ///< entries times 2^exponent are below 1/4 in magnitude
  double lower, upper;
};

/// A matrix as it lies in memory, and its scale.
struct Source {
  const double* diagonal;
  const double* off_diagonal;
  std::int64_t n;
  int exponent = 0;

  __device__ double diagonal_at(std::int64_t row) const { return ldexp(diagonal[row], exponent); }
  /// Between rows `row` - 1 and `row`; 0 at both ends.
  __device__ double coupling(std::int64_t row) const {
    if (row == 0 || row == n) {
      return 0.0;
    }
    return fmax(ldexp(fabs(off_diagonal[row - 1]), exponent), kMinOffDiagonal);
  }
  __device__ Row row(std::int64_t index) const {
    const double off = coupling(index);
    return {diagonal_at(index), off * off};
  }
};

/// Shared memory of a block: rows of T, the points of one multisection with both ends, and room for
/// reductions.
struct Shared {
  Row* rows;
  Point* points;
  double* reduction;
};

__device__ Shared shared_of(int row_count, int threads) {
  Shared shared{};
  shared.rows = reinterpret_cast<Row*>(device::dynamic_shared());
  shared.points = reinterpret_cast<Point*>(shared.rows + row_count);
  shared.reduction = reinterpret_cast<double*>(shared.points + threads + 2);
  return shared;
}

std::size_t shared_bytes_of(std::int64_t row_count, int threads) {
  return static_cast<std::size_t>(row_count) * sizeof(Row) +
         (static_cast<std::size_t>(threads) + 2) * sizeof(Point) +
         static_cast<std::size_t>(threads) * sizeof(double);
}

/// Largest of the block's values in every thread. The block's size is a multiple of 32.
__device__ double block_max(double value, double* reduction) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value = fmax(value, __shfl_xor_sync(kAll, value, distance));
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) {
    reduction[threadIdx.x / 32] = value;
  }
  __syncthreads();
  for (int warp = 0; warp < static_cast<int>(blockDim.x) / 32; ++warp) {
    value = fmax(value, reduction[warp]);
  }
  return value;
}

/// Scale and Gershgorin bounds of a matrix; sets source.exponent. `largest` is NaN where an entry
/// is not finite and 0 for a zero matrix, and then the rest is meaningless.
__device__ Scaled scale(Source& source, double* reduction, double& largest) {
  double magnitude = 0.0;
  bool finite = true;
  for (std::int64_t i = threadIdx.x; i < source.n; i += blockDim.x) {
    const double off = i + 1 < source.n ? fabs(source.off_diagonal[i]) : 0.0;
    const double diagonal = fabs(source.diagonal[i]);
    finite = finite && isfinite(off) && isfinite(diagonal);
    magnitude = fmax(magnitude, fmax(off, diagonal));
  }
  largest = block_max(magnitude, reduction);
  if (__syncthreads_or(finite ? 0 : 1) != 0) {
    largest = std::numeric_limits<double>::quiet_NaN();
  }
  Scaled scaled{};
  if (!(largest > 0.0)) {
    return scaled;
  }
  // |d| + |e| + |e'| < 3 * 2^(k+1): below 3/4 after scaling by 2^-(k+3).
  scaled.exponent = -(ilogb(largest) + 3);
  source.exponent = scaled.exponent;
  double lowest = -2.0;  // negated, so that both are maxima
  double highest = -2.0;
  for (std::int64_t i = threadIdx.x; i < source.n; i += blockDim.x) {
    const double radius = source.coupling(i) + source.coupling(i + 1);
    const double diagonal = source.diagonal_at(i);
    lowest = fmax(lowest, radius - diagonal);
    highest = fmax(highest, radius + diagonal);
  }
  constexpr double kMargin = 8.0 * kTolerance;
  scaled.lower = -block_max(lowest, reduction) - kMargin;
  scaled.upper = block_max(highest, reduction) + kMargin;
  return scaled;
}

/// The thread's point at `shift`. Where T does not lie in shared memory as a whole, it passes
/// through and the block stays together.
template <bool kWhole>
__device__ Point evaluate(const Source& source, Row* rows, int row_count, double shift) {
  Minors minors;
  if constexpr (kWhole) {
    minors.advance(rows, row_count, shift);
  } else {
    for (std::int64_t first = 0; first < source.n; first += row_count) {
      const auto count =
          static_cast<int>(min(static_cast<std::int64_t>(row_count), source.n - first));
      __syncthreads();
      for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
        rows[i] = source.row(first + i);
      }
      __syncthreads();
      minors.advance(rows, count, shift);
    }
  }
  return {shift, minors.minor, minors.exponent, minors.changes};
}

/// The neighbours among points[0 .. threads + 1] between which eigenvalue `index` lies.
__device__ int bracket(const Point* points, int threads, int index) {
  int low = 0;
  int high = threads + 1;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (points[middle].count <= index) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

/// Fills points[1 .. threads] evenly between points[0] and points[threads + 1].
template <bool kWhole>
__device__ void multisect(const Source& source, const Shared& shared, int row_count) {
  const int threads = static_cast<int>(blockDim.x);
  const int place = static_cast<int>(threadIdx.x) + 1;
  const Point low = shared.points[0];
  const Point high = shared.points[threads + 1];
  const double part = static_cast<double>(place) / static_cast<double>(threads + 1);
  Point point = evaluate<kWhole>(source, shared.rows, row_count, low.x + part * (high.x - low.x));
  point.count = min(max(point.count, low.count), high.count);
  shared.points[place] = point;
  __syncthreads();
}

// Grid: chunks of 256 eigenvalues of all matrices. Block: a thread per eigenvalue, 256 or all.
// Shared: 16 bytes per row in it and 32 per thread, up to 72 KiB. Bound by: float64 arithmetic that
// depends on the row before.
template <bool kWhole>
__global__ __launch_bounds__(kMaxThreads, 2) void values_kernel(const double* diagonal,
                                                                const double* off_diagonal,
                                                                std::int64_t n, int row_count,
                                                                int chunks, double* values,
                                                                int* failed) {
  const std::int64_t matrix = blockIdx.x / static_cast<unsigned int>(chunks);
  const int chunk = static_cast<int>(blockIdx.x % static_cast<unsigned int>(chunks));
  const int threads = static_cast<int>(blockDim.x);
  const int thread = static_cast<int>(threadIdx.x);
  Source source{diagonal + matrix * n, off_diagonal + matrix * n, n};
  const Shared shared = shared_of(row_count, threads);
  double* out = values + matrix * n;
  const std::int64_t first = static_cast<std::int64_t>(chunk) * threads;
  const std::int64_t index = first + thread;

  double largest = 0.0;
  const Scaled scaled = scale(source, shared.reduction, largest);
  if (chunk == 0 && thread == 0) {
    failed[matrix] = largest >= 0.0 ? 0 : 1;
  }
  if (!(largest > 0.0)) {
    if (index < n) {
      out[index] = largest;
    }
    return;
  }
  if constexpr (kWhole) {
    for (std::int64_t i = thread; i < n; i += threads) {
      shared.rows[i] = source.row(i);
    }
    __syncthreads();
  }
  // Outside all Gershgorin discs, so the counts are known whatever their rounding.
  const Point low = evaluate<kWhole>(source, shared.rows, row_count, scaled.lower);
  const Point high = evaluate<kWhole>(source, shared.rows, row_count, scaled.upper);
  if (thread == 0) {
    shared.points[0] = {low.x, low.mantissa, low.exponent, 0};
    shared.points[threads + 1] = {high.x, high.mantissa, high.exponent, static_cast<int>(n)};
  }
  __syncthreads();
  multisect<kWhole>(source, shared, row_count);
  const std::int64_t end = first + threads;
  const auto last = static_cast<int>((end < n ? end : n) - 1);
  const Point left = shared.points[bracket(shared.points, threads, static_cast<int>(first))];
  const Point right = shared.points[bracket(shared.points, threads, last) + 1];
  __syncthreads();
  if (thread == 0) {
    shared.points[0] = left;
    shared.points[threads + 1] = right;
  }
  __syncthreads();
  multisect<kWhole>(source, shared, row_count);

  // Threads beyond the last eigenvalue repeat it.
  const int own = index < n ? static_cast<int>(index) : last;
  const int place = bracket(shared.points, threads, own);
  Search search;
  search.start(shared.points[place], shared.points[place + 1], own);
  for (;;) {
    const int active = search.done() ? 0 : 1;
    const bool go_on = kWhole ? __any_sync(kAll, active) != 0 : __syncthreads_or(active) != 0;
    if (!go_on) {
      break;
    }
    const Point point = evaluate<kWhole>(source, shared.rows, row_count, search.shift());
    if (active != 0) {
      search.advance(point);
    }
  }
  if (index < n) {
    out[index] = ldexp(search.value(), -scaled.exponent);
  }
}

// Neighbours in a cluster may come out of order by their rounding error: each value becomes the
// largest up to it, and the order is turned on request.
// Grid: a block per matrix. Block: 256. Shared: 2 KiB, a maximum per thread. Bound by: latency.
__global__ __launch_bounds__(kMonotoneThreads) void monotone_kernel(double* values, std::int64_t n,
                                                                    bool descending) {
  auto* maxima = reinterpret_cast<double*>(device::dynamic_shared());
  double* own = values + static_cast<std::int64_t>(blockIdx.x) * n;
  const std::int64_t length = (n + kMonotoneThreads - 1) / kMonotoneThreads;
  const std::int64_t begin = min(n, static_cast<std::int64_t>(threadIdx.x) * length);
  const std::int64_t end = min(n, begin + length);
  double running = -std::numeric_limits<double>::infinity();
  for (std::int64_t i = begin; i < end; ++i) {
    running = fmax(running, own[i]);
  }
  maxima[threadIdx.x] = running;
  __syncthreads();
  running = -std::numeric_limits<double>::infinity();
  for (unsigned int i = 0; i < threadIdx.x; ++i) {
    running = fmax(running, maxima[i]);
  }
  for (std::int64_t i = begin; i < end; ++i) {
    // Not fmax, which would lose a NaN.
    running = own[i] > running ? own[i] : running;
    own[i] = own[i] < running ? running : own[i];
  }
  if (!descending) {
    return;
  }
  __syncthreads();
  for (std::int64_t i = threadIdx.x; i < n / 2; i += kMonotoneThreads) {
    const double swapped = own[i];
    own[i] = own[n - 1 - i];
    own[n - 1 - i] = swapped;
  }
}

}  // namespace

void tridiagonal_values(const double* diagonal, const double* off_diagonal, std::int64_t n,
                        std::int64_t batch, ValueOrder order, double* values, int* failed,
                        cudaStream_t stream, std::int64_t rows_in_shared) {
  expects(n >= 0 && batch >= 0, "sizes of a batch of tridiagonal matrices");
  // Pieces of whole rescaling intervals leave every bit as it is.
  expects(rows_in_shared > 0 && rows_in_shared % kRowsBetweenRescales == 0 &&
              rows_in_shared <= kTridiagonalRowsInShared,
          "rows in shared memory");
  if (n == 0 || batch == 0) {
    return;
  }
  const auto threads = static_cast<int>(std::min<std::int64_t>(kMaxThreads, (n + 31) / 32 * 32));
  const std::int64_t chunks = ceil_divide(n, threads);
  expects(n <= std::numeric_limits<std::int32_t>::max() &&
              batch <= std::numeric_limits<std::int32_t>::max() / chunks,
          "a batch of tridiagonal matrices that fits one grid");
  const std::int64_t rows = std::min(n, rows_in_shared);
  launch(n <= rows_in_shared ? values_kernel<true> : values_kernel<false>,
         dim3(static_cast<unsigned int>(batch * chunks)), dim3(static_cast<unsigned int>(threads)),
         shared_bytes_of(rows, threads), stream, diagonal, off_diagonal, n, static_cast<int>(rows),
         static_cast<int>(chunks), values, failed);
  launch(monotone_kernel, dim3(static_cast<unsigned int>(batch)), dim3(kMonotoneThreads),
         kMonotoneThreads * sizeof(double), stream, values, n, order == ValueOrder::kDescending);
}

}  // namespace vindex::kernels
