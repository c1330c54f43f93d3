// Owns which bytes of a stored block form numbers of several bytes, so that blocks written by a
// machine of the other byte order can be turned into this project's (little-endian) form. Codes
// that are packed into bytes have no order and stay.
#pragma once

#include "decode/encoding/element_type.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace vindex::decode {

/// `count` numbers of `bytes` bytes each in a block, the first at `offset`, one every `stride`.
struct BlockField {
  std::int32_t offset = 0;
  std::int32_t bytes = 2;
  std::int32_t count = 1;
  std::int32_t stride = 2;
};

/// The numbers of several bytes in a block of `type`; none where all is bytes. Source: the block
/// layouts in decode/*_blocks.hpp; formats not stored in GGUF files have none listed.
std::span<const BlockField> block_fields(ElementType type);

/// Reverses the bytes of every such number in `blocks`, which holds whole blocks of `type`.
/// Errors: expects() on a size that is no multiple of the block.
void swap_block_fields(ElementType type, std::span<std::byte> blocks);

}  // namespace vindex::decode
