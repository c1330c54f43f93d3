#include "sign_flip.hpp"

#include <vindex/core/portable.hpp>

namespace vindex::measure {
namespace {

constexpr std::uint64_t kMultiplier0 = 0xD2511F53U;
constexpr std::uint64_t kMultiplier1 = 0xCD9E8D57U;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9U;
constexpr std::uint32_t kWeyl1 = 0xBB67AE85U;
constexpr int kRounds = 10;
constexpr std::uint64_t kBitsPerBlock = 128;

/// Signs of logical elements first, first + 1, ... first + count - 1, applied to values[0],
/// values[step], ...
void flip_run(float* values, std::int64_t count, std::int64_t step, std::uint64_t first,
              std::uint64_t key) {
  const std::array<std::uint32_t, 2> key_words = {static_cast<std::uint32_t>(key),
                                                  static_cast<std::uint32_t>(key >> 32U)};
  std::array<std::uint32_t, 4> bits{};
  std::uint64_t block = 0;
  bool have_block = false;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t element = first + static_cast<std::uint64_t>(i);
    if (const std::uint64_t wanted = element / kBitsPerBlock; !have_block || wanted != block) {
      block = wanted;
      have_block = true;
      bits = philox4x32_10(
          {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32U), 0, 0},
          key_words);
    }
    const auto bit = static_cast<std::uint32_t>(element % kBitsPerBlock);
    const std::uint32_t sign = (bits[bit / 32U] >> (bit % 32U)) & 1U;
    float& value = values[i * step];
    value = bits_as<float>(bits_as<std::uint32_t>(value) ^ (sign << 31U));
  }
}

}  // namespace

std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> counter,
                                           std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = kMultiplier0 * counter[0];
    const std::uint64_t product1 = kMultiplier1 * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32U) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32U) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

void flip_signs(float* values, std::int64_t rows, std::int64_t cols, std::int64_t stride,
                const SignFlipPlace& place) {
  if (!place.transposed) {
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto first =
          static_cast<std::uint64_t>((place.first_row + r) * place.whole_cols + place.first_col);
      flip_run(values + r * stride, cols, 1, first, place.key);
    }
    return;
  }
  for (std::int64_t c = 0; c < cols; ++c) {
    const auto first =
        static_cast<std::uint64_t>((place.first_col + c) * place.whole_rows + place.first_row);
    flip_run(values + c, rows, stride, first, place.key);
  }
}

}  // namespace vindex::measure
