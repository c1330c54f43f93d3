// Owns the arithmetic of these steps, with variants for AVX2 that give the same bits.
#include "forward_steps.hpp"

#include "core/lane_exp.hpp"
#include "decode/simd_level.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace vindex::commands {

namespace {

/// In fixed lanes, so that bits depend on no vector width.
double sum_of_squares(std::span<const float> x) {
  constexpr std::size_t kLanes = 8;
  std::array<double, kLanes> sums{};
  std::size_t i = 0;
  for (; i + kLanes <= x.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const auto value = static_cast<double>(x[i + lane]);
      sums[lane] += value * value;
    }
  }
  for (std::size_t lane = 0; i < x.size(); ++i, ++lane) {
    sums[lane] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
  double sum = 0.0;
  for (const double part : sums) {
    sum += part;
  }
  return sum;
}

// Laws of gating. x sigmoid(a x) is x / (1 + e^(-a x)), which keeps its digits at both ends.
struct Silu {
  [[gnu::always_inline]] float operator()(float gate, float up) const {
    return gate / (1.0F + lane_exp(-gate)) * up;
  }
};
/// 0.5 x (1 + tanh(u)) = x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3). (Hendrycks and Gimpel
/// 2016.)
struct GeluTanh {
  [[gnu::always_inline]] float operator()(float gate, float up) const {
    constexpr float kTwice = 1.59576912160573071F;  // 2 sqrt(2 / pi)
    const float u = kTwice * (gate + 0.044715F * gate * gate * gate);
    return gate / (1.0F + lane_exp(-u)) * up;
  }
};
struct Gelu {
  float operator()(float gate, float up) const {
    const auto x = static_cast<double>(gate);
    return static_cast<float>(0.5 * x * std::erfc(-x / std::numbers::sqrt2)) * up;
  }
};
struct Clamped {
  float limit;
  [[gnu::always_inline]] float operator()(float gate, float up) const {
    const float low = gate > limit ? limit : gate;
    const float below = up > limit ? limit : up;
    const float inside = below < -limit ? -limit : below;
    return low / (1.0F + lane_exp(-1.702F * low)) * (inside + 1.0F);
  }
};

template <typename Law>
[[gnu::always_inline]] inline void gate_row(const Law& law, const float* gate, const float* up,
                                            float* out, std::size_t count) {
  // `out` may be `gate` or `up`, element for element: no value is written before it is read.
#if defined(__clang__)
#pragma clang loop vectorize(assume_safety)
#else
#pragma GCC ivdep
#endif
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = law(gate[i], up[i]);
  }
}

template <typename Law>
void gate_baseline(const Law& law, const float* gate, const float* up, float* out,
                   std::size_t count) {
  gate_row(law, gate, up, out, count);
}

#if defined(__x86_64__)
bool has_avx2() {
  static const bool has = decode::best_simd_level() != decode::SimdLevel::kBaseline;
  return has;
}

template <typename Law>
[[gnu::target("avx2")]] void gate_avx2(const Law& law, const float* gate, const float* up,
                                       float* out, std::size_t count) {
  gate_row(law, gate, up, out, count);
}
#endif

/// The same bits at every level: no sums, and products are not fused.
template <typename Law>
void gate_at_best_level(const Law& law, std::span<const float> gate, std::span<const float> up,
                        std::span<float> out) {
#if defined(__x86_64__)
  if (has_avx2()) {
    gate_avx2(law, gate.data(), up.data(), out.data(), out.size());
    return;
  }
#endif
  gate_baseline(law, gate.data(), up.data(), out.data(), out.size());
}

[[gnu::always_inline]] inline void cap_row(float cap, float* x, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    x[i] = cap * lane_tanh(x[i] / cap);
  }
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] void cap_avx2(float cap, float* x, std::size_t count) {
  cap_row(cap, x, count);
}
#endif

void cap_at_best_level(float cap, std::span<float> x) {
#if defined(__x86_64__)
  if (has_avx2()) {
    cap_avx2(cap, x.data(), x.size());
    return;
  }
#endif
  cap_row(cap, x.data(), x.size());
}

}  // namespace

void rms_norm(std::span<const float> x, std::span<const float> weight, double eps, double offset,
              std::span<float> out) {
  expects(x.size() == weight.size() && x.size() == out.size() && !x.empty(),
          "rms_norm: a weight per component");
  const double mean = sum_of_squares(x) / static_cast<double>(x.size());
  const double factor = 1.0 / std::sqrt(mean + eps);
  for (std::size_t i = 0; i < x.size(); ++i) {
    out[i] = static_cast<float>(static_cast<double>(x[i]) * factor *
                                (offset + static_cast<double>(weight[i])));
  }
}

RotationTable rotation_table(std::span<const double> frequencies, std::int64_t tokens,
                             double factor) {
  expects(tokens >= 0, "rotation_table: a number of tokens");
  RotationTable table;
  table.pairs = static_cast<std::int64_t>(frequencies.size());
  table.cosines.reserve(frequencies.size() * static_cast<std::size_t>(tokens));
  table.sines.reserve(frequencies.size() * static_cast<std::size_t>(tokens));
  for (std::int64_t position = 0; position < tokens; ++position) {
    for (const double frequency : frequencies) {
      // Rounded as the libraries do that models are trained with: at position 10^5 an exact angle
      // lies 0.003 from theirs, which logits show.
      const double angle = static_cast<float>(position) * static_cast<float>(frequency);
      table.cosines.push_back(static_cast<float>(factor * std::cos(angle)));
      table.sines.push_back(static_cast<float>(factor * std::sin(angle)));
    }
  }
  return table;
}

void rotate(const RotationTable& table, std::int64_t position, bool interleaved, float* head) {
  const float* const cosines = table.cosines.data() + position * table.pairs;
  const float* const sines = table.sines.data() + position * table.pairs;
  const std::int64_t step = interleaved ? 2 : 1;
  const std::int64_t other = interleaved ? 1 : table.pairs;
  for (std::int64_t i = 0; i < table.pairs; ++i) {
    float& a = head[i * step];
    float& b = head[i * step + other];
    const float turned = a * cosines[i] - b * sines[i];
    b = b * cosines[i] + a * sines[i];
    a = turned;
  }
}

void gate_neurons(Gating law, double limit, std::span<const float> gate, std::span<const float> up,
                  std::span<float> out) {
  expects(gate.size() == up.size() && gate.size() == out.size(),
          "gate_neurons: rows of one length");
  switch (law) {
    case Gating::kSilu:
      gate_at_best_level(Silu{}, gate, up, out);
      return;
    case Gating::kGeluTanh:
      gate_at_best_level(GeluTanh{}, gate, up, out);
      return;
    case Gating::kGelu:
      gate_baseline(Gelu{}, gate.data(), up.data(), out.data(), out.size());
      return;
    case Gating::kClamped:
      gate_at_best_level(Clamped{static_cast<float>(limit)}, gate, up, out);
      return;
  }
}

void soft_cap(double cap, std::span<float> x) { cap_at_best_level(static_cast<float>(cap), x); }

}  // namespace vindex::commands
