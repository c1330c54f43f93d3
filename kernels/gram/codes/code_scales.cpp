// Owns counting the bits of every scale of a matrix.
#include "code_scales.hpp"

#include "decode/formats/decode_view.hpp"

#include <cmath>
#include <cstring>

namespace vindex::kernels {

namespace {

/// The smallest code is 2^-9, the largest 448: between these bounds every weight but zero is a
/// normal float32.
constexpr float kLeastScale = 0x1p-117F;
constexpr float kMostScale = 0x1p+119F;
/// Bits of a scale below the twenty that a product with four bits leaves exact.
constexpr std::uint32_t kLowBits = 15;

std::size_t bytes_of(decode::ElementType type) {
  switch (type) {
    case decode::ElementType::kF32:
      return 4;
    case decode::ElementType::kF16:
    case decode::ElementType::kBF16:
      return 2;
    default:
      return 1;
  }
}

}  // namespace

CodeScales judge_scales(decode::ElementType type, std::span<const std::byte> scales) {
  CodeScales found = CodeScales::kExact;
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(scales.data());
  const auto count = static_cast<std::int64_t>(scales.size() / bytes_of(type));
  for (std::int64_t i = 0; i < count; ++i) {
    const float scale = decode::load_number(bytes, type, i);
    const float size = std::abs(scale);
    if (!std::isfinite(scale) || size == 0.0F) {
      continue;
    }
    if (size < kLeastScale || size >= kMostScale) {
      return CodeScales::kUnfit;
    }
    std::uint32_t bits = 0;
    std::memcpy(&bits, &scale, sizeof bits);
    if ((bits & kLowBits) != 0) {
      found = CodeScales::kRounded;
    }
  }
  return found;
}

}  // namespace vindex::kernels
