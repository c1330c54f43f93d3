// Owns writing one GGUF file, version 3, little-endian: magic "GGUF" | version u32 | tensor count
// u64 | key count u64 | keys | tensor table | zeros to the alignment of 32 | tensors, each padded
// with zeros to 32 (the last one too, as ggml demands). Keys keep their order and their types.
// Source: ggml include/gguf.h, src/gguf.cpp, docs/gguf.md.
#pragma once

#include <vindex/decode/element_type.hpp>
#include <vindex/synth/output_folder.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::synth {

/// The key section, serialised key by key. Loaders refuse a key of another integer type than they
/// expect, so the type is the caller's choice, never inferred. Errors: expects() on an empty name
/// or one that was there before.
class GgufKeys {
 public:
  void add_u16(std::string_view name, std::uint16_t value);
  void add_u32(std::string_view name, std::uint32_t value);
  void add_i32(std::string_view name, std::int32_t value);
  void add_f32(std::string_view name, float value);
  void add_bool(std::string_view name, bool value);
  void add_string(std::string_view name, std::string_view value);
  void add_strings(std::string_view name, std::span<const std::string> values);
  void add_i32s(std::string_view name, std::span<const std::int32_t> values);
  /// A key copied from another file: `type` as numbered there, `value` the bytes after the type.
  void add_raw(std::string_view name, std::uint32_t type, std::span<const std::byte> value);

  std::uint64_t count() const { return names_.size(); }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  void begin(std::string_view name, std::uint32_t type);

  std::vector<std::byte> bytes_;
  std::set<std::string, std::less<>> names_;
};

/// One tensor to be written. `dimensions`: contiguous first, at most 4.
struct GgufTensorLayout {
  std::string name;
  decode::ElementType type = decode::ElementType::kF32;
  std::vector<std::uint64_t> dimensions;
};

/// Bytes of a tensor without padding. Errors: expects() on overflow, more than 4 dimensions, a row
/// that does not fill whole blocks, a type without a ggml id.
std::uint64_t stored_bytes(const GgufTensorLayout& tensor);

/// Writes header and table at once and the tensors as they come, in any order and from any thread.
class GgufWriter {
 public:
  /// `file` must outlive the writer. Errors: expects() on names that are not unique, empty or
  /// longer than 63 bytes, and on what stored_bytes() refuses; those of OutputFile.
  GgufWriter(OutputFile& file, const GgufKeys& keys, std::vector<GgufTensorLayout> tensors);

  /// Writes bytes of tensor `index` from `offset` within it. Thread-safe for different ranges.
  void write(std::size_t index, std::uint64_t offset, std::span<const std::byte> bytes);

  /// Errors: expects() where fewer or more bytes were written than the tensors have.
  void finish() const;

 private:
  OutputFile& file_;
  std::vector<GgufTensorLayout> tensors_;
  std::vector<std::uint64_t> offsets_;  // absolute, by index
  std::uint64_t data_bytes_ = 0;        // without padding
  std::atomic<std::uint64_t> written_{0};
};

}  // namespace vindex::synth
