// Owns general.file_type: which number says what most weights of a file are stored as. Informative
// in the format, but people and tools read it. Source: llama.cpp include/llama.h (llama_ftype),
// src/llama-model-loader.cpp (the guess from the most frequent type).
#pragma once

#include "decode/encoding/element_type.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace vindex::organ {

/// How many weights of matrices each type holds; where there is no matrix, of all tensors.
class TypeShares {
 public:
  void add(decode::ElementType type, std::span<const std::uint64_t> dimensions);
  /// The type with most weights; nothing where there are none.
  std::optional<decode::ElementType> majority() const;
  /// The file type of the majority (of several, the usual one: Q4_K is Q4_K_M); nothing where none
  /// is named after it.
  std::optional<std::uint32_t> file_type() const;
  /// Whether `file_type` may stand for these shares: one of the mixes whose type the majority is.
  bool agrees(std::uint64_t file_type) const;

 private:
  static constexpr std::size_t kTypes = static_cast<std::size_t>(decode::ElementType::kCount);
  std::array<double, kTypes> matrices_{};
  std::array<double, kTypes> vectors_{};
};

/// "Q4_K_M" of 15; empty for a number that means nothing.
std::string_view file_type_name(std::uint64_t file_type);

}  // namespace vindex::organ
