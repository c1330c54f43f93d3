// Owns the Marchenko-Pastur law of iid noise for every aspect ratio 0 < g <= 1. Entry variance 1/n,
// so eigenvalues lie in [(1-sqrt g)^2, (1+sqrt g)^2] and their mean is 1.
//
// With x = 1 + g - 2 sqrt(g) cos(theta), theta in [0, pi] (x = a + (b-a) sin^2(theta/2)), both edge
// singularities vanish: density(x) dx = (2/pi) sin^2(theta) / x dtheta, and x density(x) dx =
// (2/pi) sin^2(theta) dtheta. The first integrates to a sum of two arctangents, the second to
// (theta - sin(theta) cos(theta))/pi, so cumulative, quantile and shares need no quadrature; other
// means use the nodes below. Source of the law: Marchenko and Pastur 1967; the integrals are
// derived in host/measure/marchenko_pastur.cpp and checked against quadrature in the tests.
#pragma once

#include <cstdint>
#include <vector>

namespace vindex::measure {

/// The law for one aspect ratio. Immutable after construction, which costs some 10 microseconds.
class MarchenkoPastur {
 public:
  explicit MarchenkoPastur(double aspect);  ///< g = p/n in (0, 1]
  double aspect() const { return aspect_; }
  double lower_edge() const;
  double upper_edge() const;
  double cumulative(double x) const;          ///< P(lambda <= x), error below 1e-12 for g > 1e-6
  double quantile(double probability) const;  ///< inverse of cumulative
  double median() const { return quantile(0.5); }
  /// Share of the total sum carried by the eigenvalues <= x.
  double cumulative_share(double x) const;
  /// Share of the total sum carried by the largest `fraction` of eigenvalues (var_at_k null with
  /// fraction = k/p).
  double top_share(double fraction) const;
  /// Fraction of eigenvalues that carries `share` of the total sum, largest first: the inverse of
  /// top_share.
  double top_fraction(double share) const;
  /// Mean over the law of ln(lambda / t) where lambda > t and 0 elsewhere, t being the quantile
  /// that has `fraction` of the law above it (Hill estimator).
  double mean_log_excess(double fraction) const;
  /// Mean of f over the law: sum of weights()[i] f(nodes()[i]). Gauss-Legendre on panels that halve
  /// towards the lower edge, so that ln and sqrt are integrated to about 1e-12 for g = 1 too.
  const std::vector<double>& nodes() const { return nodes_; }
  const std::vector<double>& weights() const { return weights_; }

 private:
  double angle_of(double x) const;
  double value_at(double angle) const;
  double probability_below(double angle) const;
  double angle_of_probability(double probability) const;

  double aspect_;
  double root_;  // sqrt(aspect)
  std::vector<double> nodes_, weights_;
};

}  // namespace vindex::measure
