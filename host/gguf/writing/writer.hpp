// Owns writing one GGUF file, version 3, little-endian: magic "GGUF" | version u32 | tensor count
// u64 | key count u64 | keys | tensor table | zeros to general.alignment (32 without that key) |
// tensors in the table's order, each padded with zeros to the alignment (the last one too, as ggml
// demands). Source: ggml include/gguf.h, src/gguf.cpp, docs/gguf.md.
#pragma once

#include "key_section.hpp"

#include "core/files/atomic_file.hpp"
#include "decode/encoding/element_type.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vindex::gguf {

class HeaderStream;

/// Bytes of a tensor without padding. Errors: FormatError E-GGUF-LAYOUT on overflow, more than 4
/// dimensions, a row that does not fill whole blocks, a type that ggml does not have.
std::uint64_t stored_bytes(const TensorLayout& tensor);

/// Errors: FormatError E-GGUF-NAME for a name that is empty or longer than the 63 bytes that ggml
/// loads; those of stored_bytes().
void require_storable(const TensorLayout& tensor);

/// Writes header and table at once and the tensors as they come, in any order and from any thread.
class Writer {
 public:
  /// `file` must outlive the writer, what `keys` refers to this call. Errors: FormatError
  /// E-GGUF-NAME for a tensor name that is doubled; those of require_storable(),
  /// KeySection::alignment() and AtomicFile.
  Writer(AtomicFile& file, const KeySection& keys, std::vector<TensorLayout> tensors);

  /// Writes bytes of tensor `index` from `offset` within it. Thread-safe for different ranges.
  /// Errors: expects() on a range outside the tensor; those of AtomicFile.
  void write(std::size_t index, std::uint64_t offset, std::span<const std::byte> bytes);

  /// For who writes `bytes` bytes of tensor `index` from `offset` within it into the file by other
  /// means: where they belong in it. They count as written. Thread-safe as write().
  std::uint64_t place(std::size_t index, std::uint64_t offset, std::uint64_t bytes);

  /// Of keys and table, without the padding behind them.
  std::uint64_t header_bytes() const { return header_bytes_; }
  /// Of the whole file, padding included.
  std::uint64_t file_bytes() const { return end_of_file_; }

  /// Errors: expects() where fewer or more bytes were written than the tensors have.
  void finish() const;

 private:
  void write_table(std::uint64_t alignment, HeaderStream& head);

  AtomicFile& file_;
  std::vector<TensorLayout> tensors_;
  std::vector<std::uint64_t> offsets_;  // absolute, by index
  std::uint64_t data_bytes_ = 0;        // without padding
  std::uint64_t end_ = 0;               // of the padded data, from their start
  std::uint64_t header_bytes_ = 0;
  std::uint64_t end_of_file_ = 0;
  std::atomic<std::uint64_t> written_{0};
};

}  // namespace vindex::gguf
