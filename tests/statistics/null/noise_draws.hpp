// Owns drawn noise without its matrices: singular values of Gaussian matrices by the bidiagonal
// model, and what their metrics are on average, with the draws' own error.
#pragma once
#include "statistics/spectrum/metric_table.hpp"

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace vindex::test {

/// Singular values, descending, of a p x n matrix of independent standard normal numbers (p <= n).
/// Householder reflections turn such a matrix into a bidiagonal one of independent chi variables
/// (Silverstein 1985; Dumitriu and Edelman 2002), so that no matrix is needed.
std::vector<double> noise_singular_values(std::int64_t p, std::int64_t n, std::mt19937_64& engine);

/// Mean over draws, and the standard error of that mean.
struct DrawnMean {
  std::string metric;  ///< as a column is called, "var_at_64" for k = 64
  double mean = 0.0;
  double error = 0.0;
};

/// Means of every metric that has a null, and of the outlier counts, over `draws` draws of one
/// shape. A metric that is NaN in a draw is left out.
std::vector<DrawnMean> drawn_means(std::int64_t rows, std::int64_t cols, std::int64_t draws,
                                   std::uint64_t seed);

/// The metric called as in DrawnMean; NaN where there is none.
double value_of(const statistics::MetricValues& values, const std::string& metric);

}  // namespace vindex::test
