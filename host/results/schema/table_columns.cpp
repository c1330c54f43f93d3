// Owns making columns of a kind's declaration.
#include "table_columns.hpp"

#include <algorithm>

namespace vindex::results {

Column cell_column(const CellColumn& cell, std::size_t place, std::size_t scale_length) {
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
          .width = cell_count(cell, scale_length),
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
    next = place + cell_count(cell, layout.scale_length);
    if (cell.since > layout.minor || !is_present(cell, layout.groups)) {
      continue;
    }
    columns.push_back(cell_column(cell, place, layout.scale_length));
  }
  return columns;
}

std::size_t cells_of_row(const Schema& schema, const TableLayout& layout,
                         const std::vector<Column>& columns) {
  if (!schema.has_spectra) {
    return cell_count(schema.cells->cells, layout.scale_length);
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

std::vector<Column> resume_columns(const Schema& schema) {
  std::vector<Column> columns = {
      MemberColumn{"error_class", "exit code that a failed row leads to", &StoredRow::error_class}
          .column()};
  for (const CellColumn& cell : schema.cells->resume) {
    columns.push_back(cell_column(cell, cell.place, 0));
  }
  return columns;
}

}  // namespace vindex::results
