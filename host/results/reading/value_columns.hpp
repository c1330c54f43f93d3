// Owns reading numeric columns of a table (/matrix/, /imatrix/) by their names, also ones that this
// version does not know, for rows that may lie in several files (a results file and parts).
#pragma once

#include "source_pool.hpp"

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace vindex::results {

/// Numbers per row of dataset `name` of the table in `group`: 1, or 9 for [matrix, k]; 0 where it
/// is absent, or of another type or shape.
std::size_t column_width(const h5::File& file, const std::string& group, const std::string& name);

class ValueColumns {
 public:
  /// `rows` are of `table` in files of `pool`, which outlives this.
  ValueColumns(SourcePool& pool, model::ResultTable table, std::vector<const StoredRow*> rows);
  /// Every dataset of the table in any of the files, numeric or not.
  const std::set<std::string>& names() const { return names_; }
  /// Numbers per row of column `name`: 1, or 9 for [matrix, k]; 0 where there is no such column, or
  /// it is of another type or shape.
  std::size_t width(const std::string& name);
  /// rows x width(name), row-major; NaN where the row's file has no such column, and for integers
  /// the declared missing value -1.
  std::vector<double> read(const std::string& name);

 private:
  SourcePool& pool_;
  model::ResultTable table_;
  std::string group_;
  std::vector<const StoredRow*> rows_;
  std::set<std::int32_t> sources_;
  std::set<std::string> names_;
  std::map<std::string, std::size_t> widths_;
};

}  // namespace vindex::results
