// Owns the value types of GGUF keys as numbers and as words (ggml docs/gguf.md,
// gguf_metadata_value_type).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace vindex::organ {

inline constexpr std::uint32_t kBoolType = 7;
inline constexpr std::uint32_t kStringType = 8;
inline constexpr std::uint32_t kArrayType = 9;

/// By number, as manifests and findings write them.
inline constexpr std::array<std::string_view, 13> kValueTypeNames = {
    "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "str", "arr", "u64", "i64", "f64"};

}  // namespace vindex::organ
