// Reads a results file with the HDF5 C API and nothing of the project: what a user of another
// language sees.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace vindex::testing {

/// One dataset, row-major; vectors have one column.
struct NumberTable {
  std::size_t rows = 0, columns = 0;
  std::vector<double> values;
  double at(std::size_t row, std::size_t column = 0) const {
    return values.at(row * columns + column);
  }
};

/// Reading fails as std::runtime_error naming file and dataset.
NumberTable read_numbers(const std::string& file, const std::string& dataset);
std::vector<std::string> read_strings(const std::string& file, const std::string& dataset);
std::vector<std::string> list_group(const std::string& file, const std::string& group);

/// A row of /matrix/ with its spectrum.
struct MeasuredRow {
  std::string tensor, block, role, encoding, reason, method;
  std::int64_t layer = 0, expert = 0, slice = 0, rows = 0, cols = 0, status = 0;
  std::vector<double> var_at_k, var_at_k_null;
  double frobenius_norm = 0.0;
  std::vector<double> sigma;
};

/// Every row of /matrix/ in its order; `sigma` empty where no spectrum is stored.
std::vector<MeasuredRow> read_rows(const std::string& file);

/// What identifies a matrix whatever the container: layer, block, role, expert or head.
using MatrixKey = std::tuple<std::int64_t, std::string, std::string, std::int64_t>;
MatrixKey key_of(const MeasuredRow& row);
std::map<MatrixKey, MeasuredRow> by_key(const std::vector<MeasuredRow>& rows);

/// Position of k = 64 in `var_at_k`, from the scale /matrix/k.
std::size_t column_of_k(const std::string& file, int k);

}  // namespace vindex::testing
