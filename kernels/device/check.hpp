// Turns the status codes of CUDA, cuBLAS and cuSOLVER into DeviceError naming the call site. A
// failed allocation is OutOfMemory instead, so that a caller can halve its batch and try again.
#pragma once

#include "device/device_errors.hpp"
#include "device/trap_report.hpp"

#include <vindex/core/error.hpp>

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cusolverDn.h>

#include <cstdint>
#include <source_location>
#include <string>

namespace vindex::kernels {

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

}  // namespace vindex::kernels
