// Owns the register tiles of these products, one set for each level of vector instructions.
#include "simd_few_tokens.hpp"

#include "cpu/simd/simd_lanes.hpp"

#include <algorithm>

namespace vindex::cpu {

namespace {

/// Sums that are kept in registers: of kFewRows rows and a token each, and as many for up to
/// kFewColumns tokens, with what is loaded beside them in the sixteen of AVX2.
constexpr int kFewRows = 4;
constexpr int kFewColumns = 3;

/// kRows rows of weights with kTokens tokens.
template <int kBytes, int kRows, int kTokens>
[[gnu::always_inline]] inline void dot_tile(const FewTokens& work, std::int64_t row,
                                            std::int64_t token) {
  using Vector = typename Lanes<float, kBytes>::Vector;
  constexpr std::int64_t kStep = Lanes<float, kBytes>::kCount;
  const float* const weights = work.chunk.values + row * work.chunk.stride;
  const float* const x = work.x + token * work.x_stride;
  Vector sums[kRows][kTokens] = {};
  std::int64_t k = 0;
  for (; k + kStep <= work.cols; k += kStep) {
    Vector w[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      Lanes<float, kBytes>::load(weights + r * work.chunk.stride + k, w[r]);
    }
#pragma GCC unroll 4
    for (int t = 0; t < kTokens; ++t) {
      Vector value;
      Lanes<float, kBytes>::load(x + t * work.x_stride + k, value);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        sums[r][t] += w[r] * value;
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int t = 0; t < kTokens; ++t) {
      float sum = Lanes<float, kBytes>::sum(sums[r][t]);
      for (std::int64_t rest = k; rest < work.cols; ++rest) {
        sum += weights[r * work.chunk.stride + rest] * x[t * work.x_stride + rest];
      }
      work.y[(token + t) * work.y_stride + row + r] += sum;
    }
  }
}

/// kRows rows with all tokens.
template <int kBytes, int kRows>
[[gnu::always_inline]] inline void dot_rows(const FewTokens& work, std::int64_t row) {
  std::int64_t token = 0;
  for (; token + kFewColumns <= work.tokens; token += kFewColumns) {
    dot_tile<kBytes, kRows, kFewColumns>(work, row, token);
  }
  if (work.tokens - token == 2) {
    dot_tile<kBytes, kRows, 2>(work, row, token);
  } else if (work.tokens - token == 1) {
    dot_tile<kBytes, kRows, 1>(work, row, token);
  }
}

/// kVectors registers of outputs of kTokens tokens, over all rows of a transposed chunk.
template <int kBytes, int kVectors, int kTokens>
[[gnu::always_inline]] inline void add_tile(const FewTokens& work, std::int64_t output,
                                            std::int64_t token) {
  using Vector = typename Lanes<float, kBytes>::Vector;
  constexpr std::int64_t kStep = Lanes<float, kBytes>::kCount;
  float* const y = work.y + token * work.y_stride + output;
  const float* const x = work.x + token * work.x_stride;
  Vector sums[kTokens][kVectors];
  for (int t = 0; t < kTokens; ++t) {
    for (int i = 0; i < kVectors; ++i) {
      Lanes<float, kBytes>::load(y + t * work.y_stride + i * kStep, sums[t][i]);
    }
  }
  for (std::int64_t k = 0; k < work.cols; ++k) {
    const float* const weights = work.chunk.values + k * work.chunk.stride + output;
    Vector w[kVectors];
#pragma GCC unroll 4
    for (int i = 0; i < kVectors; ++i) {
      Lanes<float, kBytes>::load(weights + i * kStep, w[i]);
    }
#pragma GCC unroll 4
    for (int t = 0; t < kTokens; ++t) {
      const float value = x[t * work.x_stride + k];
#pragma GCC unroll 4
      for (int i = 0; i < kVectors; ++i) {
        sums[t][i] += w[i] * value;
      }
    }
  }
  for (int t = 0; t < kTokens; ++t) {
    for (int i = 0; i < kVectors; ++i) {
      Lanes<float, kBytes>::store(sums[t][i], y + t * work.y_stride + i * kStep);
    }
  }
}

template <int kBytes, int kVectors>
[[gnu::always_inline]] inline void add_columns(const FewTokens& work, std::int64_t output) {
  std::int64_t token = 0;
  for (; token + kFewColumns <= work.tokens; token += kFewColumns) {
    add_tile<kBytes, kVectors, kFewColumns>(work, output, token);
  }
  for (; token < work.tokens; ++token) {
    add_tile<kBytes, kVectors, 1>(work, output, token);
  }
}

template <int kBytes>
[[gnu::always_inline]] inline void multiply_at(const FewTokens& work) {
  constexpr std::int64_t kStep = Lanes<float, kBytes>::kCount;
  std::int64_t output = 0;
  if (!work.chunk.transposed) {
    for (; output + kFewRows <= work.outputs; output += kFewRows) {
      dot_rows<kBytes, kFewRows>(work, output);
    }
    for (; output < work.outputs; ++output) {
      dot_rows<kBytes, 1>(work, output);
    }
    return;
  }
  for (; output + kFewRows * kStep <= work.outputs; output += kFewRows * kStep) {
    add_columns<kBytes, kFewRows>(work, output);
  }
  for (; output + kStep <= work.outputs; output += kStep) {
    add_columns<kBytes, 1>(work, output);
  }
  for (; output < work.outputs; ++output) {
    for (std::int64_t t = 0; t < work.tokens; ++t) {
      float sum = 0.0F;
      for (std::int64_t k = 0; k < work.cols; ++k) {
        sum += work.chunk.values[k * work.chunk.stride + output] * work.x[t * work.x_stride + k];
      }
      work.y[t * work.y_stride + output] += sum;
    }
  }
}

void multiply_portable(const FewTokens& work) { multiply_at<16>(work); }
#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] void multiply_avx2(const FewTokens& work) { multiply_at<32>(work); }
[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,fma")]] void multiply_avx512(
    const FewTokens& work) {
  multiply_at<64>(work);
}
#endif

}  // namespace

void multiply_few(const FewTokens& work, SimdLevel level) {
#if defined(__x86_64__)
  if (level >= SimdLevel::kAvx512) {
    multiply_avx512(work);
    return;
  }
  if (level == SimdLevel::kAvx2) {
    multiply_avx2(work);
    return;
  }
#endif
  static_cast<void>(level);
  multiply_portable(work);
}

}  // namespace vindex::cpu
