// Owns the way to forward passes on the host.
#pragma once

#include "backend/forward_backend.hpp"

#include <cstdint>
#include <memory>
#include <string_view>

namespace vindex::cpu {

/// Products and attention on `threads` threads (0: every core this process may use). Loads OpenBLAS
/// with the kernels `blas_core` (empty: the processor's best) and its errors, see
/// blas/blas_library.hpp.
std::unique_ptr<ForwardBackend> make_cpu_forward(std::int32_t threads,
                                                 std::string_view blas_core = {});

}  // namespace vindex::cpu
