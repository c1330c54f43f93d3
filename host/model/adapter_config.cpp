// Sources: PEFT src/peft/tuners/lora/{config,layer}.py and utils/other.py (get_pattern_key);
// llama.cpp src/llama-adapter.{h,cpp}, gguf-py/gguf/constants.py.
#include "adapter_config.hpp"

#include <vindex/core/error.hpp>

#include <fmt/format.h>

#include <cmath>
#include <re2/re2.h>

namespace vindex::model {

namespace {

constexpr std::size_t kLongestPattern = 1024;
constexpr std::size_t kMostPatterns = 4096;
constexpr std::int64_t kPatternMemory = 1 << 20;

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
  return number == nullptr ? std::nullopt : std::optional(*number);
}

bool flag_of(const JsonValue& config, const char* key) {
  const JsonValue* value = config.find(key);
  const bool* flag = value == nullptr ? nullptr : value->as_bool();
  return flag != nullptr && *flag;
}

}  // namespace

AdapterConfig::AdapterConfig(const shard::ModelFiles& files, std::vector<Warning>& warnings) {
  if (files.format == shard::ContainerFormat::kGguf) {
    read_gguf(files);
  } else if (files.adapter) {
    read_peft(*files.adapter, warnings);
  }
  if (alpha_ && !std::isfinite(*alpha_)) {
    throw FormatError("E-LORA-ALPHA", printable(files.path),
                      "the adapter's alpha is no finite number");
  }
  if (!alpha_) {
    warnings.push_back({"W-LORA-ALPHA",
                        "no alpha is given beside the LoRA factors: their products are taken as "
                        "they are, alpha/r = 1"});
  }
}

AdapterConfig::~AdapterConfig() = default;

void AdapterConfig::read_gguf(const shard::ModelFiles& files) {
  zero_means_one_ = true;
  for (const shard::GgufKey& key : files.keys) {
    if (key.name == "adapter.type") {
      const auto* type = std::get_if<std::string>(&key.value);
      if (type == nullptr || *type != "lora") {
        throw FormatError("E-LORA-TYPE", printable(files.path),
                          fmt::format("this adapter is no LoRA: adapter.type is {}",
                                      type == nullptr ? "no text" : printable(*type)));
      }
    } else if (key.name == "adapter.lora.alpha") {
      if (const auto* real = std::get_if<double>(&key.value)) {
        alpha_ = *real;
      } else if (const auto* natural = std::get_if<std::uint64_t>(&key.value)) {
        alpha_ = static_cast<double>(*natural);
      }
    }
  }
}

void AdapterConfig::read_peft(const JsonValue& config, std::vector<Warning>& warnings) {
  const JsonValue* type = config.find("peft_type");
  const std::string* name = type == nullptr ? nullptr : type->as_string();
  if (name != nullptr && *name != "LORA") {
    throw FormatError("E-LORA-TYPE", "adapter_config.json",
                      fmt::format("this adapter is no LoRA: peft_type is {}", printable(*name)));
  }
  alpha_ = number_of(config.find("lora_alpha"));
  rank_ = number_of(config.find("r"));
  root_ = flag_of(config, "use_rslora");
  dora_ = flag_of(config, "use_dora");
  const JsonValue* parameters = config.find("target_parameters");
  const JsonValue::Array* list = parameters == nullptr ? nullptr : parameters->as_array();
  targets_parameters_ = list != nullptr && !list->empty();
  alpha_patterns_ = patterns(config, "alpha_pattern", warnings);
  rank_patterns_ = patterns(config, "rank_pattern", warnings);
}

AdapterConfig::Patterns AdapterConfig::patterns(const JsonValue& config, const char* key,
                                                std::vector<Warning>& warnings) {
  Patterns out;
  const JsonValue* value = config.find(key);
  const JsonValue::Object* members = value == nullptr ? nullptr : value->as_object();
  if (members == nullptr) {
    return out;
  }
  for (const auto& [pattern, number] : *members) {
    const auto wanted = number_of(&number);
    re2::RE2::Options options(re2::RE2::Latin1);
    options.set_log_errors(false);
    options.set_max_mem(kPatternMemory);
    const bool readable = wanted && pattern.size() <= kLongestPattern && out.size() < kMostPatterns;
    // PEFT matches the end of the path, from a dot on.
    auto expression = std::make_unique<re2::RE2>(
        readable ? "(?:.*\\.)?(?:" + pattern + ")" : std::string(), options);
    if (!readable || !expression->ok()) {
      warnings.push_back(
          {"W-LORA-PATTERN", fmt::format("adapter_config.json: {} of {} cannot be read; not used",
                                         printable(pattern.substr(0, 80)), key)});
      continue;
    }
    out.emplace_back(std::move(expression), *wanted);
  }
  return out;
}

std::optional<double> AdapterConfig::first_match(const Patterns& patterns,
                                                 const std::string& module) {
  for (const auto& [expression, value] : patterns) {
    if (re2::RE2::FullMatch(module, *expression)) {
      return value;
    }
  }
  return std::nullopt;
}

double AdapterConfig::scale(const std::string& module, std::int64_t rank) const {
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
  constexpr double kMost = 1e9;
  if (!rank || !(*rank >= 0.0 && *rank <= kMost)) {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(*rank);
}

}  // namespace vindex::model
