// Owns a place in JSON text: errors that name it, white space, and strings, whose escapes are
// decoded in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace vindex {

class JsonCursor {
 public:
  /// Absolute position of the last token (for strings: of its first character).
  std::uint64_t token_offset() const { return base_offset_ + token_; }
  /// Absolute position of a view that this object handed out.
  std::uint64_t offset_of(std::string_view token) const;
  [[noreturn]] void fail(const char* id, const std::string& message) const;
  [[noreturn]] void fail_at(std::uint64_t offset, const char* id, const std::string& message) const;

 protected:
  JsonCursor(std::span<char> text, std::string where, std::uint64_t base_offset)
      : text_(text), where_(std::move(where)), base_offset_(base_offset) {}
  char here() const { return position_ < text_.size() ? text_[position_] : '\0'; }
  void skip_space();
  /// Steps over `wanted`, or fails: `what` is expected here.
  void expect(char wanted, const char* what);
  /// The string that begins here, in place.
  std::string_view scan_string();

  std::span<char> text_;
  std::string where_;
  std::uint64_t base_offset_;
  std::size_t position_ = 0;
  std::size_t token_ = 0;

 private:
  std::size_t decode_escape(std::size_t out);
  std::uint32_t four_hex_digits();
  std::size_t check_utf8();
};

}  // namespace vindex
