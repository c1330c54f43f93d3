// Owns questions that every source answers by reading alone: a text, a beginning, a digest,
// equality of two ranges.
#include "byte_source.hpp"

#include "core/digest.hpp"

#include <algorithm>
#include <vector>

namespace vindex {

namespace {

constexpr std::uint64_t kPiece = std::uint64_t{1} << 20U;

}  // namespace

std::string text_at(ByteSource& source, std::uint64_t offset, std::uint64_t bytes) {
  std::string text(static_cast<std::size_t>(bytes), '\0');
  source.read(offset, std::as_writable_bytes(std::span(text)));
  return text;
}

std::string beginning_of(ByteSource& source, std::uint64_t most) {
  return text_at(source, 0, std::min(most, source.size()));
}

std::string digest_at(ByteSource& source, std::uint64_t offset, std::uint64_t bytes) {
  Sha256 digest;
  std::vector<std::byte> piece;
  for (std::uint64_t done = 0; done < bytes; done += kPiece) {
    piece.resize(static_cast<std::size_t>(std::min(kPiece, bytes - done)));
    source.read(offset + done, piece);
    digest.update(piece);
  }
  return hex(digest.finish());
}

bool same_bytes(ByteSource& a, std::uint64_t offset_a, ByteSource& b, std::uint64_t offset_b,
                std::uint64_t bytes) {
  std::vector<std::byte> of_a, of_b;
  for (std::uint64_t done = 0; done < bytes && of_a == of_b; done += kPiece) {
    of_a.resize(static_cast<std::size_t>(std::min(kPiece, bytes - done)));
    of_b.resize(of_a.size());
    a.read(offset_a + done, of_a);
    b.read(offset_b + done, of_b);
  }
  return of_a == of_b;
}

}  // namespace vindex
