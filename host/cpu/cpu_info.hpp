// Owns what the CPU back end says of itself: processor model and BLAS.
#pragma once

#include "seam.hpp"

#include <vindex/blas/blas_library.hpp>

namespace vindex::cpu {

BackendInfo cpu_backend_info(const blas::BlasInfo& blas);

}  // namespace vindex::cpu
