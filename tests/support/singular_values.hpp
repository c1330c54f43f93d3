// Owns the reference of these tests: singular values by LAPACK dgesdd.
#pragma once

#include <gtest/gtest.h>
#include <lapacke.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace vindex::testing {

/// All singular values of a dense row-major matrix, descending.
template <typename Real>
std::vector<double> singular_values(const std::vector<Real>& matrix, std::int64_t rows,
                                    std::int64_t cols) {
  std::vector<double> a(matrix.begin(), matrix.end());
  std::vector<double> s(static_cast<std::size_t>(std::min(rows, cols)));
  double unused = 0.0;
  // Column-major reading of a row-major matrix is its transpose: the same singular values.
  const auto m = static_cast<lapack_int>(cols);
  const auto n = static_cast<lapack_int>(rows);
  const lapack_int one = 1;
  const auto length = static_cast<lapack_int>(16 * std::max(rows, cols) + 64);
  std::vector<double> work(static_cast<std::size_t>(length));
  std::vector<lapack_int> integers(8 * s.size());
  lapack_int info = -1;
  const char job = 'N';
  LAPACK_dgesdd(&job, &m, &n, a.data(), &m, s.data(), &unused, &one, &unused, &one, work.data(),
                &length, integers.data(), &info);
  EXPECT_EQ(info, 0);
  return s;
}

}  // namespace vindex::testing
