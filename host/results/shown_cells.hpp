// Owns what `vindex show` and the ends of `vindex experts`, `cka`, `activations` and `routing`
// report from their files: rows of numbers beside what noise gives, as text and as JSON.
#pragma once

#include "run_store.hpp"

#include "measure/layer_statistics.hpp"
#include "model/selection.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace vindex::results {

/// A row of a file whose rows are cells (CellTable).
struct ShownRow : RowIdentity {
  std::string status;  ///< "measured", "skipped", ...
  std::string reason;
  std::vector<double> cells;                ///< CellTable::cells; NaN where there is none
  std::vector<std::vector<double>> arrays;  ///< CellTable::arrays of one dimension, else empty
};

/// Layers of A and B at one relative depth (`vindex cka`).
struct MatchedLayer {
  double depth = 0.0;  ///< 0 to 1
  std::int64_t layer_a = -1, layer_b = -1;
  double cka = 0.0, cka_biased = 0.0, null_q95 = 0.0, p = 0.0;  ///< NaN where not compared
};

struct ShownCells {
  FileSchema schema = FileSchema::kRouting;
  std::string path, model, backend;
  std::string other_model;                         ///< B, where there is one
  std::string state;                               ///< as RunStatus::state
  std::int64_t rows_total = 0, rows_measured = 0;  ///< of the file
  std::vector<RunAttribute> attributes;
  std::map<std::string, ScaleValues> scales;
  std::vector<std::string> optional_columns;
  std::vector<ShownRow> rows;         ///< the selected ones, in the file's order
  std::vector<MatchedLayer> matched;  ///< of kCka
  std::optional<measure::Stages> stages;
  std::vector<std::int32_t> stage_breaks;  ///< layers of A that a stage ends with
};

/// Reads the state of a run at `path`: the published file, its parts, or both. Errors:
/// MissingInputError where there is neither; FormatError as validate_file(), E-RESULTS-KIND where
/// its rows are no cells; UsageError E-SELECTION for what no row is in.
ShownCells read_shown_cells(const std::string& path, const model::Selection& selection = {});

/// "OUT.h5: 12 of 12 layers measured (complete), MODEL".
std::string cells_headline(const ShownCells& shown);
/// The rows as a table of at most `width` columns, values beside what noise gives.
std::string cells_text(const ShownCells& shown, std::size_t width);
/// Everything but arrays of two dimensions as one JSON document, schema
/// "vindex-<kind>-summary/1", null for NaN.
std::string cells_json(const ShownCells& shown);

}  // namespace vindex::results
