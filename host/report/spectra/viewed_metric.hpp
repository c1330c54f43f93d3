// Owns what the names of metrics and columns on a command line mean in a results file.
#pragma once

#include "matrix_view.hpp"

#include "results/reading/value_columns.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace vindex::report {

struct ViewedMetric {
  std::string name;               ///< as in the file: "var_at_k", "stable_rank"
  std::optional<std::int32_t> k;  ///< the one of all groups; nothing where each has its own
  bool has_null = false;
  bool has_sign_flip = false;
  bool has_spread = false;  ///< standard deviation and z of several sign flips
  bool is_share = false;    ///< between 0 and 1 by definition
  bool is_count = false;    ///< whole numbers
  bool is_by_k() const { return name == "var_at_k"; }
  /// Heading of a table: "var@64", "var@k", or the name.
  std::string label() const;
};

/// Position of `k` in kVarAtK.
std::optional<std::size_t> place_of_k(std::int32_t k);

/// "var@8", "var_at_8" and "var_at_8_null" are elements of "var_at_k" and "var_at_k_null"; a name
/// that the file has is itself ("var_at_64_top128").
struct ColumnName {
  std::string dataset;
  std::optional<std::int32_t> k;
};
ColumnName column_name(const std::string& text, const std::set<std::string>& names);

/// The metric `name` (empty: var_at_k); `k` is what was asked for, if anything was. Errors:
/// UsageError E-METRIC, E-K.
ViewedMetric find_metric(const std::string& name, std::optional<std::int32_t> k,
                         results::ValueColumns& columns);

/// Reads value, null and sign flip of every matrix; those of var_at_k at the matrix's own k.
/// `matrices` are in the order of the rows of `columns`.
void fill_numbers(std::span<MatrixView> matrices, const ViewedMetric& metric,
                  results::ValueColumns& columns);

/// Sets `sort_by` of every matrix to the column `text`: value, null, difference, ratio, signflip, z
/// of the metric; a column of /matrix/; NAME_ratio or NAME_difference to NAME_null. Empty: ratio,
/// or value where the metric has no null. Returns the column's name. Errors: UsageError E-COLUMN.
std::string fill_sort_column(std::span<MatrixView> matrices, const ViewedMetric& metric,
                             const std::string& text, results::ValueColumns& columns);

}  // namespace vindex::report
