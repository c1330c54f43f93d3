// Owns the transform and its inverse, level by level.
#include "purify/haar.hpp"

#include <vindex/core/error.hpp>

#include <algorithm>
#include <bit>
#include <numbers>

namespace vindex::organ {
namespace {
constexpr double kRootHalf = 0.5 * std::numbers::sqrt2;
}

HaarBands::HaarBands(std::span<const float> values, std::int32_t levels)
    : bands_(std::bit_ceil(values.size())) {
  std::copy(values.begin(), values.end(), bands_.begin());
  std::vector<double> differences(bands_.size() / 2);
  for (std::size_t length = bands_.size(); levels_ < levels && length > 1; length /= 2) {
    for (std::size_t i = 0; i < length / 2; ++i) {
      const double even = bands_[2 * i];
      const double odd = bands_[2 * i + 1];
      bands_[i] = (even + odd) * kRootHalf;
      differences[i] = (even - odd) * kRootHalf;
    }
    std::copy_n(differences.begin(), length / 2,
                bands_.begin() + static_cast<std::ptrdiff_t>(length / 2));
    ++levels_;
  }
}

std::span<double> HaarBands::detail(std::int32_t level) {
  expects(level >= 0 && level < levels_, "HaarBands: a level that is there");
  const std::size_t count = bands_.size() >> static_cast<unsigned>(level + 1);
  return std::span(bands_).subspan(count, count);
}

std::span<const double> HaarBands::detail(std::int32_t level) const {
  expects(level >= 0 && level < levels_, "HaarBands: a level that is there");
  const std::size_t count = bands_.size() >> static_cast<unsigned>(level + 1);
  return std::span(bands_).subspan(count, count);
}

void HaarBands::invert(std::span<float> out) {
  expects(out.size() <= bands_.size(), "HaarBands: no more values than there were");
  std::vector<double> sums(bands_.size() / 2);
  for (; levels_ > 0; --levels_) {
    const std::size_t half = bands_.size() >> static_cast<unsigned>(levels_);
    std::copy_n(bands_.begin(), half, sums.begin());
    for (std::size_t i = 0; i < half; ++i) {
      // bands_[half + i] is read before any entry of an index so large is written.
      const double difference = bands_[half + i];
      bands_[2 * i] = (sums[i] + difference) * kRootHalf;
      bands_[2 * i + 1] = (sums[i] - difference) * kRootHalf;
    }
  }
  std::transform(bands_.begin(), bands_.begin() + static_cast<std::ptrdiff_t>(out.size()),
                 out.begin(), [](double value) { return static_cast<float>(value); });
}

}  // namespace vindex::organ
