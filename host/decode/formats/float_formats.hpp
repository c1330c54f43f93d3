// Owns the conversion of stored bits to float32 for every plain float and integer type, once for
// host and device. All of it is branch-free integer work and exact products, so that loops over it
// vectorise and no flush-to-zero mode can change a value.
//
// A format here is a type with
//   kType                        its ElementType
//   kElements, kBytes            weights and bytes per block
//   decode_one(block, index)     weight `index` of the block at `block` (any alignment)
//   decode_all(block, out)       all kElements weights of it
// Layouts: IEEE 754 binary16/32/64; bfloat16 = upper half of binary32; OCP 8-bit floats (OFP8
// revision 1.0): E4M3 has bias 7, no infinity, NaN at 0x7F and 0xFF; E5M2 is the upper half of
// binary16; the FNUZ variants of both as onnx and ml_dtypes define them. OCP Microscaling 1.0: E8M0
// is 2^(code-127), 255 NaN. All little-endian.
//
// NaN: what is NaN stays NaN; sign and payload are not promised.
#pragma once

#include "core/portable.hpp"
#include "decode/encoding/element_type.hpp"

#include <bit>
#include <cstdint>

namespace vindex::decode {

static_assert(std::endian::native == std::endian::little,
              "stored numbers are little-endian and are loaded as they are");

/// The T stored at `bytes`, which need not be aligned.
template <typename T>
VINDEX_HD inline T load_as(const std::uint8_t* bytes) {
  T value;
  __builtin_memcpy(&value, bytes, sizeof(T));
  return value;
}

/// `yes` where `condition`, else `no`, without a branch: compilers turn a conditional expression
/// around a product into a jump, which ends vectorisation.
VINDEX_HD inline std::uint32_t choose(bool condition, std::uint32_t yes, std::uint32_t no) {
  const std::uint32_t mask = 0U - static_cast<std::uint32_t>(condition);
  return (yes & mask) | (no & ~mask);
}

/// Bits of magnitude * unit, the value of a subnormal code; exact.
VINDEX_HD inline std::uint32_t subnormal_bits(std::uint32_t magnitude, float unit) {
  return bits_as<std::uint32_t>(static_cast<float>(static_cast<std::int32_t>(magnitude)) * unit);
}

VINDEX_HD inline float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16U;
  const std::uint32_t magnitude = half & 0x7FFFU;
  // Exponent bias 15 becomes 127; the top exponent (infinity, NaN) must reach 255, so it moves on
  // by another 112. A NaN is made quiet, as the processor's own instruction does.
  const std::uint32_t is_top = magnitude >= 0x7C00U;
  const std::uint32_t is_nan = magnitude > 0x7C00U;
  const std::uint32_t normal =
      (((magnitude << 13U) + (112U << 23U)) + is_top * (112U << 23U)) | (is_nan << 22U);
  return bits_as<float>(choose(magnitude < 0x400U, subnormal_bits(magnitude, 0x1p-24F), normal) |
                        sign);
}

VINDEX_HD inline float bfloat16_to_float(std::uint16_t bits) {
  return bits_as<float>(static_cast<std::uint32_t>(bits) << 16U);
}

VINDEX_HD inline float e4m3_to_float(std::uint8_t code) {
  const std::uint32_t sign = (code & 0x80U) << 24U;
  const std::uint32_t magnitude = code & 0x7FU;
  const std::uint32_t normal = (magnitude << 20U) + (120U << 23U);
  const std::uint32_t finite = choose(magnitude < 8U, subnormal_bits(magnitude, 0x1p-9F), normal);
  return bits_as<float>(choose(magnitude == 0x7FU, 0x7FC00000U, finite) | sign);
}

VINDEX_HD inline float e5m2_to_float(std::uint8_t code) {
  return half_to_float(static_cast<std::uint16_t>(code << 8U));
}

/// The FNUZ variants have no infinity and no -0: 0x80 is their only NaN. Biases 8 and 16.
VINDEX_HD inline float e4m3fnuz_to_float(std::uint8_t code) {
  const std::uint32_t sign = (code & 0x80U) << 24U;
  const std::uint32_t magnitude = code & 0x7FU;
  const std::uint32_t normal = (magnitude << 20U) + (119U << 23U);
  const std::uint32_t finite = choose(magnitude < 8U, subnormal_bits(magnitude, 0x1p-10F), normal);
  return bits_as<float>(choose(code == 0x80U, 0x7FC00000U, finite) | sign);
}

VINDEX_HD inline float e5m2fnuz_to_float(std::uint8_t code) {
  const std::uint32_t sign = (code & 0x80U) << 24U;
  const std::uint32_t magnitude = code & 0x7FU;
  const std::uint32_t normal = (magnitude << 21U) + (111U << 23U);
  const std::uint32_t finite = choose(magnitude < 4U, subnormal_bits(magnitude, 0x1p-17F), normal);
  return bits_as<float>(choose(code == 0x80U, 0x7FC00000U, finite) | sign);
}

VINDEX_HD inline float e8m0_to_float(std::uint8_t code) {
  // Exponent 0 of E8M0 is 2^-127, a subnormal of float32; it has no zero.
  const std::uint32_t bits = code == 0U ? 0x00400000U : static_cast<std::uint32_t>(code) << 23U;
  return bits_as<float>(code == 255U ? 0x7FC00000U : bits);
}

/// A plain type of one number per element: `Stored` in memory, `Convert` gives the float.
template <ElementType Type, typename Stored, float (*Convert)(Stored)>
struct PlainFormat {
  static constexpr ElementType kType = Type;
  static constexpr int kElements = 1;
  static constexpr int kBytes = static_cast<int>(sizeof(Stored));
  VINDEX_HD static float decode_one(const std::uint8_t* block, int /*index*/) {
    return Convert(load_as<Stored>(block));
  }
  VINDEX_HD static void decode_all(const std::uint8_t* block, float* out) {
    *out = Convert(load_as<Stored>(block));
  }
};

/// Rounds to nearest, ties to even, as the conversion instructions of both sides do.
template <typename Stored>
VINDEX_HD inline float number_to_float(Stored value) {
  return static_cast<float>(value);
}

using F64Format = PlainFormat<ElementType::kF64, double, number_to_float<double>>;
using F32Format = PlainFormat<ElementType::kF32, float, number_to_float<float>>;
using F16Format = PlainFormat<ElementType::kF16, std::uint16_t, half_to_float>;
using BF16Format = PlainFormat<ElementType::kBF16, std::uint16_t, bfloat16_to_float>;
using F8E4M3Format = PlainFormat<ElementType::kF8E4M3, std::uint8_t, e4m3_to_float>;
using F8E5M2Format = PlainFormat<ElementType::kF8E5M2, std::uint8_t, e5m2_to_float>;
using F8E4M3FNUZFormat = PlainFormat<ElementType::kF8E4M3FNUZ, std::uint8_t, e4m3fnuz_to_float>;
using F8E5M2FNUZFormat = PlainFormat<ElementType::kF8E5M2FNUZ, std::uint8_t, e5m2fnuz_to_float>;
using I8Format = PlainFormat<ElementType::kI8, std::int8_t, number_to_float<std::int8_t>>;
using I16Format = PlainFormat<ElementType::kI16, std::int16_t, number_to_float<std::int16_t>>;
using I32Format = PlainFormat<ElementType::kI32, std::int32_t, number_to_float<std::int32_t>>;
using I64Format = PlainFormat<ElementType::kI64, std::int64_t, number_to_float<std::int64_t>>;
using U8Format = PlainFormat<ElementType::kU8, std::uint8_t, number_to_float<std::uint8_t>>;
using U16Format = PlainFormat<ElementType::kU16, std::uint16_t, number_to_float<std::uint16_t>>;
using U32Format = PlainFormat<ElementType::kU32, std::uint32_t, number_to_float<std::uint32_t>>;
using U64Format = PlainFormat<ElementType::kU64, std::uint64_t, number_to_float<std::uint64_t>>;

}  // namespace vindex::decode
