// Owns the arrays of a table of rows: which of those that its kind declares a file has, and where.
#pragma once

#include "file_description.hpp"
#include "schema.hpp"

#include "results/hdf5/hdf5.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::results {

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
