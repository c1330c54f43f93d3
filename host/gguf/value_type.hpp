// Owns the value types of GGUF keys: numbers in a file, names, widths, and what their bits mean.
// Source: ggml docs/gguf.md, gguf_metadata_value_type.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace vindex::gguf {

/// With their numbers in the file. One that was read may be none of these: is_known().
enum class ValueType : std::uint32_t {
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

struct ValueTypeRow {
  std::string_view name;  ///< as manifests and findings write it
  std::size_t bytes;      ///< of a number; 0 for strings and arrays
};
/// By number.
inline constexpr std::array<ValueTypeRow, 13> kValueTypes = {{{"u8", 1},
                                                              {"i8", 1},
                                                              {"u16", 2},
                                                              {"i16", 2},
                                                              {"u32", 4},
                                                              {"i32", 4},
                                                              {"f32", 4},
                                                              {"bool", 1},
                                                              {"str", 0},
                                                              {"arr", 0},
                                                              {"u64", 8},
                                                              {"i64", 8},
                                                              {"f64", 8}}};

constexpr bool is_known(ValueType type) {
  return static_cast<std::size_t>(type) < kValueTypes.size();
}
/// Bytes of a number of a known type; 0 for strings and arrays.
constexpr std::size_t number_bytes(ValueType type) {
  return kValueTypes.at(static_cast<std::size_t>(type)).bytes;
}
constexpr bool is_signed(ValueType type) {
  return type == ValueType::kI8 || type == ValueType::kI16 || type == ValueType::kI32 ||
         type == ValueType::kI64;
}
constexpr bool is_float(ValueType type) {
  return type == ValueType::kF32 || type == ValueType::kF64;
}
/// Bools are integers too.
constexpr bool is_integer(ValueType type) { return number_bytes(type) > 0 && !is_float(type); }

/// "str", "u32"; "type 77" for what is none.
std::string type_name(ValueType type);
/// "u32", "str", "[i32]".
std::string type_text(ValueType type, ValueType element_type);
/// The type of a name.
std::optional<ValueType> type_named(std::string_view name);

/// A scalar value: unsigned and bool as u64, signed as i64, floats as double, strings as bytes
/// (left empty once a file's strings exceed 64 MiB together: their byte range is known).
using Scalar = std::variant<std::uint64_t, std::int64_t, double, std::string>;

/// The number of `type` whose bytes are the low ones of `bits`.
Scalar scalar_of(ValueType type, std::uint64_t bits);

/// The value type that stores a C++ type; nothing else is stored.
template <typename T>
struct ValueTypeOf;
// clang-format off
template <> struct ValueTypeOf<std::uint8_t> { static constexpr auto kType = ValueType::kU8; };
template <> struct ValueTypeOf<std::int8_t> { static constexpr auto kType = ValueType::kI8; };
template <> struct ValueTypeOf<std::uint16_t> { static constexpr auto kType = ValueType::kU16; };
template <> struct ValueTypeOf<std::int16_t> { static constexpr auto kType = ValueType::kI16; };
template <> struct ValueTypeOf<std::uint32_t> { static constexpr auto kType = ValueType::kU32; };
template <> struct ValueTypeOf<std::int32_t> { static constexpr auto kType = ValueType::kI32; };
template <> struct ValueTypeOf<float> { static constexpr auto kType = ValueType::kF32; };
template <> struct ValueTypeOf<std::uint64_t> { static constexpr auto kType = ValueType::kU64; };
template <> struct ValueTypeOf<std::int64_t> { static constexpr auto kType = ValueType::kI64; };
template <> struct ValueTypeOf<double> { static constexpr auto kType = ValueType::kF64; };
template <> struct ValueTypeOf<bool> { static constexpr auto kType = ValueType::kBool; };
// clang-format on

}  // namespace vindex::gguf
