// Owns the Marchenko-Pastur law of iid noise for every aspect ratio 0 < g <= 1. Entry variance 1/n,
// so eigenvalues lie in [(1-sqrt g)^2, (1+sqrt g)^2] and their mean is 1.
//
// With x = 1 + g - 2 sqrt(g) cos(theta), theta in [0, pi] (x = a + (b-a) sin^2(theta/2)), both edge
// singularities vanish: density(x) dx = (2/pi) sin^2(theta) / x dtheta, which integrates to a sum
// of two arctangents: cumulative and quantile need no quadrature. Source of the law: Marchenko and
// Pastur 1967; the integral is derived in host/statistics/spectrum/noise_spectrum.cpp and checked
// against quadrature in the tests.
//
// Also owns the mean spectrum of noise: where the eigenvalues of a matrix of independent Gaussian
// numbers lie on average, at finite size, and how far sums of them scatter.
//
// The mean number of eigenvalues of W W^T / n below x is, for real entries and large p,
//     p F(x) - theta / (2 pi) + 1/4 inside the edges,   x = 1 + g - 2 sqrt(g) cos(theta),
// F the Marchenko-Pastur law: the mean term of Bai and Silverstein's central limit theorem (2004),
// half an arcsine law less a quarter of a value on each edge. The i-th largest value lies where the
// number above is i - 1/2 (in the bulk, where values repel, to a few per cent of their spacing). At
// an edge the same expression gives the means of the Tracy-Widom law and Johnstone's and Ma's
// centring (sqrt(n - 1/2) + sqrt(p - 1/2))^2 by itself: its Airy values -(3 pi (i - 3/4) / 2)^(2/3)
// are -1.115, -3.262, -4.75 beside -1.2065, -3.2624, -4.75, so only the outermost value needs
// moving. Verified against drawn noise in tests/statistics/null/nulls_test.cpp and
// docs/measuring/nulls.md.
#pragma once

#include <cstdint>
#include <vector>

namespace vindex::statistics {

/// The law for one aspect ratio. Immutable, costs nothing to make.
class MarchenkoPastur {
 public:
  explicit MarchenkoPastur(double aspect);  ///< g = p/n in (0, 1]
  double aspect() const { return aspect_; }
  double lower_edge() const;
  double upper_edge() const;
  double cumulative(double x) const;          ///< P(lambda <= x), error below 1e-12 for g > 1e-6
  double quantile(double probability) const;  ///< inverse of cumulative
  double median() const { return quantile(0.5); }
  /// In the angle theta of the substitution above, 0 at the lower edge and pi at the upper one.
  double value_at(double angle) const;
  double probability_below(double angle) const;

 private:
  double angle_of_probability(double probability) const;

  double aspect_;
  double root_;  // sqrt(aspect)
};

/// Mean eigenvalues of W W^T for p x n standard normal W, descending, scaled to the exact sum p n.
/// `law` is that of p / n; p at least 2. Each is within 0.3 % of its mean for p >= 64, but for the
/// smallest ones of nearly square shapes. Cost: half a microsecond per value.
std::vector<double> mean_noise_spectrum(const MarchenkoPastur& law, std::int64_t p, std::int64_t n);

/// Standard deviation of the share of the k largest eigenvalues of noise in their sum, where the
/// k-th one lies at x (in units of n) and the share is `share`: the central limit theorem for
/// (l - x)_+ - share l, whose coefficients in cosines of theta are known.
double share_deviation(const MarchenkoPastur& law, std::int64_t p, double x, double share);

/// Mean of 1/s_p of noise times the root of the mean spectrum's last value, p < n: what the scatter
/// of the smallest value adds to a condition number.
double smallest_value_factor(std::int64_t p, std::int64_t n);

}  // namespace vindex::statistics
