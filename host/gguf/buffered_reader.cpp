// Owns the window, its refilling, and fields of every type.
#include "buffered_reader.hpp"

#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace vindex::gguf {

namespace {
static_assert(std::endian::native == std::endian::little, "numbers are copied as they are stored");

/// Holds the longest name (64 KiB) whole.
constexpr std::size_t kWindow = std::size_t{256} << 10U;
/// Many headers are shorter than this, most up to their token list: the first read is no longer.
constexpr std::size_t kFirstRead = std::size_t{64} << 10U;
}  // namespace

BufferedReader::BufferedReader(ByteSource& source)
    : source_(source),
      size_(source.size()),
      window_(static_cast<std::size_t>(std::min<std::uint64_t>(kWindow, source.size()))) {}

std::string BufferedReader::string_at(std::uint64_t position) {
  constexpr std::uint64_t kMost = 200;
  const std::uint64_t before = position_;
  position_ = position;
  const Field field{"a name"};
  const std::uint64_t bytes = length(field);
  std::string out = printable(text(std::min(bytes, kMost), field));
  position_ = before;
  return out;
}

std::string BufferedReader::where(std::uint64_t position) const {
  return fmt::format("{} at byte {}", source_.name(), position);
}

void BufferedReader::fail(std::uint64_t position, const char* id,
                          const std::string& message) const {
  throw FormatError(id, where(position), message);
}

void BufferedReader::demand(std::uint64_t bytes, const Field& field) const {
  if (bytes > left()) {
    throw Truncated{field, position_, bytes, left()};
  }
}

const char* BufferedReader::window(std::size_t bytes) {
  const bool inside = position_ >= window_begin_ && position_ - window_begin_ <= window_bytes_ &&
                      window_bytes_ - (position_ - window_begin_) >= bytes;
  if (!inside) {
    const std::size_t most = position_ == 0 ? std::max(kFirstRead, bytes) : window_.size();
    const auto wanted =
        static_cast<std::size_t>(std::min<std::uint64_t>(std::min(most, window_.size()), left()));
    window_bytes_ = 0;  // stays empty where the read below throws
    source_.read(position_, std::as_writable_bytes(std::span(window_).first(wanted)));
    window_begin_ = position_;
    window_bytes_ = wanted;
  }
  return window_.data() + (position_ - window_begin_);
}

std::uint64_t BufferedReader::number(std::size_t bytes, const Field& field) {
  return number_at(view(bytes, field).data(), bytes);
}

std::uint64_t BufferedReader::number_at(const char* raw, std::size_t bytes) const {
  std::uint64_t value = 0;
  std::memcpy(&value, raw, bytes);
  return layout_.big_endian ? __builtin_bswap64(value) >> (64U - 8U * bytes) : value;
}

std::string_view BufferedReader::view(std::uint64_t bytes, const Field& field) {
  demand(bytes, field);
  expects(bytes <= kWindow, "a view is at most as long as the window");
  const char* data = window(static_cast<std::size_t>(bytes));
  position_ += bytes;
  return {data, static_cast<std::size_t>(bytes)};
}

std::string BufferedReader::text(std::uint64_t bytes, const Field& field) {
  demand(bytes, field);
  std::string out(static_cast<std::size_t>(bytes), '\0');
  source_.read(position_, std::as_writable_bytes(std::span(out)));
  position_ += bytes;
  return out;
}

void BufferedReader::skip(std::uint64_t bytes, const Field& field) {
  demand(bytes, field);
  position_ += bytes;
}

// A vocabulary has hundreds of thousands of strings, a hostile file 64 million: one pass over the
// window without a call each.
std::uint64_t BufferedReader::skip_strings(std::uint64_t count, std::uint64_t longest,
                                           std::uint64_t limit) {
  const std::uint64_t length_bytes = layout_.length_bytes;
  const std::uint64_t end = std::min(size_, limit);
  std::uint64_t left = count;
  while (left > 0) {
    if (position_ > end || end - position_ < length_bytes) {
      return count - left;
    }
    const char* data = window(length_bytes);
    const std::uint64_t window_end = std::min(window_begin_ + window_bytes_, end);
    for (; left > 0 && position_ <= window_end && window_end - position_ >= length_bytes; --left) {
      const std::uint64_t length = number_at(data, length_bytes);
      if (length > longest || length > end - position_ - length_bytes) {
        return count - left;
      }
      position_ += length_bytes + length;
      data += length_bytes + length;
    }
  }
  return count;
}

}  // namespace vindex::gguf
