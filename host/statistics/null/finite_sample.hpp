// Owns what a sample drawn without replacement says of the finite population it is of: mean and
// quantiles with standard errors and 95 % intervals, and which matrices of a group are such a
// sample at all.
//
// Mean: its standard error is s / sqrt(n) sqrt(1 - n / N), without bias for any population
// (Cochran, Sampling Techniques, 1977, 2.5). Its interval is for any population too, of values in a
// range that is known: the ranks that the sorted sample has among the population are a random
// subset, so that with 97.5 % every value of the sample has at least so many of the population at
// or below it. The others lie at the end of the range at worst (Anderson 1969, with ranks in place
// of Kolmogorov's band, so that the finite population counts). Without a range there is no such
// interval.
//
// Why not Student's: it holds for normal values. A layer of 384 experts with three extreme ones is
// drawn without any of them in seven of eight samples of 16, which look normal and lie far off.
//
// Quantiles: how many of the R lowest values of the population are in the sample is hypergeometric,
// whatever the values. So an interval between two values of the sample holds the quantile with at
// least 95 % exactly (Wilks, Mathematical Statistics, 1962, 11.3; the inversion of Woodruff 1952
// without its normal approximation), and the standard error is the root mean square distance of the
// estimate from the place that the law gives the quantile (Maritz and Jarrett 1978 for infinite
// populations), anywhere between two values of the sample with the same chance and beyond the last
// one as far as the one before it is away.
//
// Why not the middle between two values, as Maritz and Jarrett: in a layer of two kinds of experts
// the quantile is of one kind or the other, and the middle halves the distance.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace vindex::statistics {

/// A figure of a population, estimated. NaN: not defined, or not known from so few values.
struct Estimate {
  double value = std::numeric_limits<double>::quiet_NaN();
  double error = std::numeric_limits<double>::quiet_NaN();  ///< standard error
  /// 95 % interval; NaN at an end where the sample gives no bound.
  double low = std::numeric_limits<double>::quiet_NaN();
  double high = std::numeric_limits<double>::quiet_NaN();
};

/// What every value of a population lies between; NaN: nothing is known at that end.
struct ValueRange {
  double low = std::numeric_limits<double>::quiet_NaN();
  double high = std::numeric_limits<double>::quiet_NaN();
};

/// The mean of a population of which `values` are a simple random sample and `untried` >= 0 more
/// were not looked at; all lie in `range`. NaN among the values stand for members without one: they
/// are in neither. The interval holds in 95 % of samples or more, whatever the values are; an end
/// without a range is NaN. With nothing untried the error is 0 and the interval a point; of one
/// value alone there is no error. Cost: the first of each n and N takes 30 n N steps.
Estimate estimate_mean(std::span<const double> values, std::int64_t untried,
                       const ValueRange& range = {});

/// The least ranks, from 1, of n sorted sample values among `population`: with at least 97.5 % all
/// n of a simple random sample are at these or above. Each alone is undercut with the same chance.
/// 1 <= n < population.
std::vector<std::int64_t> least_ranks(std::int64_t n, std::int64_t population);

/// The same of quantile `q` in [0, 1], in sample and population by quantile() (metrics.hpp). There
/// is no error where the quantile lies beyond the sample with a chance above kMostOutside.
Estimate estimate_quantile(std::span<const double> values, double q, std::int64_t untried);
inline constexpr double kMostOutside = 0.4;

/// A matrix of a group: its place in the draw, of how many (-1: of none), and whether it has an
/// outcome, a measurement or a failure.
struct DrawnMember {
  std::int32_t draw = -1, draw_of = -1;
  bool is_tried = false;
};

/// Which members of a group are a simple random sample of it.
struct DrawnGroup {
  std::int64_t total = 0;  ///< matrices of the group in the model; 0: nothing was drawn
  /// The first places of the draw, all of which were tried; `total` where every member was. What
  /// lies behind a place that was not is left out: what a stopped run was still at is what takes
  /// long.
  std::int64_t tried = 0;
  bool is_drawn() const { return total > 0; }
  bool is_whole() const { return is_drawn() && tried == total; }
  std::int64_t untried() const { return total - tried; }
  bool holds(std::int32_t draw) const { return is_whole() || (draw >= 0 && draw < tried); }
};
DrawnGroup drawn_group(std::span<const DrawnMember> members);

}  // namespace vindex::statistics
