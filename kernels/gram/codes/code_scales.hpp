// Owns the question whether E4M3 codes can stand for their weights in a float64 Gram matrix: by
// what their scales are. Pure, on the host.
//
// A weight is code * scale rounded to float32. A code has four significant bits, so the product is
// exact under a scale of at most twenty (any of bfloat16, binary16 and E8M0, powers of two in
// float32); under a full float32 scale it is rounded by at most 2^-24 of itself, and what rounding
// took is a multiple of 2^-9 of the scale's last place.
#pragma once

#include "decode/encoding/element_type.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace vindex::kernels {

enum class CodeScales : std::uint8_t {
  kUnfit,    ///< a weight may be subnormal or overflow float32
  kRounded,  ///< some products with codes are rounded
  kExact,    ///< none is
};

/// Of all scales of a matrix, stored as `type` (decode::is_scale_type()). Scales that are zero or
/// not finite are exact: their weights are.
CodeScales judge_scales(decode::ElementType type, std::span<const std::byte> scales);

}  // namespace vindex::kernels
