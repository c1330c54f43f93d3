// Owns what WeightWatcher's columns mean where this project measures something else: its power-law
// estimator of small samples, its Marchenko-Pastur fit, its determinant constraint. Source:
// WeightWatcher 0.7.7 (PyPI): WW_powerlaw.py, RMT_Util.py, weightwatcher.py.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

namespace vindex::report {

inline constexpr double kAbsent = std::numeric_limits<double>::quiet_NaN();

/// Fewer eigenvalues than these are fitted by fit_small_power_law().
inline constexpr std::size_t kSmallSample = 20;

struct SmallPowerLaw {
  double alpha = kAbsent, xmin = kAbsent, ks = kAbsent, tail = kAbsent;
};

/// WeightWatcher's estimator below 20 eigenvalues, of positive `ascending`: alpha = 1 + (m - 1) /
/// sum ln(x_j / x_min), its maximum-likelihood estimate corrected for bias, over tails of m >= 8
/// values, x_min by least D (the first of equals). With fewer than 8 values all of them are the
/// tail. (It also computes an objective D - 0.868 / sqrt(m), which its constructor then passes
/// over.)
SmallPowerLaw fit_small_power_law(std::span<const double> ascending);

struct BulkFit {
  double spikes = kAbsent;    ///< num_spikes: above bulk_max and the root of a Tracy-Widom scale
  double sigma = kAbsent;     ///< sigma_mp, of eigenvalues scaled to mean 1
  double softrank = kAbsent;  ///< bulk_max / lambda_max
  double bulk_min = kAbsent, bulk_max = kAbsent;  ///< in the units of `ascending`
  double scale = kAbsent;                         ///< W_scale: its square gives mean 1
};

/// WeightWatcher's Marchenko-Pastur fit of all eigenvalues of a matrix of shorter side p =
/// ascending.size() and longer side `longer`: sigma by least squares between a linear-kernel
/// density (bandwidth 0.1, 1000 points, those above 0.01) and the law; the quarter-circle law on
/// roots where the matrix is square. Grid search, then Nelder-Mead with tolerance 1e-4, as scipy's
/// `brute` does. All absent where there is nothing to fit.
BulkFit fit_bulk(std::span<const double> ascending, std::int64_t longer);

struct DeterminantFit {
  double count = kAbsent;     ///< detX_num
  double value = kAbsent;     ///< detX_val: the smallest eigenvalue of that tail
  double rescaled = kAbsent;  ///< detX_val_unrescaled: the same of eigenvalues of mean 1
};

/// The shortest tail, from the largest, whose product is below 1 when the mean is 1. By sums of
/// logarithms: WeightWatcher's products overflow from some 4,000 eigenvalues.
DeterminantFit fit_determinant(std::span<const double> ascending);

}  // namespace vindex::report
