// Owns the digest of a dataset of numbers, attribute `sha256` beside it: the number of rows of a
// block, and for every block the first 16 hexadecimal digits of the SHA-256 of its rows as they lie
// in memory, little-endian. Checksums of chunks say nothing of a chunk that the file's index of
// them has lost, of one in another's place, or of values without chunks. It is of values: a file
// that is copied or repacked keeps it. A reader of some rows needs their blocks alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::results {

/// Rows of a block: whole chunks of `chunk_rows` rows (1 where there are none), as few as take
/// 64 KiB.
std::uint64_t digest_rows(std::uint64_t chunk_rows, std::uint64_t row_bytes);

/// The digest of rows while they are written.
class ValueDigest {
 public:
  ValueDigest(std::uint64_t block_rows, std::uint64_t row_bytes)
      : block_bytes_(block_rows * row_bytes), text_(std::to_string(block_rows)) {}
  /// The next `bytes`, in order.
  void add(std::span<const std::byte> bytes);
  std::uint64_t bytes() const { return bytes_; }
  /// The text of all bytes that were added.
  std::string finish();

 private:
  void end_block();
  std::uint64_t block_bytes_;
  std::uint64_t bytes_ = 0;
  std::vector<std::byte> open_;  ///< of a block that is not whole yet
  std::string text_;
};

/// Which blocks of a dataset are known to be what their digest is of.
class ValueCheck {
 public:
  /// Nothing where `text` is no digest of `rows` rows.
  static std::optional<ValueCheck> of(std::string_view text, std::uint64_t rows);
  std::uint64_t block_rows() const { return block_rows_; }
  bool is_checked(std::uint64_t block) const { return checked_[block]; }
  /// Whether `bytes` are those of `block`; then it need not be asked for again.
  bool check(std::uint64_t block, std::span<const std::byte> bytes);

 private:
  std::uint64_t block_rows_ = 1;
  std::string digests_;  ///< 16 digits for every block
  std::vector<bool> checked_;
};

}  // namespace vindex::results
