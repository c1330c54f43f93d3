// Owns small dense linear algebra on batches in float64: orthonormal bases of tall blocks and
// eigenpairs of small symmetric matrices, with the element-wise steps around them; and Cholesky
// factorisation of square matrices and of trapezoids: below the factor L of the leading square
// block stand the other rows times L^-T, which is what CholeskyQR wants. Matrices are column-major;
// everything is ordered on one stream.
#pragma once

#include "kernels/device/symmetric_eigen.hpp"

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

namespace vindex::kernels {

inline constexpr std::int64_t kWholeBatch = -1;

/// Factors the leading cols x cols block S = L L^T (lower triangle read) of each of `batch`
/// column-major rows x cols matrices in place, and turns the rows X below it into X L^-T. Ordered
/// on `stream`, which `blas` works on too. Above the diagonal stands nothing of meaning.
///
/// Shapes    matrix b at b * stride, `leading` >= rows >= cols elements between columns. info:
///           batch, 0 or the first column whose pivot was not positive (from 1); the rest of such a
///           matrix means nothing.
/// Accuracy  the usual backward error (cols + 1) eps64 |L| |L|^T, which any order of summation has
///           (Higham 2002, theorem 10.3); panels by substitution, quotients within a
///           unit in the last place.
/// Errors    UsageError for sizes that cuBLAS cannot index.
/// `used`: so many of the batch, from the first, are of interest; the others are zeros, and there
/// for the library's choice of an algorithm alone.
void cholesky(cublasHandle_t blas, cudaStream_t stream, double* matrices, std::int64_t rows,
              std::int64_t cols, std::int64_t leading, std::int64_t stride, std::int64_t batch,
              int* info, std::int64_t used = kWholeBatch);

/// The libraries and the stream they work on; not owned.
struct LibraryHandles {
  cudaStream_t stream = nullptr;
  cublasHandle_t blas = nullptr;
  cusolverDnHandle_t solver = nullptr;
  cusolverDnParams_t parameters = nullptr;
  bool one_by_one = false;  ///< see EigenLibrary
};

/// A tall block X (p x width) with room for its Gram matrix above it: width + p rows, what
/// cholesky() turns into an orthonormal basis in place.
struct StackedBlock {
  std::int64_t p = 0, width = 0;

  std::int64_t leading() const { return p + width; }
  std::int64_t elements() const { return leading() * width; }
  double* block(double* stacked) const { return stacked + width; }
};

/// Q of X = Q R, in place, of `batch` stacked blocks. info: batch, not 0 where a block's columns
/// are dependent beyond repair. `independent` false spends a shifted first pass, which takes
/// columns of any condition up to 1e15; true requires a condition below 1e7. `used`: as cholesky()
/// has it.
///
/// Accuracy  |Q^T Q - I| a few eps64.
/// Source    Fukaya, Kannan, Nakatsukasa, Yamamoto, Yanagisawa 2020, "Shifted Cholesky QR".
void orthonormalise(const LibraryHandles& handles, const StackedBlock& shape, double* stacked,
                    std::int64_t batch, bool independent, int* info,
                    std::int64_t used = kWholeBatch);

/// Copies p x width columns of float32, one pointer per matrix, into stacked blocks.
void widen_blocks(const float* const* from, const StackedBlock& shape, double* stacked,
                  std::int64_t batch, cudaStream_t stream);
/// The reverse, from any column-major float64 with `leading` and `stride`.
void narrow_blocks(const double* from, std::int64_t leading, std::int64_t stride, float* const* to,
                   std::int64_t p, std::int64_t width, std::int64_t batch, cudaStream_t stream);

/// to_b = float32(scales[b] * from_b): `batch` square matrices of order p, contiguous on both
/// sides; `scales` on the device, powers of two.
void narrow_scaled(const double* from, float* to, const double* scales, std::int64_t p,
                   std::int64_t batch, cudaStream_t stream);

/// C_b = op(A_b) op(B_b) for a batch, by cuBLAS.
struct Operand {
  const double* data = nullptr;
  std::int64_t leading = 0, stride = 0;
  bool transposed = false;
};
void multiply_batch(const LibraryHandles& handles, std::int64_t m, std::int64_t n, std::int64_t k,
                    const Operand& a, const Operand& b, double* c, std::int64_t c_leading,
                    std::int64_t c_stride, std::int64_t batch);

/// Eigenvalues, descending, and on request eigenvectors, of batches of symmetric matrices.
class SmallEigen {
 public:
  /// `matrices` [batch][n][n], lower triangles; with `vectors` they become the eigenvectors, column
  /// j that of values [batch][n]; else they are destroyed. info: batch, not 0 where the iteration
  /// failed. Waits for the stream.
  void solve(const LibraryHandles& handles, double* matrices, std::int64_t n, std::int64_t batch,
             bool vectors, double* values, int* info);

 private:
  DeviceBuffer work_{"solver workspace"};
  std::vector<std::byte> host_work_;
};

}  // namespace vindex::kernels
