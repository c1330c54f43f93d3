// Owns what the CPU back end says of itself: processor model, BLAS version and kernel set.
#pragma once

#include <vindex/measure/backend.hpp>

#include <cstdint>

namespace vindex::measure {

BackendInfo cpu_backend_info();

/// Cores this process may run on (its affinity mask), at least 1.
std::int32_t usable_cores();

}  // namespace vindex::measure
