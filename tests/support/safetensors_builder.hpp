// Owns building safetensors bytes in memory for tests.
#pragma once

#include "gguf_builder.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vindex::testing {

/// A file of this header text and `data_bytes` bytes of data; `length` lies about the header.
inline std::string safetensors_file(const std::string& header, std::size_t data_bytes,
                                    std::optional<std::uint64_t> length = std::nullopt) {
  return little_endian(length.value_or(header.size())) + header + std::string(data_bytes, 'd');
}

/// One entry of a header.
inline std::string safetensors_entry(const std::string& name, const std::string& dtype,
                                     const std::string& shape, const std::string& offsets) {
  std::string entry(1, '"');
  entry.append(name).append("\":{\"dtype\":\"").append(dtype).append("\",\"shape\":[");
  return entry.append(shape).append("],\"data_offsets\":[").append(offsets).append("]}");
}

/// `entries` in braces. (Appending only: g++ 12 warns wrongly of `"{" + text`, its bug 105651.)
inline std::string braces(const std::string& entries) {
  std::string header(1, '{');
  header += entries;
  header += '}';
  return header;
}

/// F32 2 x 2 named "a" and BF16 4 named "b".
inline std::string small_safetensors() {
  return safetensors_file(braces(safetensors_entry("a", "F32", "2,2", "0,16") + "," +
                                 safetensors_entry("b", "BF16", "4", "16,24")),
                          24);
}

}  // namespace vindex::testing
