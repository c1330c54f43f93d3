// Owns encoding keys of every type, and copying keys from a file of either byte order.
#include "header_stream.hpp"

#include <vindex/core/error.hpp>
#include <vindex/core/integers.hpp>
#include <vindex/write/gguf_keys.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace vindex::write {
namespace {

using shard::GgufType;

constexpr std::size_t kMaxKeyBytes = 65'535;
/// Longer values stay in their file until they are written.
constexpr std::uint64_t kLongestHeld = std::uint64_t{64} << 10U;

std::size_t width_of(GgufType type) {
  constexpr std::size_t kWidths[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  expects(static_cast<std::size_t>(type) < std::size(kWidths), "width_of: a value type");
  return kWidths[static_cast<std::size_t>(type)];
}

/// Reads a value of another container and appends it as version 3, little-endian.
class Conversion {
 public:
  Conversion(const shard::GgufHeader& header, const std::string& where,
             std::span<const std::byte> value, std::vector<std::byte>& out)
      : big_endian_(header.big_endian),
        length_bytes_(header.version == 1 ? 4 : 8),
        where_(where),
        value_(value),
        out_(out) {}

  void run(GgufType type) {
    if (type == GgufType::kString) {
      return string();
    }
    if (type != GgufType::kArray) {
      return numbers(1, width_of(type));
    }
    const auto element = static_cast<GgufType>(take(4));
    const std::uint64_t count = take(length_bytes_);
    append(out_, static_cast<std::uint32_t>(element));
    append(out_, count);
    if (element == GgufType::kString) {
      for (std::uint64_t i = 0; i < count; ++i) {
        string();
      }
    } else {
      numbers(count, width_of(element));
    }
  }

 private:
  std::span<const std::byte> bytes(std::uint64_t count) {
    if (count > value_.size()) {
      throw FormatError("E-GGUF-KEY", where_, "a key's value changed while it was copied");
    }
    const auto part = value_.first(static_cast<std::size_t>(count));
    value_ = value_.subspan(part.size());
    return part;
  }
  std::uint64_t take(std::size_t width) {
    std::uint64_t number = 0;
    std::memcpy(&number, bytes(width).data(), width);
    return big_endian_ ? __builtin_bswap64(number) >> (64U - 8U * width) : number;
  }
  void string() {
    const std::uint64_t length = take(length_bytes_);
    append(out_, length);
    const auto text = bytes(length);
    append_bytes(out_, text);
  }
  void numbers(std::uint64_t count, std::size_t width) {
    const auto total = checked_multiply(count, width);
    const auto from = bytes(total.value_or(value_.size() + 1));
    const std::size_t at = out_.size();
    append_bytes(out_, from);
    for (std::size_t i = at; big_endian_ && width > 1 && i < out_.size(); i += width) {
      std::reverse(out_.begin() + static_cast<std::ptrdiff_t>(i),
                   out_.begin() + static_cast<std::ptrdiff_t>(i + width));
    }
  }

  bool big_endian_;
  std::size_t length_bytes_;
  const std::string& where_;
  std::span<const std::byte> value_;
  std::vector<std::byte>& out_;
};

bool is_foreign(const shard::GgufHeader& header) {
  return header.big_endian || header.version == 1;
}

}  // namespace

std::vector<std::byte> encoded_value(const shard::GgufKey& key, const shard::GgufHeader& header,
                                     shard::ByteSource& source) {
  std::vector<std::byte> value(static_cast<std::size_t>(key.value_bytes));
  source.read(key.value_offset, value);
  if (!is_foreign(header)) {
    return value;
  }
  std::vector<std::byte> out;
  Conversion(header, source.name(), value, out).run(key.type);
  return out;
}

std::vector<std::byte>& GgufKeys::begin(std::string_view name, GgufType type) {
  const char* const wrong = name.empty()                   ? "has an empty name"
                            : name.size() > kMaxKeyBytes   ? "has a name of more than 65535 bytes"
                            : !names_.emplace(name).second ? "is there twice"
                                                           : nullptr;
  if (wrong != nullptr) {
    throw FormatError("E-GGUF-KEY", fmt::format("key \"{}\"", excerpt(name)), wrong);
  }
  if (pieces_.empty() || pieces_.back().source != nullptr) {
    pieces_.emplace_back();
  }
  if (name == "general.alignment") {
    alignment_is_u32_ = type == GgufType::kU32;
  }
  std::vector<std::byte>& out = pieces_.back().bytes;
  append(out, name);
  append(out, static_cast<std::uint32_t>(type));
  return out;
}

void GgufKeys::add_encoded(std::string_view name, GgufType type, std::span<const std::byte> value) {
  std::vector<std::byte>& out = begin(name, type);
  append_bytes(out, value);
  if (name == "general.alignment" && alignment_is_u32_) {
    std::uint32_t alignment = 0;
    std::memcpy(&alignment, value.data(), sizeof alignment);
    alignment_ = alignment;
  }
}

void GgufKeys::add_string(std::string_view name, std::string_view value) {
  append(begin(name, GgufType::kString), value);
}

void GgufKeys::add_array_bytes(std::string_view name, GgufType type, std::uint64_t count,
                               std::span<const std::byte> values) {
  std::vector<std::byte>& out = begin(name, GgufType::kArray);
  append(out, static_cast<std::uint32_t>(type));
  append(out, count);
  append_bytes(out, values);
}

void GgufKeys::add_strings(std::string_view name, std::span<const std::string> values) {
  std::vector<std::byte>& out = begin(name, GgufType::kArray);
  append(out, static_cast<std::uint32_t>(GgufType::kString));
  append(out, static_cast<std::uint64_t>(values.size()));
  for (const std::string& value : values) {
    append(out, std::string_view(value));
  }
}

void GgufKeys::copy(const shard::GgufKey& key, const shard::GgufHeader& header,
                    shard::ByteSource& source) {
  std::vector<std::byte>& out = begin(key.name, key.type);
  const auto* number = std::get_if<std::uint64_t>(&key.value);
  if (key.name == "general.alignment" && alignment_is_u32_ && number != nullptr) {
    alignment_ = *number;
  }
  if (!is_foreign(header) && key.value_bytes > kLongestHeld) {
    pieces_.push_back({{}, &source, key.value_offset, key.value_bytes});
    return;
  }
  append_bytes(out, encoded_value(key, header, source));
}

std::uint64_t GgufKeys::alignment() const {
  if (!alignment_is_u32_ || !std::has_single_bit(alignment_)) {
    throw FormatError("E-GGUF-ALIGNMENT", "key \"general.alignment\"",
                      "must be a u32 and a power of two");
  }
  return alignment_;
}

}  // namespace vindex::write
