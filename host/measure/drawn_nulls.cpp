// Owns draws of the spectrum of small noise. The singular values of p x n standard normals are
// those of an upper bidiagonal matrix of independent chi variables (Dumitriu and Edelman 2002, beta
// = 1):
//
//   diagonal chi_n, chi_(n-1), ..., chi_(n-p+1),    other diagonal chi_(p-1), ..., chi_1
//
// found by dqds on their squares q_i, e_i (Fernando and Parlett 1994):
//
//   d = q_1 - shift;   q'_i = d + e_i,   e'_i = e_i q_(i+1) / q'_i,   d <- d q_(i+1) / q'_i - shift
//
// Why not draw W itself: p n normals and an SVD of p^2 n where this takes 2 p variables and some
// p^2. Why dqds: no subtraction but the shift's, so the smallest value keeps its digits, on which
// condition_number and trace_log hang. chi-squared variables are Marsaglia's and Tsang's (2000), by
// acceptance, in a stream of Philox numbers for each draw, so that a draw is the same whatever came
// before it.
#include "drawn_nulls.hpp"

#include "random_draws.hpp"

#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

namespace vindex::measure {
namespace {

constexpr std::uint64_t kKey = 0x6E756C6C73000000;  // any fixed number; the shape is added
constexpr std::int64_t kDrawsTimesSize = 65536;
constexpr std::int64_t kMinDraws = 1024;
constexpr std::int64_t kMaxDraws = 16384;

/// A chi-squared variable of `freedom` degrees. Source: Marsaglia and Tsang 2000, of
/// gamma(freedom / 2); one degree is a squared normal.
double chi_squared(std::int64_t freedom, DrawStream& stream) {
  if (freedom == 1) {
    const double x = stream.normal();
    return x * x;
  }
  const double d = 0.5 * static_cast<double>(freedom) - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  while (true) {
    const double x = stream.normal();
    const double root = 1.0 + c * x;
    if (root <= 0.0) {
      continue;
    }
    const double v = root * root * root;
    if (std::log(stream.uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) {
      return 2.0 * d * v;
    }
  }
}

/// Squared singular values of the upper bidiagonal matrix whose squared diagonal is `q` and whose
/// squared other diagonal is `e` (one shorter), by differential quotient-difference steps with
/// shifts: small values keep their digits. Source: Fernando and Parlett, "Accurate singular values
/// and differential qd algorithms" (1994).
class SquaredValues {
 public:
  SquaredValues(std::vector<double> q, std::vector<double> e)
      : q_(std::move(q)), e_(std::move(e)) {}

  std::vector<double> descending() {
    std::vector<double> values;
    double shifted = 0.0;
    std::size_t steps = 0;
    for (std::size_t count = q_.size(); count > 0;) {
      if (count == 1 || e_[count - 2] <= kSmall * (q_[count - 1] + shifted)) {
        values.push_back(q_[count - 1] + shifted);
        --count;
        continue;
      }
      expects(++steps <= kMaxSteps * q_.size(), "qd steps of noise converge");
      shifted += transform(count);
    }
    std::sort(values.begin(), values.end(), std::greater<>());
    return values;
  }

 private:
  static constexpr double kSmall = 0x1p-53;
  static constexpr std::size_t kMaxSteps = 1000;

  /// One dqds step on the first `count` values; what it took off them.
  double transform(std::size_t count) {
    double shift = last_shift(count);
    // A shift above the smallest value shows as a negative d; nothing of q and e is lost yet.
    while (!step(count, shift)) {
      shift = shift > kSmall * q_[count - 1] ? 0.25 * shift : 0.0;
    }
    std::swap(q_, next_q_);
    std::swap(e_, next_e_);
    return shift;
  }

  /// Nearly the smaller value of the last two by two; a step that finds it too large is repeated.
  double last_shift(std::size_t count) const {
    const double a = q_[count - 2];
    const double b = e_[count - 2];
    const double c = q_[count - 1];
    const double half = 0.5 * (a + b + c);
    const double root = std::sqrt(std::max(half * half - a * c, 0.0));
    return a * c / (half + root) * 0.999;
  }

  bool step(std::size_t count, double shift) {
    next_q_.resize(q_.size());
    next_e_.resize(e_.size());
    double d = q_[0] - shift;
    for (std::size_t i = 0; i + 1 < count; ++i) {
      if (d < 0.0 || (d == 0.0 && shift > 0.0)) {
        return false;
      }
      next_q_[i] = d + e_[i];
      const double ratio = q_[i + 1] / next_q_[i];
      next_e_[i] = e_[i] * ratio;
      d = d * ratio - shift;
    }
    if (!(d >= 0.0)) {
      return false;
    }
    next_q_[count - 1] = d;
    return true;
  }

  std::vector<double> q_, e_, next_q_, next_e_;
};

}  // namespace

MetricValues drawn_nulls(std::int64_t p, std::int64_t n) {
  expects(p >= 2 && p <= n && p < kMinComputedNull, "drawn_nulls: a short side from 2 to 63");
  const std::int64_t draws = std::clamp(kDrawsTimesSize / p, kMinDraws, kMaxDraws);
  const std::uint64_t key =
      kKey ^ (static_cast<std::uint64_t>(n) * 64U + static_cast<std::uint64_t>(p));
  MetricValues sums;
  sums.var_at_k.fill(0.0);
  sums.scalar.fill(0.0);
  const auto size = static_cast<std::size_t>(p);
  for (std::int64_t draw = 0; draw < draws; ++draw) {
    DrawStream stream(key, static_cast<std::uint64_t>(draw));
    std::vector<double> diagonal(size);
    std::vector<double> off(size - 1);
    for (std::int64_t i = 0; i < p; ++i) {
      diagonal[static_cast<std::size_t>(i)] = chi_squared(n - i, stream);
      if (i + 1 < p) {
        off[static_cast<std::size_t>(i)] = chi_squared(p - 1 - i, stream);
      }
    }
    std::vector<double> sigma = SquaredValues(std::move(diagonal), std::move(off)).descending();
    for (double& value : sigma) {
      value = std::sqrt(value);
    }
    const MetricValues values = metrics_of_draw(n, sigma);
    for (std::size_t i = 0; i < sums.var_at_k.size(); ++i) {
      sums.var_at_k[i] += values.var_at_k[i];
    }
    for (std::size_t i = 0; i < sums.scalar.size(); ++i) {
      sums.scalar[i] += values.scalar[i];
    }
  }
  const double scale = 1.0 / static_cast<double>(draws);
  for (double& sum : sums.var_at_k) {
    sum = std::min(1.0, sum * scale);
  }
  for (double& sum : sums.scalar) {
    sum *= scale;
  }
  if (p == n) {  // the mean is infinite
    sums[Metric::kConditionNumber] = std::numeric_limits<double>::quiet_NaN();
  }
  return sums;
}

}  // namespace vindex::measure
