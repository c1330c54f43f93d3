// Owns reading such keys.
#include "transformer_keys.hpp"

#include "transformer.hpp"

#include <vindex/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

namespace vindex::model {

namespace {

constexpr std::uint64_t kLargestCount = 1U << 30U;

// What `Claims` looks into for the language model, before the top.
constexpr std::array<std::string_view, 4> kSections = {"text_config", "language_config",
                                                       "llm_config", "thinker_config"};

}  // namespace

TransformerKeys::TransformerKeys(const input::ModelFiles& files)
    : files_(files),
      claims_(files, unused_),
      keys_(claims_, "E-TRACE-KEY", printable(files.path), ""),
      dialect_(files.format == input::ContainerFormat::kGguf ? Dialect::kGguf
                                                             : Dialect::kHuggingFace) {
  // The language model inside a wrapper before the wrapper.
  for (const std::string* name : {&claims_.inner_architecture(), &claims_.architecture()}) {
    family_name_ = *name;
    family_ = transformer_family(dialect_, family_name_);
    if (family_ != nullptr) {
      return;
    }
  }
  const std::string& inner = claims_.inner_architecture();
  const std::string& outer = claims_.architecture();
  const std::string& name = inner.empty() ? outer : inner;
  throw ConfigurationError(
      "E-TRACE-FAMILY",
      fmt::format(
          "{}: {}; known are {}", printable(files.path),
          name.empty() || name == "unknown"
              ? std::string("nothing says of what family it is, and so what layers compute")
              : fmt::format("what layers of family {} compute is not known", printable(name)),
          fmt::join(traced_families(is_gguf()), " ")));
}

std::int64_t TransformerKeys::bounded(const NamedValue<std::uint64_t>& found,
                                      std::uint64_t least) const {
  if (found.value < least || found.value > kLargestCount) {
    refuse(fmt::format("{} is {}, where a number from {} to {} is needed", printable(found.key),
                       found.value, least, kLargestCount));
  }
  return static_cast<std::int64_t>(found.value);
}

std::int64_t TransformerKeys::count(const KeyNames& names) const {
  const auto found = count_if(names);
  if (!found) {
    refuse(fmt::format("there is no {}", is_gguf() ? *names.gguf.begin() : *names.config.begin()));
  }
  return *found;
}

std::optional<std::int64_t> TransformerKeys::count_if(const KeyNames& names) const {
  const auto found = keys_.count(names);
  return found ? std::optional(bounded(*found, 1)) : std::nullopt;
}

std::int64_t TransformerKeys::size_or(const KeyNames& names, std::int64_t otherwise) const {
  const auto found = keys_.count(names);
  return found ? bounded(*found, 0) : says_null(names) ? 0 : otherwise;
}

double TransformerKeys::positive_or(const KeyNames& names, double otherwise) const {
  const auto found = keys_.number(names);
  if (found && !(found->value > 0.0)) {
    refuse(fmt::format("{} is {}, where a positive number is needed", printable(found->key),
                       found->value));
  }
  return found ? found->value : otherwise;
}

double TransformerKeys::cap_or(const KeyNames& names, double otherwise) const {
  const auto found = keys_.number(names);
  if (found && is_gguf() && found->value == 0.0) {
    return 0.0;
  }
  return !found && says_null(names) ? 0.0 : positive_or(names, otherwise);
}

bool TransformerKeys::says_null(std::string_view key) const {
  if (!files_.config || is_gguf()) {
    return false;
  }
  const auto in = [&](const JsonValue* section) {
    return section == nullptr ? nullptr : section->find(key);
  };
  for (const std::string_view name : kSections) {
    if (const JsonValue* value = in(files_.config->find(name))) {
      return value->is_null();
    }
  }
  const JsonValue* value = in(&*files_.config);
  return value != nullptr && value->is_null();
}

bool TransformerKeys::says_null(const KeyNames& names) const {
  for (const std::string_view key : names.config) {
    if (says_null(key)) {
      return true;
    }
  }
  return false;
}

Gating TransformerKeys::gating() const {
  const Gating own = family().gating;
  if (is_gguf() || own == Gating::kClamped) {
    return own;  // no key of a GGUF file says it
  }
  const bool is_gemma = own == Gating::kGeluTanh;
  const auto name = is_gemma && family_name_ != "gemma" ? text({{"hidden_activation"}, {}})
                                                        : text({{"hidden_act"}, {}});
  if (!name) {
    return own;
  }
  if (*name == "silu" || *name == "swish") {
    return Gating::kSilu;
  }
  // Gemma's first files say gelu and mean its approximation.
  if (*name == "gelu_pytorch_tanh" || *name == "gelu_new" ||
      (*name == "gelu" && family_name_ == "gemma")) {
    return Gating::kGeluTanh;
  }
  if (*name == "gelu") {
    return Gating::kGelu;
  }
  refuse(fmt::format("the activation \"{}\" is not known", excerpt(*name)));
}

LayerWindows::LayerWindows(const TransformerKeys& keys) : rule_(keys.family().windows) {
  const TransformerFamily& family = keys.family();
  const auto said = [&](std::int64_t otherwise) {
    return keys.size_or({{"sliding_window"}, {"attention.sliding_window"}}, otherwise);
  };
  if (rule_ == WindowRule::kNone) {
    if (keys.is_gguf() && said(0) > 0) {
      keys.refuse(fmt::format("layers of {} with a sliding window are not known",
                              printable(keys.family_name())));
    }
    return;
  }
  const bool is_on =
      !family.window_switch || keys.boolean({{"use_sliding_window"}, {}}).value_or(false);
  window_ = is_on ? said(family.window) : 0;
  if (rule_ == WindowRule::kAbove || rule_ == WindowRule::kEvenBelow) {
    bound_ = keys.size_or({{"max_window_layers"}, {}}, 28);
  }
  period_ = rule_ == WindowRule::kAlternate ? 2 : rule_ == WindowRule::kSixths ? 6 : 0;
  if (keys.is_gguf()) {
    read_pattern(keys);
  } else if (rule_ != WindowRule::kEvery) {
    if (rule_ == WindowRule::kSixths) {
      period_ = keys.count_if({{"sliding_window_pattern"}, {}}).value_or(period_);
    }
    read_types(keys);
  }
}

void LayerWindows::read_pattern(const TransformerKeys& keys) {
  constexpr std::string_view kPattern = "attention.sliding_window_pattern";
  const gguf::Key* pattern = keys.gguf_key(kPattern);
  if (pattern == nullptr || rule_ == WindowRule::kEvery) {
    return;
  }
  if (pattern->type == gguf::ValueType::kArray) {
    keys.refuse(fmt::format("{} is a list, where a number is needed", printable(pattern->name)));
  }
  period_ = keys.size_or({{}, {kPattern}}, period_);
}

void LayerWindows::read_types(const TransformerKeys& keys) {
  const JsonValue* listed = keys.member({"layer_types"});
  if (listed == nullptr) {
    return;
  }
  const JsonValue::Array* list = listed->as_array();
  if (list == nullptr) {
    keys.refuse("layer_types is no list");
  }
  for (const JsonValue& type : *list) {
    const std::string* name = type.as_string();
    if (name == nullptr || (*name != "sliding_attention" && *name != "full_attention")) {
      keys.refuse(
          fmt::format("layer_types holds {}, where sliding_attention or full_attention is needed",
                      name == nullptr ? "what is no text" : fmt::format("\"{}\"", excerpt(*name))));
    }
    types_.push_back(*name == "sliding_attention");
  }
  const std::int64_t layers = keys.count({{"num_hidden_layers"}, {}});
  if (static_cast<std::int64_t>(types_.size()) < layers) {
    keys.refuse(fmt::format("layer_types lists {} of {} layers", types_.size(), layers));
  }
}

bool LayerWindows::is_sliding(std::int64_t layer) const {
  if (!types_.empty()) {
    return types_[static_cast<std::size_t>(layer)];
  }
  switch (rule_) {
    case WindowRule::kNone:
      return false;
    case WindowRule::kEvery:
    case WindowRule::kTyped:
      return true;
    case WindowRule::kAlternate:
    case WindowRule::kSixths:
      return period_ == 0 || (layer + 1) % period_ != 0;
    case WindowRule::kAbove:
      return layer >= bound_;
    case WindowRule::kEvenBelow:
      break;
  }
  return layer % 2 == 0 && layer < bound_;
}

}  // namespace vindex::model
