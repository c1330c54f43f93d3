// Owns the matrices of purify_bench: a true signal and what noise makes of it, and the squared
// errors that were published for them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace vindex::throughput {

/// Columns of the published table.
inline constexpr std::array<const char*, 11> kPurifyRules = {
    "fft",        "fft-universal", "haar",   "haar-bayes", "haar-visu", "laser-0.1",
    "laser-0.01", "laser-rmt",     "svd-gd", "svd-shrink", "all-zero"};

/// One row of the table. Errors are |W' - S|^2 / |W - S|^2: 1 is doing nothing.
struct PurifyCase {
  const char* name;
  /// NaN: nothing to compare with. The published haar-bayes and haar-visu pad with zeros and count
  /// them as weights.
  std::array<double, kPurifyRules.size()> published;
};

/// The rows, of one draw each; other draws differ by a few per cent.
const std::vector<PurifyCase>& purify_cases();

/// Row-major rows x cols.
struct DrawnMatrix {
  std::int64_t rows = 0, cols = 0;
  std::vector<float> signal;
  std::vector<float> weights;  ///< signal + noise
};

/// The matrix of row `index`; the same one for the same seed.
DrawnMatrix draw_case(std::size_t index, std::int64_t rows, std::int64_t cols, std::uint64_t seed);

}  // namespace vindex::throughput
