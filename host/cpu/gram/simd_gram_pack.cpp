// Owns packing codes into the panels that simd_gram_bf16.cpp multiplies (layout:
// simd_gram_pack.hpp). Two neighbours of the contracted side lie in one 32-bit word, as vdpbf16ps
// takes them. Where stored rows are contracted that is a merge of two rows; where columns are, a
// transpose of 16 x 16 words in registers, since reading codes a row apart would use one of every
// 64 bytes that memory gives.
//
// E4M3 has 4 significant bits and exponents from -9 to 8: every value is exact in bfloat16, and one
// multiplication by 2^120 of its bits as a float32 decodes it, subnormals included.
#include "simd_gram_pack.hpp"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace vindex::cpu {
namespace {

constexpr std::int64_t kPanelWords = kPanelWidth * kPackDepth / 2;

// E4M3 codes moved to the top of a float32, sign at bit 31 and exponent field at bit 23, become
// their value by 2^(127 - 7), subnormals included.
constexpr float kFp8Multiplier = 0x1p120F;

// Bits of one weight as bfloat16.
std::uint32_t weight_bits(const PackSource& source, const std::byte* code) {
  std::uint32_t bits = 0;
  float multiplier = source.multiplier;
  if (source.fp8) {
    const auto byte = static_cast<std::uint32_t>(*code);
    if ((byte & 0x7FU) == 0x7FU) {
      return 0x7FC0U;
    }
    bits = (byte & 0x80U) << 24U | (byte & 0x7FU) << 20U;
    multiplier *= kFp8Multiplier;
  } else {
    std::uint16_t half = 0;
    std::memcpy(&half, code, sizeof(half));
    bits = static_cast<std::uint32_t>(half) << 16U;
  }
  const float value = __builtin_bit_cast(float, bits) * multiplier;
  return __builtin_bit_cast(std::uint32_t, value) >> 16U;
}

void pack_portable(const PackSource& source, std::uint32_t* panels) {
  const std::int64_t code_bytes = source.fp8 ? 1 : 2;
  const auto bits = [&](std::int64_t k, std::int64_t i) -> std::uint32_t {
    if (k >= source.depth || i >= source.gram_size) {
      return 0;
    }
    const std::int64_t row = source.contract_rows ? k : i;
    const std::int64_t column = source.contract_rows ? i : k;
    return weight_bits(source, source.codes + row * source.row_stride_bytes + column * code_bytes);
  };
  for (std::int64_t first = 0; first < source.gram_size; first += kPanelWidth) {
    std::uint32_t* panel = panels + first / kPanelWidth * kPanelWords;
    for (std::int64_t k = 0; k < source.depth; k += 2) {
      for (std::int64_t i = 0; i < kPanelWidth; ++i) {
        *panel++ = bits(k, first + i) | bits(k + 1, first + i) << 16U;
      }
    }
  }
}

#if defined(__x86_64__)
#define VINDEX_TARGET_PACK __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

// Float values of 16 codes, one per 32-bit lane. bfloat16 products by a power of two and E4M3
// values are exact, so the low 16 bits are zero.
template <bool kFp8>
[[gnu::always_inline]] VINDEX_TARGET_PACK inline __m512i weights_of(__m512i codes,
                                                                    __m512 multiplier) {
  if constexpr (kFp8) {
    const __m512i magnitude = _mm512_and_si512(codes, _mm512_set1_epi32(0x7F));
    const __m512i sign = _mm512_slli_epi32(_mm512_andnot_si512(_mm512_set1_epi32(0x7F), codes), 24);
    const __m512i bits = _mm512_or_si512(sign, _mm512_slli_epi32(magnitude, 20));
    const __m512 value = _mm512_mul_ps(_mm512_castsi512_ps(bits), multiplier);
    const __mmask16 nan = _mm512_cmpeq_epi32_mask(magnitude, _mm512_set1_epi32(0x7F));
    return _mm512_mask_mov_epi32(_mm512_castps_si512(value), nan, _mm512_set1_epi32(0x7FC00000));
  } else {
    return _mm512_castps_si512(
        _mm512_mul_ps(_mm512_castsi512_ps(_mm512_slli_epi32(codes, 16)), multiplier));
  }
}

[[gnu::always_inline]] VINDEX_TARGET_PACK inline __m512i pair_words(__m512i even, __m512i odd) {
  const __m512i high = _mm512_and_si512(odd, _mm512_set1_epi32(static_cast<int>(0xFFFF0000U)));
  return _mm512_or_si512(_mm512_srli_epi32(even, 16), high);
}

// Up to 16 neighbouring codes of a row.
template <bool kFp8>
[[gnu::always_inline]] VINDEX_TARGET_PACK inline __m512i load_codes(const std::byte* codes,
                                                                    __mmask16 mask) {
  if constexpr (kFp8) {
    return _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, codes));
  } else {
    return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, codes));
  }
}

template <bool kFp8>
VINDEX_TARGET_PACK void pack_rows_contracted(const PackSource& source, std::uint32_t* panels) {
  constexpr std::int64_t kCodeBytes = kFp8 ? 1 : 2;
  // Rows per sweep: a sweep reads whole rows and writes runs of this many words times 8.
  constexpr std::int64_t kSweep = 16;
  const __m512 multiplier =
      _mm512_set1_ps(kFp8 ? source.multiplier * kFp8Multiplier : source.multiplier);
  for (std::int64_t start = 0; start < source.depth; start += kSweep) {
    const std::int64_t end = std::min(source.depth, start + kSweep);
    for (std::int64_t first = 0; first < source.gram_size; first += kPanelWidth) {
      const std::int64_t held = std::min(kPanelWidth, source.gram_size - first);
      const auto mask = static_cast<__mmask16>((1U << held) - 1U);
      std::uint32_t* out = panels + first / kPanelWidth * kPanelWords + start / 2 * kPanelWidth;
      for (std::int64_t k = start; k < end; k += 2, out += kPanelWidth) {
        const std::byte* codes = source.codes + k * source.row_stride_bytes + first * kCodeBytes;
        const __m512i even = weights_of<kFp8>(load_codes<kFp8>(codes, mask), multiplier);
        __m512i odd = _mm512_setzero_si512();
        if (k + 1 < source.depth) {
          odd =
              weights_of<kFp8>(load_codes<kFp8>(codes + source.row_stride_bytes, mask), multiplier);
        }
        _mm512_store_si512(out, pair_words(even, odd));
      }
    }
  }
}

// 16 x 16 words: lane j of rows[i] and lane i of rows[j] change places.
[[gnu::always_inline]] VINDEX_TARGET_PACK inline void transpose(__m512i (&rows)[16]) {
  __m512i a[16];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    a[2 * i] = _mm512_unpacklo_epi32(rows[2 * i], rows[2 * i + 1]);
    a[2 * i + 1] = _mm512_unpackhi_epi32(rows[2 * i], rows[2 * i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    rows[4 * i] = _mm512_unpacklo_epi64(a[4 * i], a[4 * i + 2]);
    rows[4 * i + 1] = _mm512_unpackhi_epi64(a[4 * i], a[4 * i + 2]);
    rows[4 * i + 2] = _mm512_unpacklo_epi64(a[4 * i + 1], a[4 * i + 3]);
    rows[4 * i + 3] = _mm512_unpackhi_epi64(a[4 * i + 1], a[4 * i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    a[i] = _mm512_shuffle_i32x4(rows[i], rows[i + 4], 0x88);
    a[i + 4] = _mm512_shuffle_i32x4(rows[i], rows[i + 4], 0xDD);
    a[i + 8] = _mm512_shuffle_i32x4(rows[i + 8], rows[i + 12], 0x88);
    a[i + 12] = _mm512_shuffle_i32x4(rows[i + 8], rows[i + 12], 0xDD);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    rows[i] = _mm512_shuffle_i32x4(a[i], a[i + 8], 0x88);
    rows[i + 8] = _mm512_shuffle_i32x4(a[i], a[i + 8], 0xDD);
    rows[i + 4] = _mm512_shuffle_i32x4(a[i + 4], a[i + 12], 0x88);
    rows[i + 12] = _mm512_shuffle_i32x4(a[i + 4], a[i + 12], 0xDD);
  }
}

// 32 neighbouring weights of a row as 16 words.
template <bool kFp8>
[[gnu::always_inline]] VINDEX_TARGET_PACK inline __m512i load_pairs(const std::byte* codes,
                                                                    __mmask32 mask,
                                                                    __m512 multiplier) {
  __m512i words;
  if constexpr (kFp8) {
    words = _mm512_cvtepu8_epi16(_mm256_maskz_loadu_epi8(mask, codes));
  } else {
    words = _mm512_maskz_loadu_epi16(mask, codes);
  }
  const __m512i even = _mm512_and_si512(words, _mm512_set1_epi32(0xFFFF));
  const __m512i odd = _mm512_srli_epi32(words, 16);
  return pair_words(weights_of<kFp8>(even, multiplier), weights_of<kFp8>(odd, multiplier));
}

template <bool kFp8>
VINDEX_TARGET_PACK void pack_columns_contracted(const PackSource& source, std::uint32_t* panels) {
  constexpr std::int64_t kCodeBytes = kFp8 ? 1 : 2;
  constexpr std::int64_t kColumns = 32;
  const __m512 multiplier =
      _mm512_set1_ps(kFp8 ? source.multiplier * kFp8Multiplier : source.multiplier);
  for (std::int64_t first = 0; first < source.gram_size; first += kPanelWidth) {
    const std::int64_t held = std::min(kPanelWidth, source.gram_size - first);
    std::uint32_t* panel = panels + first / kPanelWidth * kPanelWords;
    for (std::int64_t k = 0; k < source.depth; k += kColumns) {
      const std::int64_t columns = std::min(kColumns, source.depth - k);
      const auto mask = static_cast<__mmask32>((1ULL << columns) - 1ULL);
      const std::byte* codes = source.codes + first * source.row_stride_bytes + k * kCodeBytes;
      __m512i rows[16];
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) {
        rows[i] = i < held ? load_pairs<kFp8>(codes + i * source.row_stride_bytes, mask, multiplier)
                           : _mm512_setzero_si512();
      }
      transpose(rows);
      std::uint32_t* out = panel + k / 2 * kPanelWidth;
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) {
        _mm512_store_si512(out + i * kPanelWidth, rows[i]);
      }
    }
  }
}

VINDEX_TARGET_PACK void transpose_blocks_avx512(const std::uint32_t* from, std::uint32_t* to,
                                                std::int64_t count) {
  for (std::int64_t block = 0; block < count; ++block, from += 256, to += 256) {
    __m512i rows[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      rows[i] = _mm512_load_si512(from + 16 * i);
    }
    transpose(rows);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      _mm512_store_si512(to + 16 * i, rows[i]);
    }
  }
}
#endif

}  // namespace

void transpose_blocks(const std::uint32_t* from, std::uint32_t* to, std::int64_t count,
                      SimdLevel level) {
#if defined(__x86_64__)
  if (level >= SimdLevel::kAvx512) {
    transpose_blocks_avx512(from, to, count);
    return;
  }
#endif
  for (std::int64_t block = 0; block < count; ++block, from += 256, to += 256) {
    for (std::int64_t i = 0; i < kPanelWidth; ++i) {
      for (std::int64_t j = 0; j < kPanelWidth; ++j) {
        to[i * kPanelWidth + j] = from[j * kPanelWidth + i];
      }
    }
  }
}

void pack_gram_panels(const PackSource& source, std::uint32_t* panels, SimdLevel level) {
#if defined(__x86_64__)
  if (level >= SimdLevel::kAvx512) {
    if (source.contract_rows) {
      source.fp8 ? pack_rows_contracted<true>(source, panels)
                 : pack_rows_contracted<false>(source, panels);
    } else {
      source.fp8 ? pack_columns_contracted<true>(source, panels)
                 : pack_columns_contracted<false>(source, panels);
    }
    return;
  }
#endif
  pack_portable(source, panels);
}

}  // namespace vindex::cpu
