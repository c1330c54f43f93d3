// Owns dividing rows into blocks, and the text of their digests.
#include "value_digest.hpp"

#include "core/digest.hpp"
#include "core/text/text_parts.hpp"

#include <algorithm>
#include <bit>

namespace vindex::results {

static_assert(std::endian::native == std::endian::little, "values are digested as they lie");

namespace {

constexpr std::uint64_t kBlockBytes = 64U << 10U;
constexpr std::size_t kDigits = 16;

std::string digits_of(std::span<const std::byte> bytes) {
  Sha256 sha;
  sha.update(bytes);
  return hex(sha.finish()).substr(0, kDigits);
}

}  // namespace

std::uint64_t digest_rows(std::uint64_t chunk_rows, std::uint64_t row_bytes) {
  const std::uint64_t chunk = std::max<std::uint64_t>(chunk_rows, 1);
  const std::uint64_t chunk_bytes = std::max<std::uint64_t>(chunk * row_bytes, 1);
  return chunk * std::max<std::uint64_t>(kBlockBytes / chunk_bytes, 1);
}

void ValueDigest::add(std::span<const std::byte> bytes) {
  bytes_ += bytes.size();
  while (!bytes.empty()) {
    if (open_.empty() && bytes.size() >= block_bytes_) {
      text_ += " " + digits_of(bytes.first(block_bytes_));
      bytes = bytes.subspan(block_bytes_);
      continue;
    }
    const std::size_t taken = std::min<std::size_t>(bytes.size(), block_bytes_ - open_.size());
    open_.insert(open_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(taken));
    bytes = bytes.subspan(taken);
    if (open_.size() == block_bytes_) {
      end_block();
    }
  }
}

void ValueDigest::end_block() {
  text_ += " " + digits_of(open_);
  open_.clear();
}

std::string ValueDigest::finish() {
  if (!open_.empty()) {
    end_block();
  }
  return text_;
}

std::optional<ValueCheck> ValueCheck::of(std::string_view text, std::uint64_t rows) {
  const std::size_t space = text.find(' ');
  const auto block_rows = whole_number<std::uint64_t>(text.substr(0, space));
  if (space == std::string_view::npos || !block_rows || *block_rows == 0) {
    return std::nullopt;
  }
  text.remove_prefix(space);
  const std::uint64_t blocks = rows / *block_rows + (rows % *block_rows != 0 ? 1 : 0);
  if (text.size() / (kDigits + 1) != blocks || text.size() % (kDigits + 1) != 0) {
    return std::nullopt;
  }
  ValueCheck check;
  check.block_rows_ = *block_rows;
  check.digests_.reserve(blocks * kDigits);
  for (std::size_t at = 0; at < text.size(); at += kDigits + 1) {
    check.digests_ += text.substr(at + 1, kDigits);
  }
  check.checked_.resize(blocks);
  return check;
}

bool ValueCheck::check(std::uint64_t block, std::span<const std::byte> bytes) {
  const std::string_view wanted = std::string_view(digests_).substr(block * kDigits, kDigits);
  checked_[block] = digits_of(bytes) == wanted;
  return checked_[block];
}

}  // namespace vindex::results
