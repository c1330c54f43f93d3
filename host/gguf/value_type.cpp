// Owns names of value types and the meaning of their bits.
#include "value_type.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace vindex::gguf {

std::string type_name(ValueType type) {
  const auto number = static_cast<std::uint32_t>(type);
  return is_known(type) ? std::string(kValueTypes.at(number).name) : fmt::format("type {}", number);
}

std::string type_text(ValueType type, ValueType element_type) {
  return type == ValueType::kArray ? fmt::format("[{}]", type_name(element_type)) : type_name(type);
}

std::optional<ValueType> type_named(std::string_view name) {
  const auto* const found =
      std::find_if(kValueTypes.begin(), kValueTypes.end(),
                   [name](const ValueTypeRow& row) { return row.name == name; });
  return found == kValueTypes.end()
             ? std::nullopt
             : std::optional(static_cast<ValueType>(found - kValueTypes.begin()));
}

Scalar scalar_of(ValueType type, std::uint64_t bits) {
  if (type == ValueType::kF32) {
    return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  if (type == ValueType::kF64) {
    return std::bit_cast<double>(bits);
  }
  if (is_signed(type)) {
    const unsigned int shift = 64U - 8U * static_cast<unsigned int>(number_bytes(type));
    return static_cast<std::int64_t>(bits << shift) >> shift;
  }
  return bits;
}

}  // namespace vindex::gguf
