// Owns the steps of a transformer's layer that are not products: norms, rotations by position,
// gates, caps, as pure functions on rows of float32 (sums in float64).
#pragma once

#include "architecture/gating.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace vindex::commands {

/// out_i = x_i / sqrt(mean x^2 + eps) * (offset + weight_i). `out` may be `x`. (Zhang and Sennrich
/// 2019.)
void rms_norm(std::span<const float> x, std::span<const float> weight, double eps, double offset,
              std::span<float> out);

/// Cosines and sines of positions 0 to tokens - 1 times `factor`: [tokens, frequencies]. Angles are
/// products of float32, as in transformers.
struct RotationTable {
  std::int64_t pairs = 0;
  std::vector<float> cosines, sines;
};
RotationTable rotation_table(std::span<const double> frequencies, std::int64_t tokens,
                             double factor);

/// Turns the 2 * table.pairs components at `head` for `position` (Su et al. 2021): pairs
/// (2i, 2i + 1) where `interleaved`, else (i, i + pairs).
void rotate(const RotationTable& table, std::int64_t position, bool interleaved, float* head);

/// out_i = act(gate_i) * up_i; `limit`: L of kClamped. `out` may be one of both.
void gate_neurons(Gating law, double limit, std::span<const float> gate, std::span<const float> up,
                  std::span<float> out);

/// x_i = cap * tanh(x_i / cap).
void soft_cap(double cap, std::span<float> x);

}  // namespace vindex::commands
