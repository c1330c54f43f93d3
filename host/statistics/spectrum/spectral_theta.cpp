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
#include "spectral_theta.hpp"

#include "noise_edge.hpp"
#include "noise_spectrum.hpp"

#include "core/constants.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <utility>

namespace vindex::statistics {

namespace {

/// The draws behind theta_null(): what iid noise gave, over its scaling with the shape. Made of
/// draws of the bidiagonal model of Gaussian noise (Dumitriu and Edelman 2002), 12,000 to 200,000
/// for each shape: statistical error 0.5 % to 1.5 %.
constexpr std::array<double, 6> kRoots = {0.125, 0.25, 0.5, 0.70711, 0.86603, 1};
constexpr std::size_t kShapes = 12;
constexpr std::array<double, kShapes> kThetaRows = {16,  24,  32,  48,  64,   96,
                                                    128, 192, 256, 512, 1024, 2048};
static_assert(kThetaRows.front() == kMinTabulatedTheta);

/// By root, then by rows.
constexpr std::array<std::array<double, kShapes>, kRoots.size()> kFactors = {
    {{0.12597, 0.12812, 0.12871, 0.12901, 0.1314, 0.13118, 0.1308, 0.12999, 0.13109, 0.13061,
      0.12996, 0.12623},
     {0.1299, 0.13576, 0.13452, 0.13437, 0.13517, 0.13318, 0.13413, 0.13378, 0.13215, 0.13179,
      0.13259, 0.13201},
     {0.1486, 0.14899, 0.15056, 0.14868, 0.14674, 0.14247, 0.14307, 0.14104, 0.13983, 0.13873,
      0.13876, 0.13333},
     {0.1712, 0.16972, 0.1684, 0.16564, 0.16273, 0.15833, 0.1558, 0.15473, 0.15018, 0.14442,
      0.14217, 0.13767},
     {0.20188, 0.19763, 0.19308, 0.18636, 0.1826, 0.1752, 0.17074, 0.16577, 0.16168, 0.15503,
      0.14675, 0.14181},
     {0.23352, 0.22817, 0.22355, 0.21495, 0.20572, 0.19732, 0.19044, 0.18211, 0.17751, 0.16433,
      0.1567, 0.15084}}};

/// Where x lies among ascending `nodes`: the node below and how far it is to the next.
template <std::size_t N>
std::pair<std::size_t, double> place(const std::array<double, N>& nodes, double x) {
  const auto above = std::upper_bound(nodes.begin() + 1, nodes.end() - 1, x);
  const auto low = static_cast<std::size_t>(above - nodes.begin()) - 1;
  return {low, std::clamp((x - nodes[low]) / (nodes[low + 1] - nodes[low]), 0.0, 1.0)};
}

std::array<double, kShapes> logarithms() {
  std::array<double, kShapes> out = {};
  std::transform(kThetaRows.begin(), kThetaRows.end(), out.begin(),
                 [](double p) { return std::log(p); });
  return out;
}

/// Mean theta of drawn p x n noise over the unit of theta_null(), at p rows and sqrt(p/n) = root;
/// between the shapes that were drawn linear in ln p and in root, beyond them as at the nearest.
/// p is at least kMinTabulatedTheta.
double theta_null_factor(double p, double root) {
  static const std::array<double, kShapes> kLogarithms = logarithms();
  const auto [row, along] = place(kLogarithms, std::log(p));
  const auto [shape, across] = place(kRoots, root);
  const auto at = [&, i = row, t = along](std::size_t s) {
    return kFactors[s][i] + t * (kFactors[s][i + 1] - kFactors[s][i]);
  };
  return at(shape) + across * (at(shape + 1) - at(shape));
}

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
  if (!(sigma.front() > rounding)) {
    return out;  // nothing is known of any value
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

}  // namespace vindex::statistics
