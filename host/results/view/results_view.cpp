// Owns turning stored rows of cells into what is shown of them.
#include "results_view.hpp"

#include "view_source.hpp"

#include "results/schema/present_arrays.hpp"
#include "results/schema/schema.hpp"
#include "results/schema/table_layout.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace vindex::results {

namespace {

ViewRow view_row(const StoredRow& row, const Schema& schema,
                 const std::vector<PresentArray>& arrays, std::size_t scale_length,
                 SourcePool& pool) {
  ViewRow out;
  static_cast<RowIdentity&>(out) = row;
  out.tensor = escaped(row.tensor);
  out.role = escaped(row.role);
  out.status = kStatusNames[static_cast<std::size_t>(row.status)];
  out.reason = printable(row.reason);
  out.cells = row.cells;
  out.other_tensor = escaped(row.other_tensor);
  out.encoding = printable(row.encoding);
  out.other_encoding = printable(row.other_encoding);
  out.cells.resize(cell_count(schema.cells->cells, scale_length),
                   std::numeric_limits<double>::quiet_NaN());
  out.arrays.resize(schema.cells->arrays.size());
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

ResultsView view_of_cells(ViewSource& source, const model::Selection& selection) {
  ResultsView view;
  source.describe(view, source.rows());
  if (view.schema == FileSchema::kResults) {
    throw FormatError("E-RESULTS-KIND", printable(view.path),
                      fmt::format("a file of `vindex {}`, where one of compare, experts, cka, "
                                  "activations or routing is expected",
                                  writing_command(view.schema)));
  }
  const FileDescription description = source.reader().description();
  view.attributes = description.attributes;
  view.scales = description.scales;
  view.optional_columns = description.optional_columns;
  const TableLayout layout = table_layout(description, model::ResultTable::kMatrix);
  view.scale_length = layout.scale_length;
  for (const std::string& group : layout.groups) {
    if (std::find(view.optional_columns.begin(), view.optional_columns.end(), group) ==
        view.optional_columns.end()) {
      view.optional_columns.push_back(group);
    }
  }
  const Schema& schema = schema_of(view.schema);
  const std::vector<PresentArray> arrays = present_arrays(description);
  for (const StoredRow* row : source.rows()) {
    if (model::wants(selection, row->layer, row->block, row->role)) {
      view.rows.push_back(view_row(*row, schema, arrays, view.scale_length, source.pool()));
    }
  }
  if (view.rows.empty() && !source.rows().empty()) {
    throw UsageError("E-SELECTION",
                     printable(view.path) + ": no row is of these layers, blocks and roles");
  }
  if (schema.beside != nullptr) {
    view.beside = schema.beside(description, source.rows(), source.pool(), true);
  }
  return view;
}

}  // namespace

ResultsView read_view(const std::string& path, const model::Selection& selection,
                      std::optional<FileSchema> wanted) {
  return make_view(path, wanted,
                   [&](ViewSource& source) { return view_of_cells(source, selection); });
}

}  // namespace vindex::results
