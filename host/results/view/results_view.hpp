// Owns what is shown of a results file, whatever its kind, and reading it: of a finished file or of
// one that is still being written.
#pragma once

#include "view_head.hpp"

#include "model/selection/selection.hpp"
#include "results/rows/result_row.hpp"
#include "results/schema/side_table.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace vindex::results {

/// A row of a file whose rows are cells (CellTable).
struct ViewRow : RowIdentity {
  std::string status;  ///< "measured", "skipped", ...
  std::string reason;
  std::string other_tensor, other_encoding;  ///< of a pair: those of B
  std::vector<double> cells;                 ///< CellTable::cells; NaN where there is none
  std::vector<std::vector<double>> arrays;   ///< CellTable::arrays of one dimension, else empty
  std::vector<std::vector<double>> derived;  ///< Schema::derive
  bool is_measured() const { return status == "measured"; }
};

/// A file whose rows are cells.
struct ResultsView : ViewHead {
  std::vector<RunAttribute> attributes;
  std::map<std::string, ScaleValues> scales;
  std::vector<std::string> optional_columns;  ///< and groups of columns
  std::size_t scale_length = 0;               ///< values of the scale that the run chose
  std::vector<ViewRow> rows;                  ///< the selected ones, in the file's order
  SideTables beside;                          ///< Schema::beside, of all of them
};

/// Errors: MissingInputError where there is neither file nor part at `path`; FormatError as
/// validate_file(), E-RESULTS-KIND where its rows are no cells, or it is not of the kind `wanted`;
/// UsageError E-SELECTION for what no row is in.
ResultsView read_view(const std::string& path, const model::Selection& selection = {},
                      std::optional<FileSchema> wanted = std::nullopt);

}  // namespace vindex::results
