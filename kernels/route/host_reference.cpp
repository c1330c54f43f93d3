// Owns the methods: Householder tridiagonalisation, rotations that take a band to a tridiagonal
// matrix, bisection by the signs of pivots, and products by plain loops.
#include "host_reference.hpp"

#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>

namespace vindex::kernels {

namespace {

/// A symmetric matrix as its lower triangle becomes a tridiagonal one of the same eigenvalues.
struct Tridiagonal {
  std::vector<double> diagonal, off_diagonal;
};

Tridiagonal tridiagonal_of(std::vector<double> a, std::size_t n) {
  const auto at = [&](std::size_t row, std::size_t col) -> double& {
    return row >= col ? a[row * n + col] : a[col * n + row];
  };
  Tridiagonal out = {std::vector<double>(n), std::vector<double>(n, 0.0)};
  std::vector<double> v(n);
  std::vector<double> w(n);
  for (std::size_t k = 0; k + 1 < n; ++k) {
    out.diagonal[k] = at(k, k);
    double norm = 0.0;
    for (std::size_t i = k + 1; i < n; ++i) {
      v[i] = at(i, k);
      norm = std::hypot(norm, v[i]);
    }
    if (norm == 0.0) {
      continue;
    }
    const double end = v[k + 1] > 0.0 ? -norm : norm;
    out.off_diagonal[k] = end;
    v[k + 1] -= end;
    // H = I - v v^T / half with half = |v|^2 / 2; A <- H A H = A - v w^T - w v^T.
    const double half = -end * v[k + 1];
    double product = 0.0;
    for (std::size_t i = k + 1; i < n; ++i) {
      w[i] = 0.0;
      for (std::size_t j = k + 1; j < n; ++j) {
        w[i] += at(i, j) * v[j];
      }
      w[i] /= half;
      product += w[i] * v[i];
    }
    const double share = product / (2.0 * half);
    for (std::size_t i = k + 1; i < n; ++i) {
      w[i] -= share * v[i];
    }
    for (std::size_t i = k + 1; i < n; ++i) {
      for (std::size_t j = k + 1; j <= i; ++j) {
        at(i, j) -= v[i] * w[j] + w[i] * v[j];
      }
    }
  }
  out.diagonal[n - 1] = at(n - 1, n - 1);
  return out;
}

}  // namespace

std::vector<double> reference_tridiagonal_values(std::span<const double> diagonal,
                                                 std::span<const double> off_diagonal) {
  const std::size_t n = diagonal.size();
  expects(n > 0 && off_diagonal.size() + 1 >= n, "a tridiagonal matrix");
  double bound = 0.0;  // of all magnitudes, by Gerschgorin
  for (std::size_t i = 0; i < n; ++i) {
    bound = std::max(bound, std::abs(diagonal[i]) + (i > 0 ? std::abs(off_diagonal[i - 1]) : 0.0) +
                                (i + 1 < n ? std::abs(off_diagonal[i]) : 0.0));
  }
  if (!(bound > 0.0) || !std::isfinite(bound)) {
    return std::vector<double>(n, bound);  // zeros, or what is no number
  }
  const double smallest = bound * 0x1p-1000;  // a pivot that may be divided by
  std::vector<double> low(n, -bound);
  std::vector<double> high(n, bound);
  std::vector<double> middle(n);
  std::vector<double> pivot(n);
  std::vector<double> below(n);
  constexpr int kHalvings = 56;
  for (int step = 0; step < kHalvings; ++step) {
    for (std::size_t k = 0; k < n; ++k) {
      middle[k] = low[k] + (high[k] - low[k]) / 2.0;
      pivot[k] = 1.0;
      below[k] = 0.0;
    }
    for (std::size_t i = 0; i < n; ++i) {
      const double square = i == 0 ? 0.0 : off_diagonal[i - 1] * off_diagonal[i - 1];
      for (std::size_t k = 0; k < n; ++k) {  // all values at once
        const double next = diagonal[i] - middle[k] - square / pivot[k];
        pivot[k] = std::abs(next) < smallest ? -smallest : next;
        below[k] += pivot[k] < 0.0 ? 1.0 : 0.0;
      }
    }
    for (std::size_t k = 0; k < n; ++k) {
      (below[k] <= static_cast<double>(k) ? low[k] : high[k]) = middle[k];
    }
  }
  return middle;
}

std::vector<double> reference_values(std::span<const double> matrices, std::int64_t n,
                                     std::int64_t batch) {
  const auto order = static_cast<std::size_t>(n);
  std::vector<double> values;
  for (std::size_t b = 0; b < static_cast<std::size_t>(batch); ++b) {
    const auto one = matrices.subspan(b * order * order, order * order);
    const Tridiagonal reduced = tridiagonal_of({one.begin(), one.end()}, order);
    const auto own = reference_tridiagonal_values(reduced.diagonal, reduced.off_diagonal);
    values.insert(values.end(), own.begin(), own.end());
  }
  return values;
}

std::vector<double> reference_band_values(std::vector<double> matrix, std::int64_t n,
                                          std::int64_t width) {
  double* const a = matrix.data();
  // Rows i and i + 1 of the lower triangle are rotated, and the columns, so that (i + 1, col) is 0.
  const auto rotate = [&](std::int64_t i, std::int64_t col) {
    double* const upper = a + i * n;
    double* const lower = upper + n;
    const double length = std::hypot(upper[col], lower[col]);
    if (!(length > 0.0)) {
      return;
    }
    const double c = upper[col] / length;
    const double s = lower[col] / length;
    for (std::int64_t j = col; j < i; ++j) {
      const double x = upper[j];
      upper[j] = c * x + s * lower[j];
      lower[j] = c * lower[j] - s * x;
    }
    const double first = upper[i];
    const double both = lower[i];
    const double second = lower[i + 1];
    upper[i] = c * c * first + 2.0 * c * s * both + s * s * second;
    lower[i + 1] = s * s * first - 2.0 * c * s * both + c * c * second;
    lower[i] = (c * c - s * s) * both + c * s * (second - first);
    const std::int64_t last = std::min(n, i + width + 2);
    for (std::int64_t row = i + 2; row < last; ++row) {
      double* const pair = a + row * n + i;
      const double x = pair[0];
      pair[0] = c * x + s * pair[1];
      pair[1] = c * pair[1] - s * x;
    }
  };
  for (std::int64_t col = 0; col + 2 < n; ++col) {
    for (std::int64_t row = std::min(n - 1, col + width); row > col + 1; --row) {
      // What a rotation of rows i and i + 1 leaves in row i + 1 + width, column i, goes the same
      // way, and so on to the end.
      std::int64_t at = col;
      for (std::int64_t i = row - 1; i + 1 < n; i += width) {
        rotate(i, at);
        at = i;
      }
    }
  }
  std::vector<double> diagonal(static_cast<std::size_t>(n));
  std::vector<double> off_diagonal(static_cast<std::size_t>(n), 0.0);
  for (std::int64_t i = 0; i < n; ++i) {
    diagonal[static_cast<std::size_t>(i)] = a[i * n + i];
    if (i + 1 < n) {
      off_diagonal[static_cast<std::size_t>(i)] = a[(i + 1) * n + i];
    }
  }
  return reference_tridiagonal_values(diagonal, off_diagonal);
}

std::vector<double> reference_gram(std::span<const double> weights, std::int64_t rows,
                                   std::int64_t cols, bool over_rows) {
  const std::int64_t p = over_rows ? cols : rows;
  const std::int64_t depth = over_rows ? rows : cols;
  const std::int64_t step = over_rows ? cols : 1;  // along the contraction
  const std::int64_t side = over_rows ? 1 : cols;  // along the short side
  std::vector<double> gram(static_cast<std::size_t>(p * p), 0.0);
  std::vector<double> line(static_cast<std::size_t>(p));
  for (std::int64_t k = 0; k < depth; ++k) {
    for (std::int64_t i = 0; i < p; ++i) {
      line[static_cast<std::size_t>(i)] = weights[static_cast<std::size_t>(k * step + i * side)];
    }
    for (std::int64_t i = 0; i < p; ++i) {
      const double left = line[static_cast<std::size_t>(i)];
      double* const row = gram.data() + i * p;
      for (std::int64_t j = 0; j < p; ++j) {
        row[j] += left * line[static_cast<std::size_t>(j)];
      }
    }
  }
  return gram;
}

}  // namespace vindex::kernels
