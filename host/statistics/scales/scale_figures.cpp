// Owns the slope over the scales, the correlation across them, and their closed forms for noise.
#include "scale_figures.hpp"

#include "haar_pyramid.hpp"

#include <cmath>
#include <cstddef>
#include <numbers>
#include <vector>

namespace vindex::statistics {

namespace {

/// Levels that count, of a sequence of `size`.
std::size_t counted_levels(std::int64_t size) {
  std::size_t levels = 0;
  while ((size >> (levels + 1)) >= kLeastCoefficients) {
    ++levels;
  }
  return levels;
}

// psi(x) - ln x and psi'(x) for x >= 32 by their asymptotic series (Abramowitz and Stegun 6.3.18,
// 6.4.12), to 1e-16.
double digamma_less_log(double x) {
  const double y = 1.0 / (x * x);
  return -0.5 / x - y * (1.0 / 12.0 - y * (1.0 / 120.0 - y * (1.0 / 252.0 - y / 240.0)));
}
double trigamma(double x) {
  const double y = 1.0 / (x * x);
  return 1.0 / x + 0.5 * y + y / x * (1.0 / 6.0 - y * (1.0 / 30.0 - y * (1.0 / 42.0 - y / 30.0)));
}

/// Level j has the part coefficients[j - 1] in the slope: it is their sum, each times I(j).
std::vector<double> slope_coefficients(std::int64_t size) {
  const std::size_t levels = counted_levels(size);
  double weights = 0.0;
  double moment = 0.0;
  for (std::size_t j = 1; j <= levels; ++j) {
    const auto weight = static_cast<double>(size >> j);
    weights += weight;
    moment += weight * static_cast<double>(j);
  }
  const double mean = moment / weights;
  std::vector<double> out;
  double squares = 0.0;
  for (std::size_t j = 1; j <= levels; ++j) {
    const auto weight = static_cast<double>(size >> j);
    const double off = static_cast<double>(j) - mean;
    out.push_back(weight * off);
    squares += weight * off * off;
  }
  for (double& coefficient : out) {
    coefficient /= squares;
  }
  return out;
}

/// Of abs(D) of a level with those of the parents; NaN where either does not vary.
double correlation(const HaarLevel& level, const HaarLevel& above) {
  const auto pairs = static_cast<double>(2 * above.count);
  const auto parents = static_cast<double>(above.count);
  const double mean = level.paired_magnitudes / pairs;
  const double mean_above = above.magnitudes / parents;
  const double square = level.paired_squares / pairs;
  const double square_above = above.squares / parents;
  const double variance = square - mean * mean;
  const double variance_above = square_above - mean_above * mean_above;
  constexpr double kRounding = 1e-13;  // of sums that are kept to 1e-15
  if (!(variance > kRounding * square) || !(variance_above > kRounding * square_above)) {
    return kNaN;
  }
  return (level.products / pairs - mean * mean_above) / std::sqrt(variance * variance_above);
}

}  // namespace

ScaleFigures scale_nulls(std::int64_t size) {
  ScaleFigures out;
  if (size < kLeastScaled) {
    return out;
  }
  const std::vector<double> slope = slope_coefficients(size);
  out.z_modulus_null = 0.0;
  double variance = 0.0;
  double pairs = 0.0;
  for (std::size_t i = 0; i < slope.size(); ++i) {
    const double half = 0.5 * static_cast<double>(size >> (i + 1));
    out.z_modulus_null -= slope[i] * digamma_less_log(half) / std::numbers::ln2;
    variance += slope[i] * slope[i] * trigamma(half);
    pairs += i > 0 ? 2.0 * static_cast<double>(size >> (i + 1)) : 0.0;
  }
  out.z_modulus_null_sd = std::sqrt(variance) / std::numbers::ln2;
  out.csci_null_sd = 1.0 / std::sqrt(pairs);
  return out;
}

ScaleFigures scale_figures(std::int64_t size, std::span<const HaarLevel> levels) {
  ScaleFigures out = scale_nulls(size);
  if (size < kLeastScaled) {
    return out;
  }
  const std::vector<double> slope = slope_coefficients(size);
  double sum = 0.0;
  double correlated = 0.0;
  double pairs = 0.0;
  for (std::size_t i = 0; i < slope.size(); ++i) {
    const HaarLevel& level = levels[i];
    const double mean_square =
        std::ldexp(level.squares / static_cast<double>(level.count), -static_cast<int>(i + 1));
    sum -= slope[i] * (mean_square > 0.0 ? std::log2(mean_square) : kNaN);
    if (i + 1 < slope.size()) {
      const auto weight = static_cast<double>(2 * levels[i + 1].count);
      correlated += weight * correlation(level, levels[i + 1]);
      pairs += weight;
    }
  }
  out.z_modulus = sum;
  out.csci = correlated / pairs;
  return out;
}

const char* missing_scales(std::int64_t size, const ScaleFigures& figures) {
  if (size < kLeastScaled) {
    return "fewer than 256 weights";
  }
  if (std::isnan(figures.z_modulus)) {
    return "all neighbours are equal at some scale";
  }
  return std::isnan(figures.csci) ? "all differences of some scale are equal: no csci" : "";
}

void MeanScales::add(std::int64_t size, const ScaleFigures& figures) {
  const auto weight = static_cast<double>(size);
  const auto square = [&](double value) { return weight * weight * value * value; };
  weight_ += weight;
  sums_.z_modulus += weight * figures.z_modulus;
  sums_.z_modulus_null += weight * figures.z_modulus_null;
  sums_.z_modulus_null_sd += square(figures.z_modulus_null_sd);
  sums_.csci += weight * figures.csci;
  sums_.csci_null_sd += square(figures.csci_null_sd);
  sums_.z_modulus_signflip += weight * figures.z_modulus_signflip;
  sums_.csci_signflip += weight * figures.csci_signflip;
  sums_.csci_permuted += weight * figures.csci_permuted;
  sums_.csci_permuted_sd += square(figures.csci_permuted_sd);
}

ScaleFigures MeanScales::mean() const {
  return {.z_modulus = sums_.z_modulus / weight_,
          .z_modulus_null = sums_.z_modulus_null / weight_,
          .z_modulus_null_sd = std::sqrt(sums_.z_modulus_null_sd) / weight_,
          .csci = sums_.csci / weight_,
          .csci_null_sd = std::sqrt(sums_.csci_null_sd) / weight_,
          .z_modulus_signflip = sums_.z_modulus_signflip / weight_,
          .csci_signflip = sums_.csci_signflip / weight_,
          .csci_permuted = sums_.csci_permuted / weight_,
          .csci_permuted_sd = std::sqrt(sums_.csci_permuted_sd) / weight_};
}

}  // namespace vindex::statistics
