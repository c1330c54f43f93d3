// Owns the list of fields of every block type of GGUF that has numbers of several bytes, and the
// reversal of each.
#include "byte_order.hpp"

#include <vindex/error.hpp>

#include <array>
#include <cstring>

namespace vindex::decode {

namespace {

constexpr std::array<BlockField, 1> kEightBytes{{{.offset = 0, .bytes = 8, .stride = 8}}};
constexpr std::array<BlockField, 1> kFourBytes{{{.offset = 0, .bytes = 4, .stride = 4}}};
constexpr std::array<BlockField, 1> kTwoBytes{{{.offset = 0}}};
constexpr std::array<BlockField, 1> kTwoHalves{{{.offset = 0, .count = 2}}};
constexpr std::array<BlockField, 2> kQ5_0{{{.offset = 0}, {.offset = 2, .bytes = 4, .stride = 4}}};
constexpr std::array<BlockField, 2> kQ5_1{
    {{.offset = 0, .count = 2}, {.offset = 4, .bytes = 4, .stride = 4}}};
constexpr std::array<BlockField, 1> kQ2_K{{{.offset = 80, .count = 2}}};
constexpr std::array<BlockField, 1> kQ3_K{{{.offset = 108}}};
constexpr std::array<BlockField, 1> kQ6_K{{{.offset = 208}}};
constexpr std::array<BlockField, 2> kIQ1_S{{{.offset = 0}, {.offset = 34, .count = 8}}};
constexpr std::array<BlockField, 1> kIQ1_M{{{.offset = 48, .count = 4}}};
// Four indices of a byte each, then a number of four bytes.
constexpr std::array<BlockField, 2> kIQ2_XXS{
    {{.offset = 0}, {.offset = 6, .bytes = 4, .count = 8, .stride = 8}}};
constexpr std::array<BlockField, 2> kIQ2_XS{{{.offset = 0}, {.offset = 2, .count = 32}}};
constexpr std::array<BlockField, 2> kIQ3_XXS{
    {{.offset = 0}, {.offset = 66, .bytes = 4, .count = 8, .stride = 4}}};
constexpr std::array<BlockField, 1> kTQ1_0{{{.offset = 52}}};
constexpr std::array<BlockField, 1> kTQ2_0{{{.offset = 64}}};

void reverse(std::byte* at, std::int32_t bytes) {
  const auto swap = [at](auto value, auto reversed) {
    std::memcpy(&value, at, sizeof value);
    value = reversed(value);
    std::memcpy(at, &value, sizeof value);
  };
  switch (bytes) {
    case 8:
      return swap(std::uint64_t{}, [](std::uint64_t v) { return __builtin_bswap64(v); });
    case 4:
      return swap(std::uint32_t{}, [](std::uint32_t v) { return __builtin_bswap32(v); });
    default:
      return swap(std::uint16_t{}, [](std::uint16_t v) { return __builtin_bswap16(v); });
  }
}

}  // namespace

std::span<const BlockField> block_fields(ElementType type) {
  switch (type) {
    case ElementType::kF64:
    case ElementType::kI64:
      return kEightBytes;
    case ElementType::kF32:
    case ElementType::kI32:
      return kFourBytes;
    case ElementType::kF16:
    case ElementType::kBF16:
    case ElementType::kI16:
    case ElementType::kQ4_0:
    case ElementType::kQ8_0:
    case ElementType::kIQ2_S:
    case ElementType::kIQ3_S:
    case ElementType::kIQ4_NL:
    case ElementType::kQ1_0:
    case ElementType::kQ2_0:
      return kTwoBytes;
    case ElementType::kQ4_1:
    case ElementType::kQ4_K:
    case ElementType::kQ5_K:
    case ElementType::kIQ4_XS:
      return kTwoHalves;
    case ElementType::kQ5_0:
      return kQ5_0;
    case ElementType::kQ5_1:
      return kQ5_1;
    case ElementType::kQ2_K:
      return kQ2_K;
    case ElementType::kQ3_K:
      return kQ3_K;
    case ElementType::kQ6_K:
      return kQ6_K;
    case ElementType::kIQ1_S:
      return kIQ1_S;
    case ElementType::kIQ1_M:
      return kIQ1_M;
    case ElementType::kIQ2_XXS:
      return kIQ2_XXS;
    case ElementType::kIQ2_XS:
      return kIQ2_XS;
    case ElementType::kIQ3_XXS:
      return kIQ3_XXS;
    case ElementType::kTQ1_0:
      return kTQ1_0;
    case ElementType::kTQ2_0:
      return kTQ2_0;
    default:
      return {};  // I8, MXFP4 and NVFP4 hold bytes alone
  }
}

void swap_block_fields(ElementType type, std::span<std::byte> blocks) {
  const auto block_bytes = static_cast<std::size_t>(element_type_row(type).block_bytes);
  expects(blocks.size() % block_bytes == 0, "swap_block_fields: whole blocks");
  for (const BlockField& field : block_fields(type)) {
    for (std::size_t block = 0; block < blocks.size(); block += block_bytes) {
      std::byte* at = blocks.data() + block + field.offset;
      for (std::int32_t i = 0; i < field.count; ++i) {
        reverse(at + i * field.stride, field.bytes);
      }
    }
  }
}

}  // namespace vindex::decode
