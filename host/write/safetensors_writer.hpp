// Owns writing one safetensors file: u64 header length | JSON header, padded with spaces to a
// multiple of 8 | tensors without gaps. The header is written as huggingface/safetensors writes it:
// no white space, __metadata__ first, tensors in the order of their data.
// Source: huggingface/safetensors README, safetensors/src/tensor.rs (serialize).
#pragma once

#include "core/files/atomic_file.hpp"
#include "decode/encoding/element_type.hpp"
#include "input/local/file_source.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace vindex::write {

/// One tensor to be written. `shape` is row-major, outermost first.
struct SafetensorsTensor {
  std::string name;
  decode::ElementType type = decode::ElementType::kF32;
  std::vector<std::int64_t> shape;
};

/// How the data follow one another.
enum class TensorOrder {
  kAsGiven,
  kWidestFirst,  ///< by element size, then by name, so that every tensor is aligned to its elements
};

/// The header's __metadata__, in order.
using SafetensorsMetadata = std::vector<std::pair<std::string, std::string>>;

/// Bytes of a tensor. Errors: FormatError E-ST-LAYOUT on a negative dimension, overflow, a type
/// that safetensors does not have, or elements that fill no whole bytes.
std::uint64_t stored_bytes(const SafetensorsTensor& tensor);

/// Writes the header at once and the tensors as they come, in any order and from any thread.
class SafetensorsWriter {
 public:
  /// `file` must outlive the writer. Errors: FormatError E-ST-NAME for a name that is doubled,
  /// "__metadata__" or no UTF-8, E-ST-LAYOUT where the header exceeds the 100,000,000 bytes that
  /// readers take; those of stored_bytes() and AtomicFile.
  SafetensorsWriter(AtomicFile& file, std::vector<SafetensorsTensor> tensors,
                    const SafetensorsMetadata& metadata, TensorOrder order);

  /// Writes bytes of tensor `index` (position in the constructor's list) from `offset` within it.
  /// Thread-safe for different ranges. Errors: expects() on a range outside the tensor.
  void write(std::size_t index, std::uint64_t offset, std::span<const std::byte> bytes);

  /// As gguf::Writer::place(). Thread-safe as write().
  std::uint64_t place(std::size_t index, std::uint64_t offset, std::uint64_t bytes);

  /// Errors: expects() where fewer or more bytes were written than the tensors have.
  void finish() const;

 private:
  AtomicFile& file_;
  std::vector<SafetensorsTensor> tensors_;
  std::vector<std::uint64_t> offsets_;  // absolute, by index
  std::uint64_t data_bytes_ = 0;
  std::atomic<std::uint64_t> written_{0};
};

/// Text of model.safetensors.index.json as transformers writes it: total_size, then the file of
/// every tensor, sorted by name.
std::string safetensors_index_text(std::uint64_t total_bytes,
                                   const std::map<std::string, std::string>& file_of_tensor);

/// Of a file whose header was read before: a FormatError says that it changed since.
SafetensorsMetadata read_safetensors_metadata(ByteSource& source);

}  // namespace vindex::write
