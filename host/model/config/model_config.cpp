// Owns reading claims of every kind from both sources, with warnings.
#include "model_config.hpp"

#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <limits>

namespace vindex::model {

namespace {

// Where wrappers keep the language model's own configuration.
constexpr std::array<std::string_view, 6> kInnerSections = {
    "text_config", "language_config", "llm_config", "thinker_config", "ffn_config", "attn_config"};

/// A name, cut where none is that long: it is repeated for every weight that it names.
std::string string_member(const JsonValue* object, std::string_view key) {
  constexpr std::size_t kLongest = 128;
  const JsonValue* value = object == nullptr ? nullptr : object->find(key);
  const std::string* text = value == nullptr ? nullptr : value->as_string();
  return text == nullptr ? std::string() : text->substr(0, kLongest);
}

/// A small positive number, or 0 where `key` is absent or anything else.
std::int32_t small_member(const JsonValue& object, std::string_view key) {
  const JsonValue* value = object.find(key);
  const std::uint64_t* number = value == nullptr ? nullptr : value->as_unsigned();
  constexpr std::uint64_t kMax = 1U << 20U;
  return number == nullptr || *number > kMax ? 0 : static_cast<std::int32_t>(*number);
}

const std::string* key_text(const std::vector<gguf::Key>& keys, std::string_view name) {
  for (const gguf::Key& key : keys) {
    if (key.name == name && key.type == gguf::ValueType::kString) {
      return std::get_if<std::string>(&key.value);
    }
  }
  return nullptr;
}

}  // namespace

Claims::Claims(const input::ModelFiles& files, std::vector<Warning>& warnings)
    : files_(files), warnings_(warnings) {
  if (files.config) {
    architecture_ = string_member(&*files.config, "model_type");
    for (const std::string_view section : kInnerSections) {
      const JsonValue* inner = files.config->find(section);
      if (inner == nullptr || inner->as_object() == nullptr) {
        continue;
      }
      sections_.push_back(inner);
      if (inner_architecture_.empty()) {
        inner_architecture_ = string_member(inner, "model_type");
      }
    }
    sections_.push_back(&*files.config);
  }
  if (const std::string* text = key_text(files.keys, "general.architecture")) {
    architecture_ = *text;
  }
  if (const std::string* text = key_text(files.keys, "general.type")) {
    file_type_ = *text;
  }
}

void Claims::warn_type(const std::string& key) {
  warnings_.push_back(
      {"W-CONFIG-TYPE", fmt::format("{} is not a non-negative integer; not used", printable(key))});
}

bool Claims::flag(std::string_view key) const {
  for (const JsonValue* section : sections_) {
    const JsonValue* value = section->find(key);
    const bool* set = value == nullptr ? nullptr : value->as_bool();
    if (set != nullptr) {
      return *set;
    }
  }
  return false;
}

std::pair<std::string_view, const JsonValue*> Claims::config_member(
    std::initializer_list<std::string_view> keys) const {
  if (files_.format != input::ContainerFormat::kGguf) {
    for (const std::string_view key : keys) {
      for (const JsonValue* section : sections_) {
        const JsonValue* value = section->find(key);
        if (value != nullptr && !value->is_null()) {
          return {key, value};
        }
      }
    }
  }
  return {{}, nullptr};
}

const gguf::Key* Claims::gguf_key(std::initializer_list<std::string_view> keys) const {
  if (files_.format == input::ContainerFormat::kGguf) {
    for (const std::string_view suffix : keys) {
      const gguf::Key* key = gguf::find_key(files_.keys, architecture_ + '.' + std::string(suffix));
      if (key != nullptr) {
        return key;
      }
    }
  }
  return nullptr;
}

std::optional<std::pair<std::string, double>> Claims::real(
    std::initializer_list<std::string_view> config_keys,
    std::initializer_list<std::string_view> gguf_keys) const {
  const auto number_of = [](const auto& storage) -> std::optional<double> {
    std::optional<double> number;
    if (const auto* unsigned_value = std::get_if<std::uint64_t>(&storage)) {
      number = static_cast<double>(*unsigned_value);
    } else if (const auto* signed_value = std::get_if<std::int64_t>(&storage)) {
      number = static_cast<double>(*signed_value);
    } else if (const auto* real_value = std::get_if<double>(&storage)) {
      number = *real_value;
    }
    return number && std::isfinite(*number) ? number : std::nullopt;
  };
  if (files_.format == input::ContainerFormat::kGguf) {
    for (const std::string_view suffix : gguf_keys) {
      const std::string name = architecture_ + '.' + std::string(suffix);
      const gguf::Key* key = gguf::find_key(files_.keys, name);
      if (key == nullptr || key->type == gguf::ValueType::kArray) {
        continue;
      }
      if (const auto number = number_of(key->value)) {
        return std::pair(name, *number);
      }
    }
    return std::nullopt;
  }
  for (const std::string_view key : config_keys) {
    for (const JsonValue* section : sections_) {
      const JsonValue* value = section->find(key);
      if (value == nullptr) {
        continue;
      }
      if (const auto number = number_of(value->storage())) {
        return std::pair(std::string(key), *number);
      }
      if (value->as_number()) {
        throw FormatError(
            "E-CONFIG-NUMBER", printable(files_.path),
            fmt::format("{} is {}, where a finite number is needed", key, *value->as_number()));
      }
    }
  }
  return std::nullopt;
}

std::optional<bool> Claims::boolean(std::initializer_list<std::string_view> config_keys,
                                    std::initializer_list<std::string_view> gguf_keys) const {
  if (files_.format == input::ContainerFormat::kGguf) {
    for (const std::string_view suffix : gguf_keys) {
      const gguf::Key* key = gguf::find_key(files_.keys, architecture_ + '.' + std::string(suffix));
      if (key != nullptr && key->type == gguf::ValueType::kBool) {
        return std::get<std::uint64_t>(key->value) != 0;
      }
    }
    return std::nullopt;
  }
  for (const std::string_view key : config_keys) {
    for (const JsonValue* section : sections_) {
      const JsonValue* value = section->find(key);
      if (const bool* set = value == nullptr ? nullptr : value->as_bool()) {
        return *set;
      }
    }
  }
  return std::nullopt;
}

std::string Claims::text(std::initializer_list<std::string_view> config_keys) const {
  for (const std::string_view key : config_keys) {
    for (const JsonValue* section : sections_) {
      if (std::string found = string_member(section, key); !found.empty()) {
        return found;
      }
    }
  }
  return {};
}

std::optional<Claim> Claims::config_number(std::string_view key) {
  for (const JsonValue* section : sections_) {
    const JsonValue* value = section->find(key);
    if (value == nullptr || value->is_null() || value->as_bool() != nullptr) {
      continue;
    }
    if (const std::uint64_t* number = value->as_unsigned()) {
      return Claim{std::string(key), *number};
    }
    // Some models give one number per layer.
    if (value->as_array() == nullptr) {
      warn_type(fmt::format("config.json: {}", key));
    }
  }
  return std::nullopt;
}

std::optional<Claim> Claims::gguf_number(std::string_view suffix) {
  const std::string name = architecture_ + '.' + std::string(suffix);
  for (const gguf::Key& key : files_.keys) {
    if (key.name != name) {
      continue;
    }
    if (const auto* number = std::get_if<std::uint64_t>(&key.value);
        number != nullptr && key.type != gguf::ValueType::kArray &&
        key.type != gguf::ValueType::kBool) {
      return Claim{name, *number};
    }
    if (const auto* number = std::get_if<std::int64_t>(&key.value);
        number != nullptr && key.type != gguf::ValueType::kArray && *number >= 0) {
      return Claim{name, static_cast<std::uint64_t>(*number)};
    }
    if (key.type != gguf::ValueType::kArray) {
      warn_type(name);
    }
    return std::nullopt;
  }
  return std::nullopt;
}

std::optional<Claim> Claims::number(std::initializer_list<std::string_view> config_keys,
                                    std::initializer_list<std::string_view> gguf_keys) {
  if (files_.format == input::ContainerFormat::kGguf) {
    for (const std::string_view key : gguf_keys) {
      if (auto claim = gguf_number(key)) {
        return claim;
      }
    }
    return std::nullopt;
  }
  for (const std::string_view key : config_keys) {
    if (auto claim = config_number(key)) {
      return claim;
    }
  }
  return std::nullopt;
}

namespace {

bool flag_member(const JsonValue& object, std::string_view key, bool otherwise) {
  const JsonValue* value = object.find(key);
  const bool* flag = value == nullptr ? nullptr : value->as_bool();
  return flag == nullptr ? otherwise : *flag;
}

void read_block(const JsonValue& quantisation, std::string_view key, QuantClaims& claims,
                std::vector<Warning>& warnings) {
  const JsonValue* block = quantisation.find(key);
  if (block == nullptr || block->is_null()) {
    return;
  }
  const JsonValue::Array* sides = block->as_array();
  if (sides != nullptr && sides->size() == 2) {
    const std::uint64_t* rows = (*sides)[0].as_unsigned();
    const std::uint64_t* cols = (*sides)[1].as_unsigned();
    constexpr std::uint64_t kMax = 1U << 20U;
    if (rows != nullptr && cols != nullptr && *rows >= 1 && *cols >= 1 && *rows <= kMax &&
        *cols <= kMax) {
      claims.block = {static_cast<std::int32_t>(*rows), static_cast<std::int32_t>(*cols)};
      return;
    }
  }
  warnings.push_back({"W-CONFIG-TYPE",
                      fmt::format("config.json: {} is not two positive integers; not used", key)});
}

void read_groups(const JsonValue& quantisation, QuantClaims& claims,
                 std::vector<Warning>& warnings) {
  const JsonValue* groups = quantisation.find("config_groups");
  const JsonValue::Object* members = groups == nullptr ? nullptr : groups->as_object();
  if (members == nullptr) {
    return;
  }
  for (const auto& [name, group] : *members) {
    const JsonValue* weights = group.find("weights");
    if (weights == nullptr || weights->as_object() == nullptr) {
      continue;
    }
    claims.groups.push_back({small_member(*weights, "num_bits"),
                             small_member(*weights, "group_size"),
                             flag_member(*weights, "symmetric", true),
                             {}});
    if (!claims.block) {
      read_block(*weights, "block_structure", claims, warnings);
    }
  }
}

/// MLX names modules beside the defaults: {"bits": 4, "model.layers.0.x": {"bits": 8}}.
void read_modules(const JsonValue& quantisation, QuantClaims& claims) {
  for (const auto& [name, value] : *quantisation.as_object()) {
    if (value.as_object() != nullptr && small_member(value, "bits") > 0) {
      claims.modules.emplace_back(
          name, QuantGroup{small_member(value, "bits"), small_member(value, "group_size"), false,
                           string_member(&value, "mode")});
    }
  }
  std::sort(claims.modules.begin(), claims.modules.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
}

/// {"meta": {"quantizer": ["optimum:1.2", "gptqmodel:7.7.0"]}}, or one string.
bool is_from_gptqmodel(const JsonValue& quantisation) {
  const JsonValue* meta = quantisation.find("meta");
  const JsonValue* tools = meta == nullptr ? nullptr : meta->find("quantizer");
  const auto is_it = [](const JsonValue& value) {
    const std::string* name = value.as_string();
    return name != nullptr && name->starts_with("gptqmodel");
  };
  if (tools == nullptr) {
    return false;
  }
  const JsonValue::Array* list = tools->as_array();
  return list == nullptr ? is_it(*tools) : std::any_of(list->begin(), list->end(), is_it);
}

void read_layout(const JsonValue& quantisation, QuantClaims& claims) {
  claims.mode = string_member(&quantisation, "mode");
  claims.checkpoint_format = string_member(&quantisation, "checkpoint_format");
  if (claims.checkpoint_format.empty()) {
    const JsonValue* meta = quantisation.find("meta");
    claims.checkpoint_format = string_member(meta, "checkpoint_format");
  }
  // GPTQModel's newer name of the same; other methods mean something else by it.
  const std::string method = string_member(&quantisation, "quant_method");
  if (claims.checkpoint_format.empty() && (method == "gptq" || method == "awq")) {
    claims.checkpoint_format = string_member(&quantisation, "format");
  }
  claims.gptqmodel = is_from_gptqmodel(quantisation);
  claims.packing_format = string_member(&quantisation, "packing_format");
  claims.backend = string_member(&quantisation, "backend");
  claims.linear_class = string_member(&quantisation, "linear_class");
  claims.sparsity = string_member(quantisation.find("sparsity_config"), "format");
  claims.version = string_member(&quantisation, "version");
  std::transform(claims.version.begin(), claims.version.end(), claims.version.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  claims.activation_order = flag_member(quantisation, "desc_act", false);
  claims.marlin = flag_member(quantisation, "is_marlin_format", false);
}

}  // namespace

const QuantGroup* QuantClaims::module(std::string_view name) const {
  const auto found = std::lower_bound(
      modules.begin(), modules.end(), name,
      [](const auto& entry, std::string_view wanted) { return entry.first < wanted; });
  return found != modules.end() && found->first == name ? &found->second : nullptr;
}

QuantClaims read_quant_claims(const input::ModelFiles& files, std::vector<Warning>& warnings) {
  QuantClaims claims;
  std::vector<const JsonValue*> sections;
  if (files.config) {
    sections.push_back(&*files.config);
    for (const std::string_view section : kInnerSections) {
      if (const JsonValue* inner = files.config->find(section)) {
        sections.push_back(inner);
      }
    }
  }
  if (files.quantisation) {  // config.json, where it says something, is newer
    sections.push_back(&*files.quantisation);
  }
  for (const JsonValue* section : sections) {
    const JsonValue* quantisation = section->find("quantization_config");
    if (quantisation == nullptr) {
      quantisation = section->find("quantization");  // MLX, and ModelOpt's own file
    }
    if (quantisation == nullptr || quantisation->as_object() == nullptr) {
      continue;
    }
    claims.present = true;
    claims.method = string_member(quantisation, "quant_method");
    claims.format = string_member(quantisation, "format");
    claims.algorithm = string_member(quantisation, "quant_algo");
    claims.bits = small_member(*quantisation, "bits");
    claims.group = small_member(*quantisation, "group_size");
    read_block(*quantisation, "weight_block_size", claims, warnings);
    read_groups(*quantisation, claims, warnings);
    read_layout(*quantisation, claims);
    read_modules(*quantisation, claims);
    return claims;
  }
  return claims;
}

}  // namespace vindex::model
