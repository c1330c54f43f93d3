// Owns the Gram matrix of weights whose codes are exact in bfloat16 (BF16 itself; fp8 E4M3 with
// block scales folded in afterwards), at twice the rate of float32 arithmetic.
#pragma once

#include "simd_level.hpp"

#include <vindex/decode/encoding.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace vindex::cpu {

/// True where gram_bf16() takes this matrix for this contraction: plain BF16, or F8_E4M3 with F32
/// or BF16 scales whose block is even and at least 32 long in the contracted direction.
bool gram_bf16_takes(const decode::EncodedMatrix& slab, bool contract_rows);

/// True where gram_bf16() is the faster way on this processor; elsewhere it is a slow reference.
bool gram_bf16_is_fast(SimdLevel level = best_simd_level());

/// Bytes of workspace for a Gram matrix of order n: about 2 KiB n.
std::size_t gram_bf16_workspace_bytes(std::int64_t n);

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
///           than one running float32 sum. fp8: code * scale is not rounded to float32.
/// Memory    `workspace` aligned to 64 bytes, gram_bf16_workspace_bytes(n) at least.
/// Speed     slabs of 1,024 contracted indices or more: each slab reads and writes all of `gram`.
/// Errors    expects() on what gram_bf16_takes() refuses. NaN and infinity spread as in a product.
/// Source    Intel SDM, VDPBF16PS; block promotion after DeepGEMM's sm90 kernels.
void gram_bf16(const decode::EncodedMatrix& slab, bool contract_rows, float scale, float* gram,
               std::int64_t n, std::span<std::byte> workspace, SimdLevel level = best_simd_level());

}  // namespace vindex::cpu
