// Owns how far values lie from the others of their group, by order statistics that the far ones do
// not move, and how far the farthest of a group lies by chance.
#pragma once

#include <cstdint>
#include <vector>

namespace vindex::measure {

/// 1.4826 times the median absolute deviation of `values` from `median`: the standard deviation of
/// a normal law. Where more than half of them are equal, 1.2533 times the mean absolute deviation;
/// 0 where all are.
double robust_scale(const std::vector<double>& values, double median);

/// (value - median) / robust_scale() of each; 0 everywhere where the scale is 0. No NaN may be
/// among them.
std::vector<double> robust_scores(const std::vector<double>& values);

/// The 95 % point of the largest absolute robust_scores() of `count` independent normal values:
/// drawn, the same at every call. NaN below 3 values.
double largest_score_q95(std::int64_t count);

}  // namespace vindex::measure
