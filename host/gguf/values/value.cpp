// Owns reading a value piece by piece, and its digest, text and first difference.
#include "value.hpp"

#include "encoded_value.hpp"

#include "core/digest.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <variant>
#include <vector>

namespace vindex::gguf {
namespace {

constexpr std::uint64_t kArrayHead = 12;  ///< element type u32, count u64
constexpr std::size_t kValuePiece = 64U << 10U;

/// `bytes` (as many as the type has) as text.
std::string scalar_text(ValueType type, std::span<const std::byte> bytes) {
  const std::uint64_t bits = number_bits(bytes);
  if (type == ValueType::kBool) {
    return bits != 0 ? "true" : "false";
  }
  if (type == ValueType::kF32) {  // as short as a float is, not as the double that it becomes
    return fmt::format("{}", std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  return std::visit([](const auto& number) { return fmt::format("{}", number); },
                    scalar_of(type, bits));
}

/// Reads a value front to back through a buffer.
class ValueCursor {
 public:
  ValueCursor(const Value& value, std::uint64_t at) : value_(value), at_(at) {}

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
    const auto number = number_bits(std::span(buffer_).subspan(at_ - first_, 8));
    at_ += 8;
    return number;
  }

 private:
  const Value& value_;
  std::uint64_t at_;
  std::uint64_t first_ = 0;
  std::vector<std::byte> buffer_;
};

}  // namespace

Value::Value(const Key& key, const Header& header, ByteSource& source)
    : key_(key), source_(source), size_(key.value_bytes) {
  if (!is_encoded(header) || size_ <= kLongestHeldValue) {
    held_ = encoded_value(key, header, source);
    size_ = held_->size();
  }
}

void Value::read(std::uint64_t offset, std::span<std::byte> into) const {
  expects(offset <= size_ && into.size() <= size_ - offset, "Value::read: inside the value");
  if (!held_) {
    source_.read(key_.value_offset + offset, into);
  } else if (!into.empty()) {
    std::memcpy(into.data(), held_->data() + offset, into.size());
  }
}

std::string Value::digest() const {
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

std::string quoted(const Value& value, std::uint64_t offset, std::uint64_t length,
                   std::size_t limit) {
  std::vector<std::byte> text(static_cast<std::size_t>(std::min<std::uint64_t>(length, limit)));
  value.read(offset, text);
  const std::string shown(reinterpret_cast<const char*>(text.data()), text.size());
  return fmt::format("\"{}{}\"", printable(shown), length > limit ? "..." : "");
}

}  // namespace

std::string Value::text(std::size_t limit) const {
  if (is_array()) {
    return fmt::format("{} x {}", key_.array_count,
                       type_text(key_.element_type, key_.element_type));
  }
  if (key_.type == ValueType::kString) {
    return quoted(*this, 8, size_ - 8, limit);
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(size_));
  read(0, bytes);
  return scalar_text(key_.type, bytes);
}

std::uint64_t Value::element_offset(std::uint64_t index) const {
  expects(is_array() && index <= key_.array_count, "Value: an element of an array");
  if (key_.element_type != ValueType::kString) {
    return kArrayHead + index * number_bytes(key_.element_type);
  }
  ValueCursor cursor(*this, kArrayHead);
  for (std::uint64_t i = 0; i < index; ++i) {
    cursor.skip(cursor.length());
  }
  return cursor.position();
}

std::optional<std::uint64_t> Value::element_at(std::uint64_t offset) const {
  expects(is_array() && offset < size_, "Value: a byte of an array");
  if (offset < kArrayHead) {
    return std::nullopt;
  }
  if (key_.element_type != ValueType::kString) {
    return (offset - kArrayHead) / number_bytes(key_.element_type);
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

std::string Value::element_text(std::uint64_t index, std::size_t limit) const {
  const std::uint64_t offset = element_offset(index);
  if (key_.element_type == ValueType::kString) {
    std::array<std::byte, 8> length = {};
    read(offset, length);
    return quoted(*this, offset + 8, number_bits(length), limit);
  }
  std::vector<std::byte> bytes(number_bytes(key_.element_type));
  read(offset, bytes);
  return scalar_text(key_.element_type, bytes);
}

std::optional<FirstDifference> first_difference(const Value& a, const Value& b) {
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
  const auto text = [index](const Value& value) {
    return index < value.key().array_count ? value.element_text(index) : std::string();
  };
  if (index >= a.key().array_count && index >= b.key().array_count) {
    return std::nullopt;
  }
  return FirstDifference{index, text(a), text(b)};
}

}  // namespace vindex::gguf
