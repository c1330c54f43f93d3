// Owns batched Cholesky factorisation in float64, of square matrices and of trapezoids: below the
// factor L of the leading square block stand the other rows times L^-T, which is what CholeskyQR
// wants.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace vindex::kernels {

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
void cholesky(cublasHandle_t blas, cudaStream_t stream, double* matrices, std::int64_t rows,
              std::int64_t cols, std::int64_t leading, std::int64_t stride, std::int64_t batch,
              int* info);

}  // namespace vindex::kernels
