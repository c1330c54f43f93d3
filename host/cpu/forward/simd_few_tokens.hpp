// Owns products of decoded weights with few tokens. A gemm packs every weight before it multiplies,
// which takes longer than a handful of multiplications; here weights are used as they are.
#pragma once

#include "weight_chunk.hpp"

#include "cpu/simd/simd_level.hpp"

#include <cstdint>

namespace vindex::cpu {

/// Tokens up to which this is faster than a gemm.
inline constexpr std::int64_t kFewTokens = 12;

/// y [tokens, outputs] += x [tokens, cols] times the weights of a chunk.
struct FewTokens {
  DecodedChunk chunk;
  std::int64_t outputs = 0, cols = 0, tokens = 0;
  const float* x = nullptr;
  std::int64_t x_stride = 0;
  float* y = nullptr;
  std::int64_t y_stride = 0;
};

void multiply_few(const FewTokens& work, SimdLevel level);

}  // namespace vindex::cpu
