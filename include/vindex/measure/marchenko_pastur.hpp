// Owns the Marchenko-Pastur law of iid noise: density, quantiles and partial sums by quadrature,
// for every aspect ratio 0 < g <= 1. Entry variance 1/n, so eigenvalues lie in [(1-sqrt g)^2,
// (1+sqrt g)^2] and their mean is 1. Source: Marchenko and Pastur 1967; substitution x = a + (b-a)
// sin^2 t removes both edge singularities.
#pragma once

#include <cstdint>
#include <vector>

namespace vindex::measure {

/// Tabulated law for one aspect ratio. Immutable after construction.
class MarchenkoPastur {
 public:
  explicit MarchenkoPastur(double aspect);  ///< g = p/n in (0, 1]
  double aspect() const { return aspect_; }
  double lower_edge() const;
  double upper_edge() const;
  double cumulative(double x) const;          ///< P(lambda <= x), error below 1e-9
  double quantile(double probability) const;  ///< inverse of cumulative
  double median() const { return quantile(0.5); }
  /// Share of the total sum carried by the largest `fraction` of eigenvalues (var_at_k null with
  /// fraction = k/p).
  double top_share(double fraction) const;
  /// Mean of f over the law, by the same quadrature nodes: nodes() and weights() sum f.
  const std::vector<double>& nodes() const { return nodes_; }
  const std::vector<double>& weights() const { return weights_; }

 private:
  double aspect_;
  std::vector<double> nodes_, weights_, cumulative_, cumulative_sum_;
};

}  // namespace vindex::measure
