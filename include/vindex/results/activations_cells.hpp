// Owns what a row of /layer/ of a file of `vindex activations` holds (schema vindex-activations):
// statistics of one dumped matrix (role `mlp`, `hidden`, or `logits` with layer -1). A row's `rows`
// are tokens, its `cols` neurons, hidden width or vocabulary.
#pragma once

#include <vindex/results/cell_table.hpp>

#include <array>

namespace vindex::results {

inline constexpr std::array<ScaleColumn, 1> kActivationsScales = {
    {{"threshold", "share of the root mean square below which a value counts as near zero",
      false}}};

inline constexpr std::array<CellColumn, 17> kActivationsCells = {{
    {"hoyer", "Hoyer's sparsity of a token's activations, mean over tokens", false, kShareRange},
    {"hoyer_null", "hoyer of products of independent Gaussians", false, kShareRange},
    {"neuron_variance", "mean over neurons of the variance over tokens (C4 of the dense cards)",
     false, kNotNegative},
    {"dead_neurons", "neurons that are zero for every token", true, kNotNegative},
    {"kurtosis", "excess kurtosis of all values"},
    {"kurtosis_null", "kurtosis of products of independent Gaussians: 6"},
    {"effective_rank", "exponential of the entropy of the token covariance's eigenvalues", false,
     kNotNegative},
    {"effective_rank_null", "effective_rank of independent noise of that shape", false,
     kNotNegative},
    {"top8_mass", "mass of the eight likeliest tokens, mean over positions (C2)", false,
     kShareRange},
    {"top8_mass_null", "top8_mass of equal logits: 8/vocabulary", false, kShareRange},
    {"output_entropy", "entropy of the next token in nats, mean over positions", false,
     kNotNegative},
    {"output_entropy_null", "entropy of equal logits: ln vocabulary", false, kNotNegative},
    {"gate_adjacent_cosine", "mean cosine of rows f and f+1 of gate_proj (C3)", false, kCosineRange,
     Presence::kOptional},
    {"gate_adjacent_cosine_null", "the same of independent rows: 0", false, kCosineRange,
     Presence::kOptional},
    {"gate_adjacent_cosine_null_sd", "its standard deviation", false, kNotNegative,
     Presence::kOptional},
    {"gate_mean_abs_cosine", "mean absolute cosine over all pairs of rows of gate_proj", false,
     kShareRange, Presence::kOptional},
    {"gate_mean_abs_cosine_null", "the same of independent rows: sqrt(2/(pi d))", false,
     kShareRange, Presence::kOptional},
}};

inline constexpr std::array<ArrayColumn, 2> kActivationsArrays = {{
    {"sparsity",
     "share of values of at most threshold x root mean square (C1)",
     {"threshold"},
     false,
     kShareRange},
    {"sparsity_null",
     "sparsity of products of independent Gaussians",
     {"threshold"},
     false,
     kShareRange},
}};

inline constexpr CellTable kActivationsTable = {kActivationsCells, kActivationsArrays,
                                                kActivationsScales};

consteval std::size_t activations_cell(std::string_view name) {
  return number_in(kActivationsCells, name);
}
consteval std::size_t activations_array(std::string_view name) {
  return number_in(kActivationsArrays, name);
}

}  // namespace vindex::results
