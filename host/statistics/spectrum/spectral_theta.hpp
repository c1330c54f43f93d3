// Owns theta: the angle between a matrix and the noise in it, from its singular values alone.
//
// The bulk of the spectrum is taken for iid noise, its scale from the median singular value. What
// stands above the noise's edge is shrunk to what it was before the noise was added (the shrinker
// that is optimal in the Frobenius norm: Gavish and Donoho, IEEE Trans. Inf. Theory 63, 2017), and
//     signal = norm of the shrunk values / Frobenius norm,   theta = arcsin(signal) in degrees:
// 0 where all is noise, 45 where signal and noise have equal power, 90 where there is no noise. It
// depends on no order of rows or columns. What it cannot distinguish from signal: norms that differ
// between rows or columns; what it cannot see: directions below beta^(1/4) of the noise, and more
// directions than a quarter of the short side, which enter the median.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

namespace vindex::statistics {

/// Short sides from here on take theta's null from its table.
inline constexpr std::int64_t kMinTabulatedTheta = 16;

struct SpectralTheta {
  double theta = std::numeric_limits<double>::quiet_NaN();   ///< degrees, 0 to 90
  double signal = std::numeric_limits<double>::quiet_NaN();  ///< sin(theta)
  double noise =
      std::numeric_limits<double>::quiet_NaN();  ///< standard deviation of an entry of it
  double rank_edge = std::numeric_limits<double>::quiet_NaN();  ///< values above the noise's edge
  /// Values above the hard threshold that is optimal for unknown noise (Gavish and Donoho, IEEE
  /// Trans. Inf. Theory 60, 2014): fewer than rank_edge, and 0 on noise.
  double rank_gd = std::numeric_limits<double>::quiet_NaN();
  /// The median value is rounding error: there is no bulk, theta is 90 and both ranks count the
  /// values that are not rounding error.
  bool is_exact_low_rank = false;
};

/// Of all p = sigma.size() singular values, descending, of a matrix whose longer side is n;
/// `norm_squared` is the sum of its squared weights, `sigma_error` what any of the values may be
/// off by (NaN: not known). NaN throughout for fewer than two values and for a zero matrix.
SpectralTheta spectral_theta(std::span<const double> sigma, std::int64_t n, double norm_squared,
                             double sigma_error);

/// Mean theta of iid Gaussian noise of p x n, 2 <= p <= n: the few matrices whose largest value
/// lies above the limit's edge. Tabulated draws over the Tracy-Widom scaling of that edge, within 5
/// %. NaN for p < 16, where the median of so few values scatters and the mean is several degrees:
/// null_metrics() draws it for the shape.
double theta_null(std::int64_t p, std::int64_t n);

}  // namespace vindex::statistics
