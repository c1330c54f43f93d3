// Owns the law of centred cosines given the norms.
//
// With z_kl the independent cosines of the directions times sqrt(length), about normal, the
// centred Gram is Y = M + H D^(1/2) z D^(1/2) H / sqrt(length), M = H D H. The cosine of a pair is
// to first order rho = M_ij / sqrt(M_ii M_jj) plus <Q, Y - M>,
//
//   Q = sym(h_i h_j^T) / sqrt(M_ii M_jj) - rho/2 (h_i h_i^T / M_ii + h_j h_j^T / M_jj),
//
// h_i row i of H, so that its variance is ((1 - rho^2)^2 - 2 sum Q_kk^2 D_k^2) / length: that of a
// correlation, less what the norms would add if they were not given.
//
// The mean over pairs is K = H B H / 2 in the same way, B_ij = 1/sqrt(M_ii M_jj), B_ii = -sum_j
// rho_ij / M_ii. For equal norms K is 0 and the second order is left: (E-2) / ((E-1)^3 length),
// times a chi-squared variable of E-1 degrees over its degrees.
#include "centred_cosines.hpp"

#include "core/constants.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <numeric>
#include <utility>
#include <vector>

namespace vindex::statistics {

namespace {

/// Mean and deviation of the cosine of a pair.
struct CosineLaw {
  double mean = 0.0, deviation = 0.0;
};

/// H D H and the law of its cosines.
class CentredLaw {
 public:
  CentredLaw(std::span<const double> norms, double length) : length_(length) {
    for (const double norm : norms) {
      squares_.push_back(norm * norm);
    }
    const auto count = static_cast<double>(norms.size());
    each_ = 1.0 / count;
    mean_ = std::accumulate(squares_.begin(), squares_.end(), 0.0) * each_;
    for (const double square : squares_) {
      diagonal_.push_back(square * (1.0 - 2.0 * each_) + mean_ * each_);
      fourth_ += square * square;
    }
  }

  std::size_t size() const { return squares_.size(); }
  double square(std::size_t i) const { return squares_[i]; }
  double diagonal(std::size_t i) const { return diagonal_[i]; }
  double mean_of(std::size_t i, std::size_t j) const {
    const double product = (mean_ - squares_[i] - squares_[j]) * each_;
    return std::clamp(product / std::sqrt(diagonal_[i] * diagonal_[j]), -1.0, 1.0);
  }
  CosineLaw of(std::size_t i, std::size_t j) const {
    const double rho = mean_of(i, j);
    const double cross = 1.0 / std::sqrt(diagonal_[i] * diagonal_[j]);
    const double half_i = 0.5 * rho / diagonal_[i];
    const double half_j = 0.5 * rho / diagonal_[j];
    const double own = 1.0 - each_;
    const double at_others = each_ * each_ * (cross - half_i - half_j);
    const double at_i = -own * each_ * cross - half_i * own * own - half_j * each_ * each_;
    const double at_j = -own * each_ * cross - half_j * own * own - half_i * each_ * each_;
    const double square_i = squares_[i] * squares_[i];
    const double square_j = squares_[j] * squares_[j];
    const double known = at_i * at_i * square_i + at_j * at_j * square_j +
                         at_others * at_others * (fourth_ - square_i - square_j);
    const double spread = 1.0 - rho * rho;
    return {rho, std::sqrt(std::max(0.0, spread * spread - 2.0 * known) / length_)};
  }

 private:
  double length_, each_ = 0.0, mean_ = 0.0, fourth_ = 0.0;
  std::vector<double> squares_, diagonal_;
};

/// The largest of independent normal numbers, each of its own law: its distribution function is the
/// product of theirs, and moments are integrals of it.
DrawnStatistic largest_of(const std::vector<CosineLaw>& pairs) {
  constexpr double kSurelyBelow = 6.5;  // deviations above which a factor is 1 to 1e-10
  double widest = 0.0;
  double low = -1.0;
  double high = -1.0;
  for (const CosineLaw& pair : pairs) {
    widest = std::max(widest, pair.deviation);
    low = std::max(low, pair.mean - 2.0 * pair.deviation);
    high = std::max(high, pair.mean + kSurelyBelow * pair.deviation);
  }
  if (!(widest > 0.0)) {
    return {high, 0.0};
  }
  const auto chance_below = [&](double x) {
    double log_chance = 0.0;
    for (const CosineLaw& pair : pairs) {
      const double away = x - pair.mean;
      if (away > kSurelyBelow * pair.deviation) {
        continue;
      }
      const double beyond = pair.deviation > 0.0
                                ? 0.5 * std::erfc(away / (pair.deviation * std::numbers::sqrt2))
                                : 1.0;
      log_chance += std::log1p(-std::min(beyond, 1.0 - 1e-16));
      if (log_chance < -50.0) {
        return 0.0;
      }
    }
    return std::exp(log_chance);
  };
  // The function rises somewhere in there, perhaps within the deviation of a single pair.
  const auto place_of = [&](double chance, double from, double to) {
    for (int step = 0; step < 24; ++step) {
      const double middle = 0.5 * (from + to);
      (chance_below(middle) < chance ? from : to) = middle;
    }
    return std::pair(from, to);
  };
  constexpr double kNone = 1e-9;
  constexpr int kSteps = 64;
  low = place_of(kNone, low - 3.0 * widest, high).first;
  high = place_of(1.0 - kNone, low, high).second;
  const double step = (high - low) / kSteps;
  double mean = high;
  double square = high * high;
  for (int i = 0; i <= kSteps; ++i) {
    const double x = low + step * i;
    const double weight = step * chance_below(x) * (i == 0 || i == kSteps ? 0.5 : 1.0);
    mean -= weight;
    square -= 2.0 * x * weight;
  }
  return {std::min(1.0, mean), std::sqrt(std::max(0.0, square - mean * mean))};
}

/// Deviation of the mean over pairs to first order.
double mean_deviation(const CentredLaw& law, double length) {
  const std::size_t n = law.size();
  const auto count = static_cast<double>(n);
  std::vector<double> roots(n);
  double root_sum = 0.0;
  for (std::size_t i = 0; i < n; ++i) {
    roots[i] = 1.0 / std::sqrt(law.diagonal(i));
    root_sum += roots[i];
  }
  std::vector<double> own(n, 0.0);  // B_ii
  std::vector<double> means(n);     // of the rows of B
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      own[i] -= j == i ? 0.0 : law.mean_of(i, j) / law.diagonal(i);
    }
    means[i] = (roots[i] * (root_sum - roots[i]) + own[i]) / count;
  }
  const double mean = std::accumulate(means.begin(), means.end(), 0.0) / count;
  double variance = 0.0;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i + 1; j < n; ++j) {
      const double part = roots[i] * roots[j] - means[i] - means[j] + mean;
      variance += part * part * law.square(i) * law.square(j);
    }
  }
  return 2.0 / (count * (count - 1.0)) * std::sqrt(variance / length);
}

}  // namespace

void fill_centred_nulls(std::span<const double> norms, double length, CosineSummary& summary) {
  const bool is_any = std::any_of(norms.begin(), norms.end(), [](double one) { return one > 0.0; });
  if (norms.size() < 2 || !is_any) {
    return;
  }
  const CentredLaw law(norms, length);
  const auto count = static_cast<double>(norms.size());
  const double others = count - 1.0;
  const double pairs = 0.5 * count * others;
  std::vector<CosineLaw> laws;
  double sum = 0.0;
  double squares = 0.0;
  summary.null = -1.0 / others;
  for (std::size_t i = 0; i < norms.size(); ++i) {
    for (std::size_t j = i + 1; j < norms.size(); ++j) {
      const CosineLaw pair = law.of(i, j);
      laws.push_back(pair);
      const double away = pair.mean - summary.null;
      sum += away;
      squares += away * away + pair.deviation * pair.deviation;
    }
  }
  summary.null_sd = std::sqrt(squares / pairs);
  const double second = (count - 2.0) / (others * others * others * length);
  summary.null_mean = std::max(-1.0, summary.null + sum / pairs + second);
  summary.null_mean_sd = std::hypot(mean_deviation(law, length), second * std::sqrt(2.0 / others));
  const DrawnStatistic largest = largest_of(laws);
  summary.null_most = largest.mean;
  summary.null_most_sd = largest.deviation;
}

}  // namespace vindex::statistics
