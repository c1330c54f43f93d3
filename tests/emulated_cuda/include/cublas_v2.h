// The part of cuBLAS that this project uses, computed by OpenBLAS in the stream's order. Column
// major; arguments are checked as the library checks them. Scalars are read when called.
#pragma once

#include <cuda_runtime.h>

// NOLINTBEGIN: cuBLAS's names
enum cublasStatus_t : int {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,
  CUBLAS_STATUS_ALLOC_FAILED = 3,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_EXECUTION_FAILED = 13
};
enum cublasOperation_t : int { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1, CUBLAS_OP_C = 2 };
enum cublasFillMode_t : int { CUBLAS_FILL_MODE_LOWER = 0, CUBLAS_FILL_MODE_UPPER = 1 };
enum cublasSideMode_t : int { CUBLAS_SIDE_LEFT = 0, CUBLAS_SIDE_RIGHT = 1 };
enum cublasDiagType_t : int { CUBLAS_DIAG_NON_UNIT = 0, CUBLAS_DIAG_UNIT = 1 };
enum cublasMath_t : int {
  CUBLAS_DEFAULT_MATH = 0,
  CUBLAS_PEDANTIC_MATH = 2,
  CUBLAS_TF32_TENSOR_OP_MATH = 3
};

namespace vindex::emulated {
struct Blas;
}
using cublasHandle_t = vindex::emulated::Blas*;

const char* cublasGetStatusString(cublasStatus_t status);
cublasStatus_t cublasGetProperty(libraryPropertyType property, int* value);
cublasStatus_t cublasCreate(cublasHandle_t* handle);
cublasStatus_t cublasDestroy(cublasHandle_t handle);
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode);
cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void* workspace, std::size_t bytes);

#define VINDEX_EMULATED_BLAS(letter, type)                                                         \
  cublasStatus_t cublas##letter##syrk(                                                             \
      cublasHandle_t handle, cublasFillMode_t fill, cublasOperation_t operation, int n, int k,     \
      const type* alpha, const type* a, int lda, const type* beta, type* c, int ldc);              \
  cublasStatus_t cublas##letter##gemm(cublasHandle_t handle, cublasOperation_t operation_a,        \
                                      cublasOperation_t operation_b, int m, int n, int k,          \
                                      const type* alpha, const type* a, int lda, const type* b,    \
                                      int ldb, const type* beta, type* c, int ldc);                \
  cublasStatus_t cublas##letter##gemmStridedBatched(                                               \
      cublasHandle_t handle, cublasOperation_t operation_a, cublasOperation_t operation_b, int m,  \
      int n, int k, const type* alpha, const type* a, int lda, long long stride_a, const type* b,  \
      int ldb, long long stride_b, const type* beta, type* c, int ldc, long long stride_c,         \
      int batch);                                                                                  \
  cublasStatus_t cublas##letter##gemmBatched(                                                      \
      cublasHandle_t handle, cublasOperation_t operation_a, cublasOperation_t operation_b, int m,  \
      int n, int k, const type* alpha, const type* const* a, int lda, const type* const* b,        \
      int ldb, const type* beta, type* const* c, int ldc, int batch);                              \
  cublasStatus_t cublas##letter##geam(cublasHandle_t handle, cublasOperation_t operation_a,        \
                                      cublasOperation_t operation_b, int m, int n,                 \
                                      const type* alpha, const type* a, int lda, const type* beta, \
                                      const type* b, int ldb, type* c, int ldc);                   \
  cublasStatus_t cublas##letter##trsm(cublasHandle_t handle, cublasSideMode_t side,                \
                                      cublasFillMode_t fill, cublasOperation_t operation,          \
                                      cublasDiagType_t diagonal, int m, int n, const type* alpha,  \
                                      const type* a, int lda, type* b, int ldb);
VINDEX_EMULATED_BLAS(S, float)
VINDEX_EMULATED_BLAS(D, double)
#undef VINDEX_EMULATED_BLAS
// NOLINTEND
