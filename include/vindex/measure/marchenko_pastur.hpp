// Owns the Marchenko-Pastur law of iid noise for every aspect ratio 0 < g <= 1. Entry variance 1/n,
// so eigenvalues lie in [(1-sqrt g)^2, (1+sqrt g)^2] and their mean is 1.
//
// With x = 1 + g - 2 sqrt(g) cos(theta), theta in [0, pi] (x = a + (b-a) sin^2(theta/2)), both edge
// singularities vanish: density(x) dx = (2/pi) sin^2(theta) / x dtheta, which integrates to a sum
// of two arctangents: cumulative and quantile need no quadrature. Source of the law: Marchenko and
// Pastur 1967; the integral is derived in host/measure/marchenko_pastur.cpp and checked against
// quadrature in the tests.
#pragma once

namespace vindex::measure {

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

}  // namespace vindex::measure
