// Owns the sums of squares of the lines of the short side, sum over k of w_ki^2 in float64: the
// diagonal of the Gram matrix, once more. Why it is not left to the float32 product stands in
// gram.hpp. Squares of float32 are exact in float64, so that only the additions round, and
// fusing them with the squares changes nothing.
#include "short_norms.hpp"

#include "cpu/simd/simd_level.hpp"

#include <cstring>

namespace vindex::cpu {
namespace {

// The element types are parameters since g++ 12 forgets the size of a vector of a fixed one.
template <int kBytes, typename Double = double, typename Float = float>
struct Squares {
  typedef Double Wide __attribute__((vector_size(kBytes)));
  typedef Float Narrow __attribute__((vector_size(kBytes / 2)));
  static constexpr std::int64_t kCount = kBytes / 8;

  [[gnu::always_inline]] static inline void square(const float* from, Wide& to) {
    Narrow narrow;
    std::memcpy(&narrow, from, sizeof(Narrow));
    to = __builtin_convertvector(narrow, Wide);
    to *= to;
  }

  // Short side across: every column has its own sum.
  [[gnu::always_inline]] static inline void add_columns(const Tile& tile, double* norms) {
    std::int64_t j = 0;
    for (; j + kCount <= tile.cols; j += kCount) {
      Wide sum;
      std::memcpy(&sum, norms + j, sizeof(Wide));
      for (std::int64_t i = 0; i < tile.rows; ++i) {
        Wide value;
        square(tile.values + i * tile.cols + j, value);
        sum += value;
      }
      std::memcpy(norms + j, &sum, sizeof(Wide));
    }
    for (; j < tile.cols; ++j) {
      for (std::int64_t i = 0; i < tile.rows; ++i) {
        const auto value = static_cast<double>(tile.values[i * tile.cols + j]);
        norms[j] += value * value;
      }
    }
  }

  // Short side down: every row has its own sum.
  [[gnu::always_inline]] static inline void add_rows(const Tile& tile, double* norms) {
    for (std::int64_t i = 0; i < tile.rows; ++i) {
      const float* row = tile.values + i * tile.cols;
      Wide sums[4] = {};
      std::int64_t j = 0;
      for (; j + 4 * kCount <= tile.cols; j += 4 * kCount) {
        for (int lane = 0; lane < 4; ++lane) {
          Wide value;
          square(row + j + lane * kCount, value);
          sums[lane] += value;
        }
      }
      const Wide total = (sums[0] + sums[1]) + (sums[2] + sums[3]);
      double sum = 0.0;
      for (std::int64_t lane = 0; lane < kCount; ++lane) {
        sum += total[lane];
      }
      for (; j < tile.cols; ++j) {
        sum += static_cast<double>(row[j]) * static_cast<double>(row[j]);
      }
      norms[i] += sum;
    }
  }

  [[gnu::always_inline]] static inline void add(const Tile& tile, bool row_slabs, double* norms) {
    if (row_slabs) {
      add_columns(tile, norms);
    } else {
      add_rows(tile, norms);
    }
  }
};

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) void add_avx2(const Tile& tile, bool row_slabs, double* norms) {
  Squares<32>::add(tile, row_slabs, norms);
}
#endif

}  // namespace

void add_short_norms(const Tile& tile, bool row_slabs, double* norms) {
#if defined(__x86_64__)
  if (best_simd_level() >= SimdLevel::kAvx2) {
    add_avx2(tile, row_slabs, norms);
    return;
  }
#endif
  Squares<16>::add(tile, row_slabs, norms);
}

}  // namespace vindex::cpu
