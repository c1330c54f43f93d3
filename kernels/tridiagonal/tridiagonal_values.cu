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
// In float32 the same, for spectra of which a reduction in float32 left no more: minors are
// rescaled every 4 rows, small off-diagonals raised to 2^-30. What is left of float64 there are
// conversions of what comes in and goes out, one for each entry, and comparisons are of its bits:
// some devices (sm_89) have float64 at 1/64 of float32.
//
// Why not QL: a serial chain of roots and divisions. Why not divide and conquer: without vectors
// nothing is left of what it gains. Here an eigenvalue is a thread, and a batch of matrices fills
// the device. Sources: Barth, Martin, Wilkinson 1967; Chandrupatla 1997 for the interpolation.
#include "sturm_search.hpp"
#include "tridiagonal_values.hpp"

#include "core/integers.hpp"
#include "kernels/device/launch.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <intrinsics.hpp>
#include <limits>

namespace vindex::kernels {

namespace {

using device::sturm::Format;
using device::sturm::larger_of;
using device::sturm::magnitude;
using device::sturm::Minors;
using device::sturm::Point;
using device::sturm::Row;
using device::sturm::Search;

constexpr int kMaxThreads = 256;
constexpr int kMonotoneThreads = 256;
/// Rows come in multiples of both formats' rescaling intervals.
constexpr int kRowUnit = Format<double>::kRowsBetweenRescales;
static_assert(kRowUnit % Format<float>::kRowsBetweenRescales == 0);
constexpr unsigned int kAll = 0xFFFFFFFFU;

/// What a block knows of its matrix.
template <typename Real>
struct Scaled {
  int exponent;  ///< entries times 2^exponent are below 1/4 in magnitude
  Real lower, upper;
};

/// A matrix as it lies in memory, and its scale.
template <typename Real>
struct Source {
  const double* diagonal;
  const double* off_diagonal;
  std::int64_t n;
  int exponent = 0;

  __device__ Real diagonal_at(std::int64_t row) const { return scaled(diagonal[row]); }
  /// Between rows `row` - 1 and `row`; 0 at both ends.
  __device__ Real coupling(std::int64_t row) const {
    if (row == 0 || row == n) {
      return Real(0);
    }
    return larger_of(magnitude(scaled(off_diagonal[row - 1])), Format<Real>::kMinOffDiagonal);
  }
  __device__ Row<Real> row(std::int64_t index) const {
    const Real off = coupling(index);
    return {diagonal_at(index), off * off};
  }

 private:
  __device__ Real scaled(double value) const {
    if constexpr (sizeof(Real) == sizeof(float)) {
      // The exponent as an integer; what leaves the normal numbers is far below all that counts.
      const auto bits = std::bit_cast<std::int64_t>(value);
      const int field = static_cast<int>(bits >> 52) & 0x7FF;
      const std::int64_t moved = bits + (static_cast<std::int64_t>(exponent) << 52);
      return field > 0 && field + exponent > 0 ? static_cast<float>(std::bit_cast<double>(moved))
                                               : 0.0F;
    } else {
      return ldexp(value, exponent);
    }
  }
};

/// Shared memory of a block: rows of T, the points of one multisection with both ends, and room for
/// reductions.
template <typename Real>
struct Shared {
  Row<Real>* rows;
  Point<Real>* points;
  Real* reduction;
};

template <typename Real>
__device__ Shared<Real> shared_of(int row_count, int threads) {
  Shared<Real> shared{};
  shared.rows = reinterpret_cast<Row<Real>*>(device::dynamic_shared());
  shared.points = reinterpret_cast<Point<Real>*>(shared.rows + row_count);
  shared.reduction = reinterpret_cast<Real*>(shared.points + threads + 2);
  return shared;
}

template <typename Real>
std::size_t shared_bytes_of(std::int64_t row_count, int threads) {
  return static_cast<std::size_t>(row_count) * sizeof(Row<Real>) +
         (static_cast<std::size_t>(threads) + 2) * sizeof(Point<Real>) +
         static_cast<std::size_t>(threads) * sizeof(Real);
}

/// Largest of the block's values in every thread. The block's size is a multiple of 32.
template <typename Real>
__device__ Real block_max(Real value, Real* reduction) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value = larger_of(value, __shfl_xor_sync(kAll, value, distance));
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) {
    reduction[threadIdx.x / 32] = value;
  }
  __syncthreads();
  for (int warp = 0; warp < static_cast<int>(blockDim.x) / 32; ++warp) {
    value = larger_of(value, reduction[warp]);
  }
  return value;
}

/// Sign bits off, the upper half of a number of float64: exponent and 20 bits, in order of size.
__device__ inline int upper_half(double value) {
  return static_cast<int>(std::bit_cast<std::int64_t>(value) >> 32) & 0x7FFFFFFF;
}

/// log2 of the largest entry, as an exponent; `largest` is NaN where an entry is not finite and 0
/// for a zero matrix, and then the rest is meaningless.
__device__ int find_exponent(const Source<double>& source, double* reduction, double& largest) {
  double most = 0.0;
  bool finite = true;
  for (std::int64_t i = threadIdx.x; i < source.n; i += blockDim.x) {
    const double off = i + 1 < source.n ? fabs(source.off_diagonal[i]) : 0.0;
    const double diagonal = fabs(source.diagonal[i]);
    finite = finite && isfinite(off) && isfinite(diagonal);
    most = fmax(most, fmax(off, diagonal));
  }
  largest = block_max(most, reduction);
  if (__syncthreads_or(finite ? 0 : 1) != 0) {
    largest = std::numeric_limits<double>::quiet_NaN();
  }
  return largest > 0.0 ? ilogb(largest) : 0;
}
/// A matrix of nothing but subnormal numbers counts as zero.
__device__ int find_exponent(const Source<float>& source, float* reduction, double& largest) {
  constexpr int kFirstNormal = 1 << 20;
  constexpr int kInfinite = 0x7FF << 20;
  int most = 0;
  for (std::int64_t i = threadIdx.x; i < source.n; i += blockDim.x) {
    const int off = i + 1 < source.n ? upper_half(source.off_diagonal[i]) : 0;
    most = max(most, max(off, upper_half(source.diagonal[i])));
  }
  // Integers below 2^31 in the order of the float32 numbers with the same bits are no NaN below
  // 0x7F800000, and half of what they are stays below.
  most = std::bit_cast<int>(block_max(std::bit_cast<float>(most >> 1), reduction)) << 1;
  largest = most >= kInfinite      ? std::numeric_limits<double>::quiet_NaN()
            : most >= kFirstNormal ? 1.0
                                   : 0.0;
  return (most >> 20) - 1023;
}

/// Scale and Gershgorin bounds of a matrix; sets source.exponent. `largest` as find_exponent() has
/// it.
template <typename Real>
__device__ Scaled<Real> scale(Source<Real>& source, Real* reduction, double& largest) {
  const int exponent = find_exponent(source, reduction, largest);
  Scaled<Real> scaled{};
  if (!(largest > 0.0)) {
    return scaled;
  }
  // |d| + |e| + |e'| < 3 * 2^(k+1): below 3/4 after scaling by 2^-(k+3).
  scaled.exponent = -(exponent + 3);
  source.exponent = scaled.exponent;
  Real lowest = Real(-2);  // negated, so that both are maxima
  Real highest = Real(-2);
  for (std::int64_t i = threadIdx.x; i < source.n; i += blockDim.x) {
    const Real radius = source.coupling(i) + source.coupling(i + 1);
    const Real diagonal = source.diagonal_at(i);
    lowest = larger_of(lowest, radius - diagonal);
    highest = larger_of(highest, radius + diagonal);
  }
  // Sums of Gershgorin round by a unit of 0.5 .. 1.
  constexpr Real kMargin = sizeof(Real) == sizeof(float) ? Real(0x1p-21) : Real(0x1p-50);
  scaled.lower = -block_max(lowest, reduction) - kMargin;
  scaled.upper = block_max(highest, reduction) + kMargin;
  return scaled;
}

/// The thread's point at `shift`. Where T does not lie in shared memory as a whole, it passes
/// through and the block stays together.
template <bool kWhole, typename Real>
__device__ Point<Real> evaluate(const Source<Real>& source, Row<Real>* rows, int row_count,
                                Real shift) {
  Minors<Real> minors;
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
template <typename Real>
__device__ int bracket(const Point<Real>* points, int threads, int index) {
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
template <bool kWhole, typename Real>
__device__ void multisect(const Source<Real>& source, const Shared<Real>& shared, int row_count) {
  const int threads = static_cast<int>(blockDim.x);
  const int place = static_cast<int>(threadIdx.x) + 1;
  const Point<Real> low = shared.points[0];
  const Point<Real> high = shared.points[threads + 1];
  const Real part = static_cast<Real>(place) / static_cast<Real>(threads + 1);
  Point<Real> point =
      evaluate<kWhole>(source, shared.rows, row_count, low.x + part * (high.x - low.x));
  point.count = min(max(point.count, low.count), high.count);
  shared.points[place] = point;
  __syncthreads();
}

// Grid: `chunks` blocks per matrix. Block: up to 256 threads, one per eigenvalue. Shared:
// shared_bytes_of(), 16 (float32: 8) bytes a row of T up to rows_in_shared, 24 (16) and 8 (4) a
// thread. Bound by: issue in float32, 7 instructions for a row and a thread; in float64 its units.
template <typename Real, bool kWhole>
__global__ __launch_bounds__(kMaxThreads, 2) void values_kernel(const double* diagonal,
                                                                const double* off_diagonal,
                                                                std::int64_t n, int row_count,
                                                                int chunks, double* values,
                                                                int* failed) {
  const std::int64_t matrix = blockIdx.x / static_cast<unsigned int>(chunks);
  const int chunk = static_cast<int>(blockIdx.x % static_cast<unsigned int>(chunks));
  const int threads = static_cast<int>(blockDim.x);
  const int thread = static_cast<int>(threadIdx.x);
  Source<Real> source{diagonal + matrix * n, off_diagonal + matrix * n, n};
  const Shared<Real> shared = shared_of<Real>(row_count, threads);
  double* out = values + matrix * n;
  const std::int64_t first = static_cast<std::int64_t>(chunk) * threads;
  const std::int64_t index = first + thread;

  double largest = 0.0;
  const Scaled<Real> scaled = scale(source, shared.reduction, largest);
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
  // Outside all Gershgorin discs, so the counts are known whatever their rounding. One warp is
  // enough for both, but where T passes through the whole block has to come along.
  if (!kWhole || thread < 32) {
    const Point<Real> end =
        evaluate<kWhole>(source, shared.rows, row_count, thread == 0 ? scaled.lower : scaled.upper);
    if (thread < 2) {
      shared.points[thread == 0 ? 0 : threads + 1] = {end.x, end.mantissa, end.exponent,
                                                      thread == 0 ? 0 : static_cast<int>(n)};
    }
  }
  __syncthreads();
  multisect<kWhole>(source, shared, row_count);
  const std::int64_t end = first + threads;
  const auto last = static_cast<int>((end < n ? end : n) - 1);
  const Point<Real> left = shared.points[bracket(shared.points, threads, static_cast<int>(first))];
  const Point<Real> right = shared.points[bracket(shared.points, threads, last) + 1];
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
  Search<Real> search;
  search.start(shared.points[place], shared.points[place + 1], own);
  for (;;) {
    const int active = search.done() ? 0 : 1;
    const bool go_on = kWhole ? __any_sync(kAll, active) != 0 : __syncthreads_or(active) != 0;
    if (!go_on) {
      break;
    }
    const Point<Real> point = evaluate<kWhole>(source, shared.rows, row_count, search.shift());
    if (active != 0) {
      search.advance(point);
    }
  }
  if (index < n) {
    out[index] = ldexp(search.value(), -scaled.exponent);
  }
}

/// What orders values: numbers of float64, or integers in the same order.
struct ByValue {
  using Key = double;
  static constexpr double kLeast = -std::numeric_limits<double>::infinity();
  __device__ static double key(double value) { return value; }
  __device__ static double value(double key) { return key; }
};
struct ByBits {
  using Key = std::int64_t;
  static constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  __device__ static std::int64_t key(double value) {
    return turned(std::bit_cast<std::int64_t>(value));
  }
  __device__ static double value(std::int64_t key) { return std::bit_cast<double>(turned(key)); }
  __device__ static std::int64_t turned(std::int64_t bits) {
    return bits ^ ((bits >> 63) & std::numeric_limits<std::int64_t>::max());
  }
};

// Neighbours in a cluster may come out of order by their rounding error: each value becomes the
// largest up to it, and the order is turned on request.
// Grid: a block per matrix. Block: 256. Shared: 2 KiB, a maximum per thread. Bound by: latency.
template <typename By>
__global__ __launch_bounds__(kMonotoneThreads) void monotone_kernel(double* values, std::int64_t n,
                                                                    bool descending) {
  using Key = typename By::Key;
  auto* maxima = reinterpret_cast<Key*>(device::dynamic_shared());
  double* own = values + static_cast<std::int64_t>(blockIdx.x) * n;
  const std::int64_t length = (n + kMonotoneThreads - 1) / kMonotoneThreads;
  const std::int64_t begin = min(n, static_cast<std::int64_t>(threadIdx.x) * length);
  const std::int64_t end = min(n, begin + length);
  Key running = By::kLeast;
  for (std::int64_t i = begin; i < end; ++i) {
    const Key key = By::key(own[i]);
    running = key > running ? key : running;
  }
  maxima[threadIdx.x] = running;
  __syncthreads();
  running = By::kLeast;
  for (unsigned int i = 0; i < threadIdx.x; ++i) {
    running = maxima[i] > running ? maxima[i] : running;
  }
  for (std::int64_t i = begin; i < end; ++i) {
    // A NaN of float64 is neither more nor less, and stays.
    const Key key = By::key(own[i]);
    running = key > running ? key : running;
    if (key < running) {
      own[i] = By::value(running);
    }
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

template <typename Real, typename By>
void find_values(const double* diagonal, const double* off_diagonal, std::int64_t n,
                 std::int64_t batch, ValueOrder order, double* values, int* failed,
                 cudaStream_t stream, std::int64_t rows_in_shared) {
  expects(n >= 0 && batch >= 0, "sizes of a batch of tridiagonal matrices");
  // Pieces of whole rescaling intervals leave every bit as it is.
  expects(rows_in_shared > 0 && rows_in_shared % kRowUnit == 0 &&
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
  launch(n <= rows_in_shared ? values_kernel<Real, true> : values_kernel<Real, false>,
         dim3(static_cast<unsigned int>(batch * chunks)), dim3(static_cast<unsigned int>(threads)),
         shared_bytes_of<Real>(rows, threads), stream, diagonal, off_diagonal, n,
         static_cast<int>(rows), static_cast<int>(chunks), values, failed);
  launch(monotone_kernel<By>, dim3(static_cast<unsigned int>(batch)), dim3(kMonotoneThreads),
         kMonotoneThreads * sizeof(typename By::Key), stream, values, n,
         order == ValueOrder::kDescending);
}

}  // namespace

void tridiagonal_values(const double* diagonal, const double* off_diagonal, std::int64_t n,
                        std::int64_t batch, ValueOrder order, double* values, int* failed,
                        cudaStream_t stream, std::int64_t rows_in_shared) {
  find_values<double, ByValue>(diagonal, off_diagonal, n, batch, order, values, failed, stream,
                               rows_in_shared);
}

void tridiagonal_values32(const double* diagonal, const double* off_diagonal, std::int64_t n,
                          std::int64_t batch, ValueOrder order, double* values, int* failed,
                          cudaStream_t stream, std::int64_t rows_in_shared) {
  find_values<float, ByBits>(diagonal, off_diagonal, n, batch, order, values, failed, stream,
                             rows_in_shared);
}

}  // namespace vindex::kernels
