// Owns one pass over two matrices A and B, decoded strip by strip:
//
//   cosine = <A, B> / (||A|| ||B||),   relative_error = ||B - A|| / ||A||,   max |b - a|
//
// in float64, where products of two float32 are exact. ||B - A||^2 is summed from differences and
// not taken as ||A||^2 + ||B||^2 - 2 <A, B>, which leaves nothing of a small change.
//
// Sums run in eight lanes of a line whatever the vector width, so that bits are the same
// everywhere. Where one side is stored transposed, the side whose slabs of columns are smaller is
// read by columns and transposed in tiles.
#include "pair_comparison.hpp"

#include "decode/decode_matrix.hpp"
#include "decode/encoding/code_layout.hpp"
#include "decode/simd_level.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace vindex::statistics {
namespace {

constexpr std::int64_t kSlabValues = 1 << 20;  ///< asked of an input: 4 MiB of float32
/// The same where small slabs cost nothing: what is copied for one stays in a core's own cache
/// until it is decoded.
constexpr std::int64_t kSmallSlabValues = 1 << 16;
/// Decoded at a time, of each side: what a core's own cache holds while it is summed.
constexpr std::int64_t kStripValues = 1 << 15;
constexpr std::int64_t kMinStrip = 8;  ///< lines, for encodings that pack rows together
constexpr std::size_t kPairLanes = 8;
constexpr std::int64_t kTile = 32;  ///< of turning a slab

/// Sums over some weights of both matrices.
struct PairSums {
  double inner = 0.0, squares_a = 0.0, squares_b = 0.0, squares_difference = 0.0, largest = 0.0;
};

using LaneArray = std::array<double, kPairLanes>;

double pair_lane_total(const LaneArray& lanes) {
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
         ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

/// Lane i has the elements i, i + 8, ...: the same for every vector width. The largest difference
/// is the root of the largest square, to the bit: in binary arithmetic sqrt(d * d) is |d| unless
/// the square leaves the range, which those of float32 do not.
class PairLaneSums {
 public:
  void add(std::size_t lane, float left, float right) {
    const double x = left;
    const double y = right;
    const double square = (y - x) * (y - x);
    inner[lane] += x * y;
    squares_a[lane] += x * x;
    squares_b[lane] += y * y;
    squares_d[lane] += square;
    largest[lane] = square > largest[lane] ? square : largest[lane];
  }
  PairSums total() const {
    return {pair_lane_total(inner), pair_lane_total(squares_a), pair_lane_total(squares_b),
            pair_lane_total(squares_d),
            std::sqrt(*std::max_element(largest.begin(), largest.end()))};
  }
  LaneArray inner = {}, squares_a = {}, squares_b = {}, squares_d = {}, largest = {};
};

PairSums line_sums_baseline(const float* a, const float* b, std::int64_t count) {
  PairLaneSums sums;
  for (std::int64_t i = 0; i < count; ++i) {
    sums.add(static_cast<std::size_t>(i) % kPairLanes, a[i], b[i]);
  }
  return sums.total();
}

#if defined(__x86_64__)
/// Lanes 4 half to 4 half + 3.
struct HalfSums {
  __m256d inner, squares_a, squares_b, squares_d, largest;
};

[[gnu::target("avx2,fma"), gnu::always_inline]] inline void add_four(const float* a, const float* b,
                                                                     HalfSums& sums) {
  const __m256d x = _mm256_cvtps_pd(_mm_loadu_ps(a));
  const __m256d y = _mm256_cvtps_pd(_mm_loadu_ps(b));
  const __m256d difference = _mm256_sub_pd(y, x);
  const __m256d square = _mm256_mul_pd(difference, difference);
  // Products of two float32 are exact in float64: fusing them with their sums changes no bit.
  sums.inner = _mm256_fmadd_pd(x, y, sums.inner);
  sums.squares_a = _mm256_fmadd_pd(x, x, sums.squares_a);
  sums.squares_b = _mm256_fmadd_pd(y, y, sums.squares_b);
  sums.squares_d = _mm256_add_pd(sums.squares_d, square);
  sums.largest = _mm256_max_pd(square, sums.largest);  // of a NaN the second one
}

[[gnu::target("avx2,fma")]] PairSums line_sums_avx2(const float* a, const float* b,
                                                    std::int64_t count) {
  HalfSums low = {};
  HalfSums high = {};
  std::int64_t i = 0;
  for (; i + static_cast<std::int64_t>(kPairLanes) <= count;
       i += static_cast<std::int64_t>(kPairLanes)) {
    add_four(a + i, b + i, low);
    add_four(a + i + 4, b + i + 4, high);
  }
  PairLaneSums sums;
  for (const auto& [half, at] : {std::pair<const HalfSums*, std::size_t>{&low, 0}, {&high, 4}}) {
    _mm256_storeu_pd(sums.inner.data() + at, half->inner);
    _mm256_storeu_pd(sums.squares_a.data() + at, half->squares_a);
    _mm256_storeu_pd(sums.squares_b.data() + at, half->squares_b);
    _mm256_storeu_pd(sums.squares_d.data() + at, half->squares_d);
    _mm256_storeu_pd(sums.largest.data() + at, half->largest);
  }
  for (std::size_t lane = 0; i < count; ++i, ++lane) {
    sums.add(lane, a[i], b[i]);
  }
  return sums.total();
}
#endif

using LineSums = PairSums (*)(const float*, const float*, std::int64_t);

LineSums best_line_sums() {
#if defined(__x86_64__)
  if (decode::best_simd_level() != decode::SimdLevel::kBaseline &&
      __builtin_cpu_supports("fma") != 0) {
    return line_sums_avx2;
  }
#endif
  return line_sums_baseline;
}

/// Lines are stored rows of both; or of one, where the other, which is stored transposed, is cut by
/// its columns.
struct Lines {
  std::int64_t count = 0, length = 0;
  std::int64_t step = 1;  ///< lines of a slab
  bool turn_a = false, turn_b = false;
};

Lines lines_of(const StoredShape& a, const StoredShape& b) {
  Lines lines{.count = a.rows, .length = a.cols};
  std::int64_t unit = 1;
  if (a.transposed != b.transposed) {
    const std::int64_t unit_a = std::max<std::int64_t>(1, column_granularity(*a.encoding));
    const std::int64_t unit_b = std::max<std::int64_t>(1, column_granularity(*b.encoding));
    // The side whose narrowest slab is the smaller one is cut by columns.
    lines.turn_a = unit_a * b.cols < unit_b * a.cols;
    lines.turn_b = !lines.turn_a;
    unit = lines.turn_a ? unit_a : unit_b;
    if (lines.turn_a) {
      lines.count = b.rows;
      lines.length = b.cols;
    }
  }
  lines.step = std::max(unit, kSlabValues / std::max<std::int64_t>(lines.length, 1) / unit * unit);
  lines.step = std::min(lines.step, std::max<std::int64_t>(lines.count, 1));
  return lines;
}

std::uint64_t slab_floats(const Lines& lines) {
  return static_cast<std::uint64_t>(lines.step) * static_cast<std::uint64_t>(lines.length);
}

std::int64_t strip_lines(const Lines& lines) {
  return std::min(lines.step,
                  std::max(kMinStrip, kStripValues / std::max<std::int64_t>(lines.length, 1)));
}

/// One side's lines, decoded.
class Side {
 public:
  Side(MatrixInput& input, const Lines& lines, bool transposed)
      : input_(input),
        transposed_(transposed),
        length_(lines.length),
        lines_(transposed ? slab_floats(lines)
                          : static_cast<std::size_t>(strip_lines(lines) * lines.length)) {
    if (transposed_) {
      columns_.resize(lines_.size());
    }
  }

  /// The slab of `count` lines from `first` on.
  void open(std::int64_t first, std::int64_t count) {
    if (transposed_) {
      turn(input_.column_slab(first, count), count);
    } else {
      slab_ = input_.row_slab(first, count);
    }
  }

  /// `count` of its lines, each of length_ values.
  const float* read(std::int64_t first, std::int64_t count) {
    if (transposed_) {
      return lines_.data() + first * length_;
    }
    decode::decode_matrix(decode::row_slab(slab_, first, count), lines_.data(), length_);
    return lines_.data();
  }

 private:
  void turn(const decode::EncodedMatrix& slab, std::int64_t count) {
    decode::decode_matrix(slab, columns_.data(), count);
    for (std::int64_t row = 0; row < length_; row += kTile) {
      const std::int64_t rows = std::min(kTile, length_ - row);
      for (std::int64_t line = 0; line < count; line += kTile) {
        const std::int64_t some = std::min(kTile, count - line);
        for (std::int64_t l = line; l < line + some; ++l) {
          for (std::int64_t r = row; r < row + rows; ++r) {
            lines_[static_cast<std::size_t>(l * length_ + r)] =
                columns_[static_cast<std::size_t>(r * count + l)];
          }
        }
      }
    }
  }

  MatrixInput& input_;
  bool transposed_;
  std::int64_t length_;
  decode::EncodedMatrix slab_;
  std::vector<float> lines_, columns_;
};

std::uint64_t window_bytes(const decode::Encoding& encoding, std::int64_t rows, std::int64_t cols) {
  const auto bytes = decode::slab_bytes(encoding, static_cast<std::uint64_t>(rows),
                                        static_cast<std::uint64_t>(cols));
  expects(bytes.has_value(), "a slab of a matrix whose bytes are known");
  return *bytes;
}

StoredShape stored_shape(const MatrixInput& input) {
  return {&input.encoding(), input.rows(), input.cols(), input.transposed()};
}

std::int64_t count_not_finite(const float* values, std::int64_t count) {
  return std::count_if(values, values + count, [](float value) { return !std::isfinite(value); });
}

/// The sums of both matrices, and what is wrong with their weights.
struct Totals {
  PairSums sums;
  bool same_bits = true;
  std::int64_t not_finite_a = 0, not_finite_b = 0;
};

Totals totals_of(MatrixInput& a, MatrixInput& b) {
  Lines lines = lines_of(stored_shape(a), stored_shape(b));
  if (!lines.turn_a && !lines.turn_b && a.has_cheap_slabs() && b.has_cheap_slabs()) {
    lines.step =
        std::min(lines.step,
                 std::max(kMinStrip, kSmallSlabValues / std::max<std::int64_t>(lines.length, 1)));
  }
  const LineSums sums_of_line = best_line_sums();
  Side side_a(a, lines, lines.turn_a);
  Side side_b(b, lines, lines.turn_b);
  Totals totals;
  const auto add_lines = [&](const float* left, const float* right, std::int64_t count) {
    totals.same_bits =
        totals.same_bits &&
        std::memcmp(left, right, static_cast<std::size_t>(count * lines.length) * sizeof(float)) ==
            0;
    for (std::int64_t line = 0; line < count; ++line) {
      const PairSums sums = sums_of_line(left, right, lines.length);
      // Squares of float32 are far from the ends of float64: only weights make these not finite.
      if (!std::isfinite(sums.squares_a)) {
        totals.not_finite_a += count_not_finite(left, lines.length);
      }
      if (!std::isfinite(sums.squares_b)) {
        totals.not_finite_b += count_not_finite(right, lines.length);
      }
      totals.sums.inner += sums.inner;
      totals.sums.squares_a += sums.squares_a;
      totals.sums.squares_b += sums.squares_b;
      totals.sums.squares_difference += sums.squares_difference;
      totals.sums.largest = std::max(totals.sums.largest, sums.largest);
      left += lines.length;
      right += lines.length;
    }
  };
  const std::int64_t strip = strip_lines(lines);
  for (std::int64_t first = 0; first < lines.count; first += lines.step) {
    const std::int64_t count = std::min(lines.step, lines.count - first);
    side_a.open(first, count);
    side_b.open(first, count);
    for (std::int64_t line = 0; line < count; line += strip) {
      const std::int64_t some = std::min(strip, count - line);
      add_lines(side_a.read(line, some), side_b.read(line, some), some);
    }
  }
  return totals;
}

}  // namespace

PairReport compare_matrices(MatrixInput& a, MatrixInput& b) {
  const auto logical = [](const MatrixInput& input) {
    return input.transposed() ? std::pair(input.cols(), input.rows())
                              : std::pair(input.rows(), input.cols());
  };
  expects(logical(a) == logical(b), "compare_matrices: two matrices of one shape");
  const Totals totals = totals_of(a, b);
  PairReport report;
  report.same_bits = totals.same_bits;
  if (totals.not_finite_a + totals.not_finite_b > 0) {
    report.status = MatrixStatus::kNotFinite;
    const auto part = [](std::int64_t count, const char* side) {
      return count == 0 ? std::string() : fmt::format("{} of {}", count, side);
    };
    const std::string left = part(totals.not_finite_a, "A");
    const std::string right = part(totals.not_finite_b, "B");
    report.reason = fmt::format("weights that are not finite: {}{}{}", left,
                                left.empty() || right.empty() ? "" : ", ", right);
    return report;
  }
  const PairSums& sums = totals.sums;
  report.status = MatrixStatus::kMeasured;
  report.norm_a = std::sqrt(sums.squares_a);
  report.norm_b = std::sqrt(sums.squares_b);
  report.max_abs_difference = sums.largest;
  const bool zero_a = sums.squares_a == 0.0;
  const bool zero_b = sums.squares_b == 0.0;
  if (zero_a || zero_b) {
    report.reason = fmt::format("zero matrix: {}", zero_a ? (zero_b ? "A and B" : "A") : "B");
  } else {
    // Of equal matrices the root of a square: exactly 1. Rounding leads nowhere beyond.
    report.cosine = std::clamp(sums.inner / std::sqrt(sums.squares_a * sums.squares_b), -1.0, 1.0);
  }
  if (!zero_a) {
    report.relative_error = std::sqrt(sums.squares_difference) / report.norm_a;
  }
  return report;
}

PairWorkspace pair_workspace(const StoredShape& a, const StoredShape& b) {
  const Lines lines = lines_of(a, b);
  const auto strip = static_cast<std::uint64_t>(strip_lines(lines) * lines.length);
  const auto floats = [&](bool transposed) { return transposed ? 2 * slab_floats(lines) : strip; };
  const auto encoded = [&](const StoredShape& side, bool transposed) {
    return transposed ? window_bytes(*side.encoding, side.rows, lines.step)
                      : window_bytes(*side.encoding, lines.step, side.cols);
  };
  return {.decoded = sizeof(float) * (floats(lines.turn_a) + floats(lines.turn_b)),
          .encoded = encoded(a, lines.turn_a) + encoded(b, lines.turn_b)};
}

double cosine_null_deviation(std::int64_t rows, std::int64_t cols) {
  return 1.0 / std::sqrt(static_cast<double>(rows) * static_cast<double>(cols));
}

}  // namespace vindex::statistics
