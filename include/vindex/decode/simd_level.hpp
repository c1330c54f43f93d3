// Owns the names of the processor-specific variants of the host decoders. One binary serves every
// x86-64: the best level is chosen at run time. All levels give the same bits.
#pragma once

#include <vindex/decode/decode_matrix.hpp>

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

/// As decode_matrix() and moments_of(), with the variant forced (tests, benchmarks). Errors:
/// expects() on a level this processor cannot run.
void decode_matrix_at(SimdLevel level, const EncodedMatrix& matrix, float* out,
                      std::int64_t out_stride);
Moments moments_of_at(SimdLevel level, const float* values, std::int64_t rows, std::int64_t cols,
                      std::int64_t stride);

}  // namespace vindex::decode
