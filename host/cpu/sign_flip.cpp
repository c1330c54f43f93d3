#include "sign_flip.hpp"

#include <vindex/core/philox.hpp>

#include <algorithm>

namespace vindex::cpu {
namespace {

constexpr std::uint64_t kBitsPerBlock = 128;

/// Signs of logical elements first, first + 1, ... first + count - 1, applied to values[0],
/// values[step], ...
void flip_run(float* values, std::int64_t count, std::int64_t step, std::uint64_t first,
              const SignFlipPlace& place) {
  std::int64_t done = 0;
  while (done < count) {
    const std::uint64_t element = first + static_cast<std::uint64_t>(done);
    const PhiloxBlock bits = philox_block(place.key, element / kBitsPerBlock, place.draw);
    auto bit = static_cast<std::uint32_t>(element % kBitsPerBlock);
    while (bit < kBitsPerBlock && done < count) {
      // What is left of one word, in a loop that a compiler turns into vectors.
      const std::uint32_t word = bits.word[bit / 32U] >> (bit % 32U);
      const auto run = static_cast<std::uint32_t>(
          std::min<std::int64_t>(count - done, 32 - static_cast<std::int64_t>(bit % 32U)));
      float* const from = values + done * step;
      for (std::uint32_t i = 0; i < run; ++i) {
        float& value = from[static_cast<std::int64_t>(i) * step];
        value = bits_as<float>(bits_as<std::uint32_t>(value) ^ (word >> i & 1U) << 31U);
      }
      bit += run;
      done += run;
    }
  }
}

}  // namespace

void flip_signs(float* values, std::int64_t rows, std::int64_t cols, std::int64_t stride,
                const SignFlipPlace& place) {
  if (!place.transposed) {
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto first =
          static_cast<std::uint64_t>((place.first_row + r) * place.whole_cols + place.first_col);
      flip_run(values + r * stride, cols, 1, first, place);
    }
    return;
  }
  for (std::int64_t c = 0; c < cols; ++c) {
    const auto first =
        static_cast<std::uint64_t>((place.first_col + c) * place.whole_rows + place.first_row);
    flip_run(values + c, rows, stride, first, place);
  }
}

}  // namespace vindex::cpu
