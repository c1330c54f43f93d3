// Owns what the host says of itself as a back end.
#pragma once

#include "backend/backend.hpp"
#include "blas/blas_library.hpp"

#include <string>

namespace vindex::cpu {

/// The processor and what computes on it: the library, with its warning, and the matrix unit, where
/// one is used or there is a reason (`unit_note`) not to.
BackendInfo cpu_info(const blas::BlasInfo& blas, const std::string& unit = {},
                     const std::string& unit_note = {});

}  // namespace vindex::cpu
