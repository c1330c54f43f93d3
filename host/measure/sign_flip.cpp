#include "sign_flip.hpp"

#include <vindex/core/philox.hpp>

namespace vindex::measure {
namespace {

constexpr std::uint64_t kBitsPerBlock = 128;

/// Signs of logical elements first, first + 1, ... first + count - 1, applied to values[0],
/// values[step], ...
void flip_run(float* values, std::int64_t count, std::int64_t step, std::uint64_t first,
              std::uint64_t key) {
  PhiloxBlock bits{};
  std::uint64_t block = 0;
  bool have_block = false;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t element = first + static_cast<std::uint64_t>(i);
    if (const std::uint64_t wanted = element / kBitsPerBlock; !have_block || wanted != block) {
      block = wanted;
      have_block = true;
      bits = philox_block(key, block);
    }
    const auto bit = static_cast<std::uint32_t>(element % kBitsPerBlock);
    const std::uint32_t sign = (bits.word[bit / 32U] >> (bit % 32U)) & 1U;
    float& value = values[i * step];
    value = bits_as<float>(bits_as<std::uint32_t>(value) ^ (sign << 31U));
  }
}

}  // namespace

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
