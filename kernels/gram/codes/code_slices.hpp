// Owns float64 Gram matrices of E4M3 codes under one scale per 128 x 128 tile (kBlockScaled of
// gram_plan.hpp) by int8 tensor cores, and the moments of the weights on the way. No weight is
// decoded to memory.
//
// A code is an integer k of 18 bits in units of 2^-9, cut into three signed digits of six bits,
// k = 4096 h + 64 m + l. Over a chunk of 128 steps the nine products of digits are exact in 32-bit
// sums, and so is what they make: with six bits to a digit the products of equal weight add up in
// place, (64 hh + hm + mh) 64 + hl + mm + lh within 31 bits, 64 (ml + lm) + ll within 25. Both are
// multiplied with the product of the two tiles' scales, 48 bits, and added in float64: two
// roundings a chunk, where a float64 product has 128.
//
// Weights are what is measured, and decoding rounds code times scale to float32. Under scales of up
// to twenty bits nothing is rounded. Else w = k s - r u, with u the scale's last place and r what
// rounding took: a multiple of 2^-9 below 2^8, of three significant bits. All codes of a
// significand are rounded by one share of themselves, so the mean of those shares is put into s, to
// sixteenths of u; r then has nine bits, and is exact in binary16 as the code is. Sums of k r' and
// of r k', 2^-25 of the whole, are formed by binary16 products in float32, drained every 128 steps,
// and taken off; sums of r r' are some 2^-52 of the whole and left out. What those float32 sums
// lose is the error: 2^-48.6 of the product of two lines' norms for normal weights, 2^-46.8 where a
// few codes hold the norms.
//
// Products of a chunk: 9 of bytes, 4 of half the depth in binary16 where scales are rounded; 28 of
// bytes for any weights (sliced_gram.hpp). Why not float64 tensor cores: at best half of this rate,
// where they exist at all. Why not six products of digits and of their sums (Karatsuba, Toom):
// these do not add up in place, and six sums of a thread do not fit its registers.
//
// Source: Ozaki, Ogita, Oishi, Rump 2012; Ootomo, Ozaki, Yokota 2024 (int8 slices).
#pragma once

#include "code_batch.hpp"

#include "kernels/decode/code_scales.hpp"
#include "kernels/decode/decode_matrix.hpp"
#include "kernels/device/trap_report.hpp"
#include "kernels/gram/gram_shape.hpp"

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace vindex::kernels {

/// Device bytes for `matrices` at once.
std::size_t code_gram_bytes(const GramShape& shape, std::int64_t matrices);

/// Matrices at once that use a device well and take up to 1 GiB; 0 where one takes more.
std::int64_t code_grams_at_once(const GramShape& shape, std::int64_t matrices);

/// Forms `grams` and `moments`, code_grams_at_once() of them at a time in `workspace`
/// (code_gram_bytes() of so many, 1024-byte aligned). A tile with a weight that is not finite makes
/// its rows and columns NaN. Ordered on `stream`, does not wait; bits depend on the matrix alone.
/// Errors: DeviceError.
void form_code_grams(const CodeGramBatch& batch, void* workspace, cudaStream_t stream);

}  // namespace vindex::kernels
