// Owns the Gram matrix of float32 weights on a matrix unit that multiplies bfloat16: every weight
// is split into as many parts as it needs (tile_product.hpp), one for BF16, two for F16 and INT4
// with BF16 scales, three for Q8_0 and F32. How many is read off the weights of a block, so that no
// format is named here, and nothing is rounded that a format says is exact.
//
// Why parts and not the codes: a scale that changes along the contracted side, or with every 32 of
// it, would have to be multiplied into the sums after every tile, which takes longer than the
// products of all parts. Source of the split: Henry, Tang, Heinecke, "Leveraging the bfloat16
// artificial intelligence datatype for higher-precision computations" (ARITH 2019).
#pragma once

#include "simd_gram_bf16.hpp"

#include "cpu/cpu_tiles.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>

namespace vindex::cpu {

/// Contracted indices that are split and multiplied at a time.
inline constexpr std::int64_t kSplitDepth = 256;

/// Bytes of workspace for a Gram matrix of order n: about 3 KiB n.
std::size_t split_gram_workspace_bytes(std::int64_t n);

/// Adds T^T T (row slabs) or T T^T of one tile to the triangle j <= i of gram[i * n + j], n its
/// short side.
///
/// Range     |w| in [2^-30, 2^30] at the largest, as for every float32 Gram: parts and products
///           below 2^-126 are zero, less than 2^-60 of the largest element.
/// Accuracy  |error_ij| <= (17 + 6 * 8 + 2) eps32 sum_k |w_ki w_kj| per kSplitDepth of the
///           contracted side, typically a third of float32 sums of that length.
/// Memory    `workspace` aligned to 64 bytes, split_gram_workspace_bytes(n) at least.
/// Errors    Stopped, looked for at every block of rows.
void add_split_gram(const Tile& tile, bool row_slabs, float* gram, std::span<std::byte> workspace,
                    TileProduct tiles, SimdLevel level = best_simd_level(),
                    const std::stop_token& stop = {});

}  // namespace vindex::cpu
