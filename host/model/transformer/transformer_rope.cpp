// Owns the arithmetic of frequencies, rounded to float32 where transformers rounds.
#include "transformer_rope.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace vindex::model {

namespace {

/// In float32 step by step, as transformers computes them: at position 10^5 another rounding is an
/// angle of 0.006.
std::vector<double> plain_frequencies(double base, std::int64_t dims) {
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < dims; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(dims);
    frequencies.push_back(1.0F / static_cast<float>(std::pow(base, static_cast<double>(exponent))));
  }
  return frequencies;
}

/// YaRN's correction of the attention for a context `scale` times as long.
double yarn_mscale(double scale, double weight) {
  return scale <= 1.0 ? 1.0 : 0.1 * weight * std::log(scale) + 1.0;
}

double yarn_attention_factor(const RopeSettings& settings) {
  if (settings.attention_factor) {
    return *settings.attention_factor;
  }
  if (settings.mscale != 0.0 && settings.mscale_all_dim != 0.0) {
    return yarn_mscale(settings.factor, settings.mscale) /
           yarn_mscale(settings.factor, settings.mscale_all_dim);
  }
  return yarn_mscale(settings.factor, 1.0);
}

/// Frequencies of many turns within the original context stay, those of few are divided by the
/// factor, with a ramp over the pairs between.
void scale_as_yarn(const RopeSettings& settings, std::int64_t dims, std::vector<double>& out) {
  const auto pair_of_turns = [&](double turns) {
    return static_cast<double>(dims) *
           std::log(settings.original_context / (turns * 2.0 * std::numbers::pi)) /
           (2.0 * std::log(settings.base));
  };
  double low = pair_of_turns(settings.beta_fast);
  double high = pair_of_turns(settings.beta_slow);
  if (settings.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(dims - 1));
  if (low == high) {
    high += 0.001;
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double scaled = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    out[i] = out[i] / settings.factor * scaled + out[i] * (1.0 - scaled);
  }
}

void scale_as_llama3(const RopeSettings& settings, std::vector<double>& out) {
  const double low = settings.low_frequency_factor;
  const double high = settings.high_frequency_factor;
  for (double& frequency : out) {
    const double turns = settings.original_context * frequency / (2.0 * std::numbers::pi);
    if (turns < low) {
      frequency /= settings.factor;
    } else if (turns <= high) {
      const double kept = (turns - low) / (high - low);
      frequency = (1.0 - kept) * frequency / settings.factor + kept * frequency;
    }
  }
}

std::vector<double> divided(std::vector<double> frequencies, const std::vector<double>& divisors) {
  for (std::size_t i = 0; i < divisors.size(); ++i) {
    frequencies[i] /= divisors[i];
  }
  return frequencies;
}

double long_rope_attention_factor(const RopeSettings& settings) {
  if (settings.attention_factor) {
    return *settings.attention_factor;
  }
  return settings.factor <= 1.0
             ? 1.0
             : std::sqrt(1.0 + std::log(settings.factor) / std::log(settings.original_context));
}

bool are_finite(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
}

void require_divisors(const TransformerKeys& keys, const std::vector<double>& divisors,
                      std::size_t pairs) {
  if (!divisors.empty() && divisors.size() != pairs) {
    keys.refuse(fmt::format("there are {} factors of rotations, where {} pairs turn",
                            divisors.size(), pairs));
  }
}

}  // namespace

Rope make_rope(const TransformerKeys& keys, const RopeSettings& settings, std::int64_t dims) {
  Rope rope;
  rope.dims = dims;
  rope.interleaved = keys.family().interleaved;
  const std::vector<double> plain = plain_frequencies(settings.base, dims);
  require_divisors(keys, settings.divisors, plain.size());
  require_divisors(keys, settings.long_divisors, plain.size());
  rope.original_context = static_cast<std::int64_t>(settings.original_context);
  rope.frequencies = divided(plain, settings.divisors);
  switch (settings.scaling) {
    case RopeScaling::kNone:
      break;
    case RopeScaling::kLinear:
      std::for_each(rope.frequencies.begin(), rope.frequencies.end(),
                    [&](double& frequency) { frequency /= settings.factor; });
      break;
    case RopeScaling::kDynamic:
      if (dims < 4) {
        keys.refuse(fmt::format("dynamic rotations of {} components are not defined", dims));
      }
      rope.dynamic_base = settings.base;
      rope.dynamic_factor = settings.factor;
      break;
    case RopeScaling::kYarn:
      scale_as_yarn(settings, dims, rope.frequencies);
      rope.attention_factor = yarn_attention_factor(settings);
      break;
    case RopeScaling::kLlama3:
      scale_as_llama3(settings, rope.frequencies);
      break;
    case RopeScaling::kLongRope:
      rope.long_frequencies = divided(plain, settings.long_divisors);
      rope.attention_factor = long_rope_attention_factor(settings);
      break;
  }
  rope.long_attention_factor = rope.attention_factor;
  if (!are_finite(rope.frequencies) || !are_finite(rope.long_frequencies) ||
      !std::isfinite(rope.attention_factor)) {
    keys.refuse("the settings of rotations (rope) give frequencies that are not finite");
  }
  return rope;
}

double latent_score_factor(const RopeSettings& settings) {
  if (settings.scaling == RopeScaling::kNone || settings.mscale_all_dim == 0.0) {
    return 1.0;
  }
  const double mscale = yarn_mscale(settings.factor, settings.mscale_all_dim);
  return mscale * mscale;
}

RopeOfLength rope_of_length(const Rope& rope, std::int64_t length) {
  if (length <= rope.original_context) {
    return {rope.frequencies, rope.attention_factor};
  }
  if (rope.dynamic_factor > 0.0) {
    const auto dims = static_cast<double>(rope.dims);
    const double stretch = rope.dynamic_factor * static_cast<double>(length) /
                               static_cast<double>(rope.original_context) -
                           (rope.dynamic_factor - 1.0);
    return {
        plain_frequencies(rope.dynamic_base * std::pow(stretch, dims / (dims - 2.0)), rope.dims),
        rope.attention_factor};
  }
  return {rope.long_frequencies.empty() ? rope.frequencies : rope.long_frequencies,
          rope.long_attention_factor};
}

}  // namespace vindex::model
