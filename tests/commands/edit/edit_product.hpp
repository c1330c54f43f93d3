// Owns what an edit adds to a matrix, formed in float64 for tests.
#pragma once

#include "commands/edit/matrix_edit.hpp"

#include <cstdint>
#include <vector>

namespace vindex::edit {

/// b a, rows x cols.
inline std::vector<double> product(const LowRankEdit& edit) {
  std::vector<double> out(static_cast<std::size_t>(edit.rows * edit.cols));
  for (std::int64_t i = 0; i < edit.rows; ++i) {
    for (std::int64_t k = 0; k < edit.rank; ++k) {
      for (std::int64_t j = 0; j < edit.cols; ++j) {
        out[static_cast<std::size_t>(i * edit.cols + j)] +=
            static_cast<double>(edit.b[static_cast<std::size_t>(i * edit.rank + k)]) *
            static_cast<double>(edit.a[static_cast<std::size_t>(k * edit.cols + j)]);
      }
    }
  }
  return out;
}

}  // namespace vindex::edit
