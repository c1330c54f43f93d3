// Owns the way to what of a row may weigh megabytes, wherever that is.
#pragma once

#include "stored_row.hpp"

#include <cstddef>
#include <span>

namespace vindex::results {

/// Bulk data of rows, wherever it is. Not thread-safe.
class BulkSource {
 public:
  virtual ~BulkSource() = default;
  /// The stored singular values of `row` into `out` (row.sigma_count of them).
  virtual void sigma(const StoredRow& row, std::span<double> out) = 0;
  virtual SingularVectors vectors(const StoredRow& row) = 0;
  /// Array `number` of CellTable::arrays; empty where the row has none.
  virtual ArrayCell array(const StoredRow& row, std::size_t number) = 0;
};

}  // namespace vindex::results
