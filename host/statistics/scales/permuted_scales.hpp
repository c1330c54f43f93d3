// Owns what csci is of the same weights in no order: its null under a permutation of the values
// within a matrix, which keeps their law and nothing else.
//
// Why beside the closed form: that is of normal weights. Large values are rare in laws of heavy
// tails, so that a large coefficient has a large parent without any order: independent Laplace
// weights have a csci of 0.16, uniform ones -0.13. Why draws and no formula: the figure of a law
// with heavy tails depends on the largest weights that there are.
#pragma once

#include "scale_figures.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace vindex::statistics {

class PermutedScales {
 public:
  /// Values that are permuted: all of a sequence up to this size, else as many, one of each
  /// stretch.
  static constexpr std::int64_t kMostPermuted = std::int64_t{1} << 18U;
  static constexpr std::int64_t kPermutations = 8;

  /// Of a sequence of `size` weights, 1 or more.
  explicit PermutedScales(std::int64_t size);
  /// Weights [first, first + weights.size()) of the sequence, in any order.
  void add(std::int64_t first, std::span<const float> weights);
  /// Of a complete sequence of finite weights: csci_permuted and csci_permuted_sd of `figures`,
  /// mean and standard deviation over the permutations. NaN below kLeastScaled weights and where
  /// csci has no value. The same in every run. Cost: 8 pyramids, 40 ms for 2^18 values.
  void fill(ScaleFigures& figures) const;

  /// Host memory of one: upper bound.
  static std::uint64_t bytes_of(std::int64_t size);

 private:
  std::int64_t place_of(std::int64_t number) const;

  std::int64_t size_, stride_;
  std::vector<float> values_;
};

}  // namespace vindex::statistics
