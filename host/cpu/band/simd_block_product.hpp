// Owns the one matrix product of the band reduction: C += A B with kBand columns in B and C.
//
// Why not BLAS: C is kBand wide and the blocks lie in strips (simd_band_panel.hpp), where gemm
// would pack both operands anew for every block and pay more for that than for the product. A is
// read element by element and broadcast, B and C by whole vectors, so nothing needs packing and one
// text serves A and its transpose.
#pragma once

#include "band_storage.hpp"

#include "cpu/simd/simd_lanes.hpp"

#include <cstdint>

namespace vindex::cpu {

/// C(rows x kBand) += A(rows x depth) * B(depth x kBand) for whole tiles of rows. A is read element
/// by element at a[i * row_step + k * depth_step], so that A and its transpose cost the same and
/// nothing is packed. B and C are row-major.
/// Accuracy  a fresh accumulator per call: keep depth at most a few hundred.
template <typename T, int kRegisterBytes>
struct BlockProduct {
  using Register = Lanes<T, kRegisterBytes>;
  using Vector = typename Register::Vector;
  static constexpr int kVectors = static_cast<int>(kBand) / Register::kCount;
  // 16 accumulators of 32 registers hide the latency of two FMA pipes; 8 of 16 do.
  static constexpr int kAccumulators = kRegisterBytes == 64 ? 16 : 8;
  // Tiles of several rows and few vectors: those of one or two rows by all vectors took a quarter
  // more time in float64.
  static constexpr int kWidth = kVectors < 2 ? kVectors : 2;
  static constexpr int kRows = kAccumulators / kWidth;
  static_assert(kVectors % kWidth == 0 && kBand % kRows == 0);

  [[gnu::always_inline]] static inline void add_tile(const T* a, std::int64_t row_step,
                                                     std::int64_t depth_step, const T* b,
                                                     std::int64_t b_stride, std::int64_t depth,
                                                     T* c, std::int64_t c_stride) {
    Vector sum[kRows][kWidth];
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
      for (int v = 0; v < kWidth; ++v) {
        sum[i][v] = Vector{};
        // The trailing matrix comes from the third-level cache; the products below hide the way.
        __builtin_prefetch(c + i * c_stride + v * Register::kCount, 1);
      }
    }
    for (std::int64_t k = 0; k < depth; ++k) {
      Vector right[kWidth];
#pragma GCC unroll 16
      for (int v = 0; v < kWidth; ++v) {
        Register::load(b + v * Register::kCount, right[v]);
      }
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
        const T left = a[i * row_step];
#pragma GCC unroll 16
        for (int v = 0; v < kWidth; ++v) {
          sum[i][v] += left * right[v];
        }
      }
      a += depth_step;
      b += b_stride;
    }
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
      for (int v = 0; v < kWidth; ++v) {
        T* out = c + i * c_stride + v * Register::kCount;
        Vector value;
        Register::load(out, value);
        Register::store(value + sum[i][v], out);
      }
    }
  }

  [[gnu::always_inline]] static inline void add(const T* a, std::int64_t row_step,
                                                std::int64_t depth_step, const T* b,
                                                std::int64_t b_stride, std::int64_t rows,
                                                std::int64_t depth, T* c, std::int64_t c_stride) {
    for (std::int64_t i = 0; i < rows; i += kRows) {
      for (std::int64_t j = 0; j < kBand; j += kWidth * Register::kCount) {
        add_tile(a + i * row_step, row_step, depth_step, b + j, b_stride, depth,
                 c + i * c_stride + j, c_stride);
      }
    }
  }
};

}  // namespace vindex::cpu
