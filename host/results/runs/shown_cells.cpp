// Owns reading what `show` shows of files whose rows are cells, finished or still being written.
#include "shown_cells.hpp"

#include "gather_run.hpp"

#include "results/schema/present_arrays.hpp"
#include "results/schema/schema.hpp"
#include "results/schema/table_layout.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace vindex::results {

namespace {

ShownRow shown_row(const StoredRow& row, const FileDescription& description,
                   const std::vector<PresentArray>& arrays, std::size_t scale_length,
                   SourcePool& pool) {
  const Schema& schema = schema_of(description.schema);
  const CellTable& table = *schema.cells;
  ShownRow out;
  static_cast<RowIdentity&>(out) = row;
  out.tensor = escaped(row.tensor);
  out.role = escaped(row.role);
  out.status = kStatusNames[static_cast<std::size_t>(row.status)];
  out.reason = printable(row.reason);
  out.cells = row.cells;
  out.other_tensor = escaped(row.other_tensor);
  out.encoding = printable(row.encoding);
  out.other_encoding = printable(row.other_encoding);
  out.cells.resize(cell_count(table.cells, scale_length), std::numeric_limits<double>::quiet_NaN());
  out.arrays.resize(table.arrays.size());
  for (const PresentArray& array : arrays) {
    if (array.shape.size() == 1) {
      const ArrayCell cell = pool.array(row, array.number);
      out.arrays[array.number].assign(cell.floats.begin(), cell.floats.end());
      out.arrays[array.number].insert(out.arrays[array.number].end(), cell.doubles.begin(),
                                      cell.doubles.end());
    }
  }
  if (schema.derive != nullptr && row.status == MatrixStatus::kMeasured) {
    out.derived = schema.derive(row, pool);
  }
  return out;
}

ShownCells cells_shown_now(const std::string& path, const model::Selection& selection) {
  const RunFiles run = list_run(path);
  GatheredRows gathered;
  const FileSchema schema = gather_run(path, run, gathered, std::nullopt);
  if (schema == FileSchema::kResults) {
    throw FormatError("E-RESULTS-KIND", printable(path),
                      fmt::format("a file of `vindex {}`, where one of compare, experts, cka, "
                                  "activations or routing is expected",
                                  writing_command(schema)));
  }
  const FileDescription description =
      ResultsReader(describing_file(path, run), schema).description();
  ShownCells shown;
  shown.schema = schema;
  shown.path = path;
  shown.model = description.model;
  shown.other_model = description.other_model;
  shown.backend = description.backend;
  shown.attributes = description.attributes;
  shown.scales = description.scales;
  shown.optional_columns = description.optional_columns;
  const TableLayout layout = table_layout(description, model::ResultTable::kMatrix);
  shown.scale_length = layout.scale_length;
  for (const std::string& group : layout.groups) {
    if (std::find(shown.optional_columns.begin(), shown.optional_columns.end(), group) ==
        shown.optional_columns.end()) {
      shown.optional_columns.push_back(group);
    }
  }
  const std::vector<const StoredRow*> rows = gathered.sorted();
  const StatusCounts counts = count_statuses(rows);
  shown.rows_total = counts.total;
  shown.rows_measured = counts.measured;
  shown.state = state_of(run, rows);
  const std::vector<PresentArray> arrays = present_arrays(description);
  for (const StoredRow* row : rows) {
    if (model::wants(selection, row->layer, row->block, row->role)) {
      shown.rows.push_back(
          shown_row(*row, description, arrays, shown.scale_length, gathered.pool()));
    }
  }
  if (shown.rows.empty() && !rows.empty()) {
    throw UsageError("E-SELECTION",
                     printable(path) + ": no row is of these layers, blocks and roles");
  }
  if (const auto beside = schema_of(schema).beside; beside != nullptr) {
    shown.beside = beside(description, rows, gathered.pool(), true);
  }
  return shown;
}

}  // namespace

SummaryColumn number_column(std::string heading, std::size_t cell, std::uint8_t dropped_as) {
  return {.heading = std::move(heading),
          .value = [cell](const ShownRow& row) { return row.cells[cell]; },
          .dropped_as = dropped_as,
          .cell = cell};
}

SummaryColumn count_column(std::string heading, std::size_t cell, std::uint8_t dropped_as) {
  SummaryColumn column = number_column(std::move(heading), cell, dropped_as);
  column.is_count = true;
  return column;
}

SummaryColumn null_column(std::string heading, std::size_t cell) {
  SummaryColumn column = number_column(std::move(heading), cell);
  column.is_null = true;
  return column;
}

std::string number_text(double value, bool is_count) {
  return std::isnan(value) ? "-"
         : is_count        ? fmt::format("{:.0f}", value)
         : value == 0.0    ? "0"
                           : fmt::format("{:.3g}", value);
}

ShownCells read_shown_cells(const std::string& path, const model::Selection& selection) {
  return read_while_it_stays(path, [&] { return cells_shown_now(path, selection); });
}

}  // namespace vindex::results
