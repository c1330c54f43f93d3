// Owns which numbers a row of /pair/ holds (schema vindex-compare) and where each stands among the
// cells of a ResultRow.
#pragma once

#include <vindex/measure/var_at_k.hpp>

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
  kSpectrumDifference,  ///< norm(sigma_B - sigma_A) / norm(sigma_A), and those of kPairMetrics
  // With --delta, of B - A; kPairDeltas has names.
  kDeltaNorm,
  kDeltaSpectralNorm,
  kDeltaSpectralNormNull,
  kDeltaStableRank,
  kDeltaStableRankNull,
  kDeltaEffectiveRank,
  kDeltaEffectiveRankNull,
  kDeltaRankGd,
  kDeltaRankEdge,
  kDeltaNumericalRank,
  kDeltaTheta,
  kDeltaThetaNull,
  kDeltaMpScale,
  kDeltaSigmaError,
  // With --k; kPairOverlaps has names.
  kOverlapRight,
  kOverlapRightNull,
  kOverlapRightNullSd,  ///< since schema 1.1
  kOverlapLeft,
  kOverlapLeftNull,
  kOverlapLeftNullSd,  ///< since schema 1.1
  kGapA,
  kGapB,
  kCount
};

/// A column of one cell.
struct PairCellColumn {
  PairCell cell;
  std::string_view name;
  bool is_integer;
  std::string_view long_name;
};
inline constexpr std::array<PairCellColumn, 14> kPairDeltas = {
    {{PairCell::kDeltaNorm, "delta_frobenius_norm", false, "Frobenius norm of B - A"},
     {PairCell::kDeltaSpectralNorm, "delta_spectral_norm", false,
      "largest singular value of B - A"},
     {PairCell::kDeltaSpectralNormNull, "delta_spectral_norm_null", false,
      "largest singular value of iid noise of that shape and Frobenius norm"},
     {PairCell::kDeltaStableRank, "delta_stable_rank", false,
      "frobenius_norm^2 over spectral_norm^2 of B - A"},
     {PairCell::kDeltaStableRankNull, "delta_stable_rank_null", false,
      "the same of iid noise of that shape"},
     {PairCell::kDeltaEffectiveRank, "delta_effective_rank", false,
      "exponential of the entropy of the squared singular values of B - A"},
     {PairCell::kDeltaEffectiveRankNull, "delta_effective_rank_null", false,
      "the same of iid noise of that shape"},
     {PairCell::kDeltaRankGd, "delta_rank_gd", true,
      "singular values of B - A above the optimal hard threshold; 0 on noise"},
     {PairCell::kDeltaRankEdge, "delta_rank_edge", true,
      "singular values of B - A above the edge of its noise"},
     {PairCell::kDeltaNumericalRank, "delta_numerical_rank", true,
      "singular values of B - A above n 2^-23 of the largest"},
     {PairCell::kDeltaTheta, "delta_theta", false,
      "angle between B - A and its noise, degrees: 0 all noise, 90 none"},
     {PairCell::kDeltaThetaNull, "delta_theta_null", false, "the same of iid noise of that shape"},
     {PairCell::kDeltaMpScale, "delta_mp_scale", false,
      "standard deviation of an entry of the noise in B - A, from its median singular value"},
     {PairCell::kDeltaSigmaError, "delta_sigma_error", false,
      "largest error of a singular value of B - A that the route answers for"}}};
inline constexpr std::array<PairCellColumn, 8> kPairOverlaps = {
    {{PairCell::kOverlapRight, "overlap_right", false,
      "share of the top K right singular directions that A and B have in common"},
     {PairCell::kOverlapRightNull, "overlap_right_null", false,
      "the same of random directions: K / cols"},
     {PairCell::kOverlapRightNullSd, "overlap_right_null_sd", false, "its standard deviation"},
     {PairCell::kOverlapLeft, "overlap_left", false,
      "share of the top K left singular directions that A and B have in common"},
     {PairCell::kOverlapLeftNull, "overlap_left_null", false,
      "the same of random directions: K / rows"},
     {PairCell::kOverlapLeftNullSd, "overlap_left_null_sd", false, "its standard deviation"},
     {PairCell::kGapA, "gap_a", false,
      "distance of singular value K of A from the next one, over the former"},
     {PairCell::kGapB, "gap_b", false,
      "distance of singular value K of B from the next one, over the former"}}};

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
/// Of B - A, at k as in measure::kVarAtK, and of noise.
inline constexpr std::size_t kDeltaVarAtK = cell_number(kPairMetrics.size(), PairMetricCell::kA);
inline constexpr std::size_t kDeltaVarAtKNull = kDeltaVarAtK + measure::kVarAtK.size();
/// K principal angles of the right subspaces, and behind them as many of the left ones.
inline constexpr std::size_t kPairAngles = kDeltaVarAtKNull + measure::kVarAtK.size();

/// What asks for columns in a RunDescription: one of optional_columns, and a scale (1 .. K).
inline constexpr const char* kDeltaColumns = "delta";
inline constexpr const char* kAngleScale = "angle";

/// Cells of which none is known, with room for angles of `subspace` directions.
inline std::vector<double> empty_pair_cells(std::int64_t subspace = 0) {
  return std::vector<double>(kPairAngles + 2 * static_cast<std::size_t>(subspace),
                             std::numeric_limits<double>::quiet_NaN());
}

}  // namespace vindex::results
