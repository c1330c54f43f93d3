// Owns the tallies of tokens, pairs and transitions, and the statistics that are taken off them at
// the end.
#include "routing_statistics.hpp"

#include "load_statistics.hpp"
#include "token_router.hpp"

#include "core/constants.hpp"
#include "statistics/samples/quantile.hpp"
#include "statistics/samples/random_draws.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace vindex::statistics {

namespace {

/// pairs / (tokens (a/tokens) (b/tokens)); NaN where a or b is 0.
float lift_of(double pairs, double tokens, double a, double b) {
  return a > 0.0 && b > 0.0 ? static_cast<float>(pairs * tokens / (a * b))
                            : std::numeric_limits<float>::quiet_NaN();
}

/// The Poisson tail of `pairs` meetings where few are expected, else NaN.
float tail_of(double pairs, double expected) {
  return expected > 0.0 && expected < kFewExpected
             ? static_cast<float>(poisson_tail(pairs, expected))
             : std::numeric_limits<float>::quiet_NaN();
}

std::uint64_t square_bytes(std::int64_t a, std::int64_t b, std::size_t size) {
  return static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b) * size;
}

}  // namespace

double mean_weight_deviation(const RoutingStatistics& statistics, double share) {
  return statistics.weight_deviation / std::sqrt(static_cast<double>(statistics.tokens) * share);
}

RoutingTally::RoutingTally(std::int64_t experts, std::int64_t tokens)
    : experts_(static_cast<std::size_t>(experts)) {
  counts_.assign(experts_, 0.0);
  weights_.assign(experts_, 0.0);
  pairs_.assign(experts_ * experts_, 0);
  margins_.reserve(static_cast<std::size_t>(tokens));
}

std::uint64_t RoutingTally::memory_bytes(std::int64_t experts, std::int64_t tokens) {
  const auto margins = static_cast<std::uint64_t>(tokens) * sizeof(double);
  return square_bytes(experts, experts, sizeof(std::uint32_t) + 2 * sizeof(float)) +
         square_bytes(experts, 1, 6 * sizeof(double)) + 2 * margins;  // the median takes a copy
}

void RoutingTally::add(const RoutedToken& token) {
  ++tokens_;
  entropy_ += token.entropy;
  if (!std::isnan(token.margin)) {
    margins_.push_back(token.margin);
  }
  for (std::size_t i = 0; i < token.experts.size(); ++i) {
    const auto expert = static_cast<std::size_t>(token.experts[i]);
    counts_[expert] += 1.0;
    weights_[expert] += token.weights[i];
    weight_squares_ += token.weights[i] * token.weights[i];
    for (std::size_t j = 0; j < i; ++j) {
      const auto other = static_cast<std::size_t>(token.experts[j]);
      ++pairs_[std::min(expert, other) * experts_ + std::max(expert, other)];
    }
  }
}

RoutingStatistics RoutingTally::statistics() const {
  RoutingStatistics out;
  out.tokens = tokens_;
  out.loads = load_statistics(counts_);
  const auto tokens = static_cast<double>(tokens_);
  const double selections = std::accumulate(counts_.begin(), counts_.end(), 0.0);
  for (std::size_t e = 0; e < experts_; ++e) {
    out.load.push_back(selections > 0.0 ? counts_[e] / selections : kNaN);
    out.mean_weight.push_back(counts_[e] > 0.0 ? weights_[e] / counts_[e] : kNaN);
  }
  if (tokens_ > 0) {
    const double mean = std::accumulate(weights_.begin(), weights_.end(), 0.0) / selections;
    out.overall_weight = mean;
    out.weight_deviation = std::sqrt(std::max(0.0, weight_squares_ / selections - mean * mean));
    // A sum of as many ln E may be rounded beyond tokens ln E.
    out.router_entropy = std::min(entropy_ / tokens, std::log(static_cast<double>(experts_)));
  }
  out.margin = quantile(margins_, 0.5);
  out.coactivation_lift.assign(experts_ * experts_, std::numeric_limits<float>::quiet_NaN());
  for (std::size_t e = 0; e < experts_; ++e) {
    for (std::size_t f = e + 1; f < experts_; ++f) {
      const float lift = lift_of(pairs_[e * experts_ + f], tokens, counts_[e], counts_[f]);
      out.coactivation_lift[e * experts_ + f] = lift;
      out.coactivation_lift[f * experts_ + e] = lift;
    }
  }
  return out;
}

std::vector<float> RoutingTally::tails(const UniformRoutingNulls& nulls,
                                       std::int64_t group_size) const {
  std::vector<float> out(experts_ * experts_, std::numeric_limits<float>::quiet_NaN());
  for (std::size_t e = 0; e < experts_; ++e) {
    for (std::size_t f = e + 1; f < experts_; ++f) {
      const double expected =
          nulls.lift(e, f, group_size) * counts_[e] * counts_[f] / static_cast<double>(tokens_);
      out[e * experts_ + f] = out[f * experts_ + e] = tail_of(pairs_[e * experts_ + f], expected);
    }
  }
  return out;
}

TransitionTally::TransitionTally(std::int64_t from, std::int64_t to)
    : from_(static_cast<std::size_t>(from), 0.0),
      to_(static_cast<std::size_t>(to), 0.0),
      pairs_(static_cast<std::size_t>(from) * static_cast<std::size_t>(to), 0) {}

std::uint64_t TransitionTally::memory_bytes(std::int64_t from, std::int64_t to) {
  return square_bytes(from, to, sizeof(std::uint32_t) + 2 * sizeof(float)) +
         square_bytes(from + to, 1, sizeof(double));
}

void TransitionTally::add(const RoutedToken& from, const RoutedToken& to) {
  ++tokens_;
  for (const std::int32_t f : from.experts) {
    from_[static_cast<std::size_t>(f)] += 1.0;
    for (const std::int32_t t : to.experts) {
      ++pairs_[static_cast<std::size_t>(f) * to_.size() + static_cast<std::size_t>(t)];
    }
  }
  for (const std::int32_t t : to.experts) {
    to_[static_cast<std::size_t>(t)] += 1.0;
  }
}

std::vector<float> TransitionTally::lift() const {
  std::vector<float> out(pairs_.size());
  for (std::size_t f = 0; f < from_.size(); ++f) {
    for (std::size_t t = 0; t < to_.size(); ++t) {
      const std::size_t at = f * to_.size() + t;
      out[at] = lift_of(pairs_[at], static_cast<double>(tokens_), from_[f], to_[t]);
    }
  }
  return out;
}

std::vector<float> TransitionTally::tails() const {
  std::vector<float> out(pairs_.size());
  for (std::size_t f = 0; f < from_.size(); ++f) {
    for (std::size_t t = 0; t < to_.size(); ++t) {
      const std::size_t at = f * to_.size() + t;
      out[at] = tail_of(pairs_[at], from_[f] * to_[t] / static_cast<double>(tokens_));
    }
  }
  return out;
}

void LogitSpread::add(std::span<const float> logits) {
  double sum = 0.0;
  for (const float logit : logits) {
    if (std::isinf(logit)) {
      return;  // a masked expert: this token has no spread
    }
    sum += logit;
  }
  const auto count = static_cast<double>(logits.size());
  const double mean = sum / count;
  double squares = 0.0;
  for (const float logit : logits) {
    squares += (logit - mean) * (logit - mean);
  }
  ++tokens_;
  means_ += mean;
  variances_ += logits.size() > 1 ? squares / (count - 1.0) : 0.0;
}

double LogitSpread::mean() const {
  return tokens_ > 0 ? means_ / static_cast<double>(tokens_) : kNaN;
}
double LogitSpread::deviation() const {
  return tokens_ > 0 ? std::sqrt(variances_ / static_cast<double>(tokens_)) : kNaN;
}

}  // namespace vindex::statistics
