// Owns the arithmetic of jackknife.hpp, whose head has the formulas and their sources. The
// interval's ends are found by halving, since the bound on the right of the inequality depends on
// the value asked about.
//
// Student's quantile is Cornish and Fisher's series (Abramowitz and Stegun 26.7.5) and not an
// inverse of the beta function: with four degrees of freedom and more it is good to 1e-3, and the
// freedom itself is an estimate from a kurtosis. varying_directions() is tr(C)^2 / tr(C^2) with n
// tr C and n (n - 3) tr(C^2) in place of the traces: what the kernel's trace and the squared norm
// of the U-centred kernel are on average.
//
// Why a jackknife and not a bootstrap: without a group the sums of both estimators are differences
// of sums that are there anyway, where each draw of a bootstrap costs n^2 (CONTRIBUTING.md,
// decision 56).
#include <vindex/core/constants.hpp>
#include <vindex/core/error.hpp>
#include <vindex/measure/jackknife.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace vindex::measure {

namespace {

/// What rounding leaves of the difference of a CKA from 1: closer ones are the same.
constexpr double kNearOne = 1e-7;

double atanh_of(double value) {
  return std::atanh(std::clamp(value, kNearOne - 1.0, 1.0 - kNearOne));
}

struct Spread {
  double error = 0.0;    ///< the jackknife's
  double freedom = 4.0;  ///< degrees of freedom of it
};

Spread group_spread(std::span<const double> values) {
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double second = 0.0;
  double fourth = 0.0;
  for (const double value : values) {
    const double square = (value - mean) * (value - mean);
    second += square;
    fourth += square * square;
  }
  Spread spread;
  spread.error = std::sqrt((count - 1.0) / count * second);
  const double kurtosis = second > 0.0 ? count * fourth / (second * second) : 3.0;
  spread.freedom =
      kurtosis > 1.0 ? std::clamp(2.0 * count / (kurtosis - 1.0), 4.0, count - 1.0) : count - 1.0;
  return spread;
}

/// Where `excess`, negative at `inside` and positive at `outside`, changes sign.
template <typename Excess>
double crossing(double inside, double outside, const Excess& excess) {
  for (int step = 0; step < 60; ++step) {
    const double middle = 0.5 * (inside + outside);
    (excess(middle) > 0.0 ? outside : inside) = middle;
  }
  return outside;
}

}  // namespace

double student_quantile(double freedom) {
  expects(freedom >= 4.0, "student_quantile: four degrees of freedom at least");
  constexpr double z = 1.959963984540054;
  constexpr double z2 = z * z;
  const double n = freedom;
  return z * (1.0 + (z2 + 1.0) / (4.0 * n) + ((5.0 * z2 + 16.0) * z2 + 3.0) / (96.0 * n * n) +
              (((3.0 * z2 + 19.0) * z2 + 17.0) * z2 - 15.0) / (384.0 * n * n * n) +
              ((((79.0 * z2 + 776.0) * z2 + 1482.0) * z2 - 1920.0) * z2 - 945.0) /
                  (92160.0 * n * n * n * n));
}

double varying_directions(std::int64_t rows, double trace, double u_centred) {
  const auto n = static_cast<double>(rows);
  return std::max(1.0, trace * trace * (n - 3.0) / (n * u_centred));
}

JackknifeError jackknife_error(double value, std::span<const double> without, double directions) {
  if (std::isnan(value) || without.size() < static_cast<std::size_t>(kMinGroups) ||
      std::any_of(without.begin(), without.end(), [](double one) { return std::isnan(one); })) {
    return {kNaN, kNaN, kNaN};
  }
  JackknifeError out;
  out.error = group_spread(without).error;
  std::vector<double> turned(without.size());
  std::transform(without.begin(), without.end(), turned.begin(), atanh_of);
  const Spread of_turned = group_spread(turned);
  const double spread = student_quantile(of_turned.freedom) * of_turned.error;
  const double at_zero = 0.5 * std::max(directions, 1.0) * out.error;
  const double own = std::max(value, 0.0) + at_zero;
  if (!(spread > 0.0) || !(own > 0.0)) {
    out.low = out.high = value;
    return out;
  }
  const auto excess = [&](double other) {
    return std::abs(atanh_of(other) - atanh_of(value)) -
           spread * std::sqrt((std::max(other, 0.0) + at_zero) / own);
  };
  out.low = excess(-1.0) > 0.0 ? crossing(value, -1.0, excess) : -1.0;
  out.high = excess(1.0) > 0.0 ? crossing(value, 1.0, excess) : 1.0;
  return out;
}

}  // namespace vindex::measure
