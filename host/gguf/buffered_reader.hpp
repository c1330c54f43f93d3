// Owns sequential reading of the fields of a GGUF header, of either byte order and width of
// lengths, through a window of bounded size. Every length is checked against the bytes left before
// anything is read or allocated.
#pragma once

#include "core/files/byte_source.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::gguf {

/// How numbers lie in a file: known once its version is.
struct NumberLayout {
  bool big_endian = false;
  std::size_t length_bytes = 8;  ///< of counts and lengths: 4 in GGUF version 1
};

/// A field of the file as errors name it, and as findings do where theirs is another word.
struct Field {
  std::string_view in_errors;
  std::string_view in_findings = in_errors;
};

/// Thrown where a field of `bytes` bytes does not fit into what is left of the file.
struct Truncated {
  Field field;
  std::uint64_t position = 0;
  std::uint64_t bytes = 0;
  std::uint64_t left = 0;
};

class BufferedReader {
 public:
  explicit BufferedReader(ByteSource& source);

  void set_layout(NumberLayout layout) { layout_ = layout; }
  NumberLayout layout() const { return layout_; }

  std::uint64_t position() const { return position_; }
  std::uint64_t size() const { return size_; }
  const std::string& name() const { return source_.name(); }
  std::uint64_t left() const { return size_ - position_; }
  void seek(std::uint64_t position) { position_ = position; }

  /// `bytes` (1 to 8) bytes as a number. Errors of this and the following: Truncated.
  std::uint64_t number(std::size_t bytes, const Field& field);
  std::uint32_t u32(const Field& field) { return static_cast<std::uint32_t>(number(4, field)); }
  std::uint64_t u64(const Field& field) { return number(8, field); }
  /// A count or length, as wide as the layout says.
  std::uint64_t length(const Field& field) { return number(layout_.length_bytes, field); }

  /// The next `bytes` bytes, valid until the next call; at most the window.
  std::string_view view(std::uint64_t bytes, const Field& field);
  /// The next `bytes` bytes, copied.
  std::string text(std::uint64_t bytes, const Field& field);
  void skip(std::uint64_t bytes, const Field& field);
  /// Skips strings (length, bytes) of at most `longest` bytes each, at most `count` and not going
  /// beyond absolute position `limit`. How many: where one is longer or does not fit, position() is
  /// that of its length.
  std::uint64_t skip_strings(std::uint64_t count, std::uint64_t longest, std::uint64_t limit);

  /// The string (length, bytes) that begins at `position`, for messages: at most its first 200
  /// bytes, printable. position() stays.
  std::string string_at(std::uint64_t position);

  /// "file at byte N" for messages.
  std::string where(std::uint64_t position) const;
  [[noreturn]] void fail(std::uint64_t position, const char* id, const std::string& message) const;

 private:
  void demand(std::uint64_t bytes, const Field& field) const;
  const char* window(std::size_t bytes);
  std::uint64_t number_at(const char* raw, std::size_t bytes) const;

  ByteSource& source_;
  NumberLayout layout_;
  std::uint64_t size_;
  std::uint64_t position_ = 0;
  std::uint64_t window_begin_ = 0;
  std::size_t window_bytes_ = 0;
  std::vector<char> window_;
};

}  // namespace vindex::gguf
