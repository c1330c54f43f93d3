// Owns what a row of /group/ of a file of `vindex experts` holds (schema vindex-experts): the
// similarity of the experts of one (layer, role). A row's `rows` and `cols` are those of one
// expert.
#pragma once

#include "results/schema/cell_table.hpp"

#include <array>

namespace vindex::commands {

inline constexpr std::array<results::ScaleColumn, 2> kExpertsScales = {
    {{"expert", "number of the expert"}, {"expert_other", "number of the other expert"}}};

inline constexpr std::array<results::CellColumn, 38> kExpertsCells = {{
    {"experts", "experts of the group", true, {1.0}},
    {"experts_counted", "of these, those that could be read and are finite", true,
     results::kNotNegative},
    {"cosine_mean", "mean of the off-diagonal cosines", false, results::kCosineRange},
    {"cosine_max", "largest off-diagonal cosine", false, results::kCosineRange},
    {"cosine_max_expert", "first expert of the largest cosine", true, results::kNotNegative},
    {"cosine_max_other", "second expert of the largest cosine", true, results::kNotNegative},
    {"cosine_null", "mean cosine of independent noise of that shape: 0", false,
     results::kCosineRange},
    {"cosine_null_sd", "its standard deviation, of one pair: 1/sqrt(rows cols)", false,
     results::kShareRange},
    results::since(1, {"cosine_mean_null_sd",
                       "standard deviation of the mean cosine of independent noise: "
                       "sqrt(2/(E(E-1) rows cols))",
                       false, results::kShareRange}),
    {"cosine_max_null", "mean of the largest cosine of independent noise", false,
     results::kCosineRange},
    results::since(1,
                   {"cosine_max_null_sd", "its standard deviation", false, results::kShareRange}),
    {"cosine_centred_mean", "mean of the off-diagonal centred cosines", false,
     results::kCosineRange},
    {"cosine_centred_max", "largest off-diagonal centred cosine", false, results::kCosineRange},
    {"cosine_centred_max_expert", "first expert of the largest centred cosine", true,
     results::kNotNegative},
    {"cosine_centred_max_other", "second expert of the largest centred cosine", true,
     results::kNotNegative},
    {"cosine_centred_null", "centred cosine of independent noise: -1/(E-1)", false,
     results::kCosineRange},
    {"cosine_centred_null_sd", "its standard deviation, of one pair of experts of these norms",
     false, results::kShareRange},
    results::since(
        1, {"cosine_centred_mean_null", "mean centred cosine of independent experts of these norms",
            false, results::kCosineRange}),
    results::since(
        1, {"cosine_centred_mean_null_sd", "its standard deviation", false, results::kShareRange}),
    {"cosine_centred_max_null",
     "mean of the largest centred cosine of independent experts of these norms", false,
     results::kCosineRange},
    results::since(
        1, {"cosine_centred_max_null_sd", "its standard deviation", false, results::kShareRange}),
    {"mean_expert_share", "squared norm of the mean expert over the mean squared norm", false,
     results::kShareRange},
    {"mean_expert_share_null", "the same of independent noise: 1/E", false, results::kShareRange},
    {"rank_90", "eigenvalues of the centred Gram that hold 90 % of its trace", true,
     results::kNotNegative},
    {"rank_90_null", "the same of independent experts of these norms, mean over draws", false,
     results::kNotNegative},
    results::since(2, {"rank_90_null_sd", "its standard deviation", false, results::kNotNegative}),
    {"effective_rank", "exponential of the entropy of the centred Gram's eigenvalues", false,
     results::kNotNegative},
    {"effective_rank_null", "the same of independent experts of these norms, mean over draws",
     false, results::kNotNegative},
    results::since(
        2, {"effective_rank_null_sd", "its standard deviation", false, results::kNotNegative}),
    {"overlap_k",
     "singular vectors per expert in overlap_right and overlap_left",
     true,
     {1.0},
     results::Presence::kOptional},
    {"overlap_right_mean", "mean of the off-diagonal overlap_right", false, results::kShareRange,
     results::Presence::kOptional},
    {"overlap_right_null", "overlap of random subspaces: K/cols", false, results::kShareRange,
     results::Presence::kOptional},
    results::since(1, {"overlap_right_null_sd", "its standard deviation, of one pair", false,
                       results::kShareRange, results::Presence::kOptional}),
    results::since(
        1, {"overlap_right_mean_null_sd", "standard deviation of the mean over the pairs", false,
            results::kShareRange, results::Presence::kOptional}),
    {"overlap_left_mean", "mean of the off-diagonal overlap_left", false, results::kShareRange,
     results::Presence::kOptional},
    {"overlap_left_null", "overlap of random subspaces: K/rows", false, results::kShareRange,
     results::Presence::kOptional},
    results::since(1, {"overlap_left_null_sd", "its standard deviation, of one pair", false,
                       results::kShareRange, results::Presence::kOptional}),
    results::since(1, {"overlap_left_mean_null_sd", "standard deviation of the mean over the pairs",
                       false, results::kShareRange, results::Presence::kOptional}),
}};

inline constexpr std::array<results::ArrayColumn, 7> kExpertsArrays = {{
    {"cosine",
     "cosine of the flattened weights of two experts",
     {"expert", "expert_other"},
     true,
     results::kCosineRange},
    {"cosine_centred",
     "the same with the group's mean expert removed",
     {"expert", "expert_other"},
     true,
     results::kCosineRange},
    {"norm", "Frobenius norm of the expert", {"expert"}, false, results::kNotNegative},
    {"expert_axis_spectrum",
     "eigenvalues of the centred Gram of the experts, largest first",
     {"expert"},
     false,
     results::kNotNegative},
    {"expert_axis_spectrum_null",
     "the same of independent experts of these norms, mean over draws, of the same trace",
     {"expert"},
     false,
     results::kNotNegative},
    {"overlap_right",
     "share that the top-K right singular subspaces of two experts have in common",
     {"expert", "expert_other"},
     true,
     results::kShareRange,
     results::Presence::kOptional},
    {"overlap_left",
     "the same of the left ones",
     {"expert", "expert_other"},
     true,
     results::kShareRange,
     results::Presence::kOptional},
}};

inline constexpr results::CellTable kExpertsTable = {kExpertsCells, kExpertsArrays, kExpertsScales};

consteval std::size_t experts_cell(std::string_view name) {
  return results::cell_in(kExpertsCells, name);
}
consteval std::size_t experts_array(std::string_view name) {
  return results::number_in(kExpertsArrays, name);
}

}  // namespace vindex::commands
