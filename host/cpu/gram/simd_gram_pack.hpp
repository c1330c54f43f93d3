// Owns the packed operand of the bfloat16 Gram kernels: panels of 16 Gram indices; in a panel, one
// 32-bit word per pair of contracted indices and Gram index, the even one in the low half:
//   word[panel][k / 2][i mod 16] = bf16(w(k, i)) | bf16(w(k + 1, i)) << 16
// Missing rows and columns are zero.
#pragma once

#include "cpu/simd/simd_level.hpp"

#include <cstddef>
#include <cstdint>

namespace vindex::cpu {

inline constexpr std::int64_t kPanelWidth = 16;
/// Contracted indices packed at a time. Two panels of this depth are 64 KiB.
inline constexpr std::int64_t kPackDepth = 1024;

/// A rectangle of codes as the packing loops see it.
struct PackSource {
  const std::byte* codes = nullptr;  ///< of contracted index 0, Gram index 0
  std::int64_t row_stride_bytes = 0;
  bool fp8 = false;  ///< E4M3 bytes, else bfloat16
  bool contract_rows = false;
  std::int64_t gram_size = 0;
  std::int64_t depth = 0;   ///< contracted indices, at most kPackDepth
  float multiplier = 1.0F;  ///< power of two applied to every code
};

/// Fills `panels`: panel p starts at word p * kPanelWidth * kPackDepth / 2.
void pack_gram_panels(const PackSource& source, std::uint32_t* panels, SimdLevel level);

/// The other layout of an operand (tile_product.hpp): `count` blocks of 16 x 16 words, each
/// transposed, from and to 64-byte boundaries.
void transpose_blocks(const std::uint32_t* from, std::uint32_t* to, std::int64_t count,
                      SimdLevel level);

}  // namespace vindex::cpu
