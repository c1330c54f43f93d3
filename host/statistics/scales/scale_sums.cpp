// Owns the random signs, and figures of both sequences.
#include "scale_sums.hpp"

#include "core/philox.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>

namespace vindex::statistics {

void flip_scale_signs(std::uint64_t key, std::int64_t first, std::span<float> weights) {
  constexpr std::uint64_t kWordBits = 32;
  static constexpr std::array<std::uint32_t, kWordBits> kBits = [] {
    std::array<std::uint32_t, kWordBits> bits = {};
    for (std::uint32_t i = 0; i < kWordBits; ++i) {
      bits[i] = 1U << i;
    }
    return bits;
  }();
  auto place = static_cast<std::uint64_t>(first);
  PhiloxBlock block;
  std::uint64_t number = ~std::uint64_t{0};
  while (!weights.empty()) {
    if (place / 128 != number) {
      number = place / 128;
      block = philox_block(key, number, 0);
    }
    const std::uint32_t word = block.word[place % 128 / kWordBits];
    const std::uint64_t bit = place % kWordBits;
    const auto run = std::min<std::size_t>(weights.size(), kWordBits - bit);
    const auto flip = [&](std::size_t i) {
      const std::uint32_t mask = kBits[bit + i];
      weights[i] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(weights[i]) ^
                                        ((word & mask) == mask ? 0x80000000U : 0U));
    };
    if (run == kWordBits) {
      for (std::size_t i = 0; i < kWordBits; ++i) {
        flip(i);
      }
    } else {
      for (std::size_t i = 0; i < run; ++i) {
        flip(i);
      }
    }
    weights = weights.subspan(run);
    place += run;
  }
}

ScaleSums::ScaleSums(std::int64_t size, std::optional<std::uint64_t> sign_key)
    : size_(size), sign_key_(sign_key), plain_(size) {
  if (sign_key) {
    flipped_.emplace(size);
    permuted_.emplace(size);
  }
}

void ScaleSums::add(std::int64_t first, std::span<float> weights) {
  plain_.add(first, weights);
  if (sign_key_) {
    permuted_->add(first, weights);
    flip_scale_signs(*sign_key_, first, weights);
    flipped_->add(first, weights);
  }
}

ScaleFigures ScaleSums::figures() const {
  if (!is_finite()) {
    return scale_nulls(size_);
  }
  ScaleFigures out = scale_figures(size_, plain_.levels());
  if (flipped_) {
    const ScaleFigures flipped = scale_figures(size_, flipped_->levels());
    out.z_modulus_signflip = flipped.z_modulus;
    out.csci_signflip = flipped.csci;
    permuted_->fill(out);
  }
  return out;
}

}  // namespace vindex::statistics
