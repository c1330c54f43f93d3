// Owns the keys in which files of a set may differ, and the refusal of every other difference.
#include "split_metadata.hpp"

#include "core/files/byte_source.hpp"
#include "core/text/name_index.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace vindex::input {

namespace {

/// Keys of a file, not of its model.
bool is_of_the_file(std::string_view name) {
  return name.starts_with("split.") || name == "general.alignment";
}

std::string value_text(const gguf::Key& key) {
  constexpr std::size_t kLongest = 80;
  if (key.type == gguf::ValueType::kArray) {
    return fmt::format("an array of {}", key.array_count);
  }
  if (const auto* text = std::get_if<std::string>(&key.value)) {
    return fmt::format("\"{}\"", printable(text->substr(0, kLongest)));
  }
  if (const auto* number = std::get_if<std::int64_t>(&key.value)) {
    return std::to_string(*number);
  }
  if (const auto* number = std::get_if<double>(&key.value)) {
    return fmt::format("{}", *number);
  }
  return std::to_string(std::get<std::uint64_t>(key.value));
}

}  // namespace

void require_same_metadata(const gguf::Header& first, ByteSource& first_source,
                           const gguf::Header& later, ByteSource& later_source) {
  const auto refuse = [&](const std::string& why) {
    throw FormatError("E-SPLIT-MIXED", later_source.name(), why + ": files of different sets");
  };
  if (&first == &later ||
      std::all_of(later.keys.begin(), later.keys.end(),
                  [](const gguf::Key& key) { return is_of_the_file(key.name); })) {
    return;
  }
  if (first.version != later.version || first.big_endian != later.big_endian) {
    refuse("metadata in another version or byte order than the first split's");
  }
  std::vector<std::string_view> names;
  names.reserve(first.keys.size());
  for (const gguf::Key& key : first.keys) {
    names.emplace_back(key.name);
  }
  const NameIndex index(names);
  for (const gguf::Key& key : later.keys) {
    if (is_of_the_file(key.name)) {
      continue;
    }
    const auto at = index.find(key.name);
    if (!at) {
      refuse(fmt::format("{} is {}, the first split has no such key", printable(key.name),
                         value_text(key)));
    }
    const gguf::Key& known = first.keys[*at];
    if (known.type != key.type || known.element_type != key.element_type ||
        known.array_count != key.array_count || known.value_bytes != key.value_bytes ||
        !same_bytes(first_source, known.value_offset, later_source, key.value_offset,
                    key.value_bytes)) {
      refuse(fmt::format("{} is {}, in the first split {}", printable(key.name), value_text(key),
                         value_text(known)));
    }
  }
}

}  // namespace vindex::input
