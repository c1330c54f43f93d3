// Owns the columns and arrays of a table of rows, by its declaration and what of it a file has.
#include "schema.hpp"

#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace vindex::results {

bool TableLayout::has(std::string_view group) const {
  return std::find(groups.begin(), groups.end(), group) != groups.end();
}

Column cell_column(const CellColumn& cell, std::size_t place, std::size_t chosen) {
  const std::string name(cell.name), long_name(cell.long_name);
  if (cell.kind == CellKind::kMethod) {
    return MemberColumn{name.c_str(), long_name.c_str(), &StoredRow::method}.column();
  }
  const bool is_flag = cell.kind == CellKind::kFlag;
  return {.name = name,
          .long_name = long_name,
          .place = place,
          .type = is_flag        ? h5::Type::kInt8
                  : cell.integer ? h5::Type::kInt32
                                 : h5::Type::kFloat64,
          .units = std::string(cell.units),
          .missing_is_minus_one = is_flag || cell.integer,
          .scale = std::string(cell.scale),
          .width = cell_count(cell, chosen),
          .stride = cell.stride};
}

std::vector<Column> table_columns(const Schema& schema, const TableLayout& layout) {
  std::vector<Column> columns;
  for (const MemberColumn& member : schema.members) {
    if (*member.group == '\0' || layout.has(member.group)) {
      columns.push_back(member.column());
    }
  }
  std::size_t next = 0;
  for (const CellColumn& cell : schema.cells->cells) {
    const std::size_t place = cell.place == kAfterPrevious ? next : cell.place;
    next = place + cell_count(cell, layout.chosen);
    if (cell.since > layout.minor || !is_present(cell, layout.groups)) {
      continue;
    }
    columns.push_back(cell_column(cell, place, layout.chosen));
  }
  return columns;
}

std::size_t cells_of_row(const Schema& schema, const TableLayout& layout,
                         const std::vector<Column>& columns) {
  if (!schema.has_spectra) {
    return cell_count(schema.cells->cells, layout.chosen);
  }
  std::size_t count = 0;
  const auto make_room = [&](const std::vector<Column>& list) {
    for (const Column& column : list) {
      if (column.is_cell()) {
        count = std::max(
            count, std::get<std::size_t>(column.place) + (column.width - 1) * column.stride + 1);
      }
    }
  };
  make_room(columns);
  make_room(resume_columns(schema));
  return count;
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
    expects(row.cells.size() == cell_count(table.cells, layout.chosen),
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
