// Owns converting values of either byte order and of version 1, and taking arrays apart.
#include "encoded_value.hpp"

#include "core/integers.hpp"
#include "gguf/header_stream.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cstring>

namespace vindex::gguf {
namespace {

constexpr std::size_t kHead = 4 + 8;  // element type, count

[[noreturn]] void changed() {
  throw FormatError("E-GGUF-KEY", "an array", "changed while it was read");
}

template <typename Number>
Number array_number(std::span<const std::byte> bytes, std::size_t at) {
  if (at > bytes.size() || bytes.size() - at < sizeof(Number)) {
    changed();
  }
  Number number = 0;
  std::memcpy(&number, bytes.data() + at, sizeof(Number));
  return number;
}

/// Where each element begins, and the end of the last.
std::vector<std::size_t> bounds_of(const EncodedArray& array) {
  std::vector<std::size_t> bounds = {0};
  const std::size_t width = number_bytes(array.element_type);
  for (std::uint64_t i = 0; i < array.count; ++i) {
    std::size_t bytes = width;
    if (width == 0) {
      const auto length = array_number<std::uint64_t>(array.elements, bounds.back());
      if (length > array.elements.size()) {
        changed();
      }
      bytes = 8 + static_cast<std::size_t>(length);
    }
    if (bytes > array.elements.size() - bounds.back()) {
      changed();
    }
    bounds.push_back(bounds.back() + bytes);
  }
  return bounds;
}

/// Reads a value of another container and appends it as version 3, little-endian.
class Conversion {
 public:
  Conversion(const Header& header, const std::string& where, std::span<const std::byte> value,
             std::vector<std::byte>& out)
      : big_endian_(header.big_endian),
        length_bytes_(header.version == 1 ? 4 : 8),
        where_(where),
        value_(value),
        out_(out) {}

  void run(ValueType type) {
    if (type == ValueType::kString) {
      return string();
    }
    if (type != ValueType::kArray) {
      return numbers(1, number_bytes(type));
    }
    const auto element = static_cast<ValueType>(take(4));
    if (!is_known(element)) {
      changed();
    }
    const std::uint64_t count = take(length_bytes_);
    append(out_, static_cast<std::uint32_t>(element));
    append(out_, count);
    if (element == ValueType::kString) {
      for (std::uint64_t i = 0; i < count; ++i) {
        string();
      }
    } else {
      numbers(count, number_bytes(element));
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

}  // namespace

bool is_encoded(const Header& header) { return !header.big_endian && header.version != 1; }

std::vector<std::byte> encoded_value(const Key& key, const Header& header, ByteSource& source) {
  std::vector<std::byte> value(static_cast<std::size_t>(key.value_bytes));
  source.read(key.value_offset, value);
  if (is_encoded(header)) {
    return value;
  }
  std::vector<std::byte> out;
  Conversion(header, source.name(), value, out).run(key.type);
  return out;
}

std::uint64_t number_bits(std::span<const std::byte> bytes) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, bytes.data(), bytes.size());
  return bits;
}

EncodedArray read_array(std::span<const std::byte> value) {
  EncodedArray array;
  array.element_type = static_cast<ValueType>(array_number<std::uint32_t>(value, 0));
  if (!is_known(array.element_type)) {
    changed();
  }
  array.count = array_number<std::uint64_t>(value, 4);
  array.elements = value.subspan(kHead);
  return array;
}

std::vector<std::string> read_strings(const EncodedArray& array) {
  if (array.element_type != ValueType::kString) {
    changed();
  }
  const std::vector<std::size_t> bounds = bounds_of(array);
  std::vector<std::string> strings;
  for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
    const auto bytes = array.elements.subspan(bounds[i] + 8, bounds[i + 1] - bounds[i] - 8);
    strings.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return strings;
}

std::vector<std::byte> reordered(const EncodedArray& array, std::span<const std::size_t> order) {
  const std::vector<std::size_t> bounds = bounds_of(array);
  std::vector<std::byte> out;
  append(out, static_cast<std::uint32_t>(array.element_type));
  append(out, static_cast<std::uint64_t>(order.size()));
  for (const std::size_t i : order) {
    expects(i + 1 < bounds.size(), "reordered: an element of the array");
    append_bytes(out, array.elements.subspan(bounds[i], bounds[i + 1] - bounds[i]));
  }
  return out;
}

}  // namespace vindex::gguf
