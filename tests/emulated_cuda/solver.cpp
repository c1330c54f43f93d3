// Owns cuSOLVER on the CPU: the calls that the kernels make, by LAPACK, with the limits of the
// library's batched solver and an error that tests may plant in its values.
#include <cusolverDn.h>
#include <lapacke.h>

#include <algorithm>
#include <atomic>
#include <emulated/device.hpp>
#include <vector>

namespace vindex::emulated {

struct Solver {
  cudaStream_t stream = nullptr;
};
struct SolverParameters {};

namespace {

constexpr std::size_t kDeviceWork = 1024;  ///< asked for and never used: LAPACK brings its own
constexpr std::size_t kHostWork = 64;

bool is_work(const void* device_work, std::size_t device_bytes, const void* host_work,
             std::size_t host_bytes) {
  return device_bytes >= kDeviceWork && is_device_memory(device_work, device_bytes) &&
         host_bytes >= kHostWork && host_work != nullptr;
}

void syevd(char job, char uplo, int n, double* a, int lda, double* w, double* work, int work_size,
           int* whole_work, int whole_size, int* info) {
  LAPACK_dsyevd(&job, &uplo, &n, a, &lda, w, work, &work_size, whole_work, &whole_size, info);
}
void syevd(char job, char uplo, int n, float* a, int lda, float* w, float* work, int work_size,
           int* whole_work, int whole_size, int* info) {
  LAPACK_ssyevd(&job, &uplo, &n, a, &lda, w, work, &work_size, whole_work, &whole_size, info);
}

template <typename T>
int eigenvalues(std::int64_t n, T* a, std::int64_t lda, T* w, char job, char uplo) {
  const auto order = static_cast<int>(n);
  const auto leading = static_cast<int>(lda);
  T size = 0;
  int whole_size = 0;
  int info = 0;
  syevd(job, uplo, order, a, leading, w, &size, -1, &whole_size, -1, &info);
  std::vector<T> work(static_cast<std::size_t>(size) + 1);
  std::vector<int> whole_work(static_cast<std::size_t>(whole_size) + 1);
  syevd(job, uplo, order, a, leading, w, work.data(), static_cast<int>(work.size()),
        whole_work.data(), static_cast<int>(whole_work.size()), &info);
  return info;
}

template <typename T>
void eigenvalues_of_batch(std::int64_t n, void* a, std::int64_t lda, void* w, char job, char uplo,
                          int* info, std::int64_t batch) {
  for (std::int64_t i = 0; i < batch; ++i) {
    info[i] = eigenvalues(n, static_cast<T*>(a) + i * lda * n, lda, static_cast<T*>(w) + i * n, job,
                          uplo);
  }
}

/// What the batched solver refuses; on a device such calls fail, or worse.
bool is_too_much(std::int64_t n, std::int64_t lda, std::int64_t element_bytes, std::int64_t batch) {
  constexpr std::int64_t kMaxMatrices = 32LL << 10U;
  constexpr std::int64_t kMaxBytes = 2LL << 30U;
  return batch > kMaxMatrices || n * lda * element_bytes > kMaxBytes / batch;
}

/// One solver's state, before its arguments are looked at.
cusolverStatus_t sound_state() {
  return is_device_broken() ? CUSOLVER_STATUS_EXECUTION_FAILED : CUSOLVER_STATUS_SUCCESS;
}

std::atomic<double> wrong_by = 0.0;

double batched_eigenvalue_factor() { return 1.0 + wrong_by; }

bool known(cudaDataType type) { return type == CUDA_R_32F || type == CUDA_R_64F; }

}  // namespace

void set_batched_eigenvalue_error(double relative) { wrong_by = relative; }

}  // namespace vindex::emulated

namespace emulated = vindex::emulated;

cusolverStatus_t cusolverGetProperty(libraryPropertyType property, int* value) {
  *value = property == MAJOR_VERSION ? 12 : 0;
  return CUSOLVER_STATUS_SUCCESS;
}
cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t* handle) {
  if (emulated::is_device_broken()) {
    return CUSOLVER_STATUS_EXECUTION_FAILED;
  }
  *handle = new emulated::Solver;
  return CUSOLVER_STATUS_SUCCESS;
}
cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t handle) {
  delete handle;
  return CUSOLVER_STATUS_SUCCESS;
}
cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUSOLVER_STATUS_SUCCESS;
}
cusolverStatus_t cusolverDnCreateParams(cusolverDnParams_t* parameters) {
  *parameters = new emulated::SolverParameters;
  return CUSOLVER_STATUS_SUCCESS;
}
cusolverStatus_t cusolverDnDestroyParams(cusolverDnParams_t parameters) {
  delete parameters;
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnXsyevBatched_bufferSize(
    cusolverDnHandle_t handle, cusolverDnParams_t parameters, cusolverEigMode_t /*mode*/,
    cublasFillMode_t /*fill*/, std::int64_t n, cudaDataType type_a, const void* /*a*/,
    std::int64_t lda, cudaDataType type_w, const void* /*w*/, cudaDataType compute_type,
    std::size_t* device_bytes, std::size_t* host_bytes, std::int64_t batch) {
  if (handle == nullptr || parameters == nullptr || n < 0 || lda < std::max<std::int64_t>(1, n) ||
      batch < 1 || !emulated::known(type_a) || type_w != type_a || compute_type != type_a ||
      emulated::is_too_much(n, lda, type_a == CUDA_R_64F ? 8 : 4, batch)) {
    return CUSOLVER_STATUS_INVALID_VALUE;
  }
  *device_bytes = emulated::kDeviceWork;
  *host_bytes = emulated::kHostWork;
  return emulated::sound_state();
}

/// Both solvers; the values come out `factor` times what they are.
static cusolverStatus_t solve_batch(cusolverDnHandle_t handle, cusolverDnParams_t parameters,
                                    cusolverEigMode_t mode, cublasFillMode_t fill, std::int64_t n,
                                    cudaDataType type_a, void* a, std::int64_t lda,
                                    cudaDataType type_w, void* w, cudaDataType compute_type,
                                    void* device_work, std::size_t device_bytes, void* host_work,
                                    std::size_t host_bytes, int* info, std::int64_t batch,
                                    double factor) {
  std::size_t ignored[2];
  const cusolverStatus_t status =
      cusolverDnXsyevBatched_bufferSize(handle, parameters, mode, fill, n, type_a, a, lda, type_w,
                                        w, compute_type, &ignored[0], &ignored[1], batch);
  if (status != CUSOLVER_STATUS_SUCCESS) {
    return status;
  }
  if (!emulated::is_work(device_work, device_bytes, host_work, host_bytes)) {
    return CUSOLVER_STATUS_INVALID_VALUE;
  }
  const char job = mode == CUSOLVER_EIG_MODE_VECTOR ? 'V' : 'N';
  const char uplo = fill == CUBLAS_FILL_MODE_LOWER ? 'L' : 'U';
  emulated::submit(handle->stream, [=] {
    if (type_a == CUDA_R_64F) {
      emulated::eigenvalues_of_batch<double>(n, a, lda, w, job, uplo, info, batch);
      std::for_each_n(static_cast<double*>(w), n * batch, [&](double& value) { value *= factor; });
    } else {
      emulated::eigenvalues_of_batch<float>(n, a, lda, w, job, uplo, info, batch);
    }
  });
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnXsyevBatched(cusolverDnHandle_t handle, cusolverDnParams_t parameters,
                                        cusolverEigMode_t mode, cublasFillMode_t fill,
                                        std::int64_t n, cudaDataType type_a, void* a,
                                        std::int64_t lda, cudaDataType type_w, void* w,
                                        cudaDataType compute_type, void* device_work,
                                        std::size_t device_bytes, void* host_work,
                                        std::size_t host_bytes, int* info, std::int64_t batch) {
  return solve_batch(handle, parameters, mode, fill, n, type_a, a, lda, type_w, w, compute_type,
                     device_work, device_bytes, host_work, host_bytes, info, batch,
                     emulated::batched_eigenvalue_factor());
}

cusolverStatus_t cusolverDnXsyevd_bufferSize(cusolverDnHandle_t handle,
                                             cusolverDnParams_t parameters, cusolverEigMode_t mode,
                                             cublasFillMode_t fill, std::int64_t n,
                                             cudaDataType type_a, const void* a, std::int64_t lda,
                                             cudaDataType type_w, const void* w,
                                             cudaDataType compute_type, std::size_t* device_bytes,
                                             std::size_t* host_bytes) {
  return cusolverDnXsyevBatched_bufferSize(handle, parameters, mode, fill, n, type_a, a, lda,
                                           type_w, w, compute_type, device_bytes, host_bytes, 1);
}

cusolverStatus_t cusolverDnXsyevd(cusolverDnHandle_t handle, cusolverDnParams_t parameters,
                                  cusolverEigMode_t mode, cublasFillMode_t fill, std::int64_t n,
                                  cudaDataType type_a, void* a, std::int64_t lda,
                                  cudaDataType type_w, void* w, cudaDataType compute_type,
                                  void* device_work, std::size_t device_bytes, void* host_work,
                                  std::size_t host_bytes, int* info) {
  return solve_batch(handle, parameters, mode, fill, n, type_a, a, lda, type_w, w, compute_type,
                     device_work, device_bytes, host_work, host_bytes, info, 1, 1.0);
}

cusolverStatus_t cusolverDnXgesvd_bufferSize(
    cusolverDnHandle_t handle, cusolverDnParams_t parameters, signed char job_u, signed char job_vt,
    std::int64_t m, std::int64_t n, cudaDataType type_a, const void* /*a*/, std::int64_t lda,
    cudaDataType type_s, const void* /*s*/, cudaDataType type_u, const void* /*u*/,
    std::int64_t ldu, cudaDataType type_vt, const void* /*vt*/, std::int64_t ldvt,
    cudaDataType compute_type, std::size_t* device_bytes, std::size_t* host_bytes) {
  // Values only is all that is used here; as in the library, m must not be smaller than n.
  if (handle == nullptr || parameters == nullptr || job_u != 'N' || job_vt != 'N' || n < 0 ||
      m < n || lda < std::max<std::int64_t>(1, m) || ldu < 1 || ldvt < 1 || type_a != CUDA_R_64F ||
      type_s != type_a || type_u != type_a || type_vt != type_a || compute_type != type_a) {
    return CUSOLVER_STATUS_INVALID_VALUE;
  }
  *device_bytes = emulated::kDeviceWork;
  *host_bytes = emulated::kHostWork;
  return emulated::sound_state();
}

cusolverStatus_t cusolverDnXgesvd(cusolverDnHandle_t handle, cusolverDnParams_t parameters,
                                  signed char job_u, signed char job_vt, std::int64_t m,
                                  std::int64_t n, cudaDataType type_a, void* a, std::int64_t lda,
                                  cudaDataType type_s, void* s, cudaDataType type_u, void* u,
                                  std::int64_t ldu, cudaDataType type_vt, void* vt,
                                  std::int64_t ldvt, cudaDataType compute_type, void* device_work,
                                  std::size_t device_bytes, void* host_work, std::size_t host_bytes,
                                  int* info) {
  std::size_t ignored[2];
  const cusolverStatus_t status = cusolverDnXgesvd_bufferSize(
      handle, parameters, job_u, job_vt, m, n, type_a, a, lda, type_s, s, type_u, u, ldu, type_vt,
      vt, ldvt, compute_type, &ignored[0], &ignored[1]);
  if (status != CUSOLVER_STATUS_SUCCESS) {
    return status;
  }
  if (!emulated::is_work(device_work, device_bytes, host_work, host_bytes)) {
    return CUSOLVER_STATUS_INVALID_VALUE;
  }
  emulated::submit(handle->stream, [=] {
    const auto rows = static_cast<int>(m);
    const auto cols = static_cast<int>(n);
    const auto leading = static_cast<int>(lda);
    const char none = 'N';
    const int one = 1;
    double unused = 0.0;
    std::vector<double> work(1);
    for (int size = -1; size != 0; size = size < 0 ? static_cast<int>(work[0]) : 0) {
      if (size > 0) {
        work.resize(static_cast<std::size_t>(size));
      }
      LAPACK_dgesvd(&none, &none, &rows, &cols, static_cast<double*>(a), &leading,
                    static_cast<double*>(s), &unused, &one, &unused, &one, work.data(), &size,
                    info);
    }
  });
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnSgesvdaStridedBatched_bufferSize(
    cusolverDnHandle_t handle, cusolverEigMode_t mode, int rank, int m, int n, const float* /*a*/,
    int lda, long long stride_a, const float* /*s*/, long long stride_s, const float* /*u*/,
    int ldu, long long /*stride_u*/, const float* /*v*/, int ldv, long long /*stride_v*/,
    int* elements, int batch) {
  // Values only is all that is used here; as in the library, m must not be smaller than n.
  if (handle == nullptr || mode != CUSOLVER_EIG_MODE_NOVECTOR || n < 1 || m < n || rank < 1 ||
      rank > n || lda < m || stride_a < static_cast<long long>(lda) * n || stride_s < rank ||
      ldu < m || ldv < n || batch < 1) {
    return CUSOLVER_STATUS_INVALID_VALUE;
  }
  *elements = static_cast<int>(emulated::kDeviceWork / sizeof(float));
  return emulated::sound_state();
}

cusolverStatus_t cusolverDnSgesvdaStridedBatched(cusolverDnHandle_t handle, cusolverEigMode_t mode,
                                                 int rank, int m, int n, const float* a, int lda,
                                                 long long stride_a, float* s, long long stride_s,
                                                 float* u, int ldu, long long stride_u, float* v,
                                                 int ldv, long long stride_v, float* work,
                                                 int elements, int* info, double* residuals,
                                                 int batch) {
  int needed = 0;
  const cusolverStatus_t status = cusolverDnSgesvdaStridedBatched_bufferSize(
      handle, mode, rank, m, n, a, lda, stride_a, s, stride_s, u, ldu, stride_u, v, ldv, stride_v,
      &needed, batch);
  if (status != CUSOLVER_STATUS_SUCCESS) {
    return status;
  }
  if (elements < needed || residuals == nullptr ||
      !emulated::is_device_memory(work, sizeof(float) * static_cast<std::size_t>(elements))) {
    return CUSOLVER_STATUS_INVALID_VALUE;
  }
  emulated::submit(handle->stream, [=] {
    for (int i = 0; i < batch; ++i) {
      std::vector<float> matrix(a + i * stride_a,
                                a + i * stride_a + static_cast<std::int64_t>(lda) * n);
      std::vector<float> values(static_cast<std::size_t>(n));
      const char none = 'N';
      const int one = 1;
      float unused = 0.0F;
      std::vector<float> room(1);
      for (int size = -1; size != 0; size = size < 0 ? static_cast<int>(room[0]) : 0) {
        room.resize(static_cast<std::size_t>(std::max(size, 1)));
        LAPACK_sgesvd(&none, &none, &m, &n, matrix.data(), &lda, values.data(), &unused, &one,
                      &unused, &one, room.data(), &size, &info[i]);
      }
      std::copy_n(values.begin(), rank, s + i * stride_s);
    }
  });
  std::fill_n(residuals, batch, 0.0);
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnXgeqrf_bufferSize(cusolverDnHandle_t handle,
                                             cusolverDnParams_t parameters, std::int64_t m,
                                             std::int64_t n, cudaDataType type_a, const void* /*a*/,
                                             std::int64_t lda, cudaDataType type_tau,
                                             const void* /*tau*/, cudaDataType compute_type,
                                             std::size_t* device_bytes, std::size_t* host_bytes) {
  if (handle == nullptr || parameters == nullptr || m < 0 || n < 0 ||
      lda < std::max<std::int64_t>(1, m) || type_a != CUDA_R_64F || type_tau != type_a ||
      compute_type != type_a) {
    return CUSOLVER_STATUS_INVALID_VALUE;
  }
  *device_bytes = emulated::kDeviceWork;
  *host_bytes = emulated::kHostWork;
  return emulated::sound_state();
}

cusolverStatus_t cusolverDnXgeqrf(cusolverDnHandle_t handle, cusolverDnParams_t parameters,
                                  std::int64_t m, std::int64_t n, cudaDataType type_a, void* a,
                                  std::int64_t lda, cudaDataType type_tau, void* tau,
                                  cudaDataType compute_type, void* device_work,
                                  std::size_t device_bytes, void* host_work, std::size_t host_bytes,
                                  int* info) {
  std::size_t ignored[2];
  const cusolverStatus_t status =
      cusolverDnXgeqrf_bufferSize(handle, parameters, m, n, type_a, a, lda, type_tau, tau,
                                  compute_type, &ignored[0], &ignored[1]);
  if (status != CUSOLVER_STATUS_SUCCESS) {
    return status;
  }
  if (!emulated::is_work(device_work, device_bytes, host_work, host_bytes)) {
    return CUSOLVER_STATUS_INVALID_VALUE;
  }
  emulated::submit(handle->stream, [=] {
    const auto rows = static_cast<int>(m);
    const auto cols = static_cast<int>(n);
    const auto leading = static_cast<int>(lda);
    std::vector<double> work(static_cast<std::size_t>(64 * std::max<std::int64_t>(n, 1)));
    const auto size = static_cast<int>(work.size());
    LAPACK_dgeqrf(&rows, &cols, static_cast<double*>(a), &leading, static_cast<double*>(tau),
                  work.data(), &size, info);
  });
  return CUSOLVER_STATUS_SUCCESS;
}
