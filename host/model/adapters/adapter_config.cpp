// Owns reading the configuration of a LoRA adapter: its scale, and which weights it changes.
// Sources: PEFT src/peft/tuners/lora/{config,layer}.py and utils/other.py (get_pattern_key);
// mlx-lm mlx_lm/tuner/{utils,lora}.py; llama.cpp src/llama-adapter.{h,cpp},
// gguf-py/gguf/constants.py.
#include "adapter_config.hpp"

#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <re2/re2.h>

namespace vindex::model {

namespace {

constexpr double kPeftAlpha = 8.0;  ///< PEFT's own default
constexpr std::size_t kMaxAdapterPattern = 1024;
constexpr std::size_t kMaxPatterns = 4096;
// Expressions of a few bytes can take RE2 milliseconds and megabytes each; together these stay
// below a second and 4 MiB.
constexpr std::size_t kLongestExpression = 256;
constexpr std::size_t kMaxExpressions = 64;
constexpr std::int64_t kExpressionMemory = 1 << 16;

std::string not_a_number(const char* name) {
  return fmt::format("adapter_config.json: {} is not a number", name);
}

/// Truth values and arrays hold an integer here too.
std::optional<double> number_of(const gguf::Key& key) {
  if (key.type == gguf::ValueType::kBool || key.type == gguf::ValueType::kArray) {
    return std::nullopt;
  }
  if (const auto* real = std::get_if<double>(&key.value)) {
    return *real;
  }
  if (const auto* natural = std::get_if<std::uint64_t>(&key.value)) {
    return static_cast<double>(*natural);
  }
  const auto* whole = std::get_if<std::int64_t>(&key.value);
  return whole == nullptr ? std::nullopt : std::optional(static_cast<double>(*whole));
}

}  // namespace

ModulePattern::ModulePattern(const std::string& text) {
  if (is_plain(text)) {
    plain_ = text;
    return;
  }
  re2::RE2::Options options(re2::RE2::Latin1);
  options.set_log_errors(false);
  options.set_max_mem(kExpressionMemory);
  expression_ = std::make_unique<re2::RE2>("(?:.*\\.)?(?:" + text + ")", options);
}

ModulePattern::~ModulePattern() = default;
ModulePattern::ModulePattern(ModulePattern&&) noexcept = default;

bool ModulePattern::is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
  });
}

bool ModulePattern::readable() const { return expression_ == nullptr || expression_->ok(); }

bool ModulePattern::matches(std::string_view module) const {
  if (expression_ != nullptr) {
    return re2::RE2::FullMatch(module, *expression_);
  }
  if (module.size() < plain_.size()) {
    return false;
  }
  const std::string_view head = module.substr(0, module.size() - plain_.size());
  return (head.empty() || head.back() == '.') &&
         std::equal(plain_.begin(), plain_.end(), module.begin() + head.size(),
                    [](char wanted, char c) { return wanted == c || wanted == '.'; });
}

AdapterConfig::AdapterConfig(const input::ModelFiles& files, bool mlx,
                             std::vector<Warning>& warnings) {
  if (files.format == input::ContainerFormat::kGguf) {
    read_gguf(files, warnings);
  } else if (files.adapter && mlx) {
    read_mlx(*files.adapter);
  } else if (files.adapter) {
    read_peft(*files.adapter, warnings);
  }
  for (const std::optional<double>& number : {alpha_, fixed_scale_}) {
    if (number && !std::isfinite(*number)) {
      throw FormatError("E-LORA-ALPHA", printable(files.path),
                        "the adapter's alpha is not a finite number");
    }
  }
  if (!alpha_ && !fixed_scale_) {
    warnings.push_back({"W-LORA-ALPHA",
                        "no alpha is given beside the LoRA factors: their products are taken as "
                        "they are, alpha/r = 1"});
  }
}

void AdapterConfig::read_gguf(const input::ModelFiles& files, std::vector<Warning>& warnings) {
  zero_means_one_ = true;
  for (const gguf::Key& key : files.keys) {
    if (key.name == "adapter.type") {
      const auto* type = std::get_if<std::string>(&key.value);
      if (type == nullptr || *type != "lora") {
        throw FormatError("E-LORA-TYPE", printable(files.path),
                          fmt::format("this adapter is not a LoRA: adapter.type is {}",
                                      type == nullptr ? "no text" : printable(*type)));
      }
    } else if (key.name == "adapter.lora.alpha") {
      alpha_ = number_of(key);
      if (!alpha_) {
        throw ConfigurationError(
            "E-LORA-CONFIG",
            fmt::format("{}: adapter.lora.alpha is not a number", printable(files.path)));
      }
    } else if (key.name == "adapter.alora.invocation_tokens" &&
               (key.type != gguf::ValueType::kArray || key.array_count > 0)) {
      warnings.push_back({"W-LORA-VARIANT",
                          "adapter.alora.invocation_tokens: it acts on tokens from its invocation "
                          "on, and on no others"});
    }
  }
}

void AdapterConfig::read_peft(const JsonValue& config, std::vector<Warning>& warnings) {
  AdapterKind kind = read_adapter_kind(config, warnings);
  const JsonValue* type = config.find("peft_type");
  const std::string* name = type == nullptr ? nullptr : type->as_string();
  if (type != nullptr && !type->is_null() && (name == nullptr || *name != "LORA")) {
    throw FormatError("E-LORA-TYPE", "adapter_config.json",
                      fmt::format("this adapter is not a LoRA: peft_type is {}",
                                  name == nullptr ? "no text" : printable(*name)));
  }
  for (const std::string& why : kind.more_than_products) {
    warnings.push_back({"W-LORA-VARIANT", why});
  }
  const JsonValue* alpha = config.find("lora_alpha");
  alpha_ = number_of(alpha);
  if (!alpha_ && alpha != nullptr && !alpha->is_null()) {
    throw ConfigurationError("E-LORA-CONFIG", not_a_number("lora_alpha"));
  }
  if (!alpha_) {
    alpha_ = kPeftAlpha;
    warnings.push_back({"W-LORA-ALPHA", fmt::format("adapter_config.json gives no lora_alpha: "
                                                    "PEFT's own default of {} is taken",
                                                    kPeftAlpha)});
  }
  const JsonValue* rank = config.find("r");
  rank_ = number_of(rank);
  if (rank != nullptr && !rank->is_null() &&
      !(rank_ && *rank_ >= 1.0 && *rank_ == std::floor(*rank_))) {
    throw ConfigurationError("E-LORA-CONFIG",
                             "adapter_config.json: r is not a whole number from 1 on");
  }
  root_ = flag_of(config, "use_rslora");
  dora_ = flag_of(config, "use_dora");
  parameters_ = ParameterTargets(config);
  rank_patterns_ = patterns(config, "rank_pattern", unknown_rank_);
  alpha_patterns_ = patterns(config, "alpha_pattern", no_products_);
  for (const std::string& text : {unknown_rank_, no_products_}) {
    if (!text.empty()) {
      warnings.push_back({"W-LORA-PATTERN", text});
    }
  }
  if (!kind.no_products.empty()) {
    no_products_ = std::move(kind.no_products);
  }
}

void AdapterConfig::read_mlx(const JsonValue& config) {
  if (config.as_object() == nullptr) {
    throw ConfigurationError("E-LORA-CONFIG",
                             "adapter_config.json: is not a JSON object, so the adapter's scale is "
                             "unknown");
  }
  const JsonValue* parameters = config.find("lora_parameters");
  const JsonValue* scale = parameters == nullptr ? nullptr : parameters->find("scale");
  fixed_scale_ = number_of(scale);
  if (!fixed_scale_ && scale != nullptr && !scale->is_null()) {
    throw ConfigurationError("E-LORA-CONFIG", not_a_number("lora_parameters.scale"));
  }
  const JsonValue* type = config.find("fine_tune_type");
  const std::string* name = type == nullptr ? nullptr : type->as_string();
  if (type != nullptr && !type->is_null() && name == nullptr) {
    throw ConfigurationError("E-LORA-CONFIG",
                             "adapter_config.json: fine_tune_type is not a string");
  }
  dora_ = name != nullptr && *name == "dora";
}

AdapterConfig::Patterns AdapterConfig::patterns(const JsonValue& config, const char* key,
                                                std::string& unreadable) {
  Patterns out;
  const JsonValue* value = config.find(key);
  const JsonValue::Object* members = value == nullptr ? nullptr : value->as_object();
  if (members == nullptr) {
    return out;
  }
  std::size_t expressions = 0;
  for (const auto& [text, number] : *members) {
    const auto wanted = number_of(&number);
    const bool plain = ModulePattern::is_plain(text);
    const bool fits = wanted && std::isfinite(*wanted) && out.size() < kMaxPatterns &&
                      text.size() <= (plain ? kMaxAdapterPattern : kLongestExpression) &&
                      (plain || ++expressions <= kMaxExpressions);
    if (fits) {
      out.push_back({ModulePattern(text), *wanted});
    }
    if (!fits || !out.back().module.readable()) {
      unreadable = fmt::format("adapter_config.json: {} of {} cannot be read",
                               printable(text.substr(0, 80)), key);
      break;  // what comes after it is used only where this one does not match
    }
  }
  return out;
}

std::optional<double> AdapterConfig::first_match(const Patterns& patterns,
                                                 const std::string& module) {
  for (const Pattern& pattern : patterns) {
    if (pattern.module.readable() && pattern.module.matches(module)) {
      return pattern.value;
    }
  }
  return std::nullopt;
}

double AdapterConfig::scale(const std::string& module, std::int64_t rank) const {
  if (fixed_scale_) {
    return *fixed_scale_;
  }
  if (!alpha_ || rank <= 0 || (zero_means_one_ && *alpha_ == 0.0)) {
    return 1.0;
  }
  const double alpha = first_match(alpha_patterns_, module).value_or(*alpha_);
  const auto r = static_cast<double>(rank);
  return alpha / (root_ ? std::sqrt(r) : r);
}

std::optional<std::int64_t> AdapterConfig::rank(const std::string& module) const {
  const auto claimed = first_match(rank_patterns_, module);
  const std::optional<double> rank = claimed ? claimed : rank_;
  constexpr double kMax = 1e9;
  if (!rank || !(*rank >= 0.0 && *rank <= kMax)) {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(*rank);
}

}  // namespace vindex::model
