// Owns the run-time choice among SIMD variants of the decoders and of moments: one binary serves
// every x86-64, and all levels give the same bits.
#pragma once

#include <cstdint>
#include <string_view>

namespace vindex::decode {

enum class SimdLevel : std::uint8_t { kBaseline, kAvx2, kAvx512, kCount };

/// "baseline", "avx2", "avx512".
std::string_view simd_level_name(SimdLevel level);

/// True where this processor and operating system can run `level`.
bool is_supported(SimdLevel level);

/// The highest supported level: what decode_matrix() and moments_of() use.
SimdLevel best_simd_level();

}  // namespace vindex::decode
