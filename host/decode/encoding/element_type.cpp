// Owns the rows of the element type table: names, block sizes, container ids. Source: ggml
// include/ggml.h (enum ggml_type) and src/ggml-common.h (block structs) of 2026-08; safetensors
// safetensors/src/tensor.rs (enum Dtype) 0.8.
#include "element_type.hpp"

#include "core/integers.hpp"
#include <vindex/error.hpp>

#include <array>

namespace vindex::decode {
namespace {

constexpr std::size_t kTypeCount = static_cast<std::size_t>(ElementType::kCount);
constexpr std::int32_t kNoId = -1;

// type, name, weights per block, bytes per block, GGUF id, safetensors dtype
constexpr std::array<ElementTypeRow, kTypeCount> kRows{{
    {ElementType::kF64, "F64", 1, 8, 28, "F64"},
    {ElementType::kF32, "F32", 1, 4, 0, "F32"},
    {ElementType::kF16, "F16", 1, 2, 1, "F16"},
    {ElementType::kBF16, "BF16", 1, 2, 30, "BF16"},
    {ElementType::kI8, "I8", 1, 1, 24, "I8"},
    {ElementType::kI16, "I16", 1, 2, 25, "I16"},
    {ElementType::kI32, "I32", 1, 4, 26, "I32"},
    {ElementType::kI64, "I64", 1, 8, 27, "I64"},
    {ElementType::kU8, "U8", 1, 1, kNoId, "U8"},
    {ElementType::kU16, "U16", 1, 2, kNoId, "U16"},
    {ElementType::kU32, "U32", 1, 4, kNoId, "U32"},
    {ElementType::kU64, "U64", 1, 8, kNoId, "U64"},
    {ElementType::kBool, "BOOL", 1, 1, kNoId, "BOOL"},
    {ElementType::kF8E4M3, "F8_E4M3", 1, 1, kNoId, "F8_E4M3"},
    {ElementType::kF8E5M2, "F8_E5M2", 1, 1, kNoId, "F8_E5M2"},
    {ElementType::kF8E8M0, "F8_E8M0", 1, 1, kNoId, "F8_E8M0"},
    {ElementType::kF8E4M3FNUZ, "F8_E4M3FNUZ", 1, 1, kNoId, "F8_E4M3FNUZ"},
    {ElementType::kF8E5M2FNUZ, "F8_E5M2FNUZ", 1, 1, kNoId, "F8_E5M2FNUZ"},
    {ElementType::kF4, "F4", 2, 1, kNoId, "F4"},
    {ElementType::kF6E2M3, "F6_E2M3", 4, 3, kNoId, "F6_E2M3"},
    {ElementType::kF6E3M2, "F6_E3M2", 4, 3, kNoId, "F6_E3M2"},
    {ElementType::kC64, "C64", 1, 8, kNoId, "C64"},
    {ElementType::kQ4_0, "Q4_0", 32, 18, 2, ""},
    {ElementType::kQ4_1, "Q4_1", 32, 20, 3, ""},
    {ElementType::kQ5_0, "Q5_0", 32, 22, 6, ""},
    {ElementType::kQ5_1, "Q5_1", 32, 24, 7, ""},
    {ElementType::kQ8_0, "Q8_0", 32, 34, 8, ""},
    {ElementType::kQ2_K, "Q2_K", 256, 84, 10, ""},
    {ElementType::kQ3_K, "Q3_K", 256, 110, 11, ""},
    {ElementType::kQ4_K, "Q4_K", 256, 144, 12, ""},
    {ElementType::kQ5_K, "Q5_K", 256, 176, 13, ""},
    {ElementType::kQ6_K, "Q6_K", 256, 210, 14, ""},
    {ElementType::kIQ1_S, "IQ1_S", 256, 50, 19, ""},
    {ElementType::kIQ1_M, "IQ1_M", 256, 56, 29, ""},
    {ElementType::kIQ2_XXS, "IQ2_XXS", 256, 66, 16, ""},
    {ElementType::kIQ2_XS, "IQ2_XS", 256, 74, 17, ""},
    {ElementType::kIQ2_S, "IQ2_S", 256, 82, 22, ""},
    {ElementType::kIQ3_XXS, "IQ3_XXS", 256, 98, 18, ""},
    {ElementType::kIQ3_S, "IQ3_S", 256, 110, 21, ""},
    {ElementType::kIQ4_NL, "IQ4_NL", 32, 18, 20, ""},
    {ElementType::kIQ4_XS, "IQ4_XS", 256, 136, 23, ""},
    {ElementType::kTQ1_0, "TQ1_0", 256, 54, 34, ""},
    {ElementType::kTQ2_0, "TQ2_0", 256, 66, 35, ""},
    {ElementType::kMXFP4, "MXFP4", 32, 17, 39, ""},
    {ElementType::kNVFP4, "NVFP4", 64, 36, 40, ""},
    {ElementType::kQ1_0, "Q1_0", 128, 18, 41, ""},
    {ElementType::kQ2_0, "Q2_0", 64, 18, 42, ""},
}};

// element_type_row() indexes by the enumerator.
constexpr bool rows_follow_the_enumeration() {
  for (std::size_t i = 0; i < kTypeCount; ++i) {
    if (static_cast<std::size_t>(kRows[i].type) != i) {
      return false;
    }
  }
  return true;
}
static_assert(rows_follow_the_enumeration());

}  // namespace

const ElementTypeRow& element_type_row(ElementType type) {
  expects(static_cast<std::size_t>(type) < kTypeCount, "element_type_row: a type of the table");
  return kRows[static_cast<std::size_t>(type)];
}

std::span<const ElementTypeRow> element_type_rows() { return kRows; }

std::optional<ElementType> element_type_of_ggml(std::uint32_t id) {
  for (const ElementTypeRow& row : kRows) {
    if (row.ggml_id >= 0 && static_cast<std::uint32_t>(row.ggml_id) == id) {
      return row.type;
    }
  }
  return std::nullopt;
}

std::optional<ElementType> element_type_of_safetensors(std::string_view dtype) {
  for (const ElementTypeRow& row : kRows) {
    if (!row.safetensors.empty() && row.safetensors == dtype) {
      return row.type;
    }
  }
  return std::nullopt;
}

std::optional<std::uint64_t> stored_bytes(ElementType type, std::uint64_t elements) {
  const ElementTypeRow& row = element_type_row(type);
  const auto per_block = static_cast<std::uint64_t>(row.block_elements);
  if (elements % per_block != 0) {
    return std::nullopt;
  }
  return checked_multiply(elements / per_block, static_cast<std::uint64_t>(row.block_bytes));
}

}  // namespace vindex::decode
