// Owns sequential reading of the fields of a GGUF header, of either byte order and width of
// lengths, through a window of bounded size. Every length is checked against the bytes left before
// anything is read or allocated.
#pragma once

#include <vindex/shard/byte_source.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::shard {

/// How numbers lie in a file: known once its version is.
struct NumberLayout {
  bool big_endian = false;
  std::size_t length_bytes = 8;  ///< of counts and lengths: 4 in GGUF version 1
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

  /// `bytes` (1 to 8) bytes as a number. `what` names the field in messages; errors:
  /// FormatError E-GGUF-TRUNCATED.
  std::uint64_t number(std::size_t bytes, std::string_view what);
  std::uint32_t u32(std::string_view what) { return static_cast<std::uint32_t>(number(4, what)); }
  std::uint64_t u64(std::string_view what) { return number(8, what); }
  /// A count or length, as wide as the layout says.
  std::uint64_t length(std::string_view what) { return number(layout_.length_bytes, what); }

  /// The next `bytes` bytes, valid until the next call; at most the window.
  std::string_view view(std::uint64_t bytes, std::string_view what);
  /// The next `bytes` bytes, copied.
  std::string text(std::uint64_t bytes, std::string_view what);
  void skip(std::uint64_t bytes, std::string_view what);
  /// Skips `count` strings (length, bytes) of at most `longest` bytes each, not going beyond
  /// absolute position `limit`. False where one is longer or does not fit: position() is then that
  /// of its length.
  bool skip_strings(std::uint64_t count, std::uint64_t longest, std::uint64_t limit);

  /// "file at byte N" for messages.
  std::string where(std::uint64_t position) const;
  [[noreturn]] void fail(std::uint64_t position, const char* id, const std::string& message) const;

 private:
  void demand(std::uint64_t bytes, std::string_view what) const;
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

}  // namespace vindex::shard
