// Owns the table of stored element types: what the bytes of ONE stored tensor are, under both
// containers. How a weight is put together from several stored tensors (codes, scales, zero points)
// is decode/encoding/encoding.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace vindex::decode {

/// A stored element type. Names are those of safetensors and ggml.
enum class ElementType : std::uint8_t {
  kF64,
  kF32,
  kF16,
  kBF16,
  kI8,
  kI16,
  kI32,
  kI64,
  kU8,
  kU16,
  kU32,
  kU64,
  kBool,
  kF8E4M3,
  kF8E5M2,
  kF8E8M0,
  kF8E4M3FNUZ,
  kF8E5M2FNUZ,
  kF4,
  kF6E2M3,
  kF6E3M2,
  kC64,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ1_S,
  kIQ1_M,
  kIQ2_XXS,
  kIQ2_XS,
  kIQ2_S,
  kIQ3_XXS,
  kIQ3_S,
  kIQ4_NL,
  kIQ4_XS,
  kTQ1_0,
  kTQ2_0,
  kMXFP4,
  kNVFP4,
  kQ1_0,
  kQ2_0,
  kCount
};

/// One row of the table.
struct ElementTypeRow {
  ElementType type;
  std::string_view name;  ///< as the results file spells it: "BF16", "F8_E4M3", "Q4_K"
  /// Weights per block; 1 for plain types (2 for F4, 4 for F6_*: whole bytes).
  std::int32_t block_elements;
  std::int32_t block_bytes;      ///< bytes per block
  std::int32_t ggml_id;          ///< type id in GGUF files, -1 if none
  std::string_view safetensors;  ///< dtype string in safetensors headers, empty if none
};

/// The row of `type`. Source of ids and sizes: ggml include/ggml.h and src/ggml-common.h;
/// safetensors safetensors/src/tensor.rs.
const ElementTypeRow& element_type_row(ElementType type);

/// Its name in that row.
inline std::string_view element_type_name(ElementType type) { return element_type_row(type).name; }

/// All rows, in the order of the enumeration.
std::span<const ElementTypeRow> element_type_rows();

/// The type with this GGUF id / safetensors dtype string, or nothing.
std::optional<ElementType> element_type_of_ggml(std::uint32_t id);
std::optional<ElementType> element_type_of_safetensors(std::string_view dtype);

/// Bytes of `elements` consecutive elements, which must fill whole blocks; nothing where they do
/// not, or on overflow.
std::optional<std::uint64_t> stored_bytes(ElementType type, std::uint64_t elements);

}  // namespace vindex::decode
