// Owns how much workspace LAPACK's blocked routines are given.
#pragma once

#include <cstdint>

namespace vindex::cpu {

/// Columns per block reflector in LAPACK's QR and back-transformation (ILAENV gives 32 for both): a
/// workspace of this many rows or columns lets xGEQRF, xORGQR and xORMTR run blocked.
inline constexpr std::int64_t kLapackBlock = 32;

}  // namespace vindex::cpu
