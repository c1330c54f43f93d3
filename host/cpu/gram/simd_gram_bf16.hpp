// Owns the Gram matrix of weights whose codes are exact in bfloat16 (BF16 itself; fp8 E4M3 with
// block scales folded in afterwards), at twice the rate of float32 arithmetic.
#pragma once

#include "cpu/simd/matrix_unit.hpp"
#include "cpu/simd/simd_level.hpp"
#include "decode/encoding/encoded_matrix.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>

namespace vindex::cpu {

/// Contracted indices summed by a fresh accumulator.
inline constexpr std::int64_t kBf16Depth = 128;

/// True where gram_bf16() takes this matrix for this contraction: plain BF16, or F8_E4M3 with F32
/// or BF16 scales whose block is even and at least 32 long in the contracted direction.
bool gram_bf16_takes(const decode::EncodedMatrix& slab, bool contract_rows);

/// True where gram_bf16() by vector instructions is faster than OpenBLAS on decoded weights. Pure.
/// It was measured to be on AMD's processors (Zen 4, 7168 x 2048, one thread: 150 ms against 317
/// for ssyrk), and slower on Intel's (a Xeon of model 207: 461 ms against 209, fp8 378; vdpbf16ps
/// exists there beside AMX, whose registers a system need not grant).
bool gram_bf16_is_fast(SimdLevel level = best_simd_level(), bool by_amd = is_made_by_amd());

/// Bytes of workspace for a Gram matrix of order n: about 2 KiB n, on a matrix unit 4.
std::size_t gram_bf16_workspace_bytes(std::int64_t n, bool by_tiles = false);

/// Adds scale^2 * W^T W (contract_rows) or scale^2 * W W^T of the slab W to the triangle j <= i of
/// `gram`; other elements are not touched. Call it for slab after slab of a matrix.
///
/// Shapes    gram[i * n + j], n = slab.cols with contract_rows, else slab.rows; slabs cut as
///           EncodedMatrix demands (at block boundaries).
/// Scale     a power of two. vdpbf16ps takes subnormal operands as zero and flushes subnormal
///           results: choose scale so that max |scale * w| lies in [2^-32, 2^32], and what is lost
///           is below 2^-60 of the largest Gram element.
/// Accuracy  products exact; sums in float32 with a fresh accumulator every 128 of the contracted
///           length: |error_ij| <= (128 + K/128) eps32 sum_k |w_ki w_kj|, typically 10 times less
///           than one running float32 sum. fp8: code * scale is not rounded to float32. On a matrix
///           unit the same bound: sums of 16 within a tile, of 16 tiles in an accumulator.
/// Memory    `workspace` aligned to 64 bytes, gram_bf16_workspace_bytes(n, tiles) at least.
/// Unit      `tiles`, where it is not null; else vector instructions.
/// Speed     slabs of 1,024 contracted indices or more: each slab reads and writes all of `gram`.
/// Errors    expects() on what gram_bf16_takes() refuses; Stopped, looked for at every block of
///           rows. NaN and infinity spread as in a product.
/// Source    Intel SDM, VDPBF16PS; block promotion after DeepGEMM's sm90 kernels.
void gram_bf16(const decode::EncodedMatrix& slab, bool contract_rows, float scale, float* gram,
               std::int64_t n, std::span<std::byte> workspace, SimdLevel level = best_simd_level(),
               const std::stop_token& stop = {}, TileProduct tiles = nullptr);

}  // namespace vindex::cpu
