// Owns reading such keys from JSON or GGUF, type by type.
#include "model_config.hpp"

#include <vindex/error.hpp>

#include <fmt/format.h>

#include <cmath>
#include <variant>

namespace vindex::model {

namespace {

/// What a value is, for a message.
std::string shown(const JsonValue& value) {
  if (const auto* text = value.as_string()) {
    return fmt::format("the text \"{}\"", excerpt(*text));
  }
  if (const auto* flag = value.as_bool()) {
    return *flag ? "true" : "false";
  }
  if (value.as_array() != nullptr) {
    return "a list";
  }
  if (value.as_object() != nullptr) {
    return "an object";
  }
  if (const auto* integer = std::get_if<std::int64_t>(&value.storage())) {
    return std::to_string(*integer);
  }
  if (const auto* real = std::get_if<double>(&value.storage())) {
    return fmt::format("{}", *real);
  }
  return std::to_string(*value.as_unsigned());
}

std::string shown(const gguf::Key& key) {
  if (key.type == gguf::ValueType::kArray) {
    return "a list";
  }
  if (key.type == gguf::ValueType::kBool) {
    return std::get<std::uint64_t>(key.value) != 0 ? "true" : "false";
  }
  if (const auto* text = std::get_if<std::string>(&key.value)) {
    return fmt::format("the text \"{}\"", excerpt(*text));
  }
  if (const auto* real = std::get_if<double>(&key.value)) {
    return fmt::format("{}", *real);
  }
  const auto* integer = std::get_if<std::int64_t>(&key.value);
  return integer != nullptr ? std::to_string(*integer)
                            : std::to_string(std::get<std::uint64_t>(key.value));
}

template <typename Storage>
std::optional<double> finite_in(const Storage& storage) {
  std::optional<double> number;
  if (const auto* positive = std::get_if<std::uint64_t>(&storage)) {
    number = static_cast<double>(*positive);
  } else if (const auto* negative = std::get_if<std::int64_t>(&storage)) {
    number = static_cast<double>(*negative);
  } else if (const auto* real = std::get_if<double>(&storage)) {
    number = *real;
  }
  return number && std::isfinite(*number) ? number : std::nullopt;
}

std::optional<double> real_of(const JsonValue& value) { return finite_in(value.storage()); }
std::optional<double> real_of(const gguf::Key& key) {
  const bool is_number = key.type != gguf::ValueType::kBool && key.type != gguf::ValueType::kArray;
  return is_number ? finite_in(key.value) : std::nullopt;
}

std::optional<bool> flag_of(const JsonValue& value) {
  const bool* flag = value.as_bool();
  return flag == nullptr ? std::nullopt : std::optional(*flag);
}
std::optional<bool> flag_of(const gguf::Key& key) {
  return key.type == gguf::ValueType::kBool ? std::optional(std::get<std::uint64_t>(key.value) != 0)
                                            : std::nullopt;
}

std::optional<std::string> text_of_value(const JsonValue& value) {
  const std::string* text = value.as_string();
  return text == nullptr ? std::nullopt : std::optional(*text);
}
std::optional<std::string> text_of_value(const gguf::Key& key) {
  const auto* text = std::get_if<std::string>(&key.value);
  return key.type == gguf::ValueType::kString && text != nullptr ? std::optional(*text)
                                                                 : std::nullopt;
}

std::optional<std::uint64_t> count_of(const JsonValue& value) {
  if (const auto* number = value.as_unsigned()) {
    return *number;
  }
  const JsonValue::Array* list = value.as_array();
  if (list == nullptr || list->empty() || list->front().as_unsigned() == nullptr) {
    return std::nullopt;
  }
  const std::uint64_t first = *list->front().as_unsigned();
  for (const JsonValue& other : *list) {
    if (other.as_unsigned() == nullptr || *other.as_unsigned() != first) {
      return std::nullopt;
    }
  }
  return first;
}

std::optional<std::uint64_t> count_of(const gguf::Key& key) {
  if (key.type == gguf::ValueType::kBool || key.type == gguf::ValueType::kArray) {
    return std::nullopt;
  }
  if (const auto* number = std::get_if<std::uint64_t>(&key.value)) {
    return *number;
  }
  const auto* number = std::get_if<std::int64_t>(&key.value);
  return number != nullptr && *number >= 0 ? std::optional(static_cast<std::uint64_t>(*number))
                                           : std::nullopt;
}

}  // namespace

void StrictKeys::refuse(const std::string& why) const {
  throw ConfigurationError(id_, what_ + ": " + why + advice_);
}

template <typename Value, typename Read>
std::optional<NamedValue<Value>> StrictKeys::read(const KeyNames& names, std::string_view needed,
                                                  Read value_of) const {
  const auto named = [&](const std::string& key,
                         const auto& found) -> std::optional<NamedValue<Value>> {
    const auto value = value_of(found);
    if (!value) {
      refuse(fmt::format("{} is {}, where {} is needed", printable(key), shown(found), needed));
    }
    return NamedValue<Value>{key, *value};
  };
  if (const gguf::Key* key = claims_.gguf_key(names.gguf)) {
    return named(key->name, *key);
  }
  const auto [name, member] = claims_.config_member(names.config);
  return member == nullptr ? std::nullopt : named(std::string(name), *member);
}

std::optional<NamedValue<std::uint64_t>> StrictKeys::count(const KeyNames& names) const {
  return read<std::uint64_t>(names, "a non-negative integer",
                             [](const auto& value) { return count_of(value); });
}

std::optional<NamedValue<double>> StrictKeys::number(const KeyNames& names) const {
  return read<double>(names, "a number", [](const auto& value) { return real_of(value); });
}

std::optional<bool> StrictKeys::boolean(const KeyNames& names) const {
  const auto found =
      read<bool>(names, "true or false", [](const auto& value) { return flag_of(value); });
  return found ? std::optional(found->value) : std::nullopt;
}

std::optional<NamedValue<std::string>> StrictKeys::text(const KeyNames& names) const {
  return read<std::string>(names, "a text", [](const auto& value) { return text_of_value(value); });
}

}  // namespace vindex::model
