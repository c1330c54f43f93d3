// Owns the way to the CPU back end.
#pragma once

#include "measure/backend.hpp"

#include <cstdint>
#include <memory>
#include <string_view>

namespace vindex::cpu {

/// The CPU back end with `threads` concurrent calls (0: every core this process may use). Loads
/// OpenBLAS with the kernels `blas_core` (empty: the processor's best) and its errors, see
/// blas/blas_library.hpp.
std::unique_ptr<measure::Backend> make_cpu_backend(std::int32_t threads,
                                                   std::string_view blas_core = {});

}  // namespace vindex::cpu
