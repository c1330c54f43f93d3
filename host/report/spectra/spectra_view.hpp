// Owns what `vindex show` and the end of `vindex measure` read of a file of spectra: the numbers of
// one metric, matrix by matrix.
#pragma once

#include "matrix_view.hpp"
#include "viewed_metric.hpp"

#include "model/selection/selection.hpp"
#include "results/view/results_view.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vindex::report {

/// What is asked for, as typed.
struct ShowQuery {
  std::optional<model::ResultTable> table = std::nullopt;  ///< nothing: the first that has rows
  std::string metric;             ///< "stable_rank", "var_at_k", "var_at_8", "var@8"
  std::optional<std::int32_t> k;  ///< of var_at_k; nothing: informative_k()
  model::Selection selection;     ///< layers, blocks and roles
  std::string sort_by;            ///< a column; empty: ratio, or value where there is no null
};

/// A table of a results file seen through one metric.
struct SpectraView : results::ViewHead {
  model::ResultTable table = model::ResultTable::kMatrix;
  std::vector<model::ResultTable> other_tables;  ///< that have rows too
  bool is_adapter = false;                       ///< of LoRA pairs, and no table was asked for
  std::string mode;
  std::int64_t n_total = 0;  ///< RunStatus::n_total of the table; 0: nothing was drawn
  ViewedMetric metric;
  std::string sort_by;               ///< the column in full
  std::vector<MatrixView> matrices;  ///< the selected ones, in the file's order
};

/// Reads the state of a run at `path`: the published file, its parts, or both. A matrix whose k is
/// not below its shorter side has value 1 whatever its weights: here it has no value.
///
/// Errors: MissingInputError where there is neither, or no row of that table; FormatError as
/// validate_file; UsageError E-METRIC, E-COLUMN, E-K for what the file does not have, with the
/// nearest name, E-SELECTION for what no matrix is in, E-RESULTS-PART where `path` is a part
/// itself.
SpectraView read_spectra_view(const std::string& path, const ShowQuery& query);

}  // namespace vindex::report
