// Owns the sums over weights that the operand kernel takes on its way: moments of all of them, and
// squares by line of the short side, which become the diagonal of the Gram matrix. Devices with
// little float64 (1/64 of float32 on an L4) pay for every double operation, so codes that share a
// scale are summed as the small integers they are, exactly, and scaled once:
//   E4M3 under one scale per tile   counted by code; a bin has one weight, so moments are sums over
//                                   256 bins. Squares in units of 2^-18, in 64-bit integers.
//   INT4 in groups                  sums of powers of sixteen codes, exact in float32.
#pragma once
#include "gram_facts.hpp"
#include "gram_layout.hpp"
#include "gram_shape.hpp"

#include "core/portable.hpp"
#include "kernels/decode/code_runs.hpp"

#include <cuda_runtime.h>

#include <cstdint>

namespace vindex::kernels::device {

inline constexpr unsigned kAllLanes = 0xFFFFFFFFU;
inline constexpr int kSumThreads = 256;  ///< of a block
inline constexpr int kSumWarps = kSumThreads / 32;
inline constexpr int kTileSide = static_cast<int>(GramShape::kTile);
inline constexpr int kRunsPerRow = kTileSide / kRun;  ///< of a tile; side by side in a warp

/// `value` 2^-exponent; two steps, as neither factor alone need be a float32.
__device__ inline float scale_down(float value, int exponent) {
  const int half = exponent / 2;
  return value * bits_as<float>(static_cast<std::uint32_t>(127 - half) << 23U) *
         bits_as<float>(static_cast<std::uint32_t>(127 - (exponent - half)) << 23U);
}

__device__ inline WeightSums no_sums() {
  WeightSums sums;
  sums.min = HUGE_VALF;
  sums.max = -HUGE_VALF;
  return sums;
}

__device__ inline void add(WeightSums& to, const WeightSums& from) {
  to.count += from.count;
  to.zeros += from.zeros;
  to.nonfinite += from.nonfinite;
  for (int k = 0; k < 4; ++k) {
    to.power[k] += from.power[k];
  }
  to.squares += from.squares;
  to.min = fminf(to.min, from.min);
  to.max = fmaxf(to.max, from.max);
}

/// What one thread adds up: small counts, and no squares, which are known by line.
struct ThreadSums {
  int count = 0, zeros = 0, nonfinite = 0;
  double power[4] = {};
  float min = HUGE_VALF, max = -HUGE_VALF;

  __device__ void add(float weight, double shift) {
    const double d = static_cast<double>(weight) - shift;
    const double d2 = d * d;
    count += 1;
    zeros += weight == 0.0F ? 1 : 0;
    power[0] += d;
    power[1] += d2;
    power[2] = fma(d2, d, power[2]);
    power[3] = fma(d2, d2, power[3]);
    min = fminf(min, weight);
    max = fmaxf(max, weight);
  }
  __device__ WeightSums with_squares(double squares) const {
    return {count, zeros, nonfinite, {power[0], power[1], power[2], power[3]}, squares, min, max};
  }
};

/// The sums of `count` weights that are all `weight`.
__device__ inline WeightSums sums_of_bin(float weight, std::uint32_t count, double shift) {
  WeightSums sums = no_sums();
  if (count == 0) {
    return sums;
  }
  if (!isfinite(weight)) {
    sums.nonfinite = count;
    return sums;
  }
  const auto n = static_cast<double>(count);
  const auto w = static_cast<double>(weight);
  const double d = w - shift;
  const double d2 = d * d;
  sums.count = count;
  sums.zeros = weight == 0.0F ? count : 0;
  sums.power[0] = n * d;
  sums.power[1] = n * d2;
  sums.power[2] = n * (d2 * d);
  sums.power[3] = n * (d2 * d2);
  sums.squares = n * (w * w);
  sums.min = weight;
  sums.max = weight;
  return sums;
}

/// The sums of all threads of the block, in thread 0; a fixed tree. `shared` holds kSumWarps sums.
__device__ inline WeightSums block_sum(WeightSums sums, WeightSums* shared) {
  for (int offset = 16; offset > 0; offset /= 2) {
    WeightSums other;
    other.count = __shfl_down_sync(kAllLanes, sums.count, offset);
    other.zeros = __shfl_down_sync(kAllLanes, sums.zeros, offset);
    other.nonfinite = __shfl_down_sync(kAllLanes, sums.nonfinite, offset);
    for (int k = 0; k < 4; ++k) {
      other.power[k] = __shfl_down_sync(kAllLanes, sums.power[k], offset);
    }
    other.squares = __shfl_down_sync(kAllLanes, sums.squares, offset);
    other.min = __shfl_down_sync(kAllLanes, sums.min, offset);
    other.max = __shfl_down_sync(kAllLanes, sums.max, offset);
    add(sums, other);
  }
  if (threadIdx.x % 32 == 0) {
    shared[threadIdx.x / 32] = sums;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int warp = 1; warp < kSumWarps; ++warp) {
      add(sums, shared[warp]);
    }
  }
  return sums;
}

/// The number about which moments are taken: 0, or the mean of 32 weights of the first row where
/// they lie closer to it than to 0 (then powers about 0 would cancel). Every warp finds the same.
template <OperandSource Source>
__device__ inline double shift_of(const decode::DecodeView& view) {
  const auto lane = static_cast<std::int64_t>(threadIdx.x % 32);
  const auto sample = static_cast<double>(weight_at<Source>(view, 0, lane * view.cols / 32));
  double sum = sample;
  double squares = sample * sample;
  for (int offset = 16; offset > 0; offset /= 2) {
    sum += __shfl_xor_sync(kAllLanes, sum, offset);
    squares += __shfl_xor_sync(kAllLanes, squares, offset);
  }
  const double mean = sum / 32.0;
  const double variance = squares / 32.0 - mean * mean;
  return mean * mean > 4.0 * variance && isfinite(squares) ? mean : 0.0;
}

/// Counts of 8-bit codes in shared memory, for each warp its own: [warp][bin].
struct CodeCounts {
  static constexpr int kBins = 256;
  std::uint32_t* counts;

  /// A code's bin. Codes of either sign and neighbouring exponents, which most are, lie in
  /// different banks: the sign turns a bit of the exponent.
  __host__ __device__ static constexpr std::uint32_t bin_of(std::uint32_t code) {
    return code ^ (code & 0x80U) >> 3U;
  }

  __device__ void clear() const {
    for (int i = static_cast<int>(threadIdx.x); i < kSumWarps * kBins; i += kSumThreads) {
      counts[i] = 0;
    }
    __syncthreads();
  }
  __device__ void count(std::uint32_t code) const {
    atomicAdd(counts + threadIdx.x / 32 * kBins + bin_of(code), 1U);
  }
  /// How often the block met the code of the thread's number; behind a barrier.
  __device__ std::uint32_t of_thread() const {
    std::uint32_t sum = 0;
    for (int warp = 0; warp < kSumWarps; ++warp) {
      sum += counts[warp * kBins + static_cast<int>(bin_of(threadIdx.x))];
    }
    return sum;
  }
};
static_assert(CodeCounts::kBins == kSumThreads);

/// The square of an E4M3 number in units of 2^-18, exact: the number is an integer below 2^18 in
/// units of 2^-9.
__device__ inline std::uint64_t e4m3_square(float value) {
  constexpr float kUnits = 512.0F;
  constexpr float kMagic = 12582912.0F;  // 1.5 * 2^23: leaves an integer in the low bits
  const int units = __float_as_int(__fmaf_rn(value, kUnits, kMagic)) - __float_as_int(kMagic);
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(units) * units);
}

/// Squares of weights by line of a tile. Where stored rows are contracted a thread's sixteen
/// columns are its lines, over all its rows; else each of its runs belongs to one line, its row,
/// that the kRunsPerRow neighbouring lanes share.
template <typename T>
struct LineSquares {
  static constexpr int kSharedBytes = kSumWarps * kTileSide * static_cast<int>(sizeof(T));
  bool contracts_rows;
  T* shared;         ///< [warp][line], or [line]
  T own[kRun] = {};  ///< by column; where runs are lines, all of them in the first
  T of_run{0};

  __device__ LineSquares(bool rows, void* memory)
      : contracts_rows(rows), shared(static_cast<T*>(memory)) {}

  __device__ void add(int i, T square) {
    if (contracts_rows) {
      own[i] += square;
    } else {
      of_run += square;
    }
  }
  __device__ void add_product(int i, T a, T b) {
    if (contracts_rows) {
      own[i] = fma(a, b, own[i]);
    } else {
      of_run = fma(a, b, of_run);
    }
  }
  /// Ends the run of `row`; by all threads of the block at once.
  __device__ void end_run(int row) {
    if (!contracts_rows) {
      own[0] += of_run;
#pragma unroll
      for (int offset = kRunsPerRow / 2; offset > 0; offset /= 2) {
        of_run += __shfl_xor_sync(kAllLanes, of_run, offset);
      }
      if (threadIdx.x % kRunsPerRow == 0) {
        shared[row] = of_run;
      }
      of_run = T{0};
    }
  }
  __device__ T sum_of_thread() const {
    T sum{0};
#pragma unroll
    for (int i = 0; i < kRun; ++i) {
      sum += own[i];
    }
    return sum;
  }
  /// The sum of the line of the thread's number, in the first kTileSide threads; by all.
  __device__ T line_of_thread() {
    if (contracts_rows) {
      const int lane = static_cast<int>(threadIdx.x % 32);
      T* const to = shared + threadIdx.x / 32 * kTileSide + lane % kRunsPerRow * kRun;
#pragma unroll
      for (int i = 0; i < kRun; ++i) {
        own[i] += __shfl_xor_sync(kAllLanes, own[i], kRunsPerRow);
        own[i] += __shfl_xor_sync(kAllLanes, own[i], 2 * kRunsPerRow);
        if (lane < kRunsPerRow) {
          to[i] = own[i];
        }
      }
    }
    __syncthreads();
    T sum{0};
    if (threadIdx.x < kTileSide) {
      for (int part = 0; part < (contracts_rows ? kSumWarps : 1); ++part) {
        sum += shared[part * kTileSide + static_cast<int>(threadIdx.x)];
      }
    }
    return sum;
  }
};
static_assert(4 * kRunsPerRow == 32, "lanes of a column differ in two bits");

/// True where sums over codes of a run times powers of its scale are those of its weights: their
/// products with `scale` are exact in float32 and its powers stay within float64.
__device__ inline bool sums_by_codes(const decode::DecodeView& view, float scale, double shift) {
  const float size = fabsf(scale);
  return shift == 0.0 && view.scale_type != decode::ElementType::kF32 &&
         (size == 0.0F || (size >= 0x1p-100F && size <= 0x1p+100F));
}

/// Sixteen codes in [-8, 8] under one scale.
__device__ inline void add_codes(ThreadSums& sums, LineSquares<double>& lines,
                                 const float (&codes)[kRun], float scale) {
  float power[4] = {};
  float least = codes[0];
  float most = codes[0];
  int zeros = 0;
#pragma unroll
  for (const float k : codes) {
    const float k2 = k * k;
    power[0] += k;
    power[1] += k2;
    power[2] += k2 * k;
    power[3] += k2 * k2;
    least = fminf(least, k);
    most = fmaxf(most, k);
    zeros += k == 0.0F ? 1 : 0;
  }
  const auto s = static_cast<double>(scale);
  const double s2 = s * s;
  sums.count += kRun;
  sums.zeros += scale == 0.0F ? kRun : zeros;
  sums.power[0] = fma(s, static_cast<double>(power[0]), sums.power[0]);
  sums.power[1] = fma(s2, static_cast<double>(power[1]), sums.power[1]);
  sums.power[2] = fma(s2 * s, static_cast<double>(power[2]), sums.power[2]);
  sums.power[3] = fma(s2 * s2, static_cast<double>(power[3]), sums.power[3]);
  sums.min = fminf(sums.min, fminf(least * scale, most * scale));
  sums.max = fmaxf(sums.max, fmaxf(least * scale, most * scale));
  if (lines.contracts_rows) {
#pragma unroll
    for (int i = 0; i < kRun; ++i) {
      lines.add_product(i, s2, static_cast<double>(codes[i] * codes[i]));
    }
  } else {
    lines.add_product(0, s2, static_cast<double>(power[1]));
  }
}

}  // namespace vindex::kernels::device
