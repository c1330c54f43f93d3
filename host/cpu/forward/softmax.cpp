// Owns the two loops of the softmax (take a block of scores, scale what came before) and the choice
// among their compiled variants.
#include "softmax.hpp"

#include "core/lane_exp.hpp"
#include "cpu/simd/simd_level.hpp"

#include <array>
#include <cmath>

namespace vindex::cpu {

namespace {

/// Sums and maxima run over fixed lanes, so that bits do not depend on the level.
constexpr std::int64_t kSoftmaxLanes = 16;

[[gnu::always_inline]] inline float largest_of(const float* values, std::int64_t count,
                                               float start) {
  std::array<float, kSoftmaxLanes> lanes;
  lanes.fill(start);
  std::int64_t i = 0;
  for (; i + kSoftmaxLanes <= count; i += kSoftmaxLanes) {
    for (std::int64_t lane = 0; lane < kSoftmaxLanes; ++lane) {
      const float value = values[i + lane];
      float& most = lanes[static_cast<std::size_t>(lane)];
      most = value > most ? value : most;
    }
  }
  float most = start;
  for (; i < count; ++i) {
    most = values[i] > most ? values[i] : most;
  }
  for (const float value : lanes) {
    most = value > most ? value : most;
  }
  return most;
}

[[gnu::always_inline]] inline double sum_of(const float* values, std::int64_t count) {
  std::array<double, kSoftmaxLanes> lanes{};
  std::int64_t i = 0;
  for (; i + kSoftmaxLanes <= count; i += kSoftmaxLanes) {
    for (std::int64_t lane = 0; lane < kSoftmaxLanes; ++lane) {
      lanes[static_cast<std::size_t>(lane)] += static_cast<double>(values[i + lane]);
    }
  }
  double sum = 0.0;
  for (; i < count; ++i) {
    sum += static_cast<double>(values[i]);
  }
  for (const double part : lanes) {
    sum += part;
  }
  return sum;
}

[[gnu::always_inline]] inline float take(float* scores, std::int64_t count, float soft_cap,
                                         SoftmaxState& state) {
  if (soft_cap > 0.0F) {
    for (std::int64_t i = 0; i < count; ++i) {
      scores[i] = soft_cap * lane_tanh(scores[i] / soft_cap);
    }
  }
  const float before = state.largest;
  const float largest = largest_of(scores, count, before);
  for (std::int64_t i = 0; i < count; ++i) {
    scores[i] = lane_exp(scores[i] - largest);
  }
  const float factor = largest > before ? lane_exp(before - largest) : 1.0F;
  state.largest = largest;
  state.sum = state.sum * static_cast<double>(factor) + sum_of(scores, count);
  return factor;
}

[[gnu::always_inline]] inline void scale_values(float* values, std::int64_t count, float factor) {
  for (std::int64_t i = 0; i < count; ++i) {
    values[i] *= factor;
  }
}

float take_portable(float* scores, std::int64_t count, float soft_cap, SoftmaxState& state) {
  return take(scores, count, soft_cap, state);
}
void scale_portable(float* values, std::int64_t count, float factor) {
  scale_values(values, count, factor);
}
#if defined(__x86_64__)
[[gnu::target("avx2")]] float take_avx2(float* scores, std::int64_t count, float soft_cap,
                                        SoftmaxState& state) {
  return take(scores, count, soft_cap, state);
}
[[gnu::target("avx2")]] void scale_avx2(float* values, std::int64_t count, float factor) {
  scale_values(values, count, factor);
}
#endif

struct SoftmaxKernels {
  float (*take)(float*, std::int64_t, float, SoftmaxState&) = take_portable;
  void (*scale)(float*, std::int64_t, float) = scale_portable;
};

const SoftmaxKernels& softmax_kernels() {
#if defined(__x86_64__)
  static const SoftmaxKernels kernels = best_simd_level() >= SimdLevel::kAvx2
                                            ? SoftmaxKernels{take_avx2, scale_avx2}
                                            : SoftmaxKernels{};
#else
  static const SoftmaxKernels kernels;
#endif
  return kernels;
}

}  // namespace

float take_scores(float* scores, std::int64_t count, float soft_cap, SoftmaxState& state) {
  return softmax_kernels().take(scores, count, soft_cap, state);
}

void scale(float* values, std::int64_t count, float factor) {
  softmax_kernels().scale(values, count, factor);
}

}  // namespace vindex::cpu
