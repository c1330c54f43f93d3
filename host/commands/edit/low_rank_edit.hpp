// Owns edits as products of two thin factors that are added to a weight, W' = W + b a, in the
// logical orientation (out x in) whatever the storage. The factors are float32, as patches and
// adapters hold them, and are what is applied: an edit can be undone by what was written of it.
// Everything else is float64.
#pragma once

#include "core/integers.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

namespace vindex::edit {

/// The side of W on which a direction lies: inputs (right) or outputs (left).
enum class Side : std::uint8_t { kRight, kLeft };

struct LowRankEdit {
  std::int64_t rows = 0;  ///< out
  std::int64_t cols = 0;  ///< in
  std::int64_t rank = 0;  ///< of the factors; the product may have less
  std::vector<float> a;   ///< rank x cols, row-major
  std::vector<float> b;   ///< rows x rank, row-major
};

/// A matrix in memory, row-major.
struct Matrix {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<double> values;
};

/// `matrix`, rows x cols, row-major, transposed: cols x rows.
template <typename To, typename From>
std::vector<To> transposed_of(const std::vector<From>& matrix, std::int64_t rows,
                              std::int64_t cols) {
  std::vector<To> out(matrix.size());
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < cols; ++j) {
      out[as_size(j * rows + i)] = static_cast<To>(matrix[as_size(i * cols + j)]);
    }
  }
  return out;
}

/// `values` over their norm. Errors: FormatError E-EDIT-DIRECTION naming `where` for what is not
/// finite or has no length.
std::vector<double> unit_vector(std::span<const double> values, const std::string& where);

template <typename Values>
bool all_finite(const Values& values) {
  return std::all_of(values.begin(), values.end(), [](auto value) { return std::isfinite(value); });
}

/// W - alpha W v v^T (right) or W - alpha u u^T W (left): `direction` is the unit vector, `image`
/// W v or W^T u.
LowRankEdit deletion(Side side, std::span<const double> direction, std::span<const double> image,
                     double alpha);

/// W + d k^T / (k . k). Errors: FormatError E-EDIT-DIRECTION for a key without length.
LowRankEdit insertion(std::span<const double> key, std::span<const double> value);

/// What the product b a is.
struct EditSpectrum {
  std::int64_t rank = 0;      ///< singular values above max(out, in) eps32 of the largest
  double norm = 0.0;          ///< Frobenius
  std::vector<double> sigma;  ///< descending, as many as the least of rows, cols and rank
};

/// By cpu::product_spectrum(), with its accuracy. Errors: DeviceError E-LAPACK where the iteration
/// does not converge; Stopped.
EditSpectrum spectrum_of(const LowRankEdit& edit, const std::stop_token& stop = {});

/// The factors of a whole matrix, rows x cols, row-major: it and an identity.
LowRankEdit factors_of(std::span<const double> product, std::int64_t rows, std::int64_t cols);

/// `edit` in factors of at most as many rows as its short side: of more, the product itself beside
/// an identity. Everything behind costs the square of the rank. Errors: Stopped.
LowRankEdit bounded(LowRankEdit edit, const std::stop_token& stop = {});

/// `edit` with its product times `scale`.
LowRankEdit scaled(LowRankEdit edit, double scale);

}  // namespace vindex::edit
