#include <vindex/core/error.hpp>
#include <vindex/measure/activation_statistics.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

namespace vindex::measure {

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
/// Independent sums over the values of a token, so that one addition need not wait for the last.
constexpr std::size_t kLanes = 8;
using LaneSums = std::array<double, kLanes>;

double sum_of(const LaneSums& lanes) { return std::accumulate(lanes.begin(), lanes.end(), 0.0); }

double hoyer_of(double absolute, double squares, double count) {
  return squares > 0.0 && count > 1.0
             ? (std::sqrt(count) - absolute / std::sqrt(squares)) / (std::sqrt(count) - 1.0)
             : kNaN;
}

/// The largest float whose double is at most `value` >= 0.
float float_at_most(double value) {
  auto rounded = static_cast<float>(value);
  return static_cast<double>(rounded) > value ? std::nextafter(rounded, 0.0F) : rounded;
}

/// Hoyer's sparseness of n independent values: E(|a|_1/|a|_2) to first order in 1/n, from the
/// variance of a^2 and its covariance with |a|.
double hoyer_null(ActivationLaw law, double n) {
  const bool product = law == ActivationLaw::kProduct;
  const double mean_absolute = product ? 2.0 / std::numbers::pi : std::sqrt(2.0 / std::numbers::pi);
  const double correction = product ? 1.5 : 0.25;
  return n > 1.0
             ? std::sqrt(n) * (1.0 - mean_absolute * (1.0 + correction / n)) / (std::sqrt(n) - 1.0)
             : kNaN;
}

}  // namespace

double share_near_zero(ActivationLaw law, double t) {
  if (law == ActivationLaw::kGaussian) {
    return std::erf(t / std::numbers::sqrt2);
  }
  // (2/pi) times the integral of K0 from 0 to t, with K0(u) = integral of exp(-u cosh s) over
  // s > 0, taken over u first. The integrand is even and analytic in |Im s| < pi/2, so that the
  // trapezoidal rule is exact to rounding.
  constexpr double kStep = 1.0 / 64.0;
  constexpr int kSteps = 42 * 64;
  double sum = 0.5 * -std::expm1(-t);
  for (int i = 1; i <= kSteps; ++i) {
    const double c = std::cosh(i * kStep);
    sum += -std::expm1(-t * c) / c;
  }
  return 2.0 / std::numbers::pi * kStep * sum;
}

ActivationNulls activation_nulls(ActivationLaw law, std::int64_t tokens, std::int64_t neurons) {
  ActivationNulls nulls;
  for (std::size_t i = 0; i < kNearZero.size(); ++i) {
    nulls.sparsity[i] = share_near_zero(law, kNearZero[i]);
  }
  const auto t = static_cast<double>(tokens);
  const auto n = static_cast<double>(neurons);
  nulls.hoyer = hoyer_null(law, t * n);
  nulls.hoyer_token = hoyer_null(law, n);
  nulls.neuron_variance = (t - 1.0) / t;
  nulls.dead_neurons = n * std::pow(nulls.sparsity[0], t);
  nulls.kurtosis = law == ActivationLaw::kProduct ? 9.0 : 3.0;
  return nulls;
}

ActivationTotals::ActivationTotals(std::int64_t neurons)
    : sums_(static_cast<std::size_t>(neurons), 0.0),
      largest_(static_cast<std::size_t>(neurons), 0.0F) {}

std::uint64_t ActivationTotals::memory_bytes(std::int64_t neurons) {
  return static_cast<std::uint64_t>(neurons) * (4 * sizeof(double) + sizeof(float));
}

void ActivationTotals::add(std::span<const float> rows) {
  const std::size_t width = sums_.size();
  expects(width > 0 && rows.size() % width == 0, "whole tokens");
  for (std::size_t first = 0; first < rows.size(); first += width) {
    const float* token = rows.data() + first;
    LaneSums absolute = {};
    LaneSums squares = {};
    for (std::size_t i = 0; i < width; ++i) {
      const float size = std::abs(token[i]);
      const double value = token[i];
      sums_[i] += value;
      largest_[i] = std::max(largest_[i], size);
      absolute[i % kLanes] += size;
      squares[i % kLanes] += value * value;
    }
    const double token_absolute = sum_of(absolute);
    const double token_squares = sum_of(squares);
    absolute_ += token_absolute;
    squares_ += token_squares;
    const double hoyer = hoyer_of(token_absolute, token_squares, static_cast<double>(width));
    if (!std::isnan(hoyer)) {
      hoyers_ += hoyer;
      ++hoyer_tokens_;
    }
    ++tokens_;
  }
}

bool ActivationTotals::is_finite() const { return std::isfinite(squares_); }

double ActivationTotals::mean() const {
  return std::accumulate(sums_.begin(), sums_.end(), 0.0) /
         (static_cast<double>(tokens_) * static_cast<double>(sums_.size()));
}

double ActivationTotals::mean_square() const {
  return squares_ / (static_cast<double>(tokens_) * static_cast<double>(sums_.size()));
}

std::vector<double> ActivationTotals::neuron_means() const {
  std::vector<double> means = sums_;
  for (double& mean : means) {
    mean /= static_cast<double>(tokens_);
  }
  return means;
}

double ActivationTotals::hoyer() const {
  return hoyer_of(absolute_, squares_,
                  static_cast<double>(tokens_) * static_cast<double>(sums_.size()));
}

double ActivationTotals::hoyer_token() const {
  return hoyer_tokens_ > 0 ? hoyers_ / static_cast<double>(hoyer_tokens_) : kNaN;
}

std::int64_t ActivationTotals::dead_neurons() const {
  const float most = float_at_most(kNearZero[0] * std::sqrt(mean_square()));
  return std::count_if(largest_.begin(), largest_.end(),
                       [&](float largest) { return largest <= most; });
}

ActivationSpread::ActivationSpread(const ActivationTotals& totals)
    : means_(totals.neuron_means()), squares_(means_.size(), 0.0), mean_(totals.mean()) {
  const double root = std::sqrt(totals.mean_square());
  for (std::size_t i = 0; i < kNearZero.size(); ++i) {
    thresholds_[i] = float_at_most(kNearZero[i] * root);
  }
}

void ActivationSpread::add(std::span<const float> rows) {
  const std::size_t width = means_.size();
  expects(width > 0 && rows.size() % width == 0, "whole tokens");
  for (std::size_t first = 0; first < rows.size(); first += width) {
    const float* token = rows.data() + first;
    LaneSums second = {};
    LaneSums fourth = {};
    std::array<std::int32_t, kNearZero.size()> near = {};
    for (std::size_t i = 0; i < width; ++i) {
      const float size = std::abs(token[i]);
      for (std::size_t t = 0; t < near.size(); ++t) {
        near[t] += size <= thresholds_[t] ? 1 : 0;
      }
      const double value = token[i];
      const double of_neuron = value - means_[i];
      squares_[i] += of_neuron * of_neuron;
      const double squared = (value - mean_) * (value - mean_);
      second[i % kLanes] += squared;
      fourth[i % kLanes] += squared * squared;
    }
    for (std::size_t t = 0; t < near.size(); ++t) {
      near_zero_[t] += near[t];
    }
    second_ += sum_of(second);
    fourth_ += sum_of(fourth);
  }
  values_ += static_cast<std::int64_t>(rows.size());
}

std::array<double, kNearZero.size()> ActivationSpread::sparsity() const {
  std::array<double, kNearZero.size()> shares = {};
  for (std::size_t t = 0; t < shares.size(); ++t) {
    shares[t] = static_cast<double>(near_zero_[t]) / static_cast<double>(values_);
  }
  return shares;
}

double ActivationSpread::neuron_variance() const {
  return std::accumulate(squares_.begin(), squares_.end(), 0.0) / static_cast<double>(values_);
}

double ActivationSpread::kurtosis() const {
  return second_ > 0.0 ? static_cast<double>(values_) * fourth_ / (second_ * second_) : kNaN;
}

double effective_rank_of(std::span<const double> eigenvalues) {
  double total = 0.0;
  for (const double value : eigenvalues) {
    total += std::max(value, 0.0);
  }
  if (!(total > 0.0)) {
    return kNaN;
  }
  double entropy = 0.0;
  for (const double value : eigenvalues) {
    const double share = std::max(value, 0.0) / total;
    entropy -= share > 0.0 ? share * std::log(share) : 0.0;
  }
  return std::exp(entropy);
}

bool LogitStatistics::add(std::span<const float> logits) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  float largest = -kInfinity;
  bool is_number = true;
  for (const float logit : logits) {
    is_number &= !std::isnan(logit);
    largest = std::max(largest, logit);
  }
  if (!is_number || std::isinf(largest)) {
    return false;
  }
  constexpr std::size_t kTop = 8;
  std::array<float, kTop> top = {};  // descending
  LaneSums sums = {};
  LaneSums weighted = {};
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const float below = logits[i] - largest;
    const float value = std::exp(below);
    if (value == 0.0F) {
      continue;  // a masked entry, or one whose share no sum would keep
    }
    sums[i % kLanes] += value;
    weighted[i % kLanes] += static_cast<double>(value) * below;
    if (value > top.back()) {
      std::size_t place = kTop - 1;
      for (; place > 0 && top[place - 1] < value; --place) {
        top[place] = top[place - 1];
      }
      top[place] = value;
    }
  }
  const double total = sum_of(sums);
  mass_ += std::accumulate(top.begin(), top.end(), 0.0) / total;
  entropy_ += std::log(total) - sum_of(weighted) / total;
  ++tokens_;
  return true;
}

double LogitStatistics::top8_mass() const {
  return tokens_ > 0 ? mass_ / static_cast<double>(tokens_) : kNaN;
}
double LogitStatistics::output_entropy() const {
  return tokens_ > 0 ? entropy_ / static_cast<double>(tokens_) : kNaN;
}

}  // namespace vindex::measure
