// Owns encoding keys of every type, and copying those of a file.
#include "key_section.hpp"

#include "gguf/header_stream.hpp"
#include "gguf/limits.hpp"
#include "gguf/values/encoded_value.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <bit>
#include <cstring>

namespace vindex::gguf {

std::vector<std::byte>& KeySection::begin(std::string_view name, ValueType type) {
  const char* const wrong = name.empty() ? "has an empty name"
                            : name.size() > kLongestKeyOfGgml
                                ? "has a name of more than 65535 bytes"
                            : !names_.emplace(name).second ? "is there twice"
                                                           : nullptr;
  if (wrong != nullptr) {
    throw FormatError("E-GGUF-KEY", fmt::format("key \"{}\"", excerpt(name)), wrong);
  }
  if (pieces_.empty() || pieces_.back().source != nullptr) {
    pieces_.emplace_back();
  }
  if (name == "general.alignment") {
    alignment_is_u32_ = type == ValueType::kU32;
  }
  std::vector<std::byte>& out = pieces_.back().bytes;
  append(out, name);
  append(out, static_cast<std::uint32_t>(type));
  return out;
}

void KeySection::add_encoded(std::string_view name, ValueType type,
                             std::span<const std::byte> value) {
  std::vector<std::byte>& out = begin(name, type);
  append_bytes(out, value);
  if (name == "general.alignment" && alignment_is_u32_) {
    std::uint32_t alignment = 0;
    std::memcpy(&alignment, value.data(), sizeof alignment);
    alignment_ = alignment;
  }
}

void KeySection::add_string(std::string_view name, std::string_view value) {
  append(begin(name, ValueType::kString), value);
}

void KeySection::add_array_bytes(std::string_view name, ValueType type, std::uint64_t count,
                                 std::span<const std::byte> values) {
  std::vector<std::byte>& out = begin(name, ValueType::kArray);
  append(out, static_cast<std::uint32_t>(type));
  append(out, count);
  append_bytes(out, values);
}

void KeySection::add_strings(std::string_view name, std::span<const std::string> values) {
  std::vector<std::byte>& out = begin(name, ValueType::kArray);
  append(out, static_cast<std::uint32_t>(ValueType::kString));
  append(out, static_cast<std::uint64_t>(values.size()));
  for (const std::string& value : values) {
    append(out, std::string_view(value));
  }
}

void KeySection::copy(const Key& key, const Header& header, ByteSource& source) {
  std::vector<std::byte>& out = begin(key.name, key.type);
  const auto* number = std::get_if<std::uint64_t>(&key.value);
  if (key.name == "general.alignment" && alignment_is_u32_ && number != nullptr) {
    alignment_ = *number;
  }
  if (is_encoded(header) && key.value_bytes > kLongestHeldValue) {
    pieces_.push_back({{}, &source, key.value_offset, key.value_bytes});
    return;
  }
  append_bytes(out, encoded_value(key, header, source));
}

std::uint64_t KeySection::alignment() const {
  if (!alignment_is_u32_ || !std::has_single_bit(alignment_)) {
    throw FormatError("E-GGUF-ALIGNMENT", "key \"general.alignment\"",
                      "must be a u32 and a power of two");
  }
  return alignment_;
}

}  // namespace vindex::gguf
