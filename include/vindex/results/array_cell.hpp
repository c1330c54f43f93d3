// Owns a cell that is an array: what a row of a results file may hold beside its numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace vindex::results {

/// Values of one array column of one row, row-major, of the type that the column declares; both
/// empty: NaN everywhere. Smaller rows (fewer experts than the file's most) are padded with NaN by
/// their maker: padded_array().
struct ArrayCell {
  std::vector<float> floats = {};
  std::vector<double> doubles = {};

  ArrayCell() = default;
  explicit ArrayCell(std::vector<float> values) : floats(std::move(values)) {}
  explicit ArrayCell(std::vector<double> values) : doubles(std::move(values)) {}
  bool empty() const { return floats.empty() && doubles.empty(); }
  std::uint64_t bytes() const {
    return floats.size() * sizeof(float) + doubles.size() * sizeof(double);
  }
};

/// `values` (rows x cols) as the upper left corner of wide_rows x wide_cols, NaN beside it. A row
/// vector has rows = wide_rows = 1.
template <typename T>
std::vector<T> padded_array(const std::vector<T>& values, std::size_t rows, std::size_t cols,
                            std::size_t wide_rows, std::size_t wide_cols);

extern template std::vector<float> padded_array(const std::vector<float>&, std::size_t, std::size_t,
                                                std::size_t, std::size_t);
extern template std::vector<double> padded_array(const std::vector<double>&, std::size_t,
                                                 std::size_t, std::size_t, std::size_t);

/// A scale of array columns: its values, int64 where integers, else float64.
struct ScaleValues {
  std::vector<std::int64_t> integers = {};
  std::vector<double> doubles = {};

  ScaleValues() = default;
  explicit ScaleValues(std::vector<std::int64_t> values) : integers(std::move(values)) {}
  explicit ScaleValues(std::vector<double> values) : doubles(std::move(values)) {}
  /// 0 .. count-1: experts.
  static ScaleValues counted(std::int64_t count);
  std::size_t size() const { return integers.empty() ? doubles.size() : integers.size(); }
};

}  // namespace vindex::results
