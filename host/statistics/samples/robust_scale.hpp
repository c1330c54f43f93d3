// Owns how far values lie from the others of their group, by order statistics that the far ones do
// not move, and how far the farthest of a group lies by chance.
#pragma once

#include <cstdint>
#include <vector>

namespace vindex::statistics {

/// 1 / 0.6745: makes the median absolute deviation of a normal law its standard deviation.
inline constexpr double kOfMad = 1.4826;

/// 1.4826 times the median absolute deviation of `values` from `median`: the standard deviation of
/// a normal law. Where more than half of them are equal, 1.2533 times the mean absolute deviation;
/// 0 where all are.
double robust_scale(const std::vector<double>& values, double median);

/// (value - median) / robust_scale() of each; 0 everywhere where the scale is 0. No NaN may be
/// among them.
std::vector<double> robust_scores(const std::vector<double>& values);

/// The 95 % point of the largest absolute robust_scores() of `count` independent normal values:
/// drawn (2^21 / count times, 4,000 to 20,000), the same at every call. NaN below 3 values.
double largest_score_q95(std::int64_t count);

/// The same of what is largest in each row of a symmetric matrix of `count` rows, off its diagonal:
/// of (largest of the row - median of them) / robust_scale() of all numbers above the diagonal,
/// these independent and normal.
///
/// Why not robust_scores() of the rows' largest: two rows share each of them, few are different, so
/// that their own scale is that of a handful of values and often nearly 0; and their law is skewed.
/// Drawn up to 32 rows; above, rows are nearly independent: the largest number by its law, less the
/// median of the rows' largest. NaN below 3 rows.
double largest_nearest_q95(std::int64_t count);

}  // namespace vindex::statistics
