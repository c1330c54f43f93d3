// Owns reading files whose rows are cells, finished or still being written, and how a kind of file
// says what is to be shown of it.
#pragma once

#include "core/json/json_document.hpp"
#include "core/text/text_table.hpp"
#include "model/selection/selection.hpp"
#include "results/rows/result_row.hpp"
#include "results/schema/side_table.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace vindex::results {

/// A row of a file whose rows are cells (CellTable).
struct ShownRow : RowIdentity {
  std::string status;  ///< "measured", "skipped", ...
  std::string reason;
  std::string other_tensor, other_encoding;  ///< of a pair: those of B
  std::vector<double> cells;                 ///< CellTable::cells; NaN where there is none
  std::vector<std::vector<double>> arrays;   ///< CellTable::arrays of one dimension, else empty
  std::vector<std::vector<double>> derived;  ///< Schema::derive
};

struct ShownCells {
  FileSchema schema = FileSchema::kRouting;
  std::string path, model, backend;
  std::string other_model;                         ///< B, where there is one
  std::string state;                               ///< as RunStatus::state
  std::int64_t rows_total = 0, rows_measured = 0;  ///< of the file
  std::vector<RunAttribute> attributes;
  std::map<std::string, ScaleValues> scales;
  std::vector<std::string> optional_columns;  ///< and groups of columns
  std::size_t scale_length = 0;               ///< values of the scale that the run chose
  std::vector<ShownRow> rows;                 ///< the selected ones, in the file's order
  SideTables beside;                          ///< Schema::beside, of all of them
};

/// A column of a summary: a heading, and a row's number. One without a number in any row is left
/// out.
struct SummaryColumn {
  std::string heading;
  std::function<double(const ShownRow&)> value;
  bool is_count = false;
  /// Stands right beside what it is the null of, or the error, and is dropped with it and never
  /// before it: a statistic never stands without its null.
  bool is_null = false;
  std::uint8_t dropped_as = 0;                                 ///< TextColumn's
  std::size_t cell = std::numeric_limits<std::size_t>::max();  ///< that `value` is, where it is one
  std::function<std::string(const ShownRow&)> text = {};       ///< instead of a number
};
/// A cell of the row, a count, and what noise gives.
SummaryColumn number_column(std::string heading, std::size_t cell, std::uint8_t dropped_as = 0);
SummaryColumn count_column(std::string heading, std::size_t cell, std::uint8_t dropped_as = 0);
SummaryColumn null_column(std::string heading, std::size_t cell);
/// As they stand in tables: three digits, a count whole, "-" for NaN.
std::string number_text(double value, bool is_count = false);

struct SummaryTable {
  std::vector<std::vector<std::string>> cells = {};
  std::vector<TextColumn> layout = {};
  std::string title = {};  ///< a line above it
  /// Not empty: the table is shown only where all of it fits, else this line.
  std::string otherwise = {};
};

/// What is shown of a file: a row of `columns` for each of its rows, further tables, what the
/// headings mean and what stands out, and what its document has beside rows.
struct Summary {
  std::vector<SummaryColumn> columns = {};
  std::vector<SummaryTable> tables = {};
  std::string remark = {};
  Json members = Json::object();
  /// The tables say it all: rows are shown where some of them are asked for (`show --top`).
  bool has_own_tables = false;
  bool has_names = false;   ///< layer and role do not tell rows apart: their tensors' names do
  std::string top_by = {};  ///< column that `show --top` takes by itself
};

/// Reads the state of a run at `path`: the published file, its parts, or both. Errors:
/// MissingInputError where there is neither; FormatError as validate_file(), E-RESULTS-KIND where
/// its rows are no cells; UsageError E-SELECTION for what no row is in.
ShownCells read_shown_cells(const std::string& path, const model::Selection& selection = {});

}  // namespace vindex::results
