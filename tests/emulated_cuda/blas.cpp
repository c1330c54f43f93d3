// Owns cuBLAS on the CPU: the calls that the kernels make, by OpenBLAS, with operands rounded to
// tf32 where a device would round them, and refusals where a device would fail.
#include <cblas.h>
#include <cublas_v2.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <emulated/device.hpp>
#include <emulated/handles.hpp>
#include <type_traits>
#include <vector>

namespace vindex::emulated {

struct Blas {
  cudaStream_t stream = nullptr;
  bool tf32 = false;
};

namespace {

CBLAS_TRANSPOSE transpose_of(cublasOperation_t operation) {
  return operation == CUBLAS_OP_N ? CblasNoTrans : CblasTrans;
}
CBLAS_UPLO triangle_of(cublasFillMode_t fill) {
  return fill == CUBLAS_FILL_MODE_LOWER ? CblasLower : CblasUpper;
}

void syrk(CBLAS_UPLO uplo, CBLAS_TRANSPOSE t, int n, int k, float alpha, const float* a, int lda,
          float beta, float* c, int ldc) {
  cblas_ssyrk(CblasColMajor, uplo, t, n, k, alpha, a, lda, beta, c, ldc);
}
void syrk(CBLAS_UPLO uplo, CBLAS_TRANSPOSE t, int n, int k, double alpha, const double* a, int lda,
          double beta, double* c, int ldc) {
  cblas_dsyrk(CblasColMajor, uplo, t, n, k, alpha, a, lda, beta, c, ldc);
}
void gemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, float alpha, const float* a,
          int lda, const float* b, int ldb, float beta, float* c, int ldc) {
  cblas_sgemm(CblasColMajor, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
void gemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, double alpha,
          const double* a, int lda, const double* b, int ldb, double beta, double* c, int ldc) {
  cblas_dgemm(CblasColMajor, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
void trsm(CBLAS_SIDE side, CBLAS_UPLO uplo, CBLAS_TRANSPOSE t, CBLAS_DIAG diagonal, int m, int n,
          float alpha, const float* a, int lda, float* b, int ldb) {
  cblas_strsm(CblasColMajor, side, uplo, t, diagonal, m, n, alpha, a, lda, b, ldb);
}
void trsm(CBLAS_SIDE side, CBLAS_UPLO uplo, CBLAS_TRANSPOSE t, CBLAS_DIAG diagonal, int m, int n,
          double alpha, const double* a, int lda, double* b, int ldb) {
  cblas_dtrsm(CblasColMajor, side, uplo, t, diagonal, m, n, alpha, a, lda, b, ldb);
}

/// Rounded to the 11 significant bits of tf32, to nearest, ties away from zero.
float to_tf32(float value) {
  constexpr std::uint32_t kDropped = 13;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return (bits >> 23U & 0xFFU) == 0xFFU
             ? value
             : std::bit_cast<float>((bits + (1U << (kDropped - 1))) & ~((1U << kDropped) - 1));
}

/// A stored rows x cols operand, leading dimension `leading`, with its elements rounded to tf32 and
/// the padding left out.
std::vector<float> rounded(const float* from, std::int64_t rows, std::int64_t cols,
                           std::int64_t leading) {
  std::vector<float> out(static_cast<std::size_t>(std::max<std::int64_t>(rows * cols, 1)));
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    out[static_cast<std::size_t>(i)] = to_tf32(from[i / rows * leading + i % rows]);
  }
  return out;
}

/// One product, in tf32 where the handle says so: products of operands of 11 bits are exact in
/// float32, sums are float32's (a device's tensor cores sum a little less exactly).
template <typename T>
void multiply(bool tf32, cublasOperation_t operation_a, cublasOperation_t operation_b, int m, int n,
              int k, T alpha, const T* a, int lda, const T* b, int ldb, T beta, T* c, int ldc) {
  const CBLAS_TRANSPOSE ta = transpose_of(operation_a);
  const CBLAS_TRANSPOSE tb = transpose_of(operation_b);
  if constexpr (std::is_same_v<T, float>) {
    if (tf32) {
      const bool plain_a = operation_a == CUBLAS_OP_N;
      const bool plain_b = operation_b == CUBLAS_OP_N;
      const std::vector<float> own_a = rounded(a, plain_a ? m : k, plain_a ? k : m, lda);
      const std::vector<float> own_b = rounded(b, plain_b ? k : n, plain_b ? n : k, ldb);
      gemm(ta, tb, m, n, k, alpha, own_a.data(), std::max(1, plain_a ? m : k), own_b.data(),
           std::max(1, plain_b ? k : n), beta, c, ldc);
      return;
    }
  }
  gemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

/// Why a call is refused before its arguments are looked at, or success.
cublasStatus_t state_of(const Blas* handle) {
  return handle == nullptr    ? CUBLAS_STATUS_NOT_INITIALIZED
         : is_device_broken() ? CUBLAS_STATUS_EXECUTION_FAILED
                              : CUBLAS_STATUS_SUCCESS;
}

/// Leading dimension against the rows of the stored operand.
bool fits(cublasOperation_t operation, int rows, int cols, int leading) {
  return leading >= std::max(1, operation == CUBLAS_OP_N ? rows : cols);
}

template <typename T>
cublasStatus_t run_syrk(Blas* handle, cublasFillMode_t fill, cublasOperation_t operation, int n,
                        int k, const T* alpha, const T* a, int lda, const T* beta, T* c, int ldc) {
  if (const cublasStatus_t state = state_of(handle)) {
    return state;
  }
  if (n < 0 || k < 0 || alpha == nullptr || beta == nullptr || !fits(operation, n, k, lda) ||
      ldc < std::max(1, n)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  submit(handle->stream, [=, alpha_value = *alpha, beta_value = *beta] {
    syrk(triangle_of(fill), transpose_of(operation), n, k, alpha_value, a, lda, beta_value, c, ldc);
  });
  return CUBLAS_STATUS_SUCCESS;
}

template <typename T>
cublasStatus_t run_gemm(Blas* handle, cublasOperation_t operation_a, cublasOperation_t operation_b,
                        int m, int n, int k, const T* alpha, const T* a, int lda,
                        long long stride_a, const T* b, int ldb, long long stride_b, const T* beta,
                        T* c, int ldc, long long stride_c, int batch) {
  if (const cublasStatus_t state = state_of(handle)) {
    return state;
  }
  if (m < 0 || n < 0 || k < 0 || batch < 0 || alpha == nullptr || beta == nullptr ||
      !fits(operation_a, m, k, lda) || !fits(operation_b, k, n, ldb) || ldc < std::max(1, m)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  submit(handle->stream, [=, tf32 = handle->tf32, alpha_value = *alpha, beta_value = *beta] {
    for (int i = 0; i < batch; ++i) {
      multiply<T>(tf32, operation_a, operation_b, m, n, k, alpha_value, a + i * stride_a, lda,
                  b + i * stride_b, ldb, beta_value, c + i * stride_c, ldc);
    }
  });
  return CUBLAS_STATUS_SUCCESS;
}

/// The same over arrays of addresses, which lie in device memory too.
template <typename T>
cublasStatus_t run_gemm_of_list(Blas* handle, cublasOperation_t operation_a,
                                cublasOperation_t operation_b, int m, int n, int k, const T* alpha,
                                const T* const* a, int lda, const T* const* b, int ldb,
                                const T* beta, T* const* c, int ldc, int batch) {
  if (const cublasStatus_t state = state_of(handle)) {
    return state;
  }
  const std::size_t bytes = static_cast<std::size_t>(std::max(batch, 0)) * sizeof(T*);
  if (m < 0 || n < 0 || k < 0 || batch < 0 || alpha == nullptr || beta == nullptr ||
      !fits(operation_a, m, k, lda) || !fits(operation_b, k, n, ldb) || ldc < std::max(1, m) ||
      !is_device_memory(a, bytes) || !is_device_memory(b, bytes) || !is_device_memory(c, bytes)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  submit(handle->stream, [=, tf32 = handle->tf32, alpha_value = *alpha, beta_value = *beta] {
    for (int i = 0; i < batch; ++i) {
      multiply<T>(tf32, operation_a, operation_b, m, n, k, alpha_value, a[i], lda, b[i], ldb,
                  beta_value, c[i], ldc);
    }
  });
  return CUBLAS_STATUS_SUCCESS;
}

/// C = alpha op(A) + beta op(B); in place only for an operand that is not transposed.
template <typename T>
cublasStatus_t run_geam(Blas* handle, cublasOperation_t operation_a, cublasOperation_t operation_b,
                        int m, int n, const T* alpha, const T* a, int lda, const T* beta,
                        const T* b, int ldb, T* c, int ldc) {
  if (const cublasStatus_t state = state_of(handle)) {
    return state;
  }
  if (m < 0 || n < 0 || alpha == nullptr || beta == nullptr || !fits(operation_a, m, n, lda) ||
      !fits(operation_b, m, n, ldb) || ldc < std::max(1, m) ||
      (a == c && (operation_a != CUBLAS_OP_N || lda != ldc)) ||
      (b == c && (operation_b != CUBLAS_OP_N || ldb != ldc))) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  submit(handle->stream, [=, alpha_value = *alpha, beta_value = *beta] {
    const auto at = [](const T* matrix, int leading, cublasOperation_t operation, std::int64_t row,
                       std::int64_t col) {
      return operation == CUBLAS_OP_N ? matrix[row + col * leading] : matrix[col + row * leading];
    };
    for (std::int64_t col = 0; col < n; ++col) {
      for (std::int64_t row = 0; row < m; ++row) {
        T sum = 0;  // an operand with factor 0 is not read
        if (alpha_value != 0) {
          sum += alpha_value * at(a, lda, operation_a, row, col);
        }
        if (beta_value != 0) {
          sum += beta_value * at(b, ldb, operation_b, row, col);
        }
        c[row + col * ldc] = sum;
      }
    }
  });
  return CUBLAS_STATUS_SUCCESS;
}

template <typename T>
cublasStatus_t run_trsm(Blas* handle, cublasSideMode_t side, cublasFillMode_t fill,
                        cublasOperation_t operation, cublasDiagType_t diagonal, int m, int n,
                        const T* alpha, const T* a, int lda, T* b, int ldb) {
  if (const cublasStatus_t state = state_of(handle)) {
    return state;
  }
  const int order = side == CUBLAS_SIDE_LEFT ? m : n;
  if (m < 0 || n < 0 || alpha == nullptr || lda < std::max(1, order) || ldb < std::max(1, m)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  submit(handle->stream, [=, alpha_value = *alpha] {
    trsm(side == CUBLAS_SIDE_LEFT ? CblasLeft : CblasRight, triangle_of(fill),
         transpose_of(operation), diagonal == CUBLAS_DIAG_UNIT ? CblasUnit : CblasNonUnit, m, n,
         alpha_value, a, lda, b, ldb);
  });
  return CUBLAS_STATUS_SUCCESS;
}

std::atomic<std::int32_t> handles_left{-1};
std::atomic<std::int32_t> handles_refused{0};

}  // namespace

void set_blas_handles_left(std::int32_t count) { handles_left = count; }
std::int32_t blas_handles_refused() { return handles_refused; }

}  // namespace vindex::emulated

namespace emulated = vindex::emulated;

const char* cublasGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
  }
  return "unknown cuBLAS status";
}
cublasStatus_t cublasGetProperty(libraryPropertyType property, int* value) {
  *value = property == MAJOR_VERSION ? 13 : 0;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  if (emulated::is_device_broken()) {
    return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  if (emulated::handles_left == 0) {
    ++emulated::handles_refused;
    return CUBLAS_STATUS_ALLOC_FAILED;
  }
  emulated::handles_left -= emulated::handles_left > 0 ? 1 : 0;
  openblas_set_num_threads(1);  // the matrices are small, and other tests run beside this one
  *handle = new emulated::Blas;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  handle->tf32 = mode == CUBLAS_TF32_TENSOR_OP_MATH;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace(cublasHandle_t /*handle*/, void* workspace, std::size_t bytes) {
  return emulated::is_device_memory(workspace, bytes) ? CUBLAS_STATUS_SUCCESS
                                                      : CUBLAS_STATUS_INVALID_VALUE;
}

// NOLINTBEGIN(bugprone-macro-parentheses): types and names
#define VINDEX_EMULATED_BLAS(letter, type)                                                         \
  cublasStatus_t cublas##letter##syrk(                                                             \
      cublasHandle_t handle, cublasFillMode_t fill, cublasOperation_t operation, int n, int k,     \
      const type* alpha, const type* a, int lda, const type* beta, type* c, int ldc) {             \
    return emulated::run_syrk(handle, fill, operation, n, k, alpha, a, lda, beta, c, ldc);         \
  }                                                                                                \
  cublasStatus_t cublas##letter##gemm(cublasHandle_t handle, cublasOperation_t operation_a,        \
                                      cublasOperation_t operation_b, int m, int n, int k,          \
                                      const type* alpha, const type* a, int lda, const type* b,    \
                                      int ldb, const type* beta, type* c, int ldc) {               \
    return emulated::run_gemm(handle, operation_a, operation_b, m, n, k, alpha, a, lda, 0LL, b,    \
                              ldb, 0LL, beta, c, ldc, 0LL, 1);                                     \
  }                                                                                                \
  cublasStatus_t cublas##letter##gemmStridedBatched(                                               \
      cublasHandle_t handle, cublasOperation_t operation_a, cublasOperation_t operation_b, int m,  \
      int n, int k, const type* alpha, const type* a, int lda, long long stride_a, const type* b,  \
      int ldb, long long stride_b, const type* beta, type* c, int ldc, long long stride_c,         \
      int batch) {                                                                                 \
    return emulated::run_gemm(handle, operation_a, operation_b, m, n, k, alpha, a, lda, stride_a,  \
                              b, ldb, stride_b, beta, c, ldc, stride_c, batch);                    \
  }                                                                                                \
  cublasStatus_t cublas##letter##gemmBatched(                                                      \
      cublasHandle_t handle, cublasOperation_t operation_a, cublasOperation_t operation_b, int m,  \
      int n, int k, const type* alpha, const type* const* a, int lda, const type* const* b,        \
      int ldb, const type* beta, type* const* c, int ldc, int batch) {                             \
    return emulated::run_gemm_of_list(handle, operation_a, operation_b, m, n, k, alpha, a, lda, b, \
                                      ldb, beta, c, ldc, batch);                                   \
  }                                                                                                \
  cublasStatus_t cublas##letter##geam(cublasHandle_t handle, cublasOperation_t operation_a,        \
                                      cublasOperation_t operation_b, int m, int n,                 \
                                      const type* alpha, const type* a, int lda, const type* beta, \
                                      const type* b, int ldb, type* c, int ldc) {                  \
    return emulated::run_geam(handle, operation_a, operation_b, m, n, alpha, a, lda, beta, b, ldb, \
                              c, ldc);                                                             \
  }                                                                                                \
  cublasStatus_t cublas##letter##trsm(cublasHandle_t handle, cublasSideMode_t side,                \
                                      cublasFillMode_t fill, cublasOperation_t operation,          \
                                      cublasDiagType_t diagonal, int m, int n, const type* alpha,  \
                                      const type* a, int lda, type* b, int ldb) {                  \
    return emulated::run_trsm(handle, side, fill, operation, diagonal, m, n, alpha, a, lda, b,     \
                              ldb);                                                                \
  }
VINDEX_EMULATED_BLAS(S, float)
VINDEX_EMULATED_BLAS(D, double)
// NOLINTEND(bugprone-macro-parentheses)
