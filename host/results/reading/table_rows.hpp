// Owns which tables of rows a results file has, and how many rows each claims.
#pragma once

#include "results/hdf5/hdf5.hpp"
#include "results/schema/schema.hpp"
#include <vindex/error.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace vindex::results {

/// All of dataset `path`, row-major. Errors: FormatError where it has another shape.
template <typename T>
std::vector<T> read_numbers(const h5::File& file, const std::string& path,
                            const h5::Shape& wanted) {
  const h5::Dataset dataset = file.open_dataset(path);
  if (dataset.shape() != wanted) {
    throw FormatError("E-RESULTS-SCHEMA", printable(file.label() + " " + path), "wrong shape");
  }
  std::uint64_t count = 1;
  for (const std::uint64_t side : wanted) {
    count *= side;
  }
  std::vector<T> values(count);
  dataset.read<T>(0, wanted[0], values);
  return values;
}

bool has_table(const h5::File& file, model::ResultTable table);
/// Rows that `table` claims, as many as may be in the file. Errors: FormatError.
std::int64_t row_count(const h5::File& file, const Schema& schema, model::ResultTable table);
/// Number of the first row of `table` over all tables.
std::int64_t first_row(const h5::File& file, const Schema& schema, model::ResultTable table);

}  // namespace vindex::results
