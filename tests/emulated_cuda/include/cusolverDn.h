// The part of cuSOLVER that this project uses, computed by LAPACK in the stream's order.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>

// NOLINTBEGIN: cuSOLVER's names
enum cusolverStatus_t : int {
  CUSOLVER_STATUS_SUCCESS = 0,
  CUSOLVER_STATUS_ALLOC_FAILED = 2,
  CUSOLVER_STATUS_INVALID_VALUE = 3,
  CUSOLVER_STATUS_EXECUTION_FAILED = 6
};
enum cusolverEigMode_t : int { CUSOLVER_EIG_MODE_NOVECTOR = 0, CUSOLVER_EIG_MODE_VECTOR = 1 };

namespace vindex::emulated {
struct Solver;
struct SolverParameters;
}  // namespace vindex::emulated
using cusolverDnHandle_t = vindex::emulated::Solver*;
using cusolverDnParams_t = vindex::emulated::SolverParameters*;

cusolverStatus_t cusolverGetProperty(libraryPropertyType property, int* value);
cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t* handle);
cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t handle);
cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t stream);
cusolverStatus_t cusolverDnCreateParams(cusolverDnParams_t* parameters);
cusolverStatus_t cusolverDnDestroyParams(cusolverDnParams_t parameters);

cusolverStatus_t cusolverDnXsyevd_bufferSize(cusolverDnHandle_t handle,
                                             cusolverDnParams_t parameters, cusolverEigMode_t mode,
                                             cublasFillMode_t fill, std::int64_t n,
                                             cudaDataType type_a, const void* a, std::int64_t lda,
                                             cudaDataType type_w, const void* w,
                                             cudaDataType compute_type, std::size_t* device_bytes,
                                             std::size_t* host_bytes);
cusolverStatus_t cusolverDnXsyevd(cusolverDnHandle_t handle, cusolverDnParams_t parameters,
                                  cusolverEigMode_t mode, cublasFillMode_t fill, std::int64_t n,
                                  cudaDataType type_a, void* a, std::int64_t lda,
                                  cudaDataType type_w, void* w, cudaDataType compute_type,
                                  void* device_work, std::size_t device_bytes, void* host_work,
                                  std::size_t host_bytes, int* info);
cusolverStatus_t cusolverDnXsyevBatched_bufferSize(
    cusolverDnHandle_t handle, cusolverDnParams_t parameters, cusolverEigMode_t mode,
    cublasFillMode_t fill, std::int64_t n, cudaDataType type_a, const void* a, std::int64_t lda,
    cudaDataType type_w, const void* w, cudaDataType compute_type, std::size_t* device_bytes,
    std::size_t* host_bytes, std::int64_t batch);
cusolverStatus_t cusolverDnXsyevBatched(cusolverDnHandle_t handle, cusolverDnParams_t parameters,
                                        cusolverEigMode_t mode, cublasFillMode_t fill,
                                        std::int64_t n, cudaDataType type_a, void* a,
                                        std::int64_t lda, cudaDataType type_w, void* w,
                                        cudaDataType compute_type, void* device_work,
                                        std::size_t device_bytes, void* host_work,
                                        std::size_t host_bytes, int* info, std::int64_t batch);
cusolverStatus_t cusolverDnXgesvd_bufferSize(
    cusolverDnHandle_t handle, cusolverDnParams_t parameters, signed char job_u, signed char job_vt,
    std::int64_t m, std::int64_t n, cudaDataType type_a, const void* a, std::int64_t lda,
    cudaDataType type_s, const void* s, cudaDataType type_u, const void* u, std::int64_t ldu,
    cudaDataType type_vt, const void* vt, std::int64_t ldvt, cudaDataType compute_type,
    std::size_t* device_bytes, std::size_t* host_bytes);
cusolverStatus_t cusolverDnXgesvd(cusolverDnHandle_t handle, cusolverDnParams_t parameters,
                                  signed char job_u, signed char job_vt, std::int64_t m,
                                  std::int64_t n, cudaDataType type_a, void* a, std::int64_t lda,
                                  cudaDataType type_s, void* s, cudaDataType type_u, void* u,
                                  std::int64_t ldu, cudaDataType type_vt, void* vt,
                                  std::int64_t ldvt, cudaDataType compute_type, void* device_work,
                                  std::size_t device_bytes, void* host_work, std::size_t host_bytes,
                                  int* info);
cusolverStatus_t cusolverDnSgesvdaStridedBatched_bufferSize(
    cusolverDnHandle_t handle, cusolverEigMode_t mode, int rank, int m, int n, const float* a,
    int lda, long long stride_a, const float* s, long long stride_s, const float* u, int ldu,
    long long stride_u, const float* v, int ldv, long long stride_v, int* elements, int batch);
cusolverStatus_t cusolverDnSgesvdaStridedBatched(cusolverDnHandle_t handle, cusolverEigMode_t mode,
                                                 int rank, int m, int n, const float* a, int lda,
                                                 long long stride_a, float* s, long long stride_s,
                                                 float* u, int ldu, long long stride_u, float* v,
                                                 int ldv, long long stride_v, float* work,
                                                 int elements, int* info, double* residuals,
                                                 int batch);
cusolverStatus_t cusolverDnXgeqrf_bufferSize(cusolverDnHandle_t handle,
                                             cusolverDnParams_t parameters, std::int64_t m,
                                             std::int64_t n, cudaDataType type_a, const void* a,
                                             std::int64_t lda, cudaDataType type_tau,
                                             const void* tau, cudaDataType compute_type,
                                             std::size_t* device_bytes, std::size_t* host_bytes);
cusolverStatus_t cusolverDnXgeqrf(cusolverDnHandle_t handle, cusolverDnParams_t parameters,
                                  std::int64_t m, std::int64_t n, cudaDataType type_a, void* a,
                                  std::int64_t lda, cudaDataType type_tau, void* tau,
                                  cudaDataType compute_type, void* device_work,
                                  std::size_t device_bytes, void* host_work, std::size_t host_bytes,
                                  int* info);
// NOLINTEND
