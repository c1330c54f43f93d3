// Owns the shapes and types of what a file holds.
#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>
#include <vector>

namespace vindex::results::h5 {

using Shape = std::vector<std::uint64_t>;

/// kFloat16 is IEEE binary16, kBFloat16 the upper half of binary32: they are moved as bytes alone.
enum class Type : std::uint8_t {
  kInt8,
  kInt32,
  kInt64,
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
  kString
};
std::string_view type_name(Type type);
/// Of an element of `type`, which is no string.
std::uint64_t type_bytes(Type type);

template <typename T>
constexpr Type type_of() {
  if constexpr (std::is_same_v<T, std::int8_t>) {
    return Type::kInt8;
  } else if constexpr (std::is_same_v<T, std::int32_t>) {
    return Type::kInt32;
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    return Type::kInt64;
  } else if constexpr (std::is_same_v<T, float>) {
    return Type::kFloat32;
  } else {
    static_assert(std::is_same_v<T, double>);
    return Type::kFloat64;
  }
}

/// `f` of a zero of the number type `type`, which is neither a string nor of 16 bits.
template <typename F>
decltype(auto) visit_number(Type type, F&& f) {
  switch (type) {
    case Type::kInt8:
      return f(std::int8_t{});
    case Type::kInt32:
      return f(std::int32_t{});
    case Type::kInt64:
      return f(std::int64_t{});
    case Type::kFloat32:
      return f(float{});
    default:
      return f(double{});
  }
}

}  // namespace vindex::results::h5
