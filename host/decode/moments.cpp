// Owns the moments of a matrix: tiles that stay in the first cache, fixed float64 lanes within a
// tile, tiles merged in a binary tree. So the bits depend on the shape alone,
// whatever the vector width, and rounding grows with the logarithm of the number of tiles.
//
// Within a tile the powers are taken about a shift: 0 where the mean is within a deviation of 0 (at
// most a digit is lost to cancellation, and sum d^2 is sum w^2), else the mean of the tile before.
// At its end they are moved to the tile's own mean: with d = w - shift, n values, s_k = sum d^k,
// e = s_1/n,
//   m2 = s_2 - n e^2
//   m3 = s_3 - 3 e s_2 + 2 n e^3
//   m4 = s_4 - 4 e s_3 + 6 e^2 s_2 - 3 n e^4
// Source: Pebay 2008 (SAND2008-6212) for merging; Chan, Golub, LeVeque 1983 for the shift.
#include "moments.hpp"

#include <vindex/error.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

namespace vindex::decode {

namespace {

/// Float64 lanes per sum, whatever the width of the processor's registers: value j of a piece goes
/// to lane j mod 8. A narrower register takes several passes over the piece, which stays in the
/// first cache.
constexpr int kLanes = 8;

struct TileSums {
  std::array<std::array<double, kLanes>, 4> power{};  ///< of w - shift
  std::array<double, kLanes> squares{};               ///< of w; left alone where the shift is 0
};

struct TileExtremes {
  float min = std::numeric_limits<float>::infinity();
  float max = -std::numeric_limits<float>::infinity();
  std::int64_t zeros = 0;
};

struct MomentLoops {
  /// Adds `count` values to `sums`. A value that is not finite makes power[3] not finite.
  void (*add)(const float* values, std::int64_t count, double shift, TileSums& sums);
  /// Extremes of the values that are not NaN. count < 2^31.
  void (*widen)(const float* values, std::int64_t count, TileExtremes& extremes);
};

// Registers of Width doubles, and of as many or twice as many floats.
template <int Width>
struct Registers {
  using Doubles [[gnu::vector_size(Width * sizeof(double))]] = double;
  using Halves [[gnu::vector_size(Width * sizeof(float))]] = float;
  using Floats [[gnu::vector_size(2 * Width * sizeof(float))]] = float;
  using Ints [[gnu::vector_size(2 * Width * sizeof(std::int32_t))]] = std::int32_t;
};

template <typename To>
inline void load(To& to, const void* from) {
  std::memcpy(&to, from, sizeof to);
}

// Lanes [first, first + Width) of every sum.
template <int Width, bool Shifted>
inline void add_lanes(const float* values, std::int64_t blocks, double shift, int first,
                      TileSums& sums) {
  using R = Registers<Width>;
  typename R::Doubles power[4];
  typename R::Doubles squares;
  for (int k = 0; k < 4; ++k) {
    load(power[k], sums.power[static_cast<std::size_t>(k)].data() + first);
  }
  load(squares, sums.squares.data() + first);
  for (std::int64_t i = 0; i < blocks; ++i) {
    typename R::Halves narrow;
    load(narrow, values + i * kLanes + first);
    const typename R::Doubles w = __builtin_convertvector(narrow, typename R::Doubles);
    const typename R::Doubles d = Shifted ? w - shift : w;
    const typename R::Doubles d2 = d * d;
    if (Shifted) {
      squares += w * w;
    }
    power[0] += d;
    power[1] += d2;
    power[2] += d2 * d;
    power[3] += d2 * d2;
  }
  for (int k = 0; k < 4; ++k) {
    std::memcpy(sums.power[static_cast<std::size_t>(k)].data() + first, &power[k], sizeof power[k]);
  }
  std::memcpy(sums.squares.data() + first, &squares, sizeof squares);
}

template <int Width, bool Shifted>
inline void add_piece(const float* values, std::int64_t count, double shift, TileSums& sums) {
  const std::int64_t blocks = count / kLanes;
  for (int first = 0; first < kLanes; first += Width) {
    add_lanes<Width, Shifted>(values, blocks, shift, first, sums);
  }
  std::size_t lane = 0;
  for (std::int64_t i = blocks * kLanes; i < count; ++i, ++lane) {
    const auto w = static_cast<double>(values[i]);
    const double d = Shifted ? w - shift : w;
    const double d2 = d * d;
    if (Shifted) {
      sums.squares[lane] += w * w;
    }
    sums.power[0][lane] += d;
    sums.power[1][lane] += d2;
    sums.power[2][lane] += d2 * d;
    sums.power[3][lane] += d2 * d2;
  }
}

template <int Width>
inline void add_any(const float* values, std::int64_t count, double shift, TileSums& sums) {
  if (shift == 0.0) {
    add_piece<Width, false>(values, count, shift, sums);
  } else {
    add_piece<Width, true>(values, count, shift, sums);
  }
}

// Minimum, maximum and a count do not depend on the order, so the lanes here are free.
template <int Width>
inline void widen_any(const float* values, std::int64_t count, TileExtremes& extremes) {
  using R = Registers<Width>;
  constexpr int kFloats = 2 * Width;
  typename R::Floats low = typename R::Floats{} + extremes.min;
  typename R::Floats high = typename R::Floats{} + extremes.max;
  typename R::Ints zero_lanes{};
  std::int64_t i = 0;
  for (; i + kFloats <= count; i += kFloats) {
    typename R::Floats w;
    load(w, values + i);
    low = w < low ? w : low;
    high = w > high ? w : high;
    zero_lanes -= w == 0.0F;  // a true lane is -1
  }
  for (int lane = 0; lane < kFloats; ++lane) {
    extremes.min = low[lane] < extremes.min ? low[lane] : extremes.min;
    extremes.max = high[lane] > extremes.max ? high[lane] : extremes.max;
    extremes.zeros += zero_lanes[lane];
  }
  for (; i < count; ++i) {
    extremes.min = values[i] < extremes.min ? values[i] : extremes.min;
    extremes.max = values[i] > extremes.max ? values[i] : extremes.max;
    extremes.zeros += values[i] == 0.0F ? 1 : 0;
  }
  // Which of -0 and +0 came first depends on the lanes; a sum with +0 makes both +0.
  extremes.min += 0.0F;
  extremes.max += 0.0F;
}

// See format_rows.hpp on `flatten` and fused multiply-add.
[[gnu::flatten]] void add_baseline(const float* v, std::int64_t n, double shift, TileSums& sums) {
  add_any<2>(v, n, shift, sums);
}
[[gnu::flatten]] void widen_baseline(const float* v, std::int64_t n, TileExtremes& extremes) {
  widen_any<2>(v, n, extremes);
}
[[gnu::flatten, gnu::target("avx2")]] void add_avx2(const float* v, std::int64_t n, double shift,
                                                    TileSums& sums) {
  add_any<4>(v, n, shift, sums);
}
[[gnu::flatten, gnu::target("avx2")]] void widen_avx2(const float* v, std::int64_t n,
                                                      TileExtremes& extremes) {
  widen_any<4>(v, n, extremes);
}
[[gnu::flatten, gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]] void add_avx512(
    const float* v, std::int64_t n, double shift, TileSums& sums) {
  add_any<8>(v, n, shift, sums);
}
[[gnu::flatten, gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]] void widen_avx512(
    const float* v, std::int64_t n, TileExtremes& extremes) {
  widen_any<8>(v, n, extremes);
}

constexpr std::array<MomentLoops, static_cast<std::size_t>(SimdLevel::kCount)> kLoops{
    {{add_baseline, widen_baseline}, {add_avx2, widen_avx2}, {add_avx512, widen_avx512}}};

/// The loops of `level`; all levels give the same bits.
const MomentLoops& moment_loops(SimdLevel level) { return kLoops[static_cast<std::size_t>(level)]; }

constexpr std::int64_t kTileElements = 4096;  // 16 KiB of floats: half of a first-level cache

// A run of the matrix in row-major order, as pieces of rows.
struct Tile {
  const float* values;
  std::int64_t cols;
  std::int64_t stride;
  std::int64_t first;  // index in row-major order
  std::int64_t count;

  template <typename Visit>
  void for_each_piece(Visit&& visit) const {
    std::int64_t row = first / cols;
    std::int64_t col = first % cols;
    for (std::int64_t left = count; left > 0; ++row, col = 0) {
      const std::int64_t piece = std::min(cols - col, left);
      visit(values + row * stride + col, piece);
      left -= piece;
    }
  }
};

double sum_of(const std::array<double, kLanes>& lanes) {
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
         ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

TileSums sums_of(const MomentLoops& loops, const Tile& tile, double shift) {
  TileSums sums;
  tile.for_each_piece([&](const float* v, std::int64_t n) { loops.add(v, n, shift, sums); });
  return sums;
}

// The finite values of `tile`, in their order.
std::int64_t copy_finite(const Tile& tile, float* to) {
  std::int64_t kept = 0;
  tile.for_each_piece([&](const float* v, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
      if (std::isfinite(v[i])) {
        to[kept++] = v[i];
      }
    }
  });
  return kept;
}

void set_sums(const TileSums& sums, double shift, Moments& out) {
  const auto n = static_cast<double>(out.count);
  const double s1 = sum_of(sums.power[0]);
  const double s2 = sum_of(sums.power[1]);
  const double s3 = sum_of(sums.power[2]);
  const double s4 = sum_of(sums.power[3]);
  const double e = s1 / n;
  out.mean = shift + e;
  out.m2 = std::max(0.0, s2 - n * e * e);
  out.m3 = s3 - 3.0 * e * s2 + 2.0 * n * e * e * e;
  out.m4 = std::max(0.0, s4 - 4.0 * e * s3 + 6.0 * e * e * s2 - 3.0 * n * e * e * e * e);
  out.sum_squares = shift == 0.0 ? s2 : sum_of(sums.squares);
}

bool mean_is_far_from_zero(const Moments& moments) {
  return moments.mean * moments.mean * static_cast<double>(moments.count) > moments.m2;
}

// Moments of the finite values of a tile; `shift` is a guess on entry and the next tile's on
// return.
Moments moments_of_tile(const MomentLoops& loops, Tile tile, double& shift) {
  Moments out;
  out.count = tile.count;
  std::array<float, kTileElements> finite;
  TileSums sums = sums_of(loops, tile, shift);
  if (!std::isfinite(sum_of(sums.power[3]))) {
    // Rare, and the matrix will not be measured: what is finite is copied and done again.
    out.count = copy_finite(tile, finite.data());
    out.nonfinite = tile.count - out.count;
    if (out.count == 0) {
      return out;
    }
    tile = {finite.data(), kTileElements, kTileElements, 0, out.count};
    sums = sums_of(loops, tile, shift);
  }
  set_sums(sums, shift, out);
  if (shift == 0.0 && mean_is_far_from_zero(out)) {
    shift = out.mean;
    set_sums(sums_of(loops, tile, shift), shift, out);
  }
  shift = mean_is_far_from_zero(out) ? out.mean : 0.0;
  TileExtremes extremes;
  tile.for_each_piece([&](const float* v, std::int64_t n) { loops.widen(v, n, extremes); });
  out.min = static_cast<double>(extremes.min);
  out.max = static_cast<double>(extremes.max);
  out.zeros = extremes.zeros;
  return out;
}

}  // namespace

Moments moments_of_at(SimdLevel level, const float* values, std::int64_t rows, std::int64_t cols,
                      std::int64_t stride) {
  expects(is_supported(level), "moments_of_at: a level this processor runs");
  expects(rows >= 0 && cols >= 0 && stride >= cols, "moments_of: rows, cols >= 0, stride >= cols");
  const MomentLoops& loops = moment_loops(level);
  const std::int64_t total = rows * cols;
  double shift = 0.0;
  // tree[k] holds the moments of 2^k tiles while bit k of the tile number is set.
  std::array<Moments, 64> tree;
  std::uint64_t tiles = 0;
  for (std::int64_t first = 0; first < total; first += kTileElements, ++tiles) {
    const Tile tile{values, cols, stride, first, std::min(kTileElements, total - first)};
    Moments sum = moments_of_tile(loops, tile, shift);
    const auto level_of_sum = static_cast<std::size_t>(std::countr_one(tiles));
    for (std::size_t k = 0; k < level_of_sum; ++k) {
      sum = merge(tree[k], sum);
    }
    tree[level_of_sum] = sum;
  }
  Moments out;
  for (std::size_t k = 0; k < tree.size(); ++k) {
    if ((tiles >> k & 1U) != 0U) {
      out = merge(tree[k], out);
    }
  }
  return out;
}

Moments moments_of(const float* values, std::int64_t rows, std::int64_t cols, std::int64_t stride) {
  return moments_of_at(best_simd_level(), values, rows, cols, stride);
}

Moments merge(const Moments& a, const Moments& b) {
  Moments out;
  out.count = a.count + b.count;
  out.zeros = a.zeros + b.zeros;
  out.nonfinite = a.nonfinite + b.nonfinite;
  if (out.count == 0) {
    return out;
  }
  out.min = std::min(a.min, b.min);
  out.max = std::max(a.max, b.max);
  out.sum_squares = a.sum_squares + b.sum_squares;
  const auto n = static_cast<double>(out.count);
  const double fa = static_cast<double>(a.count) / n;  // shares of the whole: no overflow of n^3
  const double fb = static_cast<double>(b.count) / n;
  const double delta = b.mean - a.mean;
  const double d2 = delta * delta;
  const double cross = d2 * fa * fb * n;
  out.mean = a.mean + delta * fb;
  out.m2 = a.m2 + b.m2 + cross;
  out.m3 = a.m3 + b.m3 + cross * delta * (fa - fb) + 3.0 * delta * (fa * b.m2 - fb * a.m2);
  out.m4 = a.m4 + b.m4 + cross * d2 * (fa * fa - fa * fb + fb * fb) +
           6.0 * d2 * (fa * fa * b.m2 + fb * fb * a.m2) + 4.0 * delta * (fa * b.m3 - fb * a.m3);
  return out;
}

double standard_deviation(const Moments& moments) {
  return std::sqrt(moments.m2 / static_cast<double>(moments.count));
}

double excess_kurtosis(const Moments& moments) {
  return static_cast<double>(moments.count) * moments.m4 / (moments.m2 * moments.m2) - 3.0;
}

}  // namespace vindex::decode
