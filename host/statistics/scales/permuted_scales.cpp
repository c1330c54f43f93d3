// Owns the choice of the weights of a sample by steps through the matrix, their permutation, and
// the pyramids over both orders.
#include "permuted_scales.hpp"

#include "haar_pyramid.hpp"

#include "statistics/samples/random_draws.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace vindex::statistics {

namespace {

constexpr std::uint64_t kPermutedKey = 0x7065726D757465;  // of these draws alone

std::int64_t stride_of(std::int64_t size) {
  return (size + PermutedScales::kMostPermuted - 1) / PermutedScales::kMostPermuted;
}

/// Bits of a number that look like none of its own (Steele, Lea and Flood 2014, splitmix64).
std::uint64_t scattered(std::uint64_t number) {
  std::uint64_t bits = (number + 1) * 0x9E3779B97F4A7C15U;
  bits = (bits ^ (bits >> 30U)) * 0xBF58476D1CE4E5B9U;
  bits = (bits ^ (bits >> 27U)) * 0x94D049BB133111EBU;
  return bits ^ (bits >> 31U);
}

}  // namespace

PermutedScales::PermutedScales(std::int64_t size)
    : size_(size),
      stride_(stride_of(size)),
      values_(size < kLeastScaled ? 0 : static_cast<std::size_t>(size / stride_)) {}

std::uint64_t PermutedScales::bytes_of(std::int64_t size) {
  // The values, a permutation of them, and its pyramid.
  return 2 * sizeof(float) * static_cast<std::uint64_t>(std::min(size, kMostPermuted)) +
         HaarPyramid::bytes_in_order(std::min(size, kMostPermuted));
}

std::int64_t PermutedScales::place_of(std::int64_t number) const {
  // Anywhere in its stretch: equal steps would meet the same columns in every row.
  return number * stride_ +
         static_cast<std::int64_t>(scattered(static_cast<std::uint64_t>(number)) %
                                   static_cast<std::uint64_t>(stride_));
}

void PermutedScales::add(std::int64_t first, std::span<const float> weights) {
  const std::int64_t end = first + static_cast<std::int64_t>(weights.size());
  const auto count = static_cast<std::int64_t>(values_.size());
  for (std::int64_t i = first / stride_; i < count && i * stride_ < end; ++i) {
    const std::int64_t place = place_of(i);
    if (place >= first && place < end) {
      values_[static_cast<std::size_t>(i)] = weights[static_cast<std::size_t>(place - first)];
    }
  }
}

void PermutedScales::fill(ScaleFigures& figures) const {
  if (values_.empty()) {
    return;
  }
  std::vector<float> values = values_;
  const auto size = static_cast<std::int64_t>(values.size());
  double sum = 0.0;
  double squares = 0.0;
  for (std::int64_t draw = 0; draw < kPermutations; ++draw) {
    DrawStream stream(kPermutedKey ^ static_cast<std::uint64_t>(size_),
                      static_cast<std::uint64_t>(draw));
    for (std::size_t i = values.size() - 1; i > 0; --i) {  // Fisher and Yates
      std::swap(values[i], values[stream.below(i + 1)]);
    }
    HaarPyramid pyramid(size);
    pyramid.add(0, values);
    const double csci = scale_figures(size, pyramid.levels()).csci;
    sum += csci;
    squares += csci * csci;
  }
  constexpr auto kCount = static_cast<double>(kPermutations);
  figures.csci_permuted = sum / kCount;
  figures.csci_permuted_sd =
      std::sqrt(std::max(0.0, squares - sum * figures.csci_permuted) / (kCount - 1.0));
}

}  // namespace vindex::statistics
