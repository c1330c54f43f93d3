// Owns building .npy bytes for tests: headers of any text, and arrays of values.
#pragma once

#include "gguf_builder.hpp"

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

namespace vindex::testing {

/// A file with this dict, unpadded, and this data.
inline std::string npy_file(const std::string& dict, const std::string& data, int version = 1) {
  std::string file = "\x93NUMPY";
  file += static_cast<char>(version);
  file += '\0';
  file += version == 1 ? little_endian(static_cast<std::uint16_t>(dict.size()))
                       : little_endian(static_cast<std::uint32_t>(dict.size()));
  return file + dict + data;
}

inline std::string npy_dict(const std::string& descr, const std::string& shape,
                            const std::string& fortran_order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + fortran_order + ", 'shape': " + shape +
         ", }";
}

template <typename Value>
std::string npy_descr() {
  const char kind = std::is_floating_point_v<Value> ? 'f' : std::is_signed_v<Value> ? 'i' : 'u';
  return std::string(sizeof(Value) == 1 ? "|" : "<") + kind + std::to_string(sizeof(Value));
}

/// What numpy.save() writes of an array with these sides.
template <typename Value>
std::string npy_array(const std::vector<Value>& values, const std::vector<std::int64_t>& sides) {
  std::string shape = "(";
  for (const std::int64_t side : sides) {
    shape += std::to_string(side) + ", ";
  }
  if (sides.size() > 1) {
    shape.resize(shape.size() - 2);
  } else if (sides.size() == 1) {
    shape.pop_back();
  }
  shape += ")";
  std::string dict = npy_dict(npy_descr<Value>(), shape);
  dict.resize((dict.size() + 11 + 63) / 64 * 64 - 11, ' ');
  dict += '\n';
  std::string data(values.size() * sizeof(Value), '\0');
  std::memcpy(data.data(), values.data(), data.size());
  return npy_file(dict, data);
}

}  // namespace vindex::testing
