// Owns padding an array to the sides of its column, and scales that count.
#include "result_row.hpp"

#include <vindex/error.hpp>

#include <algorithm>
#include <limits>
#include <numeric>

namespace vindex::results {

template <typename T>
std::vector<T> padded_array(const std::vector<T>& values, std::size_t rows, std::size_t cols,
                            std::size_t wide_rows, std::size_t wide_cols) {
  expects(values.size() == rows * cols && rows <= wide_rows && cols <= wide_cols,
          "an array that fits into the padded one");
  std::vector<T> out(wide_rows * wide_cols, std::numeric_limits<T>::quiet_NaN());
  for (std::size_t i = 0; i < rows; ++i) {
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(i * cols), cols,
                out.begin() + static_cast<std::ptrdiff_t>(i * wide_cols));
  }
  return out;
}

template std::vector<float> padded_array(const std::vector<float>&, std::size_t, std::size_t,
                                         std::size_t, std::size_t);
template std::vector<double> padded_array(const std::vector<double>&, std::size_t, std::size_t,
                                          std::size_t, std::size_t);

ScaleValues ScaleValues::counted(std::int64_t count) {
  expects(count > 0, "a scale of at least one value");
  std::vector<std::int64_t> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0);
  return ScaleValues(std::move(values));
}

}  // namespace vindex::results
