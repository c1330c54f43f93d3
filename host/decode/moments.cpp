// Owns the moments of a matrix: tiles that stay in the first cache, fixed float64 lanes within a
// tile (moment_loops.hpp), tiles merged in a binary tree. So the bits depend on the shape alone,
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
#include "moment_loops.hpp"

#include <vindex/core/error.hpp>
#include <vindex/decode/simd_level.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>

namespace vindex::decode {
namespace {

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
