// With r = sqrt(g), D = 1 + r^2 - 2 r cos(theta):
//   sin^2 / D = [ (1 + r^2) + 2 r cos - (1 - r^2)^2 / D ] / (4 r^2)
//   integral of 1/D from 0 = [ theta + 2 S ] / (1 - r^2),
//   S = sum over k >= 1 of r^k sin(k theta) / k = atan2(r sin, 1 - r cos)
// so P(theta) = [ theta + r sin - (1 - r^2) (S - r sin) / r^2 ] / pi, whose rounding error is about
// eps / r: no series is needed for any aspect ratio of a matrix.
#include <vindex/core/error.hpp>
#include <vindex/measure/marchenko_pastur.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numbers>
#include <utility>

namespace vindex::measure {
namespace {

constexpr double kPi = std::numbers::pi;
constexpr int kRule = 16;
// Singularities lie at distance >= one panel from every panel [h, 2h]: the error of the rule there
// is (3 + sqrt 8)^-32, far below rounding; the last panel [0, pi 2^-40] carries less than 1e-12.
constexpr int kHalvings = 40;

struct Rule {
  std::array<double, kRule> node;  // on [-1, 1]
  std::array<double, kRule> weight;
};

// Gauss-Legendre by Newton on the three-term recurrence.
Rule make_rule() {
  Rule rule{};
  for (int i = 0; i < kRule; ++i) {
    double z = std::cos(kPi * (i + 0.75) / (kRule + 0.5));
    double slope = 0.0;
    for (int step = 0; step < 20; ++step) {
      double current = z;
      double previous = 1.0;
      for (int k = 2; k <= kRule; ++k) {
        const double next = ((2.0 * k - 1.0) * z * current - (k - 1.0) * previous) / k;
        previous = std::exchange(current, next);
      }
      slope = kRule * (z * current - previous) / (z * z - 1.0);
      z -= current / slope;
    }
    rule.node[static_cast<std::size_t>(i)] = z;
    rule.weight[static_cast<std::size_t>(i)] = 2.0 / ((1.0 - z * z) * slope * slope);
  }
  return rule;
}

const Rule& rule() {
  static const Rule kOnce = make_rule();
  return kOnce;
}

// Least root bracketing: `increasing` rises from below `target` at `low` to above at `high`.
double solve(const std::function<double(double)>& increasing,
             const std::function<double(double)>& slope, double target, double low, double high) {
  double at = 0.5 * (low + high);
  for (int step = 0; step < 100; ++step) {
    const double gap = increasing(at) - target;
    if (gap == 0.0) {
      return at;
    }
    (gap < 0.0 ? low : high) = at;
    double next = at - gap / slope(at);
    if (!(next > low && next < high)) {
      next = 0.5 * (low + high);
    }
    if (std::abs(next - at) <= 1e-15 * kPi) {
      return next;
    }
    at = next;
  }
  return at;
}

double share_below(double angle) { return (angle - std::sin(angle) * std::cos(angle)) / kPi; }

}  // namespace

MarchenkoPastur::MarchenkoPastur(double aspect) : aspect_(aspect), root_(std::sqrt(aspect)) {
  expects(aspect > 0.0 && aspect <= 1.0, "MarchenkoPastur: aspect in (0, 1]");
  nodes_.reserve(static_cast<std::size_t>(kRule) * (kHalvings + 1));
  weights_.reserve(nodes_.capacity());
  double high = kPi;
  for (int panel = 0; panel <= kHalvings; ++panel) {
    const double low = panel == kHalvings ? 0.0 : 0.5 * high;
    const double half = 0.5 * (high - low);
    for (std::size_t i = 0; i < kRule; ++i) {
      const double angle = low + half * (1.0 + rule().node[i]);
      const double x = value_at(angle);
      const double sine = std::sin(angle);
      nodes_.push_back(x);
      weights_.push_back(half * rule().weight[i] * 2.0 / kPi * sine * sine / x);
    }
    high = low;
  }
}

double MarchenkoPastur::lower_edge() const { return (1.0 - root_) * (1.0 - root_); }
double MarchenkoPastur::upper_edge() const { return (1.0 + root_) * (1.0 + root_); }

double MarchenkoPastur::value_at(double angle) const {
  const double sine = std::sin(0.5 * angle);
  return lower_edge() + 4.0 * root_ * sine * sine;
}

double MarchenkoPastur::angle_of(double x) const {
  const double above = std::max(0.0, x - lower_edge());
  const double below = std::max(0.0, upper_edge() - x);
  return 2.0 * std::atan2(std::sqrt(above), std::sqrt(below));
}

double MarchenkoPastur::probability_below(double angle) const {
  const double sine = root_ * std::sin(angle);
  const double series = std::atan2(sine, 1.0 - root_ * std::cos(angle));
  return (angle + sine - (1.0 - aspect_) * (series - sine) / aspect_) / kPi;
}

double MarchenkoPastur::cumulative(double x) const {
  // The same as probability_below(angle_of(x)) without its sine and cosine, for the sake of mp_ks.
  const double above = x - lower_edge();
  const double below = upper_edge() - x;
  if (!(above > 0.0)) {
    return 0.0;
  }
  if (!(below > 0.0)) {
    return 1.0;
  }
  const double angle = 2.0 * std::atan2(std::sqrt(above), std::sqrt(below));
  const double sine = 0.5 * std::sqrt(above * below);
  const double series = std::atan2(sine, 0.5 * (1.0 - aspect_ + x));
  const double value = (angle + sine - (1.0 - aspect_) * (series - sine) / aspect_) / kPi;
  return std::clamp(value, 0.0, 1.0);
}

double MarchenkoPastur::angle_of_probability(double probability) const {
  if (!(probability > 0.0)) {
    return 0.0;
  }
  if (probability >= 1.0) {
    return kPi;
  }
  return solve([this](double angle) { return probability_below(angle); },
               [this](double angle) {
                 const double sine = std::sin(angle);
                 return 2.0 / kPi * sine * sine / value_at(angle);
               },
               probability, 0.0, kPi);
}

double MarchenkoPastur::quantile(double probability) const {
  return value_at(angle_of_probability(probability));
}

double MarchenkoPastur::cumulative_share(double x) const { return share_below(angle_of(x)); }

double MarchenkoPastur::top_share(double fraction) const {
  // From the top, where share_below(pi - angle) = 1 - share_below(angle).
  return share_below(kPi - angle_of_probability(1.0 - fraction));
}

double MarchenkoPastur::top_fraction(double share) const {
  if (!(share > 0.0)) {
    return 0.0;
  }
  if (share >= 1.0) {
    return 1.0;
  }
  const double from_top = solve(
      share_below,
      [](double angle) {
        const double sine = std::sin(angle);
        return 2.0 / kPi * sine * sine;
      },
      share, 0.0, kPi);
  return 1.0 - probability_below(kPi - from_top);
}

double MarchenkoPastur::mean_log_excess(double fraction) const {
  const double low = angle_of_probability(1.0 - fraction);
  const double base = std::log(value_at(low));
  // Panels as in the constructor: for small `low` at g = 1 the logarithm is steep at the low end.
  double sum = 0.0;
  double high = kPi;
  while (high > low) {
    const double start = std::max(low, 0.5 * high);
    const double half = 0.5 * (high - start);
    for (std::size_t i = 0; i < kRule; ++i) {
      const double angle = start + half * (1.0 + rule().node[i]);
      const double x = value_at(angle);
      const double sine = std::sin(angle);
      sum += half * rule().weight[i] * 2.0 / kPi * sine * sine / x * (std::log(x) - base);
    }
    high = start;
  }
  return sum;
}

}  // namespace vindex::measure
