// Owns the choice of experts for one token: scores by the router's rule, groups first where it has
// them, then the best experts and their weights. Float64; of equal scores the smaller number is
// taken.
#include "token_router.hpp"

#include "core/constants.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace vindex::statistics {

namespace {

void check(const RouterRule& rule, std::int64_t experts, std::size_t biases) {
  const auto refuse = [&](const std::string& why) {
    throw ConfigurationError(
        "E-ROUTER-RULE",
        fmt::format("the router's rule does not fit logits of {} experts: {}", experts, why));
  };
  if (rule.top_k < 1 || rule.top_k > experts) {
    refuse(fmt::format("it chooses {} of them", rule.top_k));
  }
  if (rule.groups < 1 || experts % rule.groups != 0 || rule.chosen_groups < 1 ||
      rule.chosen_groups > rule.groups) {
    refuse(fmt::format("it takes {} of {} groups", rule.chosen_groups, rule.groups));
  }
  if (rule.is_grouped() && rule.chosen_groups * (experts / rule.groups) < rule.top_k) {
    refuse(fmt::format("{} of {} groups hold fewer than {}", rule.chosen_groups, rule.groups,
                       rule.top_k));
  }
  if (rule.biased && biases != static_cast<std::size_t>(experts)) {
    refuse(fmt::format("it has {} biases", biases));
  }
}

/// ln(1 + e^x) without overflow.
double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

}  // namespace

TokenRouter::TokenRouter(const RouterRule& rule, std::int64_t experts, std::span<const float> bias)
    : rule_(rule) {
  check(rule, experts, bias.size());
  if (rule.biased) {
    bias_.assign(bias.begin(), bias.end());
  }
  const auto count = static_cast<std::size_t>(experts);
  scores_.resize(count);
  deciding_.resize(count);
  order_.reserve(count);
}

bool TokenRouter::score(std::span<const float> logits) {
  double largest = -kInfinity;
  for (const float logit : logits) {
    if (std::isnan(logit) || logit == std::numeric_limits<float>::infinity()) {
      return false;
    }
    largest = std::max(largest, static_cast<double>(logit));
  }
  if (largest == -kInfinity) {
    return false;
  }
  double sum = 0.0;
  for (std::size_t e = 0; e < scores_.size(); ++e) {
    const auto logit = static_cast<double>(logits[e]);
    switch (rule_.scoring) {
      case RouterScoring::kSoftmax:
        scores_[e] = std::exp(logit - largest);
        sum += scores_[e];
        break;
      case RouterScoring::kSigmoid:
        scores_[e] = 1.0 / (1.0 + std::exp(-logit));
        break;
      case RouterScoring::kSqrtSoftplus:
        scores_[e] = std::sqrt(softplus(logit));
        break;
    }
  }
  for (std::size_t e = 0; e < scores_.size(); ++e) {
    if (rule_.scoring == RouterScoring::kSoftmax) {
      scores_[e] /= sum;
    }
    deciding_[e] = scores_[e] + (bias_.empty() ? 0.0 : bias_[e]);
  }
  return true;
}

/// Leaves in order_ the experts of the best groups; equal ones: the smaller number.
void TokenRouter::choose_groups() {
  order_.clear();
  if (!rule_.is_grouped()) {
    order_.resize(deciding_.size());
    std::iota(order_.begin(), order_.end(), 0);
    return;
  }
  const auto members = deciding_.size() / static_cast<std::size_t>(rule_.groups);
  group_scores_.clear();
  for (std::size_t first = 0; first < deciding_.size(); first += members) {
    double best = -kInfinity;
    double second = -kInfinity;
    for (std::size_t e = first; e < first + members; ++e) {
      if (deciding_[e] > best) {
        second = std::exchange(best, deciding_[e]);
      } else {
        second = std::max(second, deciding_[e]);
      }
    }
    const bool both = rule_.group_score == GroupScore::kTwoLargest && members > 1;
    group_scores_.emplace_back(both ? best + second : best, static_cast<std::int32_t>(first));
  }
  const auto chosen = group_scores_.begin() + rule_.chosen_groups;
  std::partial_sort(group_scores_.begin(), chosen, group_scores_.end(),
                    [](const auto& a, const auto& b) {
                      return a.first != b.first ? a.first > b.first : a.second < b.second;
                    });
  for (auto group = group_scores_.begin(); group != chosen; ++group) {
    for (std::size_t i = 0; i < members; ++i) {
      order_.push_back(group->second + static_cast<std::int32_t>(i));
    }
  }
}

bool TokenRouter::route(std::span<const float> logits, RoutedToken& token) {
  expects(logits.size() == scores_.size(), "a logit per expert");
  if (!score(logits)) {
    return false;
  }
  choose_groups();
  const auto k = static_cast<std::size_t>(rule_.top_k);
  const std::size_t sorted = std::min(k + 1, order_.size());
  std::partial_sort(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(sorted),
                    order_.end(), [&](std::int32_t a, std::int32_t b) {
                      const auto i = static_cast<std::size_t>(a);
                      const auto j = static_cast<std::size_t>(b);
                      if (deciding_[i] != deciding_[j]) {
                        return deciding_[i] > deciding_[j];
                      }
                      return logits[i] != logits[j] ? logits[i] > logits[j] : a < b;
                    });
  token.experts.assign(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(k));
  const auto deciding = [&](std::size_t place) {
    return deciding_[static_cast<std::size_t>(order_[place])];
  };
  token.margin =
      sorted > k ? deciding(k - 1) - deciding(k) : std::numeric_limits<double>::quiet_NaN();
  token.weights.clear();
  double sum = rule_.sum_offset;
  for (const std::int32_t expert : token.experts) {
    token.weights.push_back(scores_[static_cast<std::size_t>(expert)]);
    sum += token.weights.back();
  }
  // Scores that all underflowed cannot be shared out by their sum.
  const double divisor = rule_.normalised && sum > 0.0 ? sum : 1.0;
  for (double& weight : token.weights) {
    weight = weight / divisor * rule_.scale;
  }
  const double total = std::accumulate(scores_.begin(), scores_.end(), 0.0);
  double entropy = 0.0;
  for (const double value : scores_) {
    if (value > 0.0) {
      entropy -= value / total * std::log(value / total);
    }
  }
  token.entropy = std::clamp(entropy, 0.0, std::log(static_cast<double>(scores_.size())));
  return true;
}

}  // namespace vindex::statistics
