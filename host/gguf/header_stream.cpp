// Owns the buffer of a header and its spilling to the file.
#include "header_stream.hpp"

namespace vindex::gguf {

namespace {
constexpr std::size_t kHeaderBufferBytes = std::size_t{1} << 20U;
}

void append_bytes(std::vector<std::byte>& out, std::span<const std::byte> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

void HeaderStream::spill() {
  if (buffer.size() >= kHeaderBufferBytes) {
    flush();
  }
}

void HeaderStream::flush() {
  file_.write(written_, buffer);
  written_ += buffer.size();
  buffer.clear();
}

}  // namespace vindex::gguf
