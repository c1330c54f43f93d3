// Owns what keys say of rotations: rope_parameters (transformers 5, also one for each type of
// layer), rope_scaling and rope_theta before it; rope.* of GGUF and the factors that it stores as
// tensors.
#include "transformer_rope.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>

namespace vindex::model {

namespace {

/// Members of one object of config.json, by type.
class ObjectKeys {
 public:
  ObjectKeys(const TransformerKeys& keys, const JsonValue* object) : keys_(keys), object_(object) {}

  const JsonValue* find(std::string_view name) const {
    const JsonValue* value = object_ == nullptr ? nullptr : object_->find(name);
    return value == nullptr || value->is_null() ? nullptr : value;
  }
  std::optional<double> number(std::string_view name) const {
    const JsonValue* value = find(name);
    if (value == nullptr) {
      return std::nullopt;
    }
    const auto number = value->as_number();
    if (!number || !std::isfinite(*number)) {
      refuse(name, "a number");
    }
    return number;
  }
  std::optional<double> positive(std::string_view name) const {
    const auto value = number(name);
    if (value && !(*value > 0.0)) {
      refuse(name, "a positive number");
    }
    return value;
  }
  std::optional<bool> boolean(std::string_view name) const {
    const JsonValue* value = find(name);
    if (value == nullptr) {
      return std::nullopt;
    }
    if (value->as_bool() == nullptr) {
      refuse(name, "true or false");
    }
    return *value->as_bool();
  }
  std::string text(std::string_view name) const {
    const JsonValue* value = find(name);
    if (value == nullptr) {
      return {};
    }
    if (value->as_string() == nullptr) {
      refuse(name, "a text");
    }
    return *value->as_string();
  }
  std::vector<double> numbers(std::string_view name) const {
    const JsonValue* value = find(name);
    const JsonValue::Array* list = value == nullptr ? nullptr : value->as_array();
    std::vector<double> numbers;
    if (list == nullptr || list->empty()) {
      refuse(name, "a list of numbers");
    }
    for (const JsonValue& element : *list) {
      const auto number = element.as_number();
      if (!number || !std::isfinite(*number) || !(*number > 0.0)) {
        refuse(name, "a list of positive numbers");
      }
      numbers.push_back(*number);
    }
    return numbers;
  }

 private:
  [[noreturn]] void refuse(std::string_view name, std::string_view needed) const {
    keys_.refuse(fmt::format("{} of the rotations (rope) is not {}", name, needed));
  }

  const TransformerKeys& keys_;
  const JsonValue* object_;
};

struct ScalingName {
  std::string_view name;
  RopeScaling scaling;
};
constexpr std::array<ScalingName, 6> kScalings = {{{"default", RopeScaling::kNone},
                                                   {"linear", RopeScaling::kLinear},
                                                   {"dynamic", RopeScaling::kDynamic},
                                                   {"yarn", RopeScaling::kYarn},
                                                   {"llama3", RopeScaling::kLlama3},
                                                   {"longrope", RopeScaling::kLongRope}}};

RopeScaling scaling_of(const TransformerKeys& keys, std::string_view name) {
  const auto* found = std::find_if(kScalings.begin(), kScalings.end(),
                                   [&](const ScalingName& one) { return one.name == name; });
  if (found == kScalings.end()) {
    keys.refuse(fmt::format("the rope type \"{}\" is not known", excerpt(std::string(name))));
  }
  return found->scaling;
}

std::optional<std::int64_t> context_of(const TransformerKeys& keys) {
  return keys.count_if({{"max_position_embeddings"}, {"context_length"}});
}

/// The object that describes rotations of layers with a window, or of the others; null: none does.
const JsonValue* rope_object(const TransformerKeys& keys, bool sliding) {
  const auto filled = [&](std::string_view name) -> const JsonValue* {
    const JsonValue* value = keys.member({name});
    if (value != nullptr && value->as_object() == nullptr) {
      keys.refuse(fmt::format("{} is no object", name));
    }
    return value == nullptr || value->as_object()->empty() ? nullptr : value;
  };
  const JsonValue* old = filled("rope_scaling");
  const JsonValue* object = old != nullptr ? old : filled("rope_parameters");
  if (object == nullptr) {
    return nullptr;
  }
  const std::string_view own = sliding ? "sliding_attention" : "full_attention";
  const bool is_nested =
      object->find("sliding_attention") != nullptr || object->find("full_attention") != nullptr;
  if (is_nested) {
    const JsonValue* part = object->find(own);
    return part == nullptr || part->as_object() == nullptr ? nullptr : part;
  }
  // Before transformers 5, what gemma3 says is of the layers without a window alone.
  const bool has_local = keys.family().local_base > 0.0;
  if (has_local && old == nullptr) {
    keys.refuse("rope_parameters tell no types of layers apart");
  }
  return has_local && sliding ? nullptr : object;
}

/// Original context, and the factor where it follows from that.
void read_context(const TransformerKeys& keys, const ObjectKeys& object, RopeSettings& out) {
  const auto context = context_of(keys);
  const auto outer = keys.count_if({{"original_max_position_embeddings"}, {}});
  const auto inner = object.positive("original_max_position_embeddings");
  // phi3 believes the outer key first.
  if (out.scaling == RopeScaling::kDynamic) {
    out.original_context = context ? static_cast<double>(*context) : 0.0;
  } else if (outer && (keys.family().partial_rope || !inner)) {
    out.original_context = static_cast<double>(*outer);
  } else {
    out.original_context = inner.value_or(context ? static_cast<double>(*context) : 0.0);
  }
  if (!(out.original_context > 1.0) || out.original_context > 1e15) {
    keys.refuse(
        fmt::format("no original_max_position_embeddings or max_position_embeddings says "
                    "for which context rotations (rope) were made"));
  }
  const bool implied = out.scaling == RopeScaling::kYarn || out.scaling == RopeScaling::kLongRope;
  if (implied && !object.number("factor") && context) {
    out.factor = static_cast<double>(*context) / out.original_context;
  }
}

RopeSettings settings_of_config(const TransformerKeys& keys, bool sliding) {
  const TransformerFamily& family = keys.family();
  const JsonValue* described = rope_object(keys, sliding);
  const ObjectKeys object(keys, described);
  const bool is_local = sliding && family.local_base > 0.0;
  RopeSettings out;
  const double outer_base =
      is_local ? keys.positive_or({{"rope_local_base_freq"}, {}}, family.local_base)
               : keys.positive_or({{"rope_theta"}, {}}, family.rope_base);
  out.base = object.positive("rope_theta").value_or(outer_base);
  std::string type = object.text("rope_type");
  if (type.empty()) {
    type = object.text("type");
  }
  // phi3's earlier names of longrope.
  if (family.partial_rope && (type == "su" || type == "yarn")) {
    type = "longrope";
  }
  out.partial = object.positive("partial_rotary_factor")
                    .value_or(keys.positive_or({{"partial_rotary_factor"}, {}}, 1.0));
  if ((family.sinks || family.growing) && described == nullptr) {
    keys.refuse("there is no rope_parameters or rope_scaling");
  }
  out.scaling = scaling_of(keys, type.empty() ? "default" : type);
  out.growth = object.number("llama_4_scaling_beta").value_or(0.0);
  if (out.scaling == RopeScaling::kNone) {
    return out;
  }
  const auto factor = object.positive("factor");
  if (out.scaling != RopeScaling::kLinear) {
    read_context(keys, object, out);
  } else if (!factor) {
    keys.refuse("rotations (rope) of type linear have no factor");
  }
  const bool needs_factor =
      out.scaling == RopeScaling::kDynamic || out.scaling == RopeScaling::kLlama3;
  if (needs_factor && !factor) {
    keys.refuse(fmt::format("rotations (rope) of type {} have no factor", excerpt(type)));
  }
  out.factor = factor.value_or(out.factor);
  out.attention_factor = object.positive("attention_factor");
  out.beta_fast = object.positive("beta_fast").value_or(out.beta_fast);
  out.beta_slow = object.positive("beta_slow").value_or(out.beta_slow);
  out.mscale = object.number("mscale").value_or(0.0);
  out.mscale_all_dim = object.number("mscale_all_dim").value_or(0.0);
  out.truncate = object.boolean("truncate").value_or(true);
  if (out.scaling == RopeScaling::kLlama3) {
    const auto low = object.positive("low_freq_factor");
    const auto high = object.positive("high_freq_factor");
    if (!low || !high || !(*high > *low)) {
      keys.refuse("rotations (rope) of type llama3 need low_freq_factor below high_freq_factor");
    }
    out.low_frequency_factor = *low;
    out.high_frequency_factor = *high;
  }
  if (out.scaling == RopeScaling::kLongRope) {
    out.divisors = object.numbers("short_factor");
    out.long_divisors = object.numbers("long_factor");
  }
  return out;
}

/// The values of the tensor called `name`; empty where there is none.
std::vector<double> stored_factors(const input::ModelFiles& files, const TransformerKeys& keys,
                                   std::string_view name) {
  const auto found =
      std::find_if(files.tensors.begin(), files.tensors.end(),
                   [&](const input::StoredTensor& tensor) { return tensor.name == name; });
  if (found == files.tensors.end()) {
    return {};
  }
  constexpr std::int64_t kMost = 1 << 20;
  if (found->shape.size() != 1 || found->shape[0] < 1 || found->shape[0] > kMost) {
    keys.refuse(fmt::format("{} is no list of factors", printable(found->name)));
  }
  const VectorRef ref{.tensor = static_cast<std::int32_t>(found - files.tensors.begin()),
                      .count = found->shape[0]};
  const std::vector<float> values = read_vector(files, ref);
  if (!std::all_of(values.begin(), values.end(), [](float v) { return v > 0.0F; })) {
    keys.refuse(fmt::format("{} holds factors that are not positive", printable(found->name)));
  }
  return {values.begin(), values.end()};
}

void read_gguf_yarn(const TransformerKeys& keys, RopeSettings& out) {
  const auto number = [&](std::string_view key, double otherwise) {
    return keys.positive_or({{}, {key}}, otherwise);
  };
  if (number("rope.scaling.attn_factor", 1.0) != 1.0) {
    keys.refuse("rope.scaling.attn_factor is not 1 beside yarn");
  }
  out.beta_fast = number("rope.scaling.yarn_beta_fast", out.beta_fast);
  out.beta_slow = number("rope.scaling.yarn_beta_slow", out.beta_slow);
  if (number("rope.scaling.yarn_ext_factor", 1.0) != 1.0) {
    keys.refuse("rope.scaling.yarn_ext_factor is not 1");
  }
  if (const auto said = keys.number({{}, {"rope.scaling.yarn_attn_factor"}})) {
    out.attention_factor = *said;
  }
  // llama.cpp's converter writes a tenth of DeepSeek's mscale_all_dim, which mscale equals, and
  // mistral3's as it is, beside an mscale of 1.
  const double said = keys.number({{}, {"rope.scaling.yarn_log_multiplier"}}).value_or(0.0);
  const bool latent = keys.family().latent;
  out.mscale_all_dim = latent ? 10.0 * said : said;
  out.mscale = latent ? out.mscale_all_dim : 1.0;
  // gpt-oss is trained without rounding the bounds of the ramp (config.json: truncate).
  out.truncate = !keys.family().sinks;
}

RopeSettings settings_of_gguf(const input::ModelFiles& files, const TransformerKeys& keys,
                              bool sliding) {
  const TransformerFamily& family = keys.family();
  RopeSettings out;
  out.base = keys.positive_or({{}, {"rope.freq_base"}}, family.rope_base);
  if (sliding) {
    const double own = family.local_base > 0.0 ? family.local_base : out.base;
    out.base = keys.positive_or({{}, {"rope.freq_base_swa"}}, own);
    if (family.local_base > 0.0) {
      return out;
    }
  }
  if (!keys.boolean({{}, {"rope.scaling.finetuned"}}).value_or(true) &&
      family.scale == ScoreScale::kMultiplier) {
    keys.refuse("rope.scaling.finetuned is false: layers without positions are not known");
  }
  out.divisors = stored_factors(files, keys, "rope_factors_short.weight");
  out.long_divisors = stored_factors(files, keys, "rope_factors_long.weight");
  out.growth = keys.number({{}, {"attention.temperature_scale"}}).value_or(0.0);
  const auto context = context_of(keys);
  out.original_context = static_cast<double>(
      keys.count_if({{}, {"rope.scaling.original_context_length"}}).value_or(context.value_or(0)));
  // 0: so writers say that there is none.
  const auto factor = keys.number({{}, {"rope.scaling.factor", "rope.scale_linear"}});
  if (factor && *factor < 0.0) {
    keys.refuse("rope.scaling.factor is negative");
  }
  out.factor = factor && *factor > 0.0 ? *factor : 1.0;
  if (!out.divisors.empty() || !out.long_divisors.empty()) {
    if (out.divisors.empty() || out.long_divisors.empty() || !(out.original_context > 1.0)) {
      keys.refuse(
          "of rope_factors_short, rope_factors_long and the original context one is absent");
    }
    out.scaling = RopeScaling::kLongRope;
    out.attention_factor = keys.positive_or({{}, {"rope.scaling.attn_factor"}}, 1.0);
    return out;
  }
  out.divisors = stored_factors(files, keys, "rope_freqs.weight");
  const std::string type =
      keys.text({{}, {"rope.scaling.type"}}).value_or(out.factor == 1.0 ? "none" : "linear");
  if (type != "none" && type != "linear" && type != "yarn") {
    keys.refuse(fmt::format("the rope type \"{}\" is not known", excerpt(type)));
  }
  if (type == "linear") {
    out.scaling = RopeScaling::kLinear;
  }
  if (type == "yarn") {
    out.scaling = RopeScaling::kYarn;
    if (!(out.original_context > 1.0)) {
      keys.refuse("no rope.scaling.original_context_length or context_length is there");
    }
    read_gguf_yarn(keys, out);
  }
  return out;
}

}  // namespace

RopeSettings read_rope_settings(const input::ModelFiles& files, const TransformerKeys& keys,
                                bool sliding) {
  RopeSettings settings =
      keys.is_gguf() ? settings_of_gguf(files, keys, sliding) : settings_of_config(keys, sliding);
  if (!keys.family().partial_rope && settings.partial != 1.0) {
    keys.refuse(fmt::format("partial_rotary_factor is {}, which {} does not know", settings.partial,
                            printable(keys.family_name())));
  }
  const bool can_grow = keys.family().growing && settings.original_context > 1.0;
  if (settings.growth != 0.0 && !can_grow) {
    keys.refuse(
        "queries that grow with the position (llama_4_scaling_beta, temperature_scale) "
        "are not known of this family");
  }
  if (settings.scaling == RopeScaling::kYarn && !(settings.base > 1.0)) {
    keys.refuse(fmt::format("the base of rotations (rope) is {}", settings.base));
  }
  return settings;
}

}  // namespace vindex::model
