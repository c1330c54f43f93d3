// Owns the GGUF container (versions 1 to 3, either byte order): header, typed key list, tensor
// table. Byte layout, no padding between fields:
//
//   magic "GGUF" (the same bytes in either order)
//   version u32
//   tensor count u64
//   key count u64
//   key count x
//     name string
//     value type u32
//     value
//   tensor count x
//     name string
//     dimension count u32
//     dimensions u64... (contiguous first)
//     type u32
//     offset u64
//   zero padding to general.alignment (default 32)
//   data: a tensor's bytes begin at the start of the data + its offset
//
//   string = length u64, bytes
//   array  = element type u32, count u64, elements
//
// Version 1 (August 2023) has u32 for both counts, lengths, array counts and dimensions; offsets
// stay u64. A big-endian file has every number reversed, also those inside tensor blocks
// (decode/byte_order.hpp); nothing says so but the version, whose low half is then zero.
// Source: ggml include/gguf.h, docs/gguf.md; limits are in limits.hpp.
#pragma once

#include "value_type.hpp"

#include "core/files/byte_source.hpp"
#include "decode/encoding/element_type.hpp"
#include <vindex/error.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::gguf {

/// One key, in file order. Byte ranges are kept so that a writer can copy what it does not
/// understand (from a little-endian file of version 2 or 3).
struct Key {
  std::string name;
  ValueType type = ValueType::kU32;
  ValueType element_type = ValueType::kU32;  ///< of an array
  Scalar value;                              ///< unset for arrays
  std::uint64_t array_count = 0;
  /// Elements of an integer array of at most 4096 elements, else empty.
  std::vector<std::int64_t> integers;
  std::uint64_t value_offset = 0;  ///< absolute offset of the value's bytes (after the value type)
  std::uint64_t value_bytes = 0;
};

/// What an entry of the table says of a tensor but for its place.
struct TensorLayout {
  std::string name;
  decode::ElementType type = decode::ElementType::kF32;
  std::vector<std::uint64_t> dimensions;  ///< contiguous first, at most 4; none: a single number
};

/// One tensor of the table.
struct Tensor : TensorLayout {
  std::uint64_t offset = 0;  ///< absolute in the file
  std::uint64_t bytes = 0;
};

/// A parsed header.
struct Header {
  std::uint32_t version = 0;
  bool big_endian = false;  ///< tensor data too: open_model()'s sources reverse them
  std::uint64_t alignment = 32;
  std::uint64_t data_offset = 0;  ///< absolute start of the data section
  std::vector<Key> keys;
  std::vector<Tensor> tensors;
  std::uint64_t tensor_count = 0;  ///< more than `tensors` holds where those were not asked for
  std::string header_sha256;       ///< of bytes [0, data_offset) as far as they exist
  std::vector<Warning> warnings;
};

/// Weights of a tensor; nothing where they, or a dimension alone, exceed 2^63-1.
std::optional<std::uint64_t> weight_count(std::span<const std::uint64_t> dimensions);
/// Whether rows (the first dimension; one weight without any) are whole blocks of `type`.
bool fills_blocks(decode::ElementType type, std::span<const std::uint64_t> dimensions);

/// The key called `name`, or null.
const Key* find_key(const std::vector<Key>& keys, std::string_view name);
/// Its text, or null where it is absent or of another kind.
const std::string* find_text(const std::vector<Key>& keys, std::string_view name);

}  // namespace vindex::gguf
