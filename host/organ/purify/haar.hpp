// Owns the orthonormal Haar transform of a line of numbers: details of `levels` scales and what is
// left above them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vindex::organ {

/// The transform of some values, padded with zeros to a power of two.
class HaarBands {
 public:
  /// At most `levels` scales: as many as the padded length has.
  HaarBands(std::span<const float> values, std::int32_t levels);
  std::int32_t levels() const { return levels_; }
  /// Details of scale 2^(level+1) values, (padded length) / 2^(level+1) of them, in order.
  std::span<double> detail(std::int32_t level);
  std::span<const double> detail(std::int32_t level) const;
  /// The values again (the first ones of the padded length); the bands are used up.
  void invert(std::span<float> out);

 private:
  std::vector<double> bands_;  // sums of the coarsest scale, then details, coarsest first
  std::int32_t levels_ = 0;
};

}  // namespace vindex::organ
