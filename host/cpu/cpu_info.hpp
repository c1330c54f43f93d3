// Owns what the host says of itself as a back end.
#pragma once

#include "blas/blas_library.hpp"
#include "measure/backend.hpp"

namespace vindex::cpu {

/// The processor and the library that computes on it, with its warning.
measure::BackendInfo cpu_info(const blas::BlasInfo& blas);

}  // namespace vindex::cpu
