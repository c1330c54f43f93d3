// Owns the product of two tiles, with fused multiply-adds by instruction where the processor has
// them.
#include "emulated_tiles.hpp"

#include "cpu/gram/tile_product.hpp"

#include <cfloat>
#include <cmath>
#include <cstring>

namespace vindex::test {
namespace {

constexpr int kSize = 16;

/// Zero of the same sign for a subnormal value.
inline float flushed(float value) {
  return std::abs(value) < FLT_MIN ? std::copysign(0.0F, value) : value;
}

inline float low_half(std::uint32_t word) {
  return flushed(__builtin_bit_cast(float, word << 16U));
}
inline float high_half(std::uint32_t word) {
  return flushed(__builtin_bit_cast(float, word & 0xFFFF0000U));
}

[[gnu::always_inline]] inline void multiply_words(const std::uint32_t (&rows)[kSize][kSize],
                                                  const std::uint32_t (&columns)[kSize][kSize],
                                                  std::uint32_t (&sums)[kSize][kSize]) {
  float low[kSize][kSize];
  float high[kSize][kSize];
  for (int k = 0; k < kSize; ++k) {
    for (int n = 0; n < kSize; ++n) {
      low[k][n] = low_half(columns[k][n]);
      high[k][n] = high_half(columns[k][n]);
    }
  }
  for (int m = 0; m < kSize; ++m) {
    float even[kSize] = {};
    float odd[kSize] = {};
    for (int k = 0; k < kSize; ++k) {
      const float a = low_half(rows[m][k]);
      const float b = high_half(rows[m][k]);
      for (int n = 0; n < kSize; ++n) {
        even[n] = flushed(__builtin_fmaf(a, low[k][n], even[n]));
        odd[n] = flushed(__builtin_fmaf(b, high[k][n], odd[n]));
      }
    }
    for (int n = 0; n < kSize; ++n) {
      const float before = flushed(__builtin_bit_cast(float, sums[m][n]));
      const float sum = flushed(before + flushed(even[n] + odd[n]));
      sums[m][n] = __builtin_bit_cast(std::uint32_t, sum);
    }
  }
}

#if defined(__x86_64__)
/// With an instruction for what is otherwise a call of the library.
__attribute__((target("avx2,fma"))) void multiply_with_fma(
    const std::uint32_t (&rows)[kSize][kSize], const std::uint32_t (&columns)[kSize][kSize],
    std::uint32_t (&sums)[kSize][kSize]) {
  multiply_words(rows, columns, sums);
}
#endif

void multiply_by_tiles(const cpu::TileOperands& operands, float* gram, std::int64_t n,
                       const std::stop_token& stop) {
  cpu::multiply_tiles<EmulatedTiles>(operands, gram, n, stop);
}

}  // namespace

void EmulatedTiles::clear(int tile) { std::memset(words_[tile], 0, sizeof(words_[tile])); }

void EmulatedTiles::load_tile(int tile, const void* from, std::int64_t stride_bytes) {
  for (int row = 0; row < kSize; ++row) {
    std::memcpy(words_[tile][row], static_cast<const std::byte*>(from) + row * stride_bytes,
                sizeof(words_[tile][row]));
  }
}

void EmulatedTiles::store_tile(int tile, void* to, std::int64_t stride_bytes) const {
  for (int row = 0; row < kSize; ++row) {
    std::memcpy(static_cast<std::byte*>(to) + row * stride_bytes, words_[tile][row],
                sizeof(words_[tile][row]));
  }
}

void EmulatedTiles::multiply(int sum, int rows, int columns) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    multiply_with_fma(words_[rows], words_[columns], words_[sum]);
    return;
  }
#endif
  multiply_words(words_[rows], words_[columns], words_[sum]);
}

cpu::TileProduct emulated_tile_product() { return multiply_by_tiles; }

}  // namespace vindex::test
