// Owns what tests of reductions to a band share: bands of a batch as they come back, the matrix
// that a band stands for, and how far its eigenvalues are from those of the matrix.
#pragma once

#include "kernels/band/band_layout.hpp"
#include "tests/kernels/tridiagonal/symmetric_matrices.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace vindex::test {

struct Bands {
  std::vector<double> band;
  std::vector<std::int32_t> exponents;
};

/// The dense matrix that the band of matrix `which` stands for, its scale undone.
inline SymmetricMatrix dense_of(const Bands& bands, std::int64_t order, std::int64_t which = 0) {
  SymmetricMatrix out(order);
  const double* band = bands.band.data() + which * kernels::band_elements(order);
  for (std::int64_t column = 0; column < order; ++column) {
    for (std::int64_t row = column; row < std::min(order, column + kernels::kBand + 1); ++row) {
      const double value = std::ldexp(band[kernels::band_index(row, column)],
                                      bands.exponents[static_cast<std::size_t>(which)]);
      out.at(row, column) = value;
      out.at(column, row) = value;
    }
  }
  return out;
}

/// Errors of eigenvalues, relative to the largest, in units of eps(Real).
struct ValueErrors {
  double largest = 0.0;
  double squares = 0.0;  ///< mean over the values
};

/// Against the eigenvalues of the matrix as Real holds it. The padding's zeros are eigenvalues too.
template <typename Real>
ValueErrors errors_of(const SymmetricMatrix& matrix, const Bands& bands, std::int64_t which = 0) {
  const std::int64_t order = kernels::band_order(matrix.order);
  SymmetricMatrix rounded(order);
  const std::vector<Real> padded = matrix.padded<Real>(order);
  rounded.values.assign(padded.begin(), padded.end());
  const std::vector<double> wanted = eigenvalues_of(rounded);
  const std::vector<double> got = eigenvalues_of(dense_of(bands, order, which));
  const double norm = std::max(std::abs(wanted.front()), std::abs(wanted.back()));
  const double unit =
      (norm == 0.0 ? 1.0 : norm) * static_cast<double>(std::numeric_limits<Real>::epsilon());
  ValueErrors out;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double error = std::abs(got[i] - wanted[i]) / unit;
    if (std::isnan(error) || (norm == 0.0 && error != 0.0)) {
      return {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
    }
    out.largest = std::max(out.largest, error);
    out.squares += error * error / static_cast<double>(wanted.size());
  }
  return out;
}
template <typename Real>
double error_of(const SymmetricMatrix& matrix, const Bands& bands, std::int64_t which = 0) {
  return errors_of<Real>(matrix, bands, which).largest;
}

}  // namespace vindex::test
