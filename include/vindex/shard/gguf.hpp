// Owns the GGUF container (versions 1 to 3, either byte order): header, typed key list, tensor
// table. Byte layout, no padding between fields:
// clang-format off
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
// clang-format on
// Version 1 (August 2023) has u32 for both counts, lengths, array counts and dimensions; offsets
// stay u64. A big-endian file has every number reversed, also those inside tensor blocks
// (decode/byte_order.hpp); nothing says so but the version, whose low half is then zero.
// Source: ggml include/gguf.h, docs/gguf.md; limits beyond ggml's own are in the readers.
#pragma once

#include <vindex/core/error.hpp>
#include <vindex/decode/element_type.hpp>
#include <vindex/shard/byte_source.hpp>

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace vindex::shard {

/// Value types of GGUF keys, with their numbers in the file.
enum class GgufType : std::uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

/// A scalar value: unsigned and bool as u64, signed as i64, floats as double, strings as bytes
/// (left empty once a file's strings exceed 64 MiB together: their byte range is known).
using GgufScalar = std::variant<std::uint64_t, std::int64_t, double, std::string>;

/// One key, in file order. Byte ranges are kept so that a writer can copy what it does not
/// understand (from a little-endian file of version 2 or 3).
struct GgufKey {
  std::string name;
  GgufType type = GgufType::kU32;
  GgufType element_type = GgufType::kU32;  ///< of an array
  GgufScalar value;                        ///< unset for arrays
  std::uint64_t array_count = 0;
  /// Elements of an integer array of at most 4096 elements, else empty.
  std::vector<std::int64_t> integers;
  std::uint64_t value_offset = 0;  ///< absolute offset of the value's bytes (after the value type)
  std::uint64_t value_bytes = 0;
};

/// One tensor of the table.
struct GgufTensor {
  std::string name;
  decode::ElementType type = decode::ElementType::kF32;
  std::vector<std::uint64_t> dimensions;  ///< as in the file: contiguous first
  std::uint64_t offset = 0;               ///< absolute in the file
  std::uint64_t bytes = 0;
};

/// A parsed header.
struct GgufHeader {
  std::uint32_t version = 0;
  bool big_endian = false;  ///< tensor data too: open_model()'s sources reverse them
  std::uint64_t alignment = 32;
  std::uint64_t data_offset = 0;  ///< absolute start of the data section
  std::vector<GgufKey> keys;
  std::vector<GgufTensor> tensors;
  std::uint64_t tensor_count = 0;  ///< more than `tensors` holds where those were not asked for
  std::string header_sha256;       ///< of bytes [0, data_offset) as far as they exist
  std::vector<Warning> warnings;
};

/// Reads and validates the header. Errors: FormatError naming file and byte offset.
GgufHeader read_gguf_header(ByteSource& source);

/// The key called `name`, or null.
const GgufKey* find_key(const std::vector<GgufKey>& keys, std::string_view name);

}  // namespace vindex::shard
