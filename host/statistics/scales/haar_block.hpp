// Owns the Haar pyramid of one block of weights: sums over its differences, level by level.
//
// A block of 1024 weights is eight stretches of 128, one for each of eight fixed float64 lanes, so
// that seven of its ten levels need no exchange between lanes. Its bits depend on the weights
// alone, whatever the processor's vectors: no operation is fused, lanes are added as a fixed tree.
#pragma once
#include "decode/simd_level.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace vindex::statistics {

inline constexpr std::size_t kHaarBlockLevels = 10;
inline constexpr std::int64_t kHaarBlock = std::int64_t{1} << kHaarBlockLevels;

/// With S the sums of 2^(j-1) neighbours, element j - 1 of the arrays is of level j and D the
/// differences abs(S_2k - S_2k+1): 2^(j/2) times the coefficients of the orthonormal transform. A
/// sum of a block with a weight that is not finite is not finite either.
struct HaarBlock {
  std::array<double, kHaarBlockLevels> squares = {};     ///< sum of D^2
  std::array<double, kHaarBlockLevels> magnitudes = {};  ///< sum of D
  /// Sum over the D of the level above (of its parents) times the D of their two halves.
  std::array<double, kHaarBlockLevels> products = {};
  double sum = 0.0;         ///< of all weights
  double difference = 0.0;  ///< D of the last level
};

/// Of kHaarBlock weights.
HaarBlock haar_block(const float* weights);
/// With the variant forced (tests, benchmarks). Errors: expects() on a level that this processor
/// cannot run.
HaarBlock haar_block_at(decode::SimdLevel level, const float* weights);

/// Of fewer weights, at the end of a sequence: level j has size / 2^j differences, rounded down;
/// what remains is left out. `sum` and `difference` stay 0.
struct HaarRest : HaarBlock {
  /// D of the last one of a level that has an odd number: it has no parent.
  std::array<double, kHaarBlockLevels> unpaired = {};
};
HaarRest haar_rest(std::span<const float> weights);

}  // namespace vindex::statistics
