// Owns the angles of a sample of values, whatever matrix or vector they are of: theta_seed, the
// published heuristic of the shape of a histogram, and theta_qq, the angle to the normal law.
//
// theta_seed follows the published description (histogram entropy, excess kurtosis, scatter of the
// spacings of the sorted sample, combined to [0, 90] degrees); its exact formula was never
// published, so bins, weights and scales are this project's. It says how far the histogram is from
// a flat one, and nothing of the matrix: shuffling all entries does not change it, one outlier of
// 50 standard deviations among 100,000 takes it from 21 to 75 degrees, and it grows with the
// sample.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace vindex::statistics {

inline constexpr std::int64_t kMaxSampled = 100000;
inline constexpr std::int64_t kMinSampled = 4;
inline constexpr std::int32_t kSeedBins = 256;
inline constexpr double kEntropyWeight = 0.30, kKurtosisWeight = 0.50, kSpacingWeight = 0.20;

/// The sample of `count` values in storage order: numbers 0, stride, 2 stride, ... of them.
std::int64_t sample_stride(std::int64_t count);
std::int64_t sample_size(std::int64_t count);

struct SampleAngles {
  double theta_seed = std::numeric_limits<double>::quiet_NaN();  ///< degrees, 0 to 90
  /// Shannon entropy of kSeedBins equal bins from the least to the greatest value, over its
  /// maximum: 0 to 1.
  double entropy = std::numeric_limits<double>::quiet_NaN();
  double kurtosis = std::numeric_limits<double>::quiet_NaN();  ///< excess, 0 for the normal law
  /// Standard deviation over mean of the differences of neighbours in the sorted sample.
  double spacing_cv = std::numeric_limits<double>::quiet_NaN();
  /// arccos of the correlation of the sorted sample with normal quantiles at Filliben's positions
  /// (Technometrics 17, 1975), degrees: 0 for the normal law. Where asked for.
  double theta_qq = std::numeric_limits<double>::quiet_NaN();
  std::int64_t count = 0;    ///< of the sample
  bool is_constant = false;  ///< theta_seed is 0 by definition, all else NaN
};

/// Of `sample`, which is left sorted. NaN throughout for fewer than kMinSampled values and where
/// one is not finite. Cost: about a millisecond for kMaxSampled values, and five with theta_qq.
SampleAngles sample_angles(std::vector<float>& sample, bool with_qq);

/// theta_seed = 90 (0.30 (1 - entropy) + 0.50 (1 - exp(-abs(kurtosis)/3)) + 0.20 (1 - 1/max(cv,
/// 1))).
double theta_seed_of(double entropy, double kurtosis, double spacing_cv);

/// Means over samples of `count` independent normal numbers, count >= kMinSampled: tabulated
/// draws, linear in ln(count) between them, to 0.2 degrees (theta_qq: 2 %).
double theta_seed_null(std::int64_t count);
double theta_qq_null(std::int64_t count);

/// Sorts ascending, without NaN, in time proportional to the length; -0 stands before 0.
void sort_values(std::vector<float>& values);

}  // namespace vindex::statistics
