// Owns reading a value piece by piece, and its digest, text and first difference.
#include <vindex/core/digest.hpp>
#include <vindex/core/error.hpp>
#include <vindex/organ/gguf_value.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <vector>

namespace vindex::organ {
namespace {

using shard::GgufType;

constexpr std::uint64_t kArrayHead = 12;  ///< element type u32, count u64
constexpr std::size_t kValuePiece = 64U << 10U;

std::size_t width_of(GgufType type) {
  constexpr std::size_t kWidths[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kWidths[static_cast<std::size_t>(type)];
}

template <typename T>
T number_from_bytes(std::span<const std::byte> bytes) {
  T value = {};
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

/// `bytes` (as many as the type has) as text.
std::string scalar_text(GgufType type, std::span<const std::byte> bytes) {
  // clang-format off
  switch (type) {
    case GgufType::kU8: return fmt::format("{}", number_from_bytes<std::uint8_t>(bytes));
    case GgufType::kI8: return fmt::format("{}", number_from_bytes<std::int8_t>(bytes));
    case GgufType::kU16: return fmt::format("{}", number_from_bytes<std::uint16_t>(bytes));
    case GgufType::kI16: return fmt::format("{}", number_from_bytes<std::int16_t>(bytes));
    case GgufType::kU32: return fmt::format("{}", number_from_bytes<std::uint32_t>(bytes));
    case GgufType::kI32: return fmt::format("{}", number_from_bytes<std::int32_t>(bytes));
    case GgufType::kF32: return fmt::format("{}", number_from_bytes<float>(bytes));
    case GgufType::kBool: return number_from_bytes<std::uint8_t>(bytes) != 0 ? "true" : "false";
    case GgufType::kU64: return fmt::format("{}", number_from_bytes<std::uint64_t>(bytes));
    case GgufType::kI64: return fmt::format("{}", number_from_bytes<std::int64_t>(bytes));
    default: return fmt::format("{}", number_from_bytes<double>(bytes));
  }
  // clang-format on
}

/// Reads a value front to back through a buffer.
class ValueCursor {
 public:
  ValueCursor(const GgufValue& value, std::uint64_t at) : value_(value), at_(at) {}

  std::uint64_t position() const { return at_; }
  bool at_end() const { return at_ >= value_.size(); }
  void skip(std::uint64_t count) { at_ += std::min(count, value_.size() - at_); }
  std::uint64_t length() {
    if (at_ < first_ || at_ + 8 > first_ + buffer_.size()) {
      first_ = at_;
      buffer_.resize(
          static_cast<std::size_t>(std::min<std::uint64_t>(kValuePiece, value_.size() - at_)));
      expects(buffer_.size() >= 8, "a string's length lies in its value");
      value_.read(first_, buffer_);
    }
    const auto number = number_from_bytes<std::uint64_t>(std::span(buffer_).subspan(at_ - first_));
    at_ += 8;
    return number;
  }

 private:
  const GgufValue& value_;
  std::uint64_t at_;
  std::uint64_t first_ = 0;
  std::vector<std::byte> buffer_;
};

}  // namespace

std::string type_text(GgufType type, GgufType element_type) {
  constexpr std::array<std::string_view, 13> kNames = {
      "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "str", "arr", "u64", "i64", "f64"};
  const auto name = [&](GgufType which) { return kNames.at(static_cast<std::size_t>(which)); };
  return type == GgufType::kArray ? fmt::format("[{}]", name(element_type))
                                  : std::string(name(type));
}

GgufValue::GgufValue(const shard::GgufKey& key, const shard::GgufHeader& header,
                     shard::ByteSource& source)
    : key_(key), front_(8 + key.name.size() + 4) {
  bytes_.copy(key, header, source);
  std::uint64_t all = 0;
  for (const auto& piece : bytes_.pieces()) {
    all += piece.source != nullptr ? piece.count : piece.bytes.size();
  }
  size_ = all - front_;
}

void GgufValue::read(std::uint64_t offset, std::span<std::byte> into) const {
  expects(offset <= size_ && into.size() <= size_ - offset, "GgufValue::read: inside the value");
  std::uint64_t at = front_ + offset;
  for (const auto& piece : bytes_.pieces()) {
    const std::uint64_t count = piece.source != nullptr ? piece.count : piece.bytes.size();
    if (at >= count) {
      at -= count;
      continue;
    }
    const auto now = static_cast<std::size_t>(std::min<std::uint64_t>(into.size(), count - at));
    if (piece.source != nullptr) {
      piece.source->read(piece.offset + at, into.first(now));
    } else if (now > 0) {
      std::memcpy(into.data(), piece.bytes.data() + at, now);
    }
    into = into.subspan(now);
    at = 0;
  }
}

std::string GgufValue::digest() const {
  Sha256 sum;
  sum.update(type_text(key_.type, key_.element_type) + ":");
  std::vector<std::byte> piece(
      static_cast<std::size_t>(std::min<std::uint64_t>(size_, kValuePiece)));
  for (std::uint64_t done = 0; done < size_;) {
    const auto now = std::span(piece).first(
        static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), size_ - done)));
    read(done, now);
    sum.update(now);
    done += now.size();
  }
  return hex(sum.finish());
}

namespace {

std::string quoted(const GgufValue& value, std::uint64_t offset, std::uint64_t length,
                   std::size_t limit) {
  std::vector<std::byte> text(static_cast<std::size_t>(std::min<std::uint64_t>(length, limit)));
  value.read(offset, text);
  const std::string shown(reinterpret_cast<const char*>(text.data()), text.size());
  return fmt::format("\"{}{}\"", printable(shown), length > limit ? "..." : "");
}

}  // namespace

std::string GgufValue::text(std::size_t limit) const {
  if (is_array()) {
    return fmt::format("{} x {}", key_.array_count,
                       type_text(key_.element_type, key_.element_type));
  }
  if (key_.type == GgufType::kString) {
    return quoted(*this, 8, size_ - 8, limit);
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(size_));
  read(0, bytes);
  return scalar_text(key_.type, bytes);
}

std::uint64_t GgufValue::element_offset(std::uint64_t index) const {
  expects(is_array() && index <= key_.array_count, "GgufValue: an element of an array");
  if (key_.element_type != GgufType::kString) {
    return kArrayHead + index * width_of(key_.element_type);
  }
  ValueCursor cursor(*this, kArrayHead);
  for (std::uint64_t i = 0; i < index; ++i) {
    cursor.skip(cursor.length());
  }
  return cursor.position();
}

std::optional<std::uint64_t> GgufValue::element_at(std::uint64_t offset) const {
  expects(is_array() && offset < size_, "GgufValue: a byte of an array");
  if (offset < kArrayHead) {
    return std::nullopt;
  }
  if (key_.element_type != GgufType::kString) {
    return (offset - kArrayHead) / width_of(key_.element_type);
  }
  ValueCursor cursor(*this, kArrayHead);
  for (std::uint64_t index = 0; !cursor.at_end(); ++index) {
    cursor.skip(cursor.length());
    if (offset < cursor.position()) {
      return index;
    }
  }
  return std::nullopt;
}

std::string GgufValue::element_text(std::uint64_t index, std::size_t limit) const {
  const std::uint64_t offset = element_offset(index);
  if (key_.element_type == GgufType::kString) {
    std::array<std::byte, 8> length = {};
    read(offset, length);
    return quoted(*this, offset + 8, number_from_bytes<std::uint64_t>(length), limit);
  }
  std::vector<std::byte> bytes(width_of(key_.element_type));
  read(offset, bytes);
  return scalar_text(key_.element_type, bytes);
}

std::optional<FirstDifference> first_difference(const GgufValue& a, const GgufValue& b) {
  expects(a.is_array() && b.is_array() && a.key().element_type == b.key().element_type,
          "first_difference: two arrays of one element type");
  const std::uint64_t shared = std::min(a.size(), b.size());
  std::vector<std::byte> left(
      static_cast<std::size_t>(std::min<std::uint64_t>(shared, kValuePiece)));
  std::vector<std::byte> right(left.size());
  // Up to the first byte that differs the elements begin at the same places; the counts before
  // them do not matter here.
  std::uint64_t at = kArrayHead;
  std::uint64_t index = std::min(a.key().array_count, b.key().array_count);
  while (at < shared) {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(left.size(), shared - at));
    a.read(at, std::span(left).first(count));
    b.read(at, std::span(right).first(count));
    const auto end = left.begin() + static_cast<std::ptrdiff_t>(count);
    const auto different = std::mismatch(left.begin(), end, right.begin()).first;
    if (different != end) {
      at += static_cast<std::uint64_t>(different - left.begin());
      index = *a.element_at(at);
      break;
    }
    at += count;
  }
  const auto text = [index](const GgufValue& value) {
    return index < value.key().array_count ? value.element_text(index) : std::string();
  };
  if (index >= a.key().array_count && index >= b.key().array_count) {
    return std::nullopt;
  }
  return FirstDifference{index, text(a), text(b)};
}

}  // namespace vindex::organ
