// Owns what a row of /layer/ of a file of `vindex activations` holds (schema vindex-activations):
// statistics of a layer's dumped activations (role `mlp`, or `hidden` where those were asked for)
// and of its gate projections, or of the logits (role `logits`, layer -1). A row's `rows` are
// tokens, its `cols` neurons, hidden width or vocabulary; a layer of the model that was not dumped
// has role `gate_proj` and the shape of its first one.
#pragma once

#include "results/schema/cell_table.hpp"

#include <array>

namespace vindex::engine {

inline constexpr std::array<results::ScaleColumn, 1> kActivationsScales = {
    {{"threshold", "share of the root mean square below which a value counts as near zero",
      false}}};

inline constexpr std::array<results::CellColumn, 27> kActivationsCells = {{
    {"hoyer", "Hoyer's sparseness of all values: (sqrt(n) - |a|_1/|a|_2) / (sqrt(n) - 1)", false,
     results::kShareRange},
    {"hoyer_null", "hoyer of independent noise", false, results::kShareRange},
    {"hoyer_token", "the same of one token's values, mean over tokens", false,
     results::kShareRange},
    {"hoyer_token_null", "hoyer_token of independent noise", false, results::kShareRange},
    {"neuron_variance", "mean over neurons of the variance over tokens (C4 of the dense cards)",
     false, results::kNotNegative},
    {"neuron_variance_null", "neuron_variance of independent noise of the same mean square", false,
     results::kNotNegative},
    {"dead_neurons", "neurons of at most 0.001 x root mean square for every token", true,
     results::kNotNegative},
    {"dead_neurons_null", "mean dead_neurons of independent noise (closed form)", false,
     results::kNotNegative},
    {"kurtosis", "fourth central moment over the squared second, of all values; 3 for a Gaussian",
     false, results::kNotNegative},
    {"kurtosis_null", "kurtosis of independent noise: 9 for many products of Gaussians", false,
     results::kNotNegative},
    {"effective_rank", "exponential of the entropy of the token covariance's eigenvalues", false,
     results::kNotNegative},
    {"effective_rank_null", "effective_rank of independent noise of that shape", false,
     results::kNotNegative},
    {"mean_square", "of all values: what shares of the root mean square are of", false,
     results::kNotNegative},
    {"top8_mass", "mass of the eight likeliest tokens, mean over positions (C2)", false,
     results::kShareRange},
    {"top8_mass_null", "top8_mass of equal logits: 8/vocabulary", false, results::kShareRange},
    {"output_entropy", "entropy of the next token in nats, mean over positions", false,
     results::kNotNegative},
    {"output_entropy_null", "entropy of equal logits: ln vocabulary", false, results::kNotNegative},
    {"tokens_left_out", "positions whose logits are not finite", true, results::kNotNegative},
    {"gate_matrices", "gate projections of the layer that gate_* are means over", true,
     results::kNotNegative, results::Presence::kOptional},
    {"gate_adjacent_cosine", "mean cosine of rows f and f+1 of gate_proj (C3)", false,
     results::kCosineRange, results::Presence::kOptional},
    {"gate_adjacent_cosine_null", "the same of independent rows: 0", false, results::kCosineRange,
     results::Presence::kOptional},
    {"gate_adjacent_cosine_null_sd", "its standard deviation: 1/sqrt(d (F-1) matrices)", false,
     results::kNotNegative, results::Presence::kOptional},
    {"gate_mean_abs_cosine", "mean absolute cosine over all pairs of rows of one gate_proj", false,
     results::kShareRange, results::Presence::kOptional},
    {"gate_mean_abs_cosine_null", "the same of independent rows: sqrt(2/(pi d))", false,
     results::kShareRange, results::Presence::kOptional},
    {"gate_rows", "rows of gate_proj, of all gate_matrices together", true, results::kNotNegative,
     results::Presence::kOptional},
    {"gate_zero_rows", "of these, rows of zeros: they have no cosine and are left out", true,
     results::kNotNegative, results::Presence::kOptional},
    {"gate_width", "length d of these rows", true, results::kNotNegative,
     results::Presence::kOptional},
}};

inline constexpr std::array<results::ArrayColumn, 2> kActivationsArrays = {{
    {"sparsity",
     "share of values of at most threshold x root mean square (C1)",
     {"threshold"},
     false,
     results::kShareRange},
    {"sparsity_null",
     "sparsity of independent noise (closed form): products of two Gaussians for mlp, Gaussians "
     "for hidden",
     {"threshold"},
     false,
     results::kShareRange},
}};

inline constexpr results::CellTable kActivationsTable = {kActivationsCells, kActivationsArrays,
                                                         kActivationsScales};

consteval std::size_t activations_cell(std::string_view name) {
  return results::cell_in(kActivationsCells, name);
}
consteval std::size_t activations_array(std::string_view name) {
  return results::number_in(kActivationsArrays, name);
}

}  // namespace vindex::engine
