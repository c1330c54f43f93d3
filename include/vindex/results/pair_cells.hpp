// Owns which numbers a row of /pair/ holds (schema vindex-compare) and where each stands among the
// cells of a ResultRow.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

namespace vindex::results {

enum class PairCell : std::uint8_t {
  kSameBits,  ///< 0 or 1
  kCosine,
  kCosineNullSd,  ///< of two matrices of independent noise; their mean cosine is 0
  kNormA,
  kNormB,
  kRelativeError,
  kMaxAbsDifference,
  kSpectrumDifference,  ///< norm(sigma_B - sigma_A) / norm(sigma_A), and the cells behind
  kCount
};

/// A statistic of the spectra of both sides, where results files of both were given.
struct PairMetric {
  std::string_view name;  ///< of the columns NAME_a, NAME_b, NAME_difference, NAME_null
  bool has_null = true;
  std::string_view long_name;
};
inline constexpr std::array<PairMetric, 5> kPairMetrics = {
    {{"spectral_norm", false, "largest singular value"},
     {"var_at_64", true, "share of the squared norm in the first 64 singular values"},
     {"stable_rank", true, "frobenius_norm^2 over spectral_norm^2"},
     {"effective_rank", true, "exponential of the entropy of the squared singular values"},
     {"hill_alpha", true, "tail exponent of the squared singular values by Hill's estimator"}}};

/// Cells of one PairMetric, in this order.
enum class PairMetricCell : std::uint8_t { kA, kB, kDifference, kNull, kCount };

constexpr std::size_t cell_number(PairCell cell) { return static_cast<std::size_t>(cell); }
constexpr std::size_t cell_number(std::size_t metric, PairMetricCell cell) {
  return cell_number(PairCell::kCount) + metric * static_cast<std::size_t>(PairMetricCell::kCount) +
         static_cast<std::size_t>(cell);
}
inline constexpr std::size_t kPairCells = cell_number(kPairMetrics.size(), PairMetricCell::kA);

/// Cells of which none is known.
inline std::vector<double> empty_pair_cells() {
  return std::vector<double>(kPairCells, std::numeric_limits<double>::quiet_NaN());
}

}  // namespace vindex::results
