// Owns what the CPU back end says of itself: processor model and BLAS.
#pragma once

#include <vindex/measure/backend.hpp>
#include <vindex/measure/blas_library.hpp>

namespace vindex::measure {

BackendInfo cpu_backend_info(const BlasInfo& blas);

}  // namespace vindex::measure
