// Owns the moments of a matrix: tiles that stay in the first cache, eight fixed float64 lanes per
// sum (column j of a row's piece goes to lane j mod 8), tiles merged in a binary tree. So the bits
// depend on the shape alone, whatever the vector width, and rounding grows with the logarithm of
// the number of tiles.
//
// Within a tile the powers are taken about a shift near the mean (the mean of the tile before), and
// moved to the tile's own mean at its end: with d = w - shift, n values, s_k = sum d^k, e = s_1/n,
//   m2 = s_2 - n e^2
//   m3 = s_3 - 3 e s_2 + 2 n e^3
//   m4 = s_4 - 4 e s_3 + 6 e^2 s_2 - 3 n e^4
// Source: Pebay 2008 (SAND2008-6212) for merging; Chan, Golub, LeVeque 1983 for the shift.
#include <vindex/core/error.hpp>
#include <vindex/decode/simd_level.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>

namespace vindex::decode {
namespace {

constexpr int kLanes = 8;
constexpr std::int64_t kTileElements = 4096;  // 16 KiB of floats: half of a first-level cache

using DoubleLanes [[gnu::vector_size(kLanes * sizeof(double))]] = double;
using FloatLanes [[gnu::vector_size(kLanes * sizeof(float))]] = float;
using IntLanes [[gnu::vector_size(kLanes * sizeof(std::int32_t))]] = std::int32_t;

struct TileSums {
  DoubleLanes power[4] = {};  // of w - shift
  DoubleLanes squares = {};   // of w
};

struct TileExtremes {
  FloatLanes min = FloatLanes{} + std::numeric_limits<float>::infinity();
  FloatLanes max = FloatLanes{} - std::numeric_limits<float>::infinity();
  IntLanes largest = {};  // bits of |w|; infinity and NaN are the largest of all
  IntLanes zeros = {};
};

constexpr std::int32_t kInfinityBits = 0x7F800000;

inline void add_lanes(const FloatLanes& values, double shift, TileSums& sums) {
  const DoubleLanes w = __builtin_convertvector(values, DoubleLanes);
  const DoubleLanes d = w - shift;
  const DoubleLanes d2 = d * d;
  sums.squares += w * w;
  sums.power[0] += d;
  sums.power[1] += d2;
  sums.power[2] += d2 * d;
  sums.power[3] += d2 * d2;
}

inline void add_piece(const float* values, std::int64_t count, double shift, TileSums& sums) {
  TileSums local = sums;
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    FloatLanes lanes;
    __builtin_memcpy(&lanes, values + i, sizeof lanes);
    add_lanes(lanes, shift, local);
  }
  for (std::int64_t lane = 0; i < count; ++i, ++lane) {
    const auto w = static_cast<double>(values[i]);
    const double d = w - shift;
    local.squares[lane] += w * w;
    local.power[0][lane] += d;
    local.power[1][lane] += d * d;
    local.power[2][lane] += d * d * d;
    local.power[3][lane] += (d * d) * (d * d);
  }
  sums = local;
}

inline void widen_lanes(const FloatLanes& values, TileExtremes& extremes) {
  const IntLanes magnitude = __builtin_bit_cast(IntLanes, values) & 0x7FFFFFFF;
  extremes.min = values < extremes.min ? values : extremes.min;
  extremes.max = values > extremes.max ? values : extremes.max;
  extremes.largest = magnitude > extremes.largest ? magnitude : extremes.largest;
  extremes.zeros -= magnitude == 0;  // a true lane is -1
}

inline void widen_piece(const float* values, std::int64_t count, TileExtremes& extremes) {
  TileExtremes local = extremes;
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    FloatLanes lanes;
    __builtin_memcpy(&lanes, values + i, sizeof lanes);
    widen_lanes(lanes, local);
  }
  if (i < count) {
    // Repeating a value changes no extreme; as a zero it must not be counted twice.
    const float filler = values[i];
    FloatLanes lanes = FloatLanes{} + filler;
    __builtin_memcpy(&lanes, values + i, static_cast<std::size_t>(count - i) * sizeof(float));
    widen_lanes(lanes, local);
    if (filler == 0.0F) {
      for (std::int64_t lane = count - i; lane < kLanes; ++lane) {
        local.zeros[lane] -= 1;
      }
    }
  }
  extremes = local;
}

// The two loops, compiled per instruction set; see encoding_table.cpp on `flatten`.
using AddPiece = void (*)(const float*, std::int64_t, double, TileSums&);
using WidenPiece = void (*)(const float*, std::int64_t, TileExtremes&);

[[gnu::flatten]] void add_baseline(const float* v, std::int64_t n, double shift, TileSums& sums) {
  add_piece(v, n, shift, sums);
}
[[gnu::flatten, gnu::target("avx2")]] void add_avx2(const float* v, std::int64_t n, double shift,
                                                    TileSums& sums) {
  add_piece(v, n, shift, sums);
}
[[gnu::flatten, gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]] void add_avx512(
    const float* v, std::int64_t n, double shift, TileSums& sums) {
  add_piece(v, n, shift, sums);
}
[[gnu::flatten]] void widen_baseline(const float* v, std::int64_t n, TileExtremes& extremes) {
  widen_piece(v, n, extremes);
}
[[gnu::flatten, gnu::target("avx2")]] void widen_avx2(const float* v, std::int64_t n,
                                                      TileExtremes& extremes) {
  widen_piece(v, n, extremes);
}
[[gnu::flatten, gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]] void widen_avx512(
    const float* v, std::int64_t n, TileExtremes& extremes) {
  widen_piece(v, n, extremes);
}

struct LevelFunctions {
  AddPiece add;
  WidenPiece widen;
};
constexpr std::array<LevelFunctions, static_cast<std::size_t>(SimdLevel::kCount)> kFunctions{
    {{add_baseline, widen_baseline}, {add_avx2, widen_avx2}, {add_avx512, widen_avx512}}};

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

double sum_of(const DoubleLanes& lanes) {
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
         ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

void set_extremes(const TileExtremes& extremes, Moments& out) {
  for (int lane = 0; lane < kLanes; ++lane) {
    out.min = std::min(out.min, static_cast<double>(extremes.min[lane]));
    out.max = std::max(out.max, static_cast<double>(extremes.max[lane]));
    out.zeros += extremes.zeros[lane];
  }
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
  out.sum_squares = sum_of(sums.squares);
}

// Moments of the finite values of a tile. A tile with others is copied without them: rare, and its
// matrix will not be measured.
Moments moments_of_tile(const LevelFunctions& functions, const Tile& tile, double* shift) {
  TileExtremes extremes;
  tile.for_each_piece([&](const float* v, std::int64_t n) { functions.widen(v, n, extremes); });
  std::int32_t largest = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    largest = std::max(largest, extremes.largest[lane]);
  }
  std::array<float, kTileElements> finite;
  Tile source = tile;
  if (largest >= kInfinityBits) {
    std::int64_t kept = 0;
    tile.for_each_piece([&](const float* v, std::int64_t n) {
      for (std::int64_t i = 0; i < n; ++i) {
        if (std::isfinite(v[i])) {
          finite[static_cast<std::size_t>(kept++)] = v[i];
        }
      }
    });
    extremes = {};
    functions.widen(finite.data(), kept, extremes);
    source = {finite.data(), kTileElements, kTileElements, 0, kept};
  }
  Moments out;
  out.count = source.count;
  out.nonfinite = tile.count - source.count;
  if (out.count == 0) {
    return out;
  }
  set_extremes(extremes, out);
  const auto sums_about = [&](double centre) {
    TileSums sums;
    source.for_each_piece(
        [&](const float* v, std::int64_t n) { functions.add(v, n, centre, sums); });
    return sums;
  };
  if (std::isnan(*shift)) {
    *shift = sum_of(sums_about(0.0).power[0]) / static_cast<double>(out.count);
  }
  set_sums(sums_about(*shift), *shift, out);
  *shift = out.mean;
  return out;
}

}  // namespace

Moments moments_of_at(SimdLevel level, const float* values, std::int64_t rows, std::int64_t cols,
                      std::int64_t stride) {
  expects(is_supported(level), "moments_of_at: a level this processor runs");
  expects(rows >= 0 && cols >= 0 && stride >= cols, "moments_of: rows, cols >= 0, stride >= cols");
  const LevelFunctions& functions = kFunctions[static_cast<std::size_t>(level)];
  const std::int64_t total = rows * cols;
  double shift = std::numeric_limits<double>::quiet_NaN();  // until the first tile has a mean
  // tree[k] holds the moments of 2^k tiles while bit k of the tile number is set.
  std::array<Moments, 64> tree;
  std::uint64_t tiles = 0;
  for (std::int64_t first = 0; first < total; first += kTileElements, ++tiles) {
    const Tile tile{values, cols, stride, first, std::min(kTileElements, total - first)};
    Moments sum = moments_of_tile(functions, tile, &shift);
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
