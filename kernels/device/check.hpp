// Owns what goes wrong between us and CUDA, cuBLAS and cuSOLVER: their status codes become
// DeviceError naming the call site, with the words for it and what a kernel that ended itself left
// behind. A failed allocation is OutOfMemory instead, so that a caller can halve its batch and try
// again. Sizes are checked on their way to cuBLAS.
#pragma once

#include "trap_report.hpp"

#include <vindex/error.hpp>

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cusolverDn.h>

#include <cstdint>
#include <limits>
#include <source_location>
#include <string>

namespace vindex::kernels {

/// "factor_panel_kernel<float, 8, 8>" of a kernel's host address, or that address.
std::string function_name(const void* kernel);

/// Errors: always, DeviceError E-CUDA naming the place.
[[noreturn]] void throw_cuda_error(cudaError_t status, const std::source_location& where);

/// For a launch that was refused, or, where it was `awaited`, whose kernel failed.
/// Errors: always. OutOfMemory where the device had no memory for the kernel's code or stacks, else
/// DeviceError E-CUDA with the kernel's name, grid, block and shared memory.
[[noreturn]] void throw_launch_error(cudaError_t status, const void* kernel,
                                     const cudaLaunchConfig_t& config, bool awaited);

inline std::string site(const std::source_location& where) {
  return std::string(where.file_name()) + ":" + std::to_string(where.line());
}

inline void check(cudaError_t status,
                  std::source_location where = std::source_location::current()) {
  if (status != cudaSuccess) {
    throw_cuda_error(status, where);
  }
}

inline void check(cublasStatus_t status,
                  std::source_location where = std::source_location::current()) {
  if (status == CUBLAS_STATUS_ALLOC_FAILED) {
    throw OutOfMemory("cuBLAS workspace", 0);
  }
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw DeviceError("E-CUBLAS", std::string("cuBLAS: ") + cublasGetStatusString(status) + " at " +
                                      site(where) + trap_text());
  }
}

inline void check(cusolverStatus_t status,
                  std::source_location where = std::source_location::current()) {
  if (status == CUSOLVER_STATUS_ALLOC_FAILED) {
    throw OutOfMemory("cuSOLVER workspace", 0);
  }
  if (status != CUSOLVER_STATUS_SUCCESS) {
    throw DeviceError("E-CUSOLVER", "cuSOLVER: status " + std::to_string(static_cast<int>(status)) +
                                        " at " + site(where) + trap_text());
  }
}

/// `value` as cuBLAS takes it. Errors: UsageError beyond 31 bits.
inline int blas_int(std::int64_t value) {
  if (value > std::numeric_limits<int>::max()) {
    throw UsageError("E-CUDA-SIZE",
                     "a side of " + std::to_string(value) + " exceeds what cuBLAS can index");
  }
  return static_cast<int>(value);
}

}  // namespace vindex::kernels
