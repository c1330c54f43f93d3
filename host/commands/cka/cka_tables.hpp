// Owns the tables that `show` prints of a file of `vindex cka`: every layer of A beside every layer
// of B, and layers at the same depth with their intervals.
#pragma once

#include "cka_findings.hpp"

#include "results/view/summary.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace vindex::commands {

/// The layers of B, in the order of the arrays.
std::vector<std::int64_t> cka_scale(const results::ResultsView& shown);

/// Array `name` of `row` at layer `layer_b` of B; NaN where the row has none, or B no such layer.
double cka_number(const results::ViewRow& row, std::string_view name,
                  const std::vector<std::int64_t>& layers_b, double layer_b);

std::vector<results::SummaryTable> cka_tables(const results::ResultsView& shown,
                                              const CkaFindings& findings);

}  // namespace vindex::commands
