// Owns the arithmetic of theta. With beta = p / n, unit = median s / sqrt(median of the
// Marchenko-Pastur law), z = s / unit:
//
//   edge            z = 1 + sqrt(beta)
//   hard threshold  z = sqrt(2 (beta + 1) + 8 beta / (beta + 1 + sqrt(beta^2 + 14 beta + 1)))
//                                                                      (Gavish and Donoho 2014)
//   shrinker        eta(z)^2 = ((z^2 - beta - 1)^2 - 4 beta) / z^2 above the edge, else 0
//                                                                      (Gavish and Donoho 2017)
//   signal          sqrt(sum eta^2 unit^2) / ||W||_F,   theta = arcsin(signal)
//
// Why the median for the noise's scale and not a fit of the bulk: up to a quarter of the values may
// be signal before it moves much, and it asks for no cut between bulk and signal, which is what is
// looked for.
#include "drawn_nulls.hpp"
#include "noise_edge.hpp"
#include "theta_null_table.hpp"

#include <vindex/core/constants.hpp>
#include <vindex/core/error.hpp>
#include <vindex/measure/marchenko_pastur.hpp>
#include <vindex/measure/spectral_theta.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace vindex::measure {
namespace {

constexpr double kEpsilon = 0x1p-52;

double count_above(std::span<const double> descending, double threshold) {
  return static_cast<double>(std::partition_point(descending.begin(), descending.end(),
                                                  [&](double value) { return value > threshold; }) -
                             descending.begin());
}

/// The hard threshold in units of noise sqrt(n).
double hard_threshold(double beta) {
  const double sum = beta + 1.0;
  return std::sqrt(2.0 * sum + 8.0 * beta / (sum + std::sqrt(beta * beta + 14.0 * beta + 1.0)));
}

/// Squared shrunk value over the squared value, at z above the edge.
double kept_share(double z, double beta) {
  const double z2 = z * z;
  const double bulk = z2 - beta - 1.0;
  return std::max(0.0, (bulk * bulk - 4.0 * beta) / (z2 * z2));
}

}  // namespace

SpectralTheta spectral_theta(std::span<const double> sigma, std::int64_t n, double norm_squared,
                             double sigma_error) {
  SpectralTheta out;
  if (sigma.size() < 2 || !(norm_squared > 0.0) || !std::isfinite(norm_squared)) {
    return out;
  }
  const auto longer = static_cast<double>(n);
  const double beta = static_cast<double>(sigma.size()) / longer;
  expects(beta <= 1.0, "spectral_theta: the longer side is not below the number of values");
  const double median = median_of_descending(sigma);
  double rounding = kEpsilon * longer * sigma.front();
  if (sigma_error > rounding) {
    rounding = sigma_error;
  }
  if (!(median > rounding)) {
    out.is_exact_low_rank = true;
    out.noise = 0.0;
    out.theta = 90.0;
    out.signal = 1.0;
    out.rank_edge = out.rank_gd = count_above(sigma, rounding);
    return out;
  }
  const double unit = median / std::sqrt(MarchenkoPastur(beta).median());  // noise sqrt(n)
  out.noise = unit / std::sqrt(longer);
  out.rank_edge = count_above(sigma, (1.0 + std::sqrt(beta)) * unit);
  out.rank_gd = count_above(sigma, hard_threshold(beta) * unit);
  double kept = 0.0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(out.rank_edge); ++i) {
    kept += sigma[i] * sigma[i] * kept_share(sigma[i] / unit, beta);
  }
  out.signal = std::min(1.0, std::sqrt(kept / norm_squared));
  out.theta = kDegreesPerRadian * std::asin(out.signal);
  return out;
}

double theta_null(std::int64_t p, std::int64_t n) {
  expects(p >= 2 && n >= p, "theta_null: at least two singular values");
  if (p < kMinTabulatedTheta) {
    return kNaN;  // drawn for the shape (null_metrics)
  }
  const auto rows = static_cast<double>(p);
  const auto cols = static_cast<double>(n);
  const double beta = rows / cols;
  const double root = std::sqrt(beta);
  // The largest value exceeds the edge by x times the Tracy-Widom scale of z^2; the shrinker then
  // keeps 4 sqrt(beta) of that over (1 + sqrt(beta))^2, of p altogether.
  const double scale =
      std::pow(1.0 + root, 4.0 / 3.0) * std::pow(beta, -1.0 / 6.0) * std::pow(cols, -2.0 / 3.0);
  const double unit = std::sqrt(4.0 * root * scale / rows) / (1.0 + root);
  return kDegreesPerRadian * unit * theta_null_factor(rows, root);
}

}  // namespace vindex::measure
