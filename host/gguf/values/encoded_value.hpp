// Owns the value of a key as a little-endian file of version 3 stores it: from any container, and
// what an array holds.
#pragma once
#include "gguf/header.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vindex::gguf {

/// Longer values stay in their file until they are looked at or written.
inline constexpr std::uint64_t kLongestHeldValue = std::uint64_t{64} << 10U;

/// Whether a file's values lie in it as version 3 stores them, little-endian.
bool is_encoded(const Header& header);

/// The value of `key`, a file's with this `header`, as a little-endian file of version 3 has it
/// behind its value type: who edits keys sees one container. Errors: those of ByteSource::read().
std::vector<std::byte> encoded_value(const Key& key, const Header& header, ByteSource& source);

/// A number as it lies in an encoded value: at most 8 bytes.
std::uint64_t number_bits(std::span<const std::byte> bytes);

struct EncodedArray {
  ValueType element_type = ValueType::kU32;
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

}  // namespace vindex::gguf
