// Owns how many handles of libraries the emulated device has memory for.
#pragma once

#include <cstdint>

namespace vindex::emulated {

/// cublasCreate() says CUBLAS_STATUS_ALLOC_FAILED after so many more handles; negative, the
/// default: never.
void set_blas_handles_left(std::int32_t count);
/// How often it has said so, in all.
std::int32_t blas_handles_refused();

}  // namespace vindex::emulated
