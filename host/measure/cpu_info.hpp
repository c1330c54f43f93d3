// Owns what the CPU back end says of itself: processor model and BLAS.
#pragma once

#include <vindex/measure/backend.hpp>
#include <vindex/measure/blas_library.hpp>

#include <cstdint>

namespace vindex::measure {

BackendInfo cpu_backend_info(const BlasInfo& blas);

/// Cores this process may run on (its affinity mask), at least 1.
std::int32_t usable_cores();

}  // namespace vindex::measure
