// Owns what is done to Gram matrices and triangular factors between the library that forms
// them and the solver: the other triangle, their norm, how many of their rows are zero, and keeping
// matrices that hold no numbers from doing harm to others of the batch.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace vindex::kernels {

/// What is known of the diagonal of one Gram matrix; written on the device.
struct DiagonalFacts {
  std::int64_t zero_rows = 0;  ///< rows (and columns) whose diagonal element is 0: dead neurons
  double norm_squared = 0.0;   ///< sum of its squares
  double largest = 0.0;
};

/// What is known of one Gram matrix; written on the device.
struct SymmetricFacts {
  double norm_squared = 0.0;  ///< ||G||_F^2
  DiagonalFacts diagonal;
  std::int64_t finite = 1;  ///< 0: the matrix was replaced by zeros
};

/// Bytes that complete_symmetric() needs for `batch` matrices of short side `p`.
std::size_t complete_symmetric_bytes(std::int64_t p, std::int64_t batch);

/// Copies the lower triangle of each matrix (element (row, col) at col * leading + row) to the
/// upper one and fills `facts` [batch]. A matrix with an element that is not finite becomes zero.
///
/// Shapes  matrices: batch x leading x leading, only the first p rows and columns are looked at.
/// Order   on `stream`; sums run in one order for every batch.
/// Grid    32 x 32 tiles of the lower triangle, a block of 32 x 8 threads each.
void complete_symmetric(double* matrices, std::int64_t p, std::int64_t leading, std::int64_t batch,
                        void* workspace, SymmetricFacts* facts, cudaStream_t stream);

/// facts[i] = those of the first p diagonal elements of matrix i.
void find_diagonal_facts(const float* matrices, std::int64_t p, std::int64_t leading,
                         std::int64_t batch, DiagonalFacts* facts, cudaStream_t stream);

/// Parts in which add_additive() leaves its sum for each matrix.
inline constexpr std::int64_t kAdditiveParts = 16;

/// parts (batch x kAdditiveParts): those of the sum of squares of the entries off the diagonal that
/// are a_i + a_j to within rounding (statistics::GramNorms::additive_norm_squared), to be added up
/// in order. Estimated from every seventh row; both triangles are valid. Sums run in one order for
/// every batch. Host sibling: host/cpu/gram/gram.hpp.
void add_additive(const float* matrices, std::int64_t p, std::int64_t leading, std::int64_t batch,
                  double* parts, cudaStream_t stream);

/// to (p x p, column-major) = the upper triangle of `from` (column-major, `leading` between
/// columns), zero below the diagonal.
void copy_upper_triangle(const double* from, std::int64_t leading, std::int64_t p, double* to,
                         cudaStream_t stream);

}  // namespace vindex::kernels
