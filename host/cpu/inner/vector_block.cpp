// Owns the decoded block of one side: components as float32 brought into a range in which products
// neither overflow nor vanish, x_k = value_k 2^e with one exponent for each vector, and sums of
// squares of the true components. Scales are powers of two and exact; most blocks need none and are
// left as they are.
#include "vector_block.hpp"

#include "core/process/parallel.hpp"
#include "decode/decode_matrix.hpp"
#include "decode/encoding/code_layout.hpp"
#include "decode/simd_level.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <array>
#include <cmath>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace vindex::cpu {

namespace {

constexpr std::size_t kLanes = 16;
/// Rows of a slab of columns that a thread decodes at a time.
constexpr std::int64_t kDecodedRows = 64;
/// Where the largest component of a block lies in between, no product of two of them that counts
/// leaves the range of float32.
constexpr float kMinNorm = 0x1p-40F;
constexpr float kMaxNorm = 0x1p+40F;

struct LargestAndSquares {
  float largest = 0.0F;  ///< of the magnitudes; NaN counts as nothing
  double squares = 0.0;
};

/// Sums and maxima in fixed lanes, so that bits are the same for every vector width.
struct LookedAt {
  alignas(32) std::array<float, kLanes> largest{};
  alignas(32) std::array<double, kLanes> squares{};

  void add(std::size_t lane, float value) {
    const float magnitude = std::fabs(value);
    largest[lane] = largest[lane] < magnitude ? magnitude : largest[lane];
    squares[lane] += static_cast<double>(value) * static_cast<double>(value);
  }
  LargestAndSquares total() const {
    LargestAndSquares found;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      found.largest = std::max(found.largest, largest[lane]);
      found.squares += squares[lane];
    }
    return found;
  }
};

LargestAndSquares look_at(const float* values, std::int64_t count) {
  LookedAt lanes;
  for (std::int64_t i = 0; i < count; ++i) {
    lanes.add(static_cast<std::size_t>(i) % kLanes, values[i]);
  }
  return lanes.total();
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] LargestAndSquares look_at_avx2(const float* values, std::int64_t count) {
  constexpr std::int64_t kVectors = kLanes / 4;
  const __m128 sign = _mm_set1_ps(-0.0F);
  __m128 largest[kVectors] = {};
  __m256d squares[kVectors] = {};
  std::int64_t i = 0;
  for (; i + static_cast<std::int64_t>(kLanes) <= count; i += static_cast<std::int64_t>(kLanes)) {
    for (std::int64_t v = 0; v < kVectors; ++v) {
      const __m128 four = _mm_loadu_ps(values + i + 4 * v);
      largest[v] = _mm_max_ps(_mm_andnot_ps(sign, four), largest[v]);  // of a NaN the second one
      const __m256d wide = _mm256_cvtps_pd(four);
      squares[v] = _mm256_add_pd(squares[v], _mm256_mul_pd(wide, wide));
    }
  }
  LookedAt lanes;
  for (std::int64_t v = 0; v < kVectors; ++v) {
    _mm_store_ps(lanes.largest.data() + 4 * v, largest[v]);
    _mm256_store_pd(lanes.squares.data() + 4 * v, squares[v]);
  }
  for (std::size_t lane = 0; i < count; ++i, ++lane) {
    lanes.add(lane, values[i]);
  }
  return lanes.total();
}
#endif

using LookAt = LargestAndSquares (*)(const float*, std::int64_t);

LookAt best_look_at() {
#if defined(__x86_64__)
  if (decode::best_simd_level() != decode::SimdLevel::kBaseline) {
    return look_at_avx2;
  }
#endif
  return look_at;
}

/// The power of two that brings `largest` near 1; 0 where nothing has to be done, or can.
int exponent_of(float largest) {
  const bool is_fine = largest == 0.0F || (largest >= kMinNorm && largest <= kMaxNorm);
  return is_fine || !std::isfinite(largest) ? 0 : std::ilogb(largest);
}

float scaled(float value, int exponent) {
  return static_cast<float>(std::ldexp(static_cast<double>(value), -exponent));
}

}  // namespace

std::uint64_t VectorBlock::memory_bytes(std::int64_t vectors) {
  return array_bytes(vectors * kMaxDepth, sizeof(float)) + array_bytes(vectors, sizeof(float)) +
         array_bytes(vectors, sizeof(int)) + array_bytes(vectors, sizeof(double));
}

VectorBlock::VectorBlock(Workspace& workspace, std::int64_t vectors)
    : vectors_(vectors),
      values_(workspace, vectors * kMaxDepth, "a block of decoded vectors"),
      largest_(workspace, vectors, "the largest components of a block"),
      exponents_(workspace, vectors, "the scales of a block"),
      squares_(workspace, vectors, "the sums of squares of a block") {}

void VectorBlock::load(const VectorSlab& slab, const BlockPlace& place, std::size_t threads) {
  expects(place.depth() <= kMaxDepth, "inner products: encodings whose blocks fit together");
  if (place.columns) {
    load_columns(slab, place, threads);
  } else {
    load_rows(slab, place, threads);
  }
  is_scaled_ = false;
  for (std::int64_t i = 0; i < vectors_; ++i) {
    exponents_[i] = exponent_of(largest_[i]);
    is_scaled_ = is_scaled_ || exponents_[i] != 0;
  }
  if (is_scaled_) {
    scale(place);
  }
}

void VectorBlock::load_rows(const VectorSlab& slab, const BlockPlace& place, std::size_t threads) {
  const std::int64_t depth = place.depth();
  const LookAt look = best_look_at();
  for_each_index(count(), threads, [&](std::size_t, std::size_t index) {
    const auto i = static_cast<std::int64_t>(index);
    float* const values = values_.data() + i * depth;
    const decode::EncodedMatrix& matrix = slab.matrices[index];
    if (matrix.encoding == nullptr) {
      std::fill(values, values + depth, 0.0F);
    } else {
      const decode::EncodedMatrix rows = decode::row_slab(matrix, place.first_row, place.rows);
      decode::decode_matrix(decode::column_slab(rows, place.first_col, place.cols), values,
                            place.cols);
    }
    const LargestAndSquares found = look(values, depth);
    largest_[i] = found.largest;
    squares_[i] = found.squares;
  });
}

void VectorBlock::load_columns(const VectorSlab& slab, const BlockPlace& place,
                               std::size_t threads) {
  const auto pieces = static_cast<std::size_t>(ceil_divide(place.rows, kDecodedRows));
  for_each_index(pieces, threads, [&](std::size_t, std::size_t piece) {
    const std::int64_t first = static_cast<std::int64_t>(piece) * kDecodedRows;
    const std::int64_t rows = std::min(kDecodedRows, place.rows - first);
    float* const values = values_.data() + first * vectors_;
    decode::decode_matrix(decode::row_slab(slab.matrices[0], place.first_row + first, rows), values,
                          vectors_);
    if (slab.means.empty()) {
      return;
    }
    for (std::int64_t k = 0; k < rows; ++k) {
      float* const row = values + k * vectors_;
      for (std::int64_t j = 0; j < vectors_; ++j) {
        row[j] = static_cast<float>(static_cast<double>(row[j]) -
                                    slab.means[static_cast<std::size_t>(j)]);
      }
    }
  });
  std::fill_n(largest_.data(), vectors_, 0.0F);
  std::fill_n(squares_.data(), vectors_, 0.0);
  for (std::int64_t k = 0; k < place.rows; ++k) {
    const float* const row = values_.data() + k * vectors_;
    float* const largest = largest_.data();
    double* const squares = squares_.data();
    for (std::int64_t j = 0; j < vectors_; ++j) {
      const float magnitude = std::fabs(row[j]);
      largest[j] = largest[j] < magnitude ? magnitude : largest[j];
      squares[j] += static_cast<double>(row[j]) * static_cast<double>(row[j]);
    }
  }
}

void VectorBlock::scale(const BlockPlace& place) {
  const std::int64_t depth = place.depth();
  for (std::int64_t i = 0; i < vectors_; ++i) {
    if (exponents_[i] == 0) {
      continue;
    }
    for (std::int64_t k = 0; k < depth; ++k) {
      float& value = values_[place.columns ? k * vectors_ + i : i * depth + k];
      value = scaled(value, exponents_[i]);
    }
  }
}

}  // namespace vindex::cpu
