// Owns what is said of the cosines of a group beside what independent noise gives, and the law of
// the largest of many independent normal numbers, which one of the nulls is.
#pragma once

#include "core/constants.hpp"

#include <cstdint>
#include <limits>
#include <vector>

namespace vindex::statistics {

struct LargestNormal {
  double mean = 0.0, deviation = 1.0;
};

/// Mean and standard deviation of the largest of `count` (at least 1) independent standard normal
/// numbers, by quadrature to 1e-10: with t = count x (-ln of the distribution function at the
/// largest), which is exponential, both are integrals of exp(-t). 0 and 1 for one number.
LargestNormal largest_normal(double count);

/// Off-diagonal cosines of a group.
struct CosineSummary {
  double mean = std::numeric_limits<double>::quiet_NaN();
  double max = std::numeric_limits<double>::quiet_NaN();
  std::int64_t expert = -1, other = -1;  ///< of `max`, expert < other; -1: there is none
  /// Of independent noise, mean and standard deviation: of the cosine of one pair, of the mean over
  /// all pairs, of the largest of them.
  double null = std::numeric_limits<double>::quiet_NaN();
  double null_sd = std::numeric_limits<double>::quiet_NaN();
  double null_mean = std::numeric_limits<double>::quiet_NaN();
  double null_mean_sd = std::numeric_limits<double>::quiet_NaN();
  double null_most = std::numeric_limits<double>::quiet_NaN();
  double null_most_sd = std::numeric_limits<double>::quiet_NaN();
};

/// The nulls of cosines of `experts` experts of `length` weights of independent noise each,
/// whatever their norms. One pair: 0 and 1/sqrt(length). The mean over E(E-1)/2 pairs, which are
/// uncorrelated: 0 and sqrt(2/(E(E-1) length)). The largest: of as many independent normal numbers
/// (largest_normal()). NaN below two experts. Of centred ones: expert_nulls.hpp.
void fill_plain_nulls(std::int64_t experts, double length, CosineSummary& summary);

struct DrawnStatistic {
  double mean = kNaN, deviation = kNaN;
};

}  // namespace vindex::statistics
