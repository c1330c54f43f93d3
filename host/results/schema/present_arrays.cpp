// Owns the paths and shapes of arrays, and whether a row has those that it should.
#include "present_arrays.hpp"

#include "table_layout.hpp"

#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace vindex::results {

std::uint64_t PresentArray::elements() const {
  std::uint64_t count = 1;
  for (const std::uint64_t size : shape) {
    count *= size;
  }
  return count;
}

std::string array_path(const Schema& schema, std::string_view name) {
  return fmt::format("{}/{}", *schema.root_scale == '\0' ? schema.table : "", name);
}

std::vector<PresentArray> present_arrays(const FileDescription& description) {
  const Schema& schema = schema_of(description.schema);
  const TableLayout layout = table_layout(description, model::ResultTable::kMatrix);
  std::vector<PresentArray> arrays;
  const std::string row_scale = *schema.root_scale == '\0'
                                    ? fmt::format("{}/{}", schema.table, schema.dimension)
                                    : fmt::format("/{}", schema.root_scale);
  const CellTable& table = *schema.cells;
  for (std::size_t i = 0; i < table.arrays.size(); ++i) {
    const ArrayColumn& column = table.arrays[i];
    if (!is_present(column, layout.groups)) {
      continue;
    }
    PresentArray array;
    array.column = &column;
    array.number = i;
    array.path = array_path(schema, column.name);
    array.scales.push_back(row_scale);
    for (const std::string_view dim : column.dims) {
      if (dim.empty()) {
        continue;
      }
      const auto found = description.scales.find(std::string(dim));
      const bool is_known = found != description.scales.end() && found->second.size() > 0;
      array.scales.push_back(array_path(schema, dim));
      array.shape.push_back(is_known ? found->second.size() : 0);
    }
    if (std::find(array.shape.begin(), array.shape.end(), 0U) != array.shape.end()) {
      array.shape.clear();
    }
    arrays.push_back(std::move(array));
  }
  return arrays;
}

void require_fitting(const FileDescription& description, const ResultRow& row) {
  const Schema& schema = schema_of(description.schema);
  const CellTable& table = *schema.cells;
  if (!schema.has_spectra && !row.cells.empty()) {
    const TableLayout layout = table_layout(description, model::ResultTable::kMatrix);
    expects(row.cells.size() == cell_count(table.cells, layout.scale_length),
            "a row with the cells of its schema");
  }
  if (row.arrays.empty()) {
    return;
  }
  expects(row.arrays.size() == table.arrays.size(), "a row with the arrays of its schema");
  for (const PresentArray& array : present_arrays(description)) {
    expects(!array.shape.empty(), "scales of every array in RunDescription::scales");
    const ArrayCell& cell = row.arrays[array.number];
    const std::size_t own = array.column->float32 ? cell.floats.size() : cell.doubles.size();
    expects(cell.empty() ||
                (own == array.elements() && cell.floats.size() + cell.doubles.size() == own),
            "an array of its column's type and shape");
  }
}

}  // namespace vindex::results
