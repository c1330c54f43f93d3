// Source of the quantisers: ggml src/ggml-quants.c (quantize_row_q4_0_ref and its neighbours):
//   Q4_0 Q5_0  scale = the weight of largest magnitude / -8 or -16; code = weight / scale + 8.5 or
//              16.5 cut to an integer, at most 15 or 31: negative weights may use the one more code
//   Q4_1 Q5_1  minimum = least weight, scale = (largest - least) / 15 or 31; code = (weight -
//              minimum) / scale + 0.5 cut to an integer
//   Q8_0       scale = largest magnitude / 127; code = weight / scale, ties away from zero
// Divisions are products with the float32 reciprocal of the unrounded scale; scale and minimum are
// stored as F16.
#include "encode_blocks.hpp"

#include "simple_blocks.hpp"

#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace vindex::decode {
namespace {

/// Codes are 0 .. kCodes - 1 and mean code - kZero.
template <typename Block, int Codes, int Zero>
struct NibbleCodes {
  static constexpr int kCodes = Codes;
  static constexpr int kZero = Zero;
  static void put(std::uint8_t* bytes, int index, int code) {
    auto& block = *reinterpret_cast<Block*>(bytes);
    std::uint8_t& pair = block.qs[index % 16];
    const int shift = index / 16 * 4;
    pair = static_cast<std::uint8_t>((pair & ~(15 << shift)) | ((code & 15) << shift));
    if constexpr (Codes == 32) {
      const int bit = 1 << (index % 8);
      std::uint8_t& high = block.qh[index / 8];
      high = static_cast<std::uint8_t>(code >= 16 ? high | bit : high & ~bit);
    }
  }
};

/// Signed bytes, as codes 0 .. 255 around 128.
struct ByteCodes {
  static constexpr int kCodes = 256;
  static constexpr int kZero = 128;
  static void put(std::uint8_t* bytes, int index, int code) {
    reinterpret_cast<Q8_0Block*>(bytes)->qs[index] = static_cast<std::uint8_t>(code - kZero);
  }
};

template <typename Block>
struct CodesOf;
template <>
struct CodesOf<Q4_0Block> : NibbleCodes<Q4_0Block, 16, 8> {};
template <>
struct CodesOf<Q4_1Block> : NibbleCodes<Q4_1Block, 16, 0> {};
template <>
struct CodesOf<Q5_0Block> : NibbleCodes<Q5_0Block, 32, 16> {};
template <>
struct CodesOf<Q5_1Block> : NibbleCodes<Q5_1Block, 32, 0> {};
template <>
struct CodesOf<Q8_0Block> : ByteCodes {};

template <typename Block>
constexpr bool kHasMinimum = std::is_same_v<Block, Q4_1Block> || std::is_same_v<Block, Q5_1Block>;

template <typename Visitor>
auto visit_block(ElementType type, Visitor&& visitor) {
  switch (type) {
    case ElementType::kQ4_0:
      return visitor(Q4_0Block{});
    case ElementType::kQ4_1:
      return visitor(Q4_1Block{});
    case ElementType::kQ5_0:
      return visitor(Q5_0Block{});
    case ElementType::kQ5_1:
      return visitor(Q5_1Block{});
    default:
      expects(type == ElementType::kQ8_0, "visit_block: a type with a block encoder");
      return visitor(Q8_0Block{});
  }
}

void put_half(std::uint8_t* at, float value) {
  const std::uint16_t half = scalar::to_f16(value);
  std::memcpy(at, &half, sizeof half);
}

float reciprocal(float scale) {
  const float inverse = scale == 0.0F ? 0.0F : 1.0F / scale;
  return std::isfinite(inverse) ? inverse : 0.0F;
}

/// The first weight of largest magnitude, with its sign.
float extreme_of(const float* values) {
  float extreme = 0.0F;
  for (int i = 0; i < kBlockWeights; ++i) {
    extreme = std::fabs(values[i]) > std::fabs(extreme) ? values[i] : extreme;
  }
  return extreme;
}

template <typename Block>
void encode(const float* values, std::uint8_t* bytes) {
  using Codes = CodesOf<Block>;
  auto& block = *reinterpret_cast<Block*>(bytes);
  if constexpr (kHasMinimum<Block>) {
    float least = values[0];
    float largest = values[0];
    for (int i = 1; i < kBlockWeights; ++i) {
      least = values[i] < least ? values[i] : least;
      largest = values[i] > largest ? values[i] : largest;
    }
    const float scale = (largest - least) / static_cast<float>(Codes::kCodes - 1);
    const float inverse = reciprocal(scale);
    put_half(block.d, scale);
    put_half(block.m, least);
    for (int i = 0; i < kBlockWeights; ++i) {
      const auto code = static_cast<int>((values[i] - least) * inverse + 0.5F);
      Codes::put(bytes, i, std::min(code, Codes::kCodes - 1));
    }
  } else if constexpr (std::is_same_v<Block, Q8_0Block>) {
    const float scale = std::fabs(extreme_of(values)) / 127.0F;
    const float inverse = reciprocal(scale);
    put_half(block.d, scale);
    for (int i = 0; i < kBlockWeights; ++i) {
      Codes::put(bytes, i, Codes::kZero + scalar::nearest_away(values[i] * inverse));
    }
  } else {
    constexpr auto kZero = static_cast<float>(Codes::kZero);
    const float scale = extreme_of(values) / -kZero;
    const float inverse = reciprocal(scale);
    put_half(block.d, scale);
    for (int i = 0; i < kBlockWeights; ++i) {
      const auto code = static_cast<int>(values[i] * inverse + (kZero + 0.5F));
      Codes::put(bytes, i, std::min(code, Codes::kCodes - 1));
    }
  }
}

template <typename Block>
bool put_one(std::uint8_t* bytes, int index, float value) {
  using Codes = CodesOf<Block>;
  if (Block::decode_one(bytes, index) == value) {
    return true;  // under a scale of zero too, which nothing can be divided by
  }
  const auto& block = *reinterpret_cast<const Block*>(bytes);
  const double scale = half_to_float(load_as<std::uint16_t>(block.d));
  double minimum = 0.0;
  if constexpr (kHasMinimum<Block>) {
    minimum = half_to_float(load_as<std::uint16_t>(block.m));
  }
  const double code =
      std::nearbyint((static_cast<double>(value) - minimum) / scale) + double{Codes::kZero};
  if (!(code >= 0.0 && code < double{Codes::kCodes})) {
    return false;
  }
  Codes::put(bytes, index, static_cast<int>(code));
  return true;
}

}  // namespace

bool has_block_encoder(ElementType type) {
  return type == ElementType::kQ4_0 || type == ElementType::kQ4_1 || type == ElementType::kQ5_0 ||
         type == ElementType::kQ5_1 || type == ElementType::kQ8_0;
}

void encode_block(ElementType type, const float* values, std::uint8_t* block) {
  visit_block(type, [&]<typename Block>(Block /*type*/) { encode<Block>(values, block); });
}

void decode_block(ElementType type, const std::uint8_t* block, float* values) {
  visit_block(type, [&]<typename Block>(Block /*type*/) { Block::decode_all(block, values); });
}

float block_step(ElementType type, const std::uint8_t* block) {
  return visit_block(type, [&]<typename Block>(Block /*type*/) {
    return std::fabs(half_to_float(load_as<std::uint16_t>(block)));  // d comes first in all of them
  });
}

bool put_nearest(ElementType type, std::uint8_t* block, int index, float value) {
  return visit_block(
      type, [&]<typename Block>(Block /*type*/) { return put_one<Block>(block, index, value); });
}

}  // namespace vindex::decode
