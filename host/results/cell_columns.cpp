// Owns the list of columns that a table of cells has, and checking a row against it.
#include "cell_columns.hpp"

#include <vindex/core/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace vindex::results {

namespace {

template <typename T>
bool is_present(const T& column, const std::vector<std::string>& optional) {
  return column.presence == Presence::kAlways ||
         std::find(optional.begin(), optional.end(), column.name) != optional.end();
}

}  // namespace

Column shared_column(const std::vector<Column>& columns, const char* name, const char* other,
                     const char* long_name) {
  const auto found = std::find_if(columns.begin(), columns.end(),
                                  [&](const Column& column) { return column.name == name; });
  expects(found != columns.end(), "a column of /matrix/ that another table has too");
  Column column = *found;
  column.name = other;
  if (long_name != nullptr) {
    column.long_name = long_name;
  }
  return column;
}

Column number_cell(std::string name, std::string long_name, std::size_t cell, std::size_t total) {
  Column column;
  column.name = std::move(name);
  column.long_name = std::move(long_name);
  column.units = "1";
  column.number = [cell](const StoredRow& row, std::size_t) {
    return cell < row.cells.size() ? row.cells[cell] : std::numeric_limits<double>::quiet_NaN();
  };
  column.set_number = [cell, total](StoredRow& row, std::size_t, double value) {
    if (row.cells.size() < total) {
      row.cells.resize(total, std::numeric_limits<double>::quiet_NaN());
    }
    row.cells[cell] = value;
  };
  return column;
}

std::vector<Column> cell_columns(const Schema& schema, const std::vector<std::string>& optional,
                                 std::int64_t minor) {
  const std::vector<Column> all = matrix_columns({});
  std::vector<Column> columns;
  for (const char* name :
       {"tensor", "layer", "block", "role", "rows", "cols", "encoding", "status", "reason"}) {
    columns.push_back(shared_column(all, name, name));
  }
  const CellTable& table = *schema.cells;
  for (std::size_t i = 0; i < table.cells.size(); ++i) {
    const CellColumn& cell = table.cells[i];
    if (cell.since > minor || !is_present(cell, optional)) {
      continue;
    }
    Column column =
        number_cell(std::string(cell.name), std::string(cell.long_name), i, table.cells.size());
    column.units = std::string(cell.units);
    if (cell.integer) {
      column.type = h5::Type::kInt32;
      column.missing_is_minus_one = true;
    }
    columns.push_back(std::move(column));
  }
  return columns;
}

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
  std::vector<PresentArray> arrays;
  if (schema.cells == nullptr) {
    return arrays;
  }
  const std::string row_scale = *schema.root_scale == '\0'
                                    ? fmt::format("{}/{}", schema.table, schema.dimension)
                                    : fmt::format("/{}", schema.root_scale);
  for (std::size_t i = 0; i < schema.cells->arrays.size(); ++i) {
    const ArrayColumn& column = schema.cells->arrays[i];
    if (!is_present(column, description.optional_columns)) {
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
  const CellTable* const table = schema_of(description.schema).cells;
  if (table == nullptr || table->cells.empty()) {
    expects(row.arrays.empty() || table != nullptr, "arrays in a row of a schema without");
  } else {
    expects(row.cells.empty() || row.cells.size() == table->cells.size(),
            "a row with the cells of its schema");
  }
  if (row.arrays.empty()) {
    return;
  }
  expects(row.arrays.size() == table->arrays.size(), "a row with the arrays of its schema");
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
