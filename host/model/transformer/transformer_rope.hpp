// Owns how rotations by position scale with context, as numbers without a model: from what keys say
// to frequencies. Source: transformers' modeling_rope_utils.py (5.23); Peng et al. 2023 for YaRN;
// Ding et al. 2024 for LongRoPE.
#pragma once

#include "transformer.hpp"
#include "transformer_keys.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace vindex::model {

enum class RopeScaling : std::uint8_t { kNone, kLinear, kDynamic, kYarn, kLlama3, kLongRope };

struct RopeSettings {
  RopeScaling scaling = RopeScaling::kNone;
  double base = 10'000;
  double factor = 1.0;
  double original_context = 0.0;           ///< 0: not said; kDynamic, kYarn, kLlama3, kLongRope
  std::optional<double> attention_factor;  ///< kYarn, kLongRope: else it follows from the factor
  double beta_fast = 32.0, beta_slow = 1.0, mscale = 0.0, mscale_all_dim = 0.0;  ///< kYarn
  bool truncate = true;                                                          ///< kYarn
  double low_frequency_factor = 1.0, high_frequency_factor = 4.0;                ///< kLlama3
  /// What frequencies are divided by, empty or one for each pair: beyond original_context the
  /// second (kLongRope).
  std::vector<double> divisors, long_divisors;
  double growth = 0.0;   ///< transformer.hpp, Attention; with original_context
  double partial = 1.0;  ///< share of a head's components that turns
};

/// Of a head with `dims` components that turn, an even number of at least 2. Errors:
/// ConfigurationError E-TRACE-KEY of `keys` for settings that give no finite frequencies.
Rope make_rope(const TransformerKeys& keys, const RopeSettings& settings, std::int64_t dims);

/// What scores of latent attention are multiplied by for YaRN (mscale_all_dim): DeepSeek.
double latent_score_factor(const RopeSettings& settings);

/// What the model says; `sliding`: of layers with a window. Errors: E-TRACE-KEY; those of reading
/// the divisors that a GGUF file stores.
RopeSettings read_rope_settings(const input::ModelFiles& files, const TransformerKeys& keys,
                                bool sliding);

}  // namespace vindex::model
