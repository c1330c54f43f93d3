// Owns the cursor that reads the fields as far as they go, and the bytes that they become again.
#include "gguf_parts.hpp"

#include <algorithm>

namespace vindex::fuzz {

namespace {

constexpr std::size_t kMaxParts = 64;

class Cursor {
 public:
  Cursor(const std::string& bytes, GgufParts& parts) : bytes_(bytes), parts_(parts) {}

  bool failed() const { return failed_; }
  std::size_t position() const { return at_; }
  std::string take(std::uint64_t count) {
    if (failed_ || count > bytes_.size() - at_) {
      failed_ = true;
      return {};
    }
    at_ += static_cast<std::size_t>(count);
    return bytes_.substr(at_ - static_cast<std::size_t>(count), static_cast<std::size_t>(count));
  }
  std::uint64_t number(std::size_t width) {
    std::string raw = take(width);
    if (parts_.big_endian) {
      std::reverse(raw.begin(), raw.end());
    }
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < raw.size(); ++i) {
      value |= static_cast<std::uint64_t>(static_cast<unsigned char>(raw[i])) << (8 * i);
    }
    return value;
  }
  std::uint64_t length() { return number(parts_.length_bytes()); }

  /// The bytes of a value of `type`.
  std::string value(std::uint32_t type) {
    constexpr std::size_t kWidths[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    const std::size_t begin = at_;
    if (type == 8) {
      take(length());
    } else if (type == 9) {
      const auto element = static_cast<std::uint32_t>(number(4));
      const std::uint64_t count = length();
      for (std::uint64_t i = 0; i < count && !failed_ && element != 9; ++i) {
        value(element);
      }
    } else if (type < std::size(kWidths)) {
      take(kWidths[type]);
    } else {
      failed_ = true;
    }
    return bytes_.substr(begin, at_ - begin);
  }

 private:
  const std::string& bytes_;
  GgufParts& parts_;
  std::size_t at_ = 0;
  bool failed_ = false;
};

}  // namespace

std::string GgufParts::number(std::uint64_t value, std::size_t width) const {
  std::string out;
  for (std::size_t i = 0; i < width; ++i) {
    out.push_back(static_cast<char>(value >> (8 * i)));
  }
  if (big_endian) {
    std::reverse(out.begin(), out.end());
  }
  return out;
}

std::string GgufParts::text(const std::string& value) const {
  return number(value.size(), length_bytes()) + value;
}

std::string GgufParts::bytes() const {
  std::string out = "GGUF" + number(version, 4) +
                    number(tensor_count.value_or(tensors.size()), length_bytes()) +
                    number(key_count.value_or(keys.size()), length_bytes());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::uint64_t size = i == 0 && length ? *length : keys[i].name.size();
    out += number(size, length_bytes()) + keys[i].name + number(keys[i].type, 4) + keys[i].value;
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    const std::uint64_t dimensions = i == 0 && rank ? *rank : tensor.dimensions.size();
    out += text(tensor.name) + number(dimensions, 4);
    for (const std::uint64_t dimension : tensor.dimensions) {
      out += number(dimension, length_bytes());
    }
    out += number(tensor.type, 4) + number(tensor.offset, 8);
  }
  if (alignment > 0 && alignment <= 4096) {
    out.resize((out.size() + alignment - 1) / alignment * alignment, '\0');
  }
  return out + data;
}

GgufParts take_apart(const std::string& bytes) {
  GgufParts parts;
  Cursor cursor(bytes, parts);
  cursor.take(4);
  const std::uint64_t version = cursor.number(4);
  parts.big_endian = version != 0 && (version & 0xFFFFU) == 0;
  parts.version = parts.big_endian ? __builtin_bswap32(static_cast<std::uint32_t>(version))
                                   : static_cast<std::uint32_t>(version);
  const std::uint64_t tensors = std::min<std::uint64_t>(cursor.length(), kMaxParts);
  const std::uint64_t keys = std::min<std::uint64_t>(cursor.length(), kMaxParts);
  for (std::uint64_t i = 0; i < keys && !cursor.failed(); ++i) {
    GgufParts::Key key;
    key.name = cursor.take(cursor.length());
    key.type = static_cast<std::uint32_t>(cursor.number(4));
    key.value = cursor.value(key.type);
    if (!cursor.failed()) {
      if (key.name == "general.alignment" && key.value.size() == 4) {
        parts.alignment = static_cast<unsigned char>(key.value[parts.big_endian ? 3 : 0]);
      }
      parts.keys.push_back(std::move(key));
    }
  }
  for (std::uint64_t i = 0; i < tensors && !cursor.failed(); ++i) {
    GgufParts::Tensor tensor;
    tensor.name = cursor.take(cursor.length());
    const std::uint64_t rank = std::min<std::uint64_t>(cursor.number(4), 8);
    for (std::uint64_t d = 0; d < rank; ++d) {
      tensor.dimensions.push_back(cursor.length());
    }
    tensor.type = static_cast<std::uint32_t>(cursor.number(4));
    tensor.offset = cursor.number(8);
    if (!cursor.failed()) {
      parts.tensors.push_back(std::move(tensor));
    }
  }
  const std::size_t alignment =
      parts.alignment == 0 ? 32 : static_cast<std::size_t>(parts.alignment);
  const std::size_t data = (cursor.position() + alignment - 1) / alignment * alignment;
  parts.data = data < bytes.size() ? bytes.substr(data) : std::string();
  return parts;
}

}  // namespace vindex::fuzz
