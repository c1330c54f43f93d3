// Owns the table of keys, and reading a configuration by it.
#include "adapter_config.hpp"

#include "core/text/nearest_name.hpp"
#include "core/text/text_parts.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <string_view>

namespace vindex::model {
namespace {

using std::string_view_literals::operator""sv;

constexpr const char* kFile = "adapter_config.json";

/// Read elsewhere, or of no meaning for a finished adapter: how it was trained, which modules were
/// chosen (the file's factors say that), what belongs to one way to begin (init_lora_weights) or to
/// the backward pass alone (velora_config).
constexpr std::string_view kKnown =
    "alpha_pattern auto_mapping base_model_class base_model_name_or_path bias corda_config "
    "ensure_weight_tying eva_config exclude_modules fan_in_fan_out inference_mode "
    "init_lora_weights layers_pattern layers_to_transform loftq_config lora_alpha lora_bias "
    "lora_dropout lora_ga_config megatron_config megatron_core merge_weights modules_to_save "
    "peft_type peft_version qalora_group_size r rank_pattern revision runtime_config "
    "target_modules target_parameters task_type trainable_token_indices use_dora use_rslora "
    "velora_config";

struct KeyMeaning {
  std::string_view key, why;
  bool even_empty = false;  ///< PEFT asks only whether it is None
};

constexpr std::array kMore = {
    KeyMeaning{"alora_invocation_tokens",
               "it acts on tokens from its invocation on, and on no others", true},
    KeyMeaning{"arrow_config", "it is one of several adapters between which tokens are routed",
               true},
    KeyMeaning{"layer_replication", "it is of a model whose layers are repeated"},
};

constexpr std::array kNoProducts = {
    KeyMeaning{"enable_lora", "its factors are of parts of a fused matrix"},
    KeyMeaning{"kasa_config", "a diagonal stands between its factors, and the base loses values"},
    KeyMeaning{"monteclora_config", "its factors are drawn anew"},
    KeyMeaning{"use_bdlora", "one of its factors is block-diagonal and stored as its blocks"},
    KeyMeaning{"use_qalora", "its inputs are pooled"},
};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// Why factors that began like this are no sum with the model that they are named for.
std::string mutated_base(const JsonValue* begun) {
  const std::string* text = begun == nullptr ? nullptr : begun->as_string();
  if (begun != nullptr && !begun->is_null() && begun->as_bool() == nullptr && text == nullptr) {
    throw ConfigurationError(
        "E-LORA-CONFIG",
        fmt::format("{}: init_lora_weights is neither a boolean nor a string", kFile));
  }
  if (text == nullptr) {
    return {};
  }
  const std::string name = lower(*text);
  // orthogonal and mica leave the base as it is, eva and gaussian begin with a B of zeros.
  for (const auto known : {"gaussian"sv, "eva"sv, "orthogonal"sv, "mica"sv}) {
    if (name == known) {
      return {};
    }
  }
  for (const auto known : {"pissa"sv, "olora"sv, "corda"sv, "lora_ga"sv}) {
    if (name.starts_with(known)) {
      return fmt::format(
          "init_lora_weights {}: its base is the model less what the factors began with; PEFT's "
          "save_pretrained(path_initial_model_for_weight_conversion=...) makes a plain LoRA of it",
          excerpt(*text));
    }
  }
  if (name == "loftq") {
    return "init_lora_weights loftq: its base is a quantised copy of the model";
  }
  return fmt::format("init_lora_weights {}: unknown, so its base may be another", excerpt(*text));
}

}  // namespace

bool is_set(const JsonValue* value) {
  if (value == nullptr || value->is_null()) {
    return false;
  }
  if (const bool* flag = value->as_bool()) {
    return *flag;
  }
  if (const auto number = number_of(value)) {
    return *number != 0.0;
  }
  if (const std::string* text = value->as_string()) {
    return !text->empty();
  }
  if (const JsonValue::Array* list = value->as_array()) {
    return !list->empty();
  }
  const JsonValue::Object* members = value->as_object();
  return members == nullptr || !members->empty();
}

std::optional<double> number_of(const JsonValue* value) {
  if (value == nullptr) {
    return std::nullopt;
  }
  if (const auto* number = std::get_if<std::uint64_t>(&value->storage())) {
    return static_cast<double>(*number);
  }
  if (const auto* number = std::get_if<std::int64_t>(&value->storage())) {
    return static_cast<double>(*number);
  }
  const auto* number = std::get_if<double>(&value->storage());
  return number == nullptr || !std::isfinite(*number) ? std::nullopt : std::optional(*number);
}

bool flag_of(const JsonValue& config, const char* key) {
  const JsonValue* value = config.find(key);
  if (value == nullptr || value->is_null()) {
    return false;
  }
  if (value->as_bool() == nullptr) {
    throw ConfigurationError(
        "E-LORA-CONFIG",
        fmt::format("{}: {} is neither true nor false; write the one that is meant", kFile, key));
  }
  return *value->as_bool();
}

AdapterKind read_adapter_kind(const JsonValue& config, std::vector<Warning>& warnings) {
  const JsonValue::Object* members = config.as_object();
  if (members == nullptr) {
    throw ConfigurationError(
        "E-LORA-CONFIG",
        fmt::format("{}: is not a JSON object, so the adapter's scale is unknown", kFile));
  }
  AdapterKind kind;
  if (std::string why = mutated_base(config.find("init_lora_weights")); !why.empty()) {
    kind.more_than_products.push_back(std::move(why));
  }
  constexpr std::size_t kMaxNames = 24;  // a hostile file has a million of them
  std::vector<std::string> unknown;
  std::size_t unknown_count = 0;
  for (const auto& [name, value] : *members) {
    const auto same = [&name = name, set = is_set(&value),
                       given = !value.is_null()](const KeyMeaning& meaning) {
      return meaning.key == name && (meaning.even_empty ? given : set);
    };
    const auto more = std::find_if(kMore.begin(), kMore.end(), same);
    const auto none = std::find_if(kNoProducts.begin(), kNoProducts.end(), same);
    if (more != kMore.end()) {
      kind.more_than_products.push_back(fmt::format("{}: {}", name, more->why));
    } else if (none != kNoProducts.end()) {
      kind.no_products = fmt::format("{}: {}: {}", kFile, name, none->why);
    } else if (is_set(&value) && !has_word(kKnown, name)) {
      if (++unknown_count <= kMaxNames) {
        unknown.push_back(name);
      }
    }
  }
  if (unknown_count > 0) {
    warnings.push_back(
        {"W-LORA-KEYS",
         fmt::format("{}: keys that are unknown here and not used: {}{}", kFile, name_list(unknown),
                     unknown_count > kMaxNames ? fmt::format(", ... ({} in all)", unknown_count)
                                               : std::string())});
  }
  return kind;
}

}  // namespace vindex::model
