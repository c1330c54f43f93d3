// Owns the arithmetic of the proof in spectrum_bounds.hpp, and all of its rounding: from every Ritz
// value that must be a lower bound what float64 products can have added is taken off, 4 (n + 2 p)
// 2^-53 F2 as |W|^T |W| has a norm of at most F2; to every upper one it is added.
//
//   lower of var@k   sum of the k largest t / F2
//   upper of var@k   (sum of the k largest eigenvalues of T + R^T R / gap_k + k rounding) / F2
//   stable rank      F2 / upper of l_1 ... F2 / lower of l_1
//
// complement_candidates() says where a proof is worth trying: nearer to the next value the bounds
// are sharper and a factorisation fails more easily, so 15 % of the way comes first and half of it
// second.
#include "spectrum_bounds.hpp"

#include "core/constants.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace vindex::statistics {
namespace {

constexpr double kUnitRoundoff64 = 0x1p-53;
constexpr double kTolerance = 1e-5;
/// What the iteration aims at, a third of what is promised.
constexpr double kAim = 3e-6;

// Products in float64 move a Ritz value by at most this; |W|_F^2 bounds the 2-norm of |W|^T |W|.
double projection_rounding(const CertificateInput& input) {
  return 4.0 * static_cast<double>(input.long_side + 2 * input.short_side) * kUnitRoundoff64 *
         input.sum_squares;
}

double sure_value(const CertificateInput& input, std::int64_t k) {
  return input.values[static_cast<std::size_t>(k) - 1] - projection_rounding(input);
}

}  // namespace

std::vector<double> complement_candidates(const CertificateInput& input) {
  expects(static_cast<std::int64_t>(input.values.size()) > kFastValues,
          "a certificate: more vectors than values");
  const double lowest = sure_value(input, kFastValues);
  std::vector<double> candidates;
  for (const double place : {0.15, 0.5}) {
    const double candidate =
        input.next_value + place * (lowest - input.gram_error - input.next_value);
    if (candidate + input.gram_error < lowest && candidate > 0.0) {
      candidates.push_back(candidate);
    }
  }
  return candidates;
}

double definiteness_shift(std::int64_t short_side, std::span<const double> values, double tau) {
  double trace = static_cast<double>(short_side) * tau;
  for (const double value : values) {
    trace += std::max(value, 0.0);
  }
  const auto terms = static_cast<double>(short_side + static_cast<std::int64_t>(values.size()) + 4);
  return trace * 2.0 * terms * kUnitRoundoff64;
}

std::size_t bounded_count() {
  return static_cast<std::size_t>(std::upper_bound(kVarAtK.begin(), kVarAtK.end(), kFastValues) -
                                  kVarAtK.begin());
}

std::int64_t bounded_k(std::size_t index) { return kVarAtK[index]; }

double certificate_gap(const CertificateInput& input, double proved, std::size_t index) {
  return sure_value(input, bounded_k(index)) - (proved + input.gram_error);
}

SpectrumBounds unproved_bounds() {
  SpectrumBounds bounds;
  bounds.var_at_k_lower.assign(kVarAtK.size(), kNaN);
  bounds.var_at_k_upper.assign(kVarAtK.size(), kNaN);
  return bounds;
}

SpectrumBounds certified_bounds(const CertificateInput& input, std::span<const UpperSums> upper) {
  expects(upper.size() == bounded_count(), "a certificate: one sum for every k");
  const double rounding = projection_rounding(input);
  SpectrumBounds bounds = unproved_bounds();
  double lower = 0.0;
  std::int64_t summed = 0;
  for (std::size_t index = 0; index < bounded_count(); ++index) {
    const std::int64_t k = bounded_k(index);
    for (; summed < k; ++summed) {
      lower += sure_value(input, summed + 1);
    }
    bounds.var_at_k_lower[index] = lower / input.sum_squares;
    bounds.var_at_k_upper[index] =
        std::min(1.0, (upper[index].sum + static_cast<double>(k) * rounding) / input.sum_squares);
    if (k == 1) {
      bounds.stable_rank_lower = std::max(1.0, input.sum_squares / (upper[index].top + rounding));
      bounds.stable_rank_upper = std::max(1.0, input.sum_squares / lower);
    }
  }
  return bounds;
}

SpectrumBounds bounds_of_spectrum(std::span<const double> sigma, const SquareErrors& errors,
                                  double sum_squares) {
  const auto count =
      static_cast<std::size_t>(std::min(kFastValues, static_cast<std::int64_t>(sigma.size())));
  std::vector<double> squares;
  squares.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    squares.push_back(sigma[i] * sigma[i]);
  }
  return bounds_between(squares, squares, errors, sum_squares);
}

SpectrumBounds bounds_between(std::span<const double> lower, std::span<const double> upper,
                              const SquareErrors& errors, double sum_squares) {
  expects(errors.each.size() >= lower.size(), "an error of every value");
  SpectrumBounds bounds = unproved_bounds();
  double least = 0.0;
  double most = 0.0;
  std::size_t summed = 0;
  for (std::size_t index = 0; index < bounded_count(); ++index) {
    const auto k = static_cast<std::size_t>(bounded_k(index));
    for (; summed < std::min(k, lower.size()); ++summed) {
      least += lower[summed] - errors.each[summed];
      most += upper[summed] + errors.each[summed];
    }
    bounds.var_at_k_lower[index] = std::max(0.0, (least - errors.once) / sum_squares);
    bounds.var_at_k_upper[index] = std::min(1.0, (most + errors.once) / sum_squares);
  }
  const double first = errors.each[0] + errors.once;
  bounds.stable_rank_lower = std::max(1.0, sum_squares / (upper[0] + first));
  bounds.stable_rank_upper =
      std::max(1.0, sum_squares / std::max(lower[0] - first, std::numeric_limits<double>::min()));
  return bounds;
}

bool is_tight(const SpectrumBounds& bounds) {
  for (std::size_t index = 0; index < bounded_count(); ++index) {
    if (!(bounds.var_at_k_upper[index] - bounds.var_at_k_lower[index] <= kTolerance)) {
      return false;
    }
  }
  return bounds.stable_rank_upper - bounds.stable_rank_lower <=
         kTolerance * bounds.stable_rank_lower;
}

bool is_enough_for_bounds(std::span<const double> values, std::span<const double> residuals,
                          double gram_error, double sum_squares) {
  const double next = values[kProvedVectors];
  const double gap = values[kFastValues - 1] - next - gram_error;
  if (gap <= 0.0) {
    return false;
  }
  double excess = 0.0;
  for (std::size_t i = 0; i < kFastValues; ++i) {
    excess += residuals[i] * residuals[i];
  }
  const double first = residuals[0] * residuals[0] / (values[0] - next);
  return excess / gap <= kAim * sum_squares && first <= kAim * values[0];
}

}  // namespace vindex::statistics
