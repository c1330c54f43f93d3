// Owns the columns of tables whose rows are cells (schemas with a CellTable): those that a row
// shares with /matrix/, its numbers, and which of its arrays a file has.
#pragma once

#include "columns.hpp"
#include "schema.hpp"

#include <string>
#include <vector>

namespace vindex::results {

/// The column `name` of /matrix/ under the name `other`.
Column shared_column(const std::vector<Column>& columns, const char* name, const char* other,
                     const char* long_name = nullptr);

/// Cell `cell` of `total` as a float64 column.
Column number_cell(std::string name, std::string long_name, std::size_t cell, std::size_t total);

/// The columns that a table of `schema` has in files of minor version `minor`, in order, with those
/// of its optional ones that `optional` names, without scales and arrays.
std::vector<Column> cell_columns(const Schema& schema, const std::vector<std::string>& optional,
                                 std::int64_t minor);

/// An array column that a file has.
struct PresentArray {
  const ArrayColumn* column = nullptr;
  std::size_t number = 0;           ///< in CellTable::arrays
  std::string path;                 ///< of its dataset
  std::vector<std::string> scales;  ///< paths, of the rows first
  /// Of a row. Empty: a scale has no values in the description.
  h5::Shape shape;
  std::uint64_t elements() const;
};
std::vector<PresentArray> present_arrays(const FileDescription& description);

/// The path of a scale, or of an array, of `schema`.
std::string array_path(const Schema& schema, std::string_view name);

/// Throws (internal) where a row has other cells or arrays than `description` says.
void require_fitting(const FileDescription& description, const ResultRow& row);

}  // namespace vindex::results
