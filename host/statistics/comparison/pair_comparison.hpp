// Owns what two matrices of one shape have in common: inner product, norms, largest difference. On
// the host, in float64, slab by slab, so that neither matrix has to lie in memory.
//
// The bits of a result depend on the two matrices and how they are stored alone, never on how their
// bytes are held: sums run over fixed lanes within a line (a stored row of one side), lines are
// added in their order.
#pragma once

#include "backend/backend.hpp"

#include <cstdint>
#include <limits>
#include <string>

namespace vindex::statistics {

/// What compare_matrices() finds. Norms are those of Frobenius.
struct PairReport {
  MatrixStatus status = MatrixStatus::kFailed;  ///< kMeasured or kNotFinite
  std::string reason;                           ///< which numbers are NaN, and why
  bool same_bits = false;                       ///< every decoded float32 equal, bit for bit
  double cosine = std::numeric_limits<double>::quiet_NaN();  ///< <A,B> / (norm_a norm_b)
  double norm_a = std::numeric_limits<double>::quiet_NaN();
  double norm_b = std::numeric_limits<double>::quiet_NaN();
  double relative_error = std::numeric_limits<double>::quiet_NaN();  ///< norm(B - A) / norm_a
  double max_abs_difference = std::numeric_limits<double>::quiet_NaN();
};

/// What of a stored matrix decides memory.
struct StoredShape {
  const decode::Encoding* encoding = nullptr;
  std::int64_t rows = 0;  ///< as stored
  std::int64_t cols = 0;
  bool transposed = false;
};

/// Compares `a` and `b`, whose logical shapes are equal and whose stored orientations may differ.
/// Errors: those of their slab functions. Weights that are NaN or infinite are a status.
PairReport compare_matrices(MatrixInput& a, MatrixInput& b);

/// Host memory that compare_matrices() takes beside the inputs, an upper bound: `decoded` always,
/// `encoded` where slabs of both are read from their files.
struct PairWorkspace {
  std::uint64_t decoded = 0, encoded = 0;
};
PairWorkspace pair_workspace(const StoredShape& a, const StoredShape& b);

/// Standard deviation of the cosine of two matrices of independent noise; its mean is 0.
double cosine_null_deviation(std::int64_t rows, std::int64_t cols);

}  // namespace vindex::statistics
