// Owns the symmetric matrices that tests of eigenvalue kernels start from, with eigenvalues that
// are prescribed or had from LAPACK in float64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vindex::test {

struct SymmetricMatrix {
  explicit SymmetricMatrix(std::int64_t n)
      : order(n), values(static_cast<std::size_t>(n * n), 0.0) {}
  double& at(std::int64_t i, std::int64_t j) {
    return values[static_cast<std::size_t>(i * order + j)];
  }
  double at(std::int64_t i, std::int64_t j) const {
    return values[static_cast<std::size_t>(i * order + j)];
  }
  /// Row-major with `padded_order` rows, zeros behind.
  template <typename Real>
  std::vector<Real> padded(std::int64_t padded_order) const {
    std::vector<Real> out(static_cast<std::size_t>(padded_order * padded_order), Real(0));
    for (std::int64_t i = 0; i < order; ++i) {
      for (std::int64_t j = 0; j < order; ++j) {
        out[static_cast<std::size_t>(i * padded_order + j)] = static_cast<Real>(at(i, j));
      }
    }
    return out;
  }

  std::int64_t order;
  std::vector<double> values;
};

/// scale * W^T W with W rows x p standard normal.
SymmetricMatrix gaussian_gram(std::int64_t p, std::int64_t rows, double scale, unsigned seed);

/// Q diag(values) Q^T, Q the product of a few random reflections.
SymmetricMatrix matrix_with_eigenvalues(std::span<const double> values, unsigned seed);

/// Ascending. Source: LAPACK dsyevd.
std::vector<double> eigenvalues_of(const SymmetricMatrix& matrix);

struct NamedSymmetricMatrix {
  std::string name;
  SymmetricMatrix matrix;
};

/// Positive semidefinite matrices of order p: noise, power law, geometric (condition 1e4 squared),
/// clustered, identity, zero, rank 1, low rank, dead columns, graded to 1e-30, diagonal.
std::vector<NamedSymmetricMatrix> symmetric_suite(std::int64_t p);

}  // namespace vindex::test
