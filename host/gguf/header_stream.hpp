// Owns writing the head of a file in order and in bounded memory: a header may have 1 GiB.
#pragma once

#include "core/files/atomic_file.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

namespace vindex::gguf {

static_assert(std::endian::native == std::endian::little,
              "numbers are written as they lie in memory");

void append_bytes(std::vector<std::byte>& out, std::span<const std::byte> bytes);

/// Appends `number` as it lies in memory.
template <typename Number>
void append(std::vector<std::byte>& out, Number number) {
  static_assert(std::is_arithmetic_v<Number>);
  append_bytes(out, std::as_bytes(std::span(&number, 1)));
}

/// Appends a GGUF string: length as u64, bytes.
inline void append(std::vector<std::byte>& out, std::string_view text) {
  append(out, static_cast<std::uint64_t>(text.size()));
  append_bytes(out, std::as_bytes(std::span(text)));
}

/// What is appended to `buffer` goes to the file from its beginning.
class HeaderStream {
 public:
  explicit HeaderStream(AtomicFile& file) : file_(file) {}

  std::vector<std::byte> buffer;

  /// Position of what is appended next.
  std::uint64_t position() const { return written_ + buffer.size(); }
  /// Writes the buffer out where it has grown.
  void spill();
  void flush();

 private:
  AtomicFile& file_;
  std::uint64_t written_ = 0;
};

}  // namespace vindex::gguf
