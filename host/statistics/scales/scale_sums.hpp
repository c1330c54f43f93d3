// Owns the sums over scales of a sequence of weights that comes in pieces: as they are, of the
// same magnitudes with random signs, and of the same values in no order.
#pragma once

#include "haar_pyramid.hpp"
#include "permuted_scales.hpp"
#include "scale_figures.hpp"

#include <cstdint>
#include <optional>
#include <span>

namespace vindex::statistics {

/// Flips the signs of weights [first, first + weights.size()) of a sequence: bit i mod 128 of
/// Philox block i div 128 of `key`, as draw 0 of the sign-flip null does for a matrix that is
/// stored as it is meant.
void flip_scale_signs(std::uint64_t key, std::int64_t first, std::span<float> weights);

/// Takes a sequence of weights in pieces, as HaarPyramid does: as they are and, where there is a
/// key, with random signs and in no order.
class ScaleSums {
 public:
  ScaleSums(std::int64_t size, std::optional<std::uint64_t> sign_key);
  /// Leaves `weights` with other signs where there is a key.
  void add(std::int64_t first, std::span<float> weights);
  bool is_complete() const { return plain_.is_complete(); }
  bool is_finite() const { return plain_.is_finite(); }
  /// Of all weights; NaN but for the nulls where one is not finite.
  ScaleFigures figures() const;

 private:
  std::int64_t size_;
  std::optional<std::uint64_t> sign_key_;
  HaarPyramid plain_;
  std::optional<HaarPyramid> flipped_;
  std::optional<PermutedScales> permuted_;
};

}  // namespace vindex::statistics
