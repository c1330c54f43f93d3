// Owns the columns of a table of rows, by its declaration and what of it a file has.
#pragma once

#include "columns.hpp"
#include "table_layout.hpp"

#include <cstddef>
#include <vector>

namespace vindex::results {

/// The columns of a table in order, without its scales.
std::vector<Column> table_columns(const Schema& schema, const TableLayout& layout);
inline std::vector<Column> table_columns(const Schema& schema, const h5::File& file,
                                         model::ResultTable table) {
  return table_columns(schema, table_layout(schema, file, table));
}
/// `cell` with its first number at `place`, as many as `scale_length` where the run chooses.
Column cell_column(const CellColumn& cell, std::size_t place, std::size_t scale_length);
/// Room that a row with all of `columns` needs.
std::size_t cells_of_row(const Schema& schema, const TableLayout& layout,
                         const std::vector<Column>& columns);

/// What a later run needs beside the tables (not part of any contract; may change).
std::vector<Column> resume_columns(const Schema& schema);

}  // namespace vindex::results
