// Owns what a row of /gate/ of a file of gate vectors (schema vindex-gate-vectors) holds: a matrix
// of features, of which /feature/ has one row each, those of one matrix one after the other.
#pragma once

#include "results/schema/cell_table.hpp"

#include <array>

namespace vindex::commands {

inline constexpr std::array<results::CellColumn, 8> kGateVectorCells = {{
    {"first", "row of /feature/ that its first feature is", true, results::kNotNegative},
    {"features", "its features", true, results::kNotNegative},
    {"zero_features", "of these, rows of zeros: they have no direction", true,
     results::kNotNegative},
    {"not_finite_features", "of these, rows with weights that are not finite", true,
     results::kNotNegative},
    {"norm_mean", "mean norm of the features that have a direction", false, results::kNotNegative},
    {"gate_down_cosine_abs_mean",
     "mean absolute cosine of a feature with the column of down_proj that it writes", false,
     results::kShareRange},
    {"gate_down_cosine_abs_mean_null",
     "the same of independent directions: Gamma(d/2) / (sqrt(pi) Gamma((d+1)/2))", false,
     results::kShareRange},
    {"rounding_error", "norm(stored - decoded) / norm(decoded): what the type of the file lost",
     false, results::kNotNegative},
}};

inline constexpr results::CellTable kGateVectorTable = {.cells = kGateVectorCells};

consteval std::size_t gate_vector_cell(std::string_view name) {
  return results::cell_in(kGateVectorCells, name);
}

}  // namespace vindex::commands
