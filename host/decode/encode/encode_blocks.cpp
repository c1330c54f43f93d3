// Owns encoding weights as blocks of ggml. Scales and minimums are those of ggml src/ggml-quants.c
// (quantize_row_q4_0_ref and its neighbours), stored as F16:
//   Q4_0 Q5_0  scale = the weight of largest magnitude / -8 or -16: negative weights may use the
//              one more code
//   Q4_1 Q5_1  minimum = least weight, scale = (largest - least) / 15 or 31
//   Q8_0       scale = largest magnitude / 127
// ggml chooses codes for the scale before it is rounded to F16; here they are the nearest under
// what is stored (ties as there: up, in Q8_0 away from zero), so that rounding the scale costs as
// little as it can. Where it costs much, the neighbours of the rounded numbers are tried too.
#include "encode_blocks.hpp"

#include "decode/formats/simple_blocks.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

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
  /// All codes at once.
  static void put_all(std::uint8_t* bytes, const std::int32_t* codes) {
    auto& block = *reinterpret_cast<Block*>(bytes);
    for (int j = 0; j < 16; ++j) {
      block.qs[j] = static_cast<std::uint8_t>((codes[j] & 15) | (codes[j + 16] & 15) << 4);
    }
    if constexpr (Codes == 32) {
      std::uint32_t high = 0;
      for (int i = 0; i < 32; ++i) {
        high |= static_cast<std::uint32_t>(codes[i] >> 4) << static_cast<unsigned>(i);
      }
      std::memcpy(block.qh, &high, sizeof high);
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
  static void put_all(std::uint8_t* bytes, const std::int32_t* codes) {
    for (int i = 0; i < 32; ++i) {
      put(bytes, i, codes[i]);
    }
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

void put_half(std::uint8_t* at, std::uint16_t half) { std::memcpy(at, &half, sizeof half); }

std::uint16_t magnitude_of(std::uint16_t half) { return half & 0x7FFFU; }

/// The largest finite half and the smallest with a full mantissa, as bits.
constexpr std::uint16_t kLargestHalf = 0x7BFF;
constexpr std::uint16_t kSmallestNormalHalf = 0x0400;

/// The halves on both sides of a finite value, the same twice where it is one itself: the first is
/// nearer to zero.
std::array<std::uint16_t, 2> halves_around(float value) {
  const std::uint16_t nearest = scalar::to_f16(value);
  const float stored = std::fabs(scalar::from_f16(nearest));
  if (stored == std::fabs(value)) {
    return {nearest, nearest};
  }
  const bool is_outside = stored > std::fabs(value);
  const auto inner = static_cast<std::uint16_t>(is_outside ? nearest - 1 : nearest);
  const bool has_outer = magnitude_of(inner) < kLargestHalf;
  return {inner, static_cast<std::uint16_t>(has_outer ? inner + 1 : inner)};
}

/// The first weight of largest magnitude, with its sign.
float extreme_of(const float* values) {
  float extreme = 0.0F;
  for (int i = 0; i < kBlockWeights; ++i) {
    extreme = std::fabs(values[i]) > std::fabs(extreme) ? values[i] : extreme;
  }
  return extreme;
}

/// Gives every weight the code nearest to it under the scale and minimum that the block holds. Loop
/// by loop, so that each of them becomes vector code.
template <typename Block>
void put_codes(const float* values, std::uint8_t* bytes) {
  using Codes = CodesOf<Block>;
  const auto& block = *reinterpret_cast<const Block*>(bytes);
  const float scale = half_to_float(load_as<std::uint16_t>(block.d));
  float minimum = 0.0F;
  if constexpr (kHasMinimum<Block>) {
    minimum = half_to_float(load_as<std::uint16_t>(block.m));
  }
  // Q8_0 rounds ties away from the code of zero, the others up.
  constexpr bool kIsSymmetric = std::is_same_v<Block, Q8_0Block>;
  constexpr float kFirst = kIsSymmetric ? -128.0F : 0.0F;
  constexpr float kLast = kIsSymmetric ? 127.0F : static_cast<float>(Codes::kCodes - 1);
  constexpr float kOrigin = kIsSymmetric ? 0.0F : static_cast<float>(Codes::kZero);
  // Under a scale of zero every weight has the code of zero.
  const float divisor = scale == 0.0F ? std::numeric_limits<float>::infinity() : scale;
  float quotients[kBlockWeights];
  for (int i = 0; i < kBlockWeights; ++i) {
    quotients[i] = (values[i] - minimum) / divisor + kOrigin;
  }
  std::int32_t codes[kBlockWeights];
  for (int i = 0; i < kBlockWeights; ++i) {
    const float low = quotients[i] > kFirst ? quotients[i] : kFirst;  // a NaN is cut as well
    const float cut = low < kLast ? low : kLast;
    codes[i] = static_cast<std::int32_t>(cut + (kIsSymmetric ? std::copysign(0.5F, cut) : 0.5F)) +
               (kIsSymmetric ? Codes::kZero : 0);
  }
  Codes::put_all(bytes, codes);
}

template <typename Block>
double squared_error(const float* values, const std::uint8_t* bytes) {
  float decoded[kBlockWeights];
  Block::decode_all(bytes, decoded);
  double sum = 0.0;
  for (int i = 0; i < kBlockWeights; ++i) {
    const double difference = static_cast<double>(decoded[i]) - static_cast<double>(values[i]);
    sum += difference * difference;
  }
  return sum;
}

/// A block as it is filled: under each scale and minimum that is tried, and the best so far.
template <typename Block>
class BestBlock {
 public:
  BestBlock(const float* values, std::uint8_t* bytes) : values_(values), bytes_(bytes) {}

  void begin(std::uint16_t scale, std::uint16_t minimum) { fill(scale, minimum, bytes_); }

  /// Takes another scale and minimum where they are nearer to the weights.
  void offer(std::uint16_t scale, std::uint16_t minimum) {
    if (!(least_ >= 0.0)) {
      least_ = squared_error<Block>(values_, bytes_);
    }
    std::uint8_t other[Block::kBytes];
    fill(scale, minimum, other);
    if (const double error = squared_error<Block>(values_, other); error < least_) {
      least_ = error;
      std::memcpy(bytes_, other, sizeof other);
    }
  }

 private:
  void fill(std::uint16_t scale, std::uint16_t minimum, std::uint8_t* bytes) const {
    auto& block = *reinterpret_cast<Block*>(bytes);
    put_half(block.d, scale);
    if constexpr (kHasMinimum<Block>) {
      put_half(block.m, minimum);
    }
    put_codes<Block>(values_, bytes);
  }

  const float* values_;
  std::uint8_t* bytes_;
  double least_ = -1.0;
};

/// Scale and minimum of a block, and their neighbours where rounding moved either of them so far
/// that a weight may be more than a step beyond the codes: scales without a full mantissa, and a
/// minimum far from zero beside the block's range.
template <typename Block>
void encode_with_minimum(const float* values, std::uint8_t* bytes) {
  constexpr auto kSteps = static_cast<float>(CodesOf<Block>::kCodes - 1);
  float least = values[0];
  float largest = values[0];
  for (int i = 1; i < kBlockWeights; ++i) {
    least = values[i] < least ? values[i] : least;
    largest = values[i] > largest ? values[i] : largest;
  }
  const std::uint16_t scale = scalar::to_f16((largest - least) / kSteps);
  const std::uint16_t minimum = scalar::to_f16(least);
  BestBlock<Block> best(values, bytes);
  best.begin(scale, minimum);
  if (magnitude_of(scale) > kLargestHalf || magnitude_of(minimum) > kLargestHalf) {
    return;
  }
  const float moved = std::fabs(scalar::from_f16(minimum) - least);
  const bool is_coarse = largest > least && magnitude_of(scale) < kSmallestNormalHalf;
  if (!is_coarse && moved <= 0.5F * scalar::from_f16(scale)) {
    return;
  }
  for (const std::uint16_t start : halves_around(least)) {
    const float range = std::max(largest - scalar::from_f16(start), 0.0F);
    for (const std::uint16_t step : halves_around(range / kSteps)) {
      best.offer(step, start);
    }
  }
}

template <typename Block>
void encode(const float* values, std::uint8_t* bytes) {
  if constexpr (kHasMinimum<Block>) {
    encode_with_minimum<Block>(values, bytes);
  } else {
    const float extreme = extreme_of(values);
    const float scale = std::is_same_v<Block, Q8_0Block>
                            ? std::fabs(extreme) / 127.0F
                            : extreme / -static_cast<float>(CodesOf<Block>::kZero);
    BestBlock<Block> best(values, bytes);
    const std::uint16_t nearest = scalar::to_f16(scale);
    best.begin(nearest, 0);
    if (extreme != 0.0F && magnitude_of(nearest) < kSmallestNormalHalf) {
      for (const std::uint16_t half : halves_around(scale)) {
        best.offer(half, 0);
      }
    }
  }
}

/// True too where `b` is NaN, which is near nothing.
bool is_nearer(float a, float b, float target) {
  const auto distance = [&](float value) {
    return std::fabs(static_cast<double>(value) - static_cast<double>(target));
  };
  return !(distance(a) >= distance(b));
}

template <typename Block>
bool put_one(std::uint8_t* bytes, int index, float value) {
  using Codes = CodesOf<Block>;
  const float before = Block::decode_one(bytes, index);
  if (before == value) {
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
  constexpr double kLast = Codes::kCodes - 1;
  if (!std::isnan(code)) {
    std::uint8_t trial[Block::kBytes];
    std::memcpy(trial, bytes, sizeof trial);
    Codes::put(trial, index, static_cast<int>(std::clamp(code, 0.0, kLast)));
    // The code that was there stays where it is as near: under a scale of zero, and in a tie.
    if (is_nearer(Block::decode_one(trial, index), before, value)) {
      std::memcpy(bytes, trial, sizeof trial);
    }
  }
  return code >= 0.0 && code <= kLast;
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
