// Owns writing one safetensors file: u64 header length | JSON header, padded with spaces to a
// multiple of 8 | tensors without gaps. Tensors are ordered by element size (widest first), then by
// name, so that every tensor is aligned to its elements.
// Source: huggingface/safetensors README, safetensors/src/tensor.rs (serialize).
#pragma once

#include <vindex/decode/element_type.hpp>
#include <vindex/synth/output_folder.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace vindex::synth {

/// One tensor to be written. `shape` is row-major, outermost first.
struct SafetensorsTensor {
  std::string name;
  decode::ElementType type = decode::ElementType::kF32;
  std::vector<std::int64_t> shape;
};

/// Bytes of a tensor. Errors: expects() on overflow or a type without a safetensors name.
std::uint64_t stored_bytes(const SafetensorsTensor& tensor);

/// Writes the header at once and the tensors as they come, in any order and from any thread.
class SafetensorsWriter {
 public:
  /// `file` must outlive the writer. `metadata` is the header's __metadata__. Errors: expects() on
  /// two tensors of one name; those of OutputFile.
  SafetensorsWriter(OutputFile& file, std::vector<SafetensorsTensor> tensors,
                    const std::map<std::string, std::string>& metadata);

  /// Writes bytes of tensor `index` (position in the constructor's list) from `offset` within it.
  /// Thread-safe for different ranges. Errors: expects() on a range outside the tensor.
  void write(std::size_t index, std::uint64_t offset, std::span<const std::byte> bytes);

  /// Errors: expects() where fewer or more bytes were written than the tensors have.
  void finish() const;

 private:
  OutputFile& file_;
  std::vector<SafetensorsTensor> tensors_;
  std::vector<std::uint64_t> offsets_;  // absolute, by index
  std::uint64_t data_bytes_ = 0;
  std::atomic<std::uint64_t> written_{0};
};

}  // namespace vindex::synth
