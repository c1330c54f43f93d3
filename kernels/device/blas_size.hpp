// Owns the step from our sizes to cuBLAS's.
#pragma once

#include <vindex/core/error.hpp>

#include <cstdint>
#include <limits>
#include <string>

namespace vindex::kernels {

/// `value` as cuBLAS takes it. Errors: UsageError beyond 31 bits.
inline int blas_int(std::int64_t value) {
  if (value > std::numeric_limits<int>::max()) {
    throw UsageError("E-CUDA-SIZE",
                     "a side of " + std::to_string(value) + " exceeds what cuBLAS can index");
  }
  return static_cast<int>(value);
}

}  // namespace vindex::kernels
