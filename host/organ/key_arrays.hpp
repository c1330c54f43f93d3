// Owns reading arrays out of encoded values (write::encoded_value()), which were checked when their
// header was read.
#pragma once

#include <vindex/shard/gguf.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vindex::organ {

/// Bytes of a number; 0 for strings and arrays.
std::size_t number_bytes(shard::GgufType type);

struct EncodedArray {
  shard::GgufType element_type = shard::GgufType::kU32;
  std::uint64_t count = 0;
  std::span<const std::byte> elements;  ///< one after the other
};
/// Errors: FormatError E-GGUF-KEY where the bytes are no array any more.
EncodedArray read_array(std::span<const std::byte> value);

/// The elements of an array of strings. Errors: as above.
std::vector<std::string> read_strings(const EncodedArray& array);

/// Parts of an array of any element type: element `i` of the result is element `order[i]`. Encoded
/// as the array was. Errors: expects() on an index outside.
std::vector<std::byte> reordered(const EncodedArray& array, std::span<const std::size_t> order);

}  // namespace vindex::organ
