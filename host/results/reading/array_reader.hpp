// Owns the array columns of a results file, read row by row on demand.
#pragma once

#include "results/hdf5/hdf5.hpp"
#include "results/schema/file_description.hpp"
#include "results/schema/schema.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

namespace vindex::results {

/// Not thread-safe.
class ArrayReader {
 public:
  /// Of `file`, which outlives this. Nothing is read yet.
  ArrayReader(const h5::File& file, const Schema& schema) : file_(file), schema_(schema) {}

  /// Array `number` of CellTable::arrays in row `row`, which is of no run description; empty where
  /// it is an optional one that the file does not hold. Errors: FormatError.
  ArrayCell read(std::int64_t row, std::size_t number);

 private:
  const h5::File& file_;
  const Schema& schema_;
  std::optional<FileDescription> cells_;  ///< describe_cells(), once it is needed
  std::map<std::size_t, h5::Dataset> arrays_;
};

}  // namespace vindex::results
