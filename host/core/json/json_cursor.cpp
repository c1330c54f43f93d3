// Owns the strings of JSON text: escapes decoded in place, UTF-8 checked.
#include "json_cursor.hpp"

#include "core/text/utf8.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cstring>

namespace vindex {

namespace {
/// How many bytes from `text` on stand for themselves in a string: neither quote nor backslash,
/// neither control characters nor beyond ASCII. Eight at a time: most of a header is names.
std::size_t plain_bytes(const char* text, std::size_t size) {
  std::size_t i = 0;
  if constexpr (std::endian::native == std::endian::little) {
    constexpr std::uint64_t kOnes = 0x0101010101010101U;
    constexpr std::uint64_t kHighs = 0x8080808080808080U;
    for (; i + 8 <= size; i += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, text + i, sizeof(word));
      const std::uint64_t quote = word ^ (kOnes * '"');
      const std::uint64_t backslash = word ^ (kOnes * '\\');
      // The lowest byte that is marked is right, those above it may be borrowed from.
      const std::uint64_t marks =
          (word | ((word - kOnes * 0x20) & ~word) | ((quote - kOnes) & ~quote) |
           ((backslash - kOnes) & ~backslash)) &
          kHighs;
      if (marks != 0) {
        return i + static_cast<std::size_t>(std::countr_zero(marks)) / 8;
      }
    }
  }
  while (i < size && static_cast<unsigned char>(text[i]) >= 0x20 &&
         static_cast<unsigned char>(text[i]) < 0x80 && text[i] != '"' && text[i] != '\\') {
    ++i;
  }
  return i;
}
}  // namespace

void JsonCursor::fail_at(std::uint64_t offset, const char* id, const std::string& message) const {
  throw FormatError(id, fmt::format("{} at byte {}", where_, offset), message);
}

void JsonCursor::fail(const char* id, const std::string& message) const {
  fail_at(token_offset(), id, message);
}

std::uint64_t JsonCursor::offset_of(std::string_view token) const {
  return base_offset_ + static_cast<std::uint64_t>(token.data() - text_.data());
}

void JsonCursor::skip_space() {
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (c != ' ' && c != '\n' && c != '\r' && c != '\t') {
      return;
    }
    ++position_;
  }
}

void JsonCursor::expect(char wanted, const char* what) {
  if (position_ >= text_.size() || text_[position_] != wanted) {
    token_ = position_;
    fail("E-JSON-SYNTAX", fmt::format("{} is expected here", what));
  }
  ++position_;
}

std::string_view JsonCursor::scan_string() {
  expect('"', "a string ('\"')");
  const std::size_t begin = position_;
  token_ = begin;
  std::size_t out = begin;
  while (position_ < text_.size()) {
    const std::size_t plain = plain_bytes(text_.data() + position_, text_.size() - position_);
    if (out != position_) {
      std::memmove(text_.data() + out, text_.data() + position_, plain);
    }
    out += plain;
    position_ += plain;
    if (position_ == text_.size()) {
      break;
    }
    const auto c = static_cast<unsigned char>(text_[position_]);
    if (c == '"') {
      ++position_;
      return {text_.data() + begin, out - begin};
    }
    if (c == '\\') {
      out = decode_escape(out);
      continue;
    }
    if (c < 0x20) {
      token_ = position_;
      fail("E-JSON-SYNTAX", fmt::format("control character 0x{:02x} inside a string", c));
    }
    const std::size_t length = check_utf8();
    for (std::size_t k = 0; k < length; ++k) {
      text_[out++] = text_[position_++];
    }
  }
  fail("E-JSON-SYNTAX", "the JSON text ends inside this string");
}

std::size_t JsonCursor::check_utf8() {
  const std::string_view rest(text_.data() + position_, text_.size() - position_);
  const std::size_t bytes = utf8_character(rest).bytes;
  if (bytes == 0) {
    token_ = position_;
    fail("E-JSON-UTF8", fmt::format("byte 0x{:02x} begins no valid UTF-8 character",
                                    static_cast<unsigned char>(rest[0])));
  }
  return bytes;
}

std::uint32_t JsonCursor::four_hex_digits() {
  std::uint32_t value = 0;
  const std::size_t end = position_ + 4;
  if (end > text_.size()) {
    fail("E-JSON-SYNTAX", "the JSON text ends inside this string");
  }
  const char* first = text_.data() + position_;
  const auto [stop, error] = std::from_chars(first, first + 4, value, 16);
  if (error != std::errc() || stop != first + 4) {
    token_ = position_;
    fail("E-JSON-SYNTAX", "\\u needs four hexadecimal digits");
  }
  position_ = end;
  return value;
}

std::size_t JsonCursor::decode_escape(std::size_t out) {
  token_ = position_;
  ++position_;
  const char kind = here();
  ++position_;
  const auto put = [&](std::uint32_t byte) { text_[out++] = static_cast<char>(byte); };
  switch (kind) {
    case '"':
    case '\\':
    case '/':
      put(static_cast<unsigned char>(kind));
      return out;
    case 'b':
      put('\b');
      return out;
    case 'f':
      put('\f');
      return out;
    case 'n':
      put('\n');
      return out;
    case 'r':
      put('\r');
      return out;
    case 't':
      put('\t');
      return out;
    case 'u':
      break;
    default:
      fail("E-JSON-SYNTAX", "unknown escape in a string");
  }
  std::uint32_t code = four_hex_digits();
  if (code >= 0xD800 && code <= 0xDFFF) {
    const bool pair = code < 0xDC00 && here() == '\\' && position_ + 1 < text_.size() &&
                      text_[position_ + 1] == 'u';
    if (pair) {
      position_ += 2;
    }
    const std::uint32_t low = pair ? four_hex_digits() : 0;
    if (low < 0xDC00 || low > 0xDFFF) {
      fail("E-JSON-UTF8", "half of a surrogate pair");
    }
    code = 0x10000 + ((code - 0xD800) << 10U) + (low - 0xDC00);
  }
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0U | (code >> 6U));
    put(0x80U | (code & 0x3FU));
  } else if (code < 0x10000) {
    put(0xE0U | (code >> 12U));
    put(0x80U | ((code >> 6U) & 0x3FU));
    put(0x80U | (code & 0x3FU));
  } else {
    put(0xF0U | (code >> 18U));
    put(0x80U | ((code >> 12U) & 0x3FU));
    put(0x80U | ((code >> 6U) & 0x3FU));
    put(0x80U | (code & 0x3FU));
  }
  return out;
}

}  // namespace vindex
