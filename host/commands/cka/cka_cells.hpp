// Owns what a row of a file of `vindex cka` holds (schema vindex-cka): one layer of A beside every
// layer of B. Its arrays are datasets of the root, [layers_a, layers_b]; /layers_a are the rows'
// layers. A row's `rows` are the rows compared (tokens, or prompts with --pool), its `cols` A's
// width.
#pragma once

#include "results/schema/cell_table.hpp"

#include <array>
#include <string>
#include <vector>

namespace vindex::commands {

inline constexpr std::array<results::ScaleColumn, 1> kCkaScales = {
    {{"layers_b", "number of the layer of B"}}};

inline constexpr std::array<results::CellColumn, 4> kCkaCells = {{
    {"best_layer_b", "layer of B with the largest CKA", true, results::kNotNegative},
    {"best_cka", "that CKA", false, results::kCosineRange},
    {"adjacent_cka", "unbiased CKA of this layer and the next one of A", false,
     results::kCosineRange},
    {"adjacent_cka_se", "its standard error, by the delete-one-prompt jackknife", false,
     results::kNotNegative, results::Presence::kOptional},
}};

inline constexpr std::array<results::ArrayColumn, 8> kCkaArrays = {{
    {"cka",
     "linear CKA by the unbiased estimator of HSIC, features centred",
     {"layers_b"},
     false,
     results::kCosineRange},
    {"cka_biased",
     "linear CKA by the biased estimator, as most published figures",
     {"layers_b"},
     false,
     results::kShareRange},
    {"null_mean",
     "mean of cka over permutations of B's prompts among those of one length",
     {"layers_b"},
     false,
     results::kCosineRange},
    {"null_q95",
     "95 % quantile of cka over permutations of B's prompts among those of one length",
     {"layers_b"},
     false,
     results::kCosineRange},
    {"p",
     "(1 + permutations with at least this cka) / (1 + permutations)",
     {"layers_b"},
     false,
     results::kShareRange},
    {"ci_low",
     "lower end of the 95 % interval, by the delete-one-prompt jackknife",
     {"layers_b"},
     false,
     results::kCosineRange},
    {"ci_high", "its upper end", {"layers_b"}, false, results::kCosineRange},
    {"se",
     "standard error of cka, by the delete-one-prompt jackknife",
     {"layers_b"},
     false,
     results::kNotNegative,
     results::Presence::kOptional},
}};

inline constexpr results::CellTable kCkaTable = {kCkaCells, kCkaArrays, kCkaScales};

consteval std::size_t cka_cell(std::string_view name) { return results::cell_in(kCkaCells, name); }
consteval std::size_t cka_array(std::string_view name) {
  return results::number_in(kCkaArrays, name);
}

}  // namespace vindex::commands
