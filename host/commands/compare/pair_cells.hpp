// Owns what a row of /pair/ of a file of `vindex compare` holds (schema vindex-compare).
#pragma once

#include "results/schema/cell_table.hpp"
#include "statistics/spectrum/subspace_overlap.hpp"
#include "statistics/spectrum/var_at_k.hpp"

#include <array>

namespace vindex::commands {

/// What asks for columns in a RunDescription: one of optional_columns, and a scale (1 .. K).
inline constexpr const char* kDeltaColumns = "delta";
inline constexpr const char* kAngleScale = "angle";
/// With results files of both sides.
inline constexpr const char* kSpectraColumns = "spectra";

inline constexpr std::array<results::ColumnGroup, 3> kPairGroups = {
    {{kSpectraColumns, "spectrum_difference"},
     {kDeltaColumns, "delta_effective_rank"},
     {kAngleScale, "angles_right"}}};

/// `column` where the file has the group `group`.
constexpr results::CellColumn with(std::string_view group, results::CellColumn column) {
  column.presence = results::Presence::kOptional;
  column.group = group;
  return column;
}
/// As many numbers as `scale` has values.
constexpr results::CellColumn along(std::string_view scale, results::CellColumn column) {
  column.scale = scale;
  column.width = scale == kAngleScale ? results::kAsManyAsTheRun : kVarAtK.size();
  return column;
}

inline constexpr std::array<results::CellColumn, 54> kPairCells = {{
    {.name = "same_bits",
     .long_name = "1 where every decoded float32 is equal, bit for bit",
     .units = "",
     .kind = results::CellKind::kFlag},
    {"cosine", "inner product of A and B over both norms"},
    {"cosine_null_sd",
     "standard deviation of the cosine of iid noise of that shape, whose mean is 0"},
    {"norm_a", "Frobenius norm of A"},
    {"norm_b", "Frobenius norm of B"},
    {"relative_error", "Frobenius norm of B less A over that of A"},
    {"max_abs_difference", "largest difference of two weights"},
    with(kSpectraColumns,
         {"spectrum_difference", "norm of the difference of both spectra over that of A's"}),
    with(kSpectraColumns, {"spectral_norm_a", "largest singular value, of A"}),
    with(kSpectraColumns, {"spectral_norm_b", "largest singular value, of B"}),
    with(kSpectraColumns, {"spectral_norm_difference", "largest singular value: B less A"}),
    with(kSpectraColumns,
         {"var_at_64_a", "share of the squared norm in the first 64 singular values, of A"}),
    with(kSpectraColumns,
         {"var_at_64_b", "share of the squared norm in the first 64 singular values, of B"}),
    with(kSpectraColumns, {"var_at_64_difference",
                           "share of the squared norm in the first 64 singular values: B less A"}),
    with(kSpectraColumns,
         {"var_at_64_null",
          "share of the squared norm in the first 64 singular values, of iid noise of that shape"}),
    with(kSpectraColumns, {"stable_rank_a", "frobenius_norm^2 over spectral_norm^2, of A"}),
    with(kSpectraColumns, {"stable_rank_b", "frobenius_norm^2 over spectral_norm^2, of B"}),
    with(kSpectraColumns,
         {"stable_rank_difference", "frobenius_norm^2 over spectral_norm^2: B less A"}),
    with(kSpectraColumns,
         {"stable_rank_null", "frobenius_norm^2 over spectral_norm^2, of iid noise of that shape"}),
    with(kSpectraColumns,
         {"effective_rank_a", "exponential of the entropy of the squared singular values, of A"}),
    with(kSpectraColumns,
         {"effective_rank_b", "exponential of the entropy of the squared singular values, of B"}),
    with(kSpectraColumns, {"effective_rank_difference",
                           "exponential of the entropy of the squared singular values: B less A"}),
    with(kSpectraColumns,
         {"effective_rank_null",
          "exponential of the entropy of the squared singular values, of iid noise of that shape"}),
    with(
        kSpectraColumns,
        {"hill_alpha_a", "tail exponent of the squared singular values by Hill's estimator, of A"}),
    with(
        kSpectraColumns,
        {"hill_alpha_b", "tail exponent of the squared singular values by Hill's estimator, of B"}),
    with(kSpectraColumns,
         {"hill_alpha_difference",
          "tail exponent of the squared singular values by Hill's estimator: B less A"}),
    with(kSpectraColumns, {"hill_alpha_null",
                           "tail exponent of the squared singular values by Hill's estimator, of "
                           "iid noise of that shape"}),
    with(kDeltaColumns, {"delta_frobenius_norm", "Frobenius norm of B - A"}),
    with(kDeltaColumns, {"delta_spectral_norm", "largest singular value of B - A"}),
    with(kDeltaColumns, {"delta_spectral_norm_null",
                         "largest singular value of iid noise of that shape and Frobenius norm"}),
    with(kDeltaColumns, {"delta_stable_rank", "frobenius_norm^2 over spectral_norm^2 of B - A"}),
    with(kDeltaColumns, {"delta_stable_rank_null", "the same of iid noise of that shape"}),
    with(kDeltaColumns, {"delta_effective_rank",
                         "exponential of the entropy of the squared singular values of B - A"}),
    with(kDeltaColumns, {"delta_effective_rank_null", "the same of iid noise of that shape"}),
    with(kDeltaColumns,
         {"delta_rank_gd", "singular values of B - A above the optimal hard threshold; 0 on noise",
          true}),
    with(kDeltaColumns,
         {"delta_rank_edge", "singular values of B - A above the edge of its noise", true}),
    with(kDeltaColumns,
         {"delta_numerical_rank", "singular values of B - A above n 2^-23 of the largest", true}),
    with(kDeltaColumns,
         {"delta_theta", "angle between B - A and its noise, degrees: 0 all noise, 90 none"}),
    with(kDeltaColumns, {"delta_theta_null", "the same of iid noise of that shape"}),
    with(kDeltaColumns,
         {"delta_mp_scale",
          "standard deviation of an entry of the noise in B - A, from its median singular value"}),
    with(kDeltaColumns, {"delta_sigma_error",
                         "largest error of a singular value of B - A that the route answers for"}),
    with(kDeltaColumns,
         along("k", {"delta_var_at_k",
                     "share of the squared norm of B - A in its first k singular values"})),
    with(kDeltaColumns, along("k", {"delta_var_at_k_null", "the same of iid noise of that shape"})),
    with(kDeltaColumns, {.name = "delta_method",
                         .long_name = "how the spectrum of B - A was computed",
                         .units = "",
                         .kind = results::CellKind::kMethod}),
    with(kAngleScale, {"overlap_right",
                       "share of the top K right singular directions that A and B have in common"}),
    with(kAngleScale, {"overlap_right_null", "the same of random directions: K / cols"}),
    results::since(1, with(kAngleScale, {"overlap_right_null_sd", "its standard deviation"})),
    with(kAngleScale, {"overlap_left",
                       "share of the top K left singular directions that A and B have in common"}),
    with(kAngleScale, {"overlap_left_null", "the same of random directions: K / rows"}),
    results::since(1, with(kAngleScale, {"overlap_left_null_sd", "its standard deviation"})),
    with(kAngleScale,
         {"gap_a", "distance of singular value K of A from the next one, over the former"}),
    with(kAngleScale,
         {"gap_b", "distance of singular value K of B from the next one, over the former"}),
    with(kAngleScale,
         along(kAngleScale,
               {.name = "angles_right",
                .long_name = "principal angles of the top K right singular subspaces, ascending",
                .units = "degree"})),
    with(kAngleScale,
         along(kAngleScale,
               {.name = "angles_left",
                .long_name = "principal angles of the top K left singular subspaces, ascending",
                .units = "degree"})),
}};

inline constexpr std::array<results::SecondScale, 2> kPairScales = {
    {{"k", "number of singular values counted", kVarAtK},
     {kAngleScale, "number of the principal angle, from 1", {}, 1, statistics::kMaxSubspace}}};

inline constexpr results::CellTable kPairTable = {
    .cells = kPairCells, .groups = kPairGroups, .second = kPairScales};

/// Place of a column's first number among the cells of a row. angles_left: behind as many others as
/// there are directions.
consteval std::size_t pair_cell(std::string_view name) {
  return results::cell_in(kPairCells, name);
}

/// A statistic of the spectra of both sides: columns NAME_a, NAME_b, NAME_difference and, where it
/// has a null, NAME_null, one behind the other.
struct PairMetric {
  std::string_view name;
  std::size_t first;  ///< place of NAME_a
  bool has_null = true;
};
inline constexpr std::array<PairMetric, 5> kPairMetrics = {
    {{"spectral_norm", pair_cell("spectral_norm_a"), false},
     {"var_at_64", pair_cell("var_at_64_a")},
     {"stable_rank", pair_cell("stable_rank_a")},
     {"effective_rank", pair_cell("effective_rank_a")},
     {"hill_alpha", pair_cell("hill_alpha_a")}}};

}  // namespace vindex::commands
