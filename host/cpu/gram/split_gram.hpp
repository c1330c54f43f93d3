// Owns the Gram matrix of float32 weights on a matrix unit that multiplies bfloat16: every weight
// is split into as many parts as it needs (tile_product.hpp), one for BF16, two for F16 and INT4
// with BF16 scales. How many is read off the weights, so that no format is named here, and nothing
// is rounded.
//
// Also owns which weights are split at all: those for which that was measured to be faster than
// OpenBLAS (xeon/tiles.json, a Xeon with AMX, one thread). Two parts take four products: 159 ms
// against 209 for 7168 x 2048, and 150 against 251 within a whole spectrum, but 100 against 85
// within that of 2048 x 2048 (alone 44 against 61): they are for long sides. Three parts, which
// F32 and Q8_0 need, take six: 202 to 206 ms against the same 209, and whole spectra from as fast
// to a sixth slower, so there is no code for three.
//
// Why parts and not the codes: a scale that changes along the contracted side, or with every 32 of
// it, would have to be multiplied into the sums after every tile, which takes longer than the
// products of all parts. Source of the split: Henry, Tang, Heinecke, "Leveraging the bfloat16
// artificial intelligence datatype for higher-precision computations" (ARITH 2019).
#pragma once
#include "cpu/simd/matrix_unit.hpp"
#include "cpu/simd/simd_level.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>

namespace vindex::cpu {

struct Tile;

/// Contracted indices that are split and multiplied at a time.
inline constexpr std::int64_t kSplitDepth = 256;

/// The most parts that weights with this long side are split into. Pure.
int max_split_parts(std::int64_t long_side);

/// Parts that the weights of `tile` need, 0 where one of them needs more than `most` (1 or 2).
int split_parts_of(const Tile& tile, int most);

/// Bytes of workspace for a Gram matrix of order n: about 2 KiB n.
std::size_t split_gram_workspace_bytes(std::int64_t n);

/// Adds T^T T (row slabs) or T T^T of one tile to the triangle j <= i of gram[i * n + j], n its
/// short side. `parts` is what split_parts_of() says of the tile; with fewer, weights are rounded.
///
/// Range     |w| in [2^-30, 2^30] at the largest, as for every float32 Gram: parts and products
///           below 2^-126 are zero, less than 2^-60 of the largest element.
/// Accuracy  |error_ij| <= (17 + 4 * 8 + 2) eps32 sum_k |w_ki w_kj| per kSplitDepth of the
///           contracted side, typically a third of float32 sums of that length.
/// Memory    `workspace` aligned to 64 bytes, split_gram_workspace_bytes(n) at least.
/// Errors    Stopped, looked for at every block of rows.
void add_split_gram(const Tile& tile, int parts, bool row_slabs, float* gram,
                    std::span<std::byte> workspace, TileProduct tiles,
                    SimdLevel level = best_simd_level(), const std::stop_token& stop = {});

}  // namespace vindex::cpu
