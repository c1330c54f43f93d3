// Owns the two passes over tokens: totals in fixed lanes first, then spread, tails and sparsity
// around them.
#include "activation_statistics.hpp"

#include "activation_nulls.hpp"

#include "core/constants.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace vindex::statistics {

namespace {

/// Independent sums over the values of a token, so that one addition need not wait for the last.
constexpr std::size_t kTokenLanes = 8;
using TokenLanes = std::array<double, kTokenLanes>;
/// Square of the relative error of a mean, with room.
constexpr double kMeanRounding = 1e-27;

double lane_total(const TokenLanes& lanes) {
  return std::accumulate(lanes.begin(), lanes.end(), 0.0);
}

double hoyer_of(double absolute, double squares, double count) {
  const double root = std::sqrt(count);  // rounding leaves [0, 1] by itself
  return squares > 0.0 && count > 1.0
             ? std::clamp((root - absolute / std::sqrt(squares)) / (root - 1.0), 0.0, 1.0)
             : kNaN;
}

/// The largest float whose double is at most `value` >= 0.
float float_at_most(double value) {
  auto rounded = static_cast<float>(value);
  return static_cast<double>(rounded) > value ? std::nextafter(rounded, 0.0F) : rounded;
}

}  // namespace

ActivationTotals::ActivationTotals(std::int64_t neurons)
    : sums_(static_cast<std::size_t>(neurons), 0.0),
      largest_(static_cast<std::size_t>(neurons), 0.0F) {}

std::uint64_t ActivationTotals::memory_bytes(std::int64_t neurons) {
  return static_cast<std::uint64_t>(neurons) * (4 * sizeof(double) + 2 * sizeof(float));
}

void ActivationTotals::add(std::span<const float> rows) {
  const std::size_t width = sums_.size();
  expects(width > 0 && rows.size() % width == 0, "whole tokens");
  for (std::size_t first = 0; first < rows.size(); first += width) {
    const float* token = rows.data() + first;
    if (first_token_.empty()) {
      first_token_.assign(token, token + width);
    }
    varies_ = varies_ || !std::equal(token, token + width, first_token_.begin());
    TokenLanes absolute = {};
    TokenLanes squares = {};
    for (std::size_t i = 0; i < width; ++i) {
      const float size = std::abs(token[i]);
      const double value = token[i];
      sums_[i] += value;
      largest_[i] = std::max(largest_[i], size);
      absolute[i % kTokenLanes] += size;
      squares[i % kTokenLanes] += value * value;
    }
    const double token_absolute = lane_total(absolute);
    const double token_squares = lane_total(squares);
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
    TokenLanes second = {};
    TokenLanes fourth = {};
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
      second[i % kTokenLanes] += squared;
      fourth[i % kTokenLanes] += squared * squared;
    }
    for (std::size_t t = 0; t < near.size(); ++t) {
      near_zero_[t] += near[t];
    }
    second_ += lane_total(second);
    fourth_ += lane_total(fourth);
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
  // Float32 values that differ at all have a larger variance than rounding of their mean leaves.
  const auto count = static_cast<double>(values_);
  return second_ > kMeanRounding * count * mean_ * mean_
             ? std::max(1.0, count * fourth_ / (second_ * second_))
             : kNaN;
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
  const auto most = static_cast<double>(std::max<std::size_t>(eigenvalues.size(), 1));
  return std::clamp(std::exp(entropy), 1.0, most);
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
  TokenLanes sums = {};
  TokenLanes weighted = {};
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const float below = logits[i] - largest;
    const float value = std::exp(below);
    if (value == 0.0F) {
      continue;  // a masked entry, or one whose share no sum would keep
    }
    sums[i % kTokenLanes] += value;
    weighted[i % kTokenLanes] += static_cast<double>(value) * below;
    if (value > top.back()) {
      std::size_t place = kTop - 1;
      for (; place > 0 && top[place - 1] < value; --place) {
        top[place] = top[place - 1];
      }
      top[place] = value;
    }
  }
  const double total = lane_total(sums);
  mass_ += std::min(1.0, std::accumulate(top.begin(), top.end(), 0.0) / total);
  entropy_ += std::max(0.0, std::log(total) - lane_total(weighted) / total);
  ++tokens_;
  return true;
}

double LogitStatistics::top8_mass() const {
  return tokens_ > 0 ? std::min(1.0, mass_ / static_cast<double>(tokens_)) : kNaN;
}
double LogitStatistics::output_entropy() const {
  return tokens_ > 0 ? entropy_ / static_cast<double>(tokens_) : kNaN;
}

}  // namespace vindex::statistics
