// Owns what uniform routing gives (measure/routing_statistics.hpp).
#include "draw_stream.hpp"

#include <vindex/measure/metrics.hpp>
#include <vindex/measure/routing_statistics.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace vindex::measure {

namespace {

// Any fixed number; one per purpose.
constexpr std::uint64_t kLoadKey = 0x76696E6465780001;
constexpr std::uint64_t kGroupKey = 0x76696E6465780002;
constexpr std::uint64_t kNoiseKey = 0x76696E6465780003;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Routes `count` tokens of independent normal logits.
template <typename Take>
void route_noise(RouterRule rule, std::int64_t experts, double mean, double deviation,
                 std::int64_t count, DrawStream& draws, Take take) {
  rule.biased = false;
  TokenRouter router(rule, experts);
  RoutedToken token;
  std::vector<float> logits(static_cast<std::size_t>(experts));
  for (std::int64_t t = 0; t < count; ++t) {
    for (float& logit : logits) {
      logit = static_cast<float>(mean + deviation * draws.normal());
    }
    if (router.route(logits, token)) {
      take(token);
    }
  }
}

/// Who is chosen by a token of no preference.
class UniformChoice {
 public:
  UniformChoice(const RouterRule& rule, std::int64_t experts)
      : k_(static_cast<std::size_t>(rule.top_k)),
        experts_(static_cast<std::uint32_t>(experts)),
        groups_(rule.is_grouped() ? static_cast<std::uint32_t>(rule.groups) : 1) {
    const auto e = static_cast<double>(experts);
    const auto k = static_cast<double>(rule.top_k);
    if (groups_ == 1) {
      other_ = experts > 1 ? k * (k - 1.0) / (e * (e - 1.0)) : 0.0;
      return;
    }
    DrawStream draws(kGroupKey);
    std::vector<std::uint32_t> members(groups_);
    double same = 0.0;
    double other = 0.0;
    std::int64_t tokens = 0;
    route_noise(rule, experts, 0.0, 1.0, kPool, draws, [&](const RoutedToken& token) {
      pool_.insert(pool_.end(), token.experts.begin(), token.experts.end());
      std::fill(members.begin(), members.end(), 0);
      for (const std::int32_t expert : token.experts) {
        ++members[static_cast<std::uint32_t>(expert) / group_size()];
      }
      double pairs = 0.0;
      for (const std::uint32_t count : members) {
        pairs += static_cast<double>(count) * (static_cast<double>(count) - 1.0);
      }
      same += pairs;
      other += k * (k - 1.0) - pairs;
      ++tokens;
    });
    const auto size = static_cast<double>(group_size());
    const auto count = static_cast<double>(tokens);
    same_ = size > 1.0 ? same / (count * e * (size - 1.0)) : kNaN;
    other_ = other / (count * e * (e - size));
  }

  bool is_grouped() const { return groups_ > 1; }
  std::uint32_t groups() const { return groups_; }
  std::uint32_t group_size() const { return experts_ / groups_; }
  double share() const { return static_cast<double>(k_) / experts_; }
  /// Chance that two experts are chosen together: of one group; of two, or of any without groups.
  double same_group() const { return same_; }
  double other() const { return other_; }

  /// Adds one token to `counts`.
  void add(DrawStream& draws, std::vector<double>& counts) {
    if (is_grouped()) {
      // One of the pool, groups and their members turned: no expert is preferred.
      const std::size_t tokens = pool_.size() / k_;
      const std::size_t first = draws.below(tokens) * k_;
      const std::uint32_t turn = draws.below(groups_);
      const std::uint32_t shift = draws.below(group_size());
      for (std::size_t i = first; i < first + k_; ++i) {
        const auto expert = static_cast<std::uint32_t>(pool_[i]);
        const std::uint32_t group = (expert / group_size() + turn) % groups_;
        const std::uint32_t member = (expert % group_size() + shift) % group_size();
        counts[group * group_size() + member] += 1.0;
      }
      return;
    }
    // Floyd's k of E: Bentley, "Programming pearls: a sample of brilliance", CACM 30 (1987).
    chosen_.clear();
    for (std::uint32_t last = experts_ - static_cast<std::uint32_t>(k_); last < experts_; ++last) {
      const std::uint32_t candidate = draws.below(last + 1ULL);
      const bool taken = std::find(chosen_.begin(), chosen_.end(), candidate) != chosen_.end();
      chosen_.push_back(taken ? last : candidate);
      counts[chosen_.back()] += 1.0;
    }
  }

 private:
  static constexpr std::int64_t kPool = 16384;
  std::size_t k_;
  std::uint32_t experts_, groups_;
  double same_ = kNaN, other_ = 0.0;
  std::vector<std::int32_t> pool_;
  std::vector<std::uint32_t> chosen_;
};

/// Loads of many tokens, from the normal law of their covariance: one variance for contrasts within
/// a group, one for those between groups.
void add_normal_loads(const UniformChoice& choice, double tokens, DrawStream& draws,
                      std::vector<double>& counts) {
  const double p = choice.share();
  const double between_experts = tokens * (choice.other() - p * p);
  const double own = tokens * p * (1.0 - p);
  const double within_group = choice.is_grouped() && choice.group_size() > 1
                                  ? tokens * (choice.same_group() - p * p)
                                  : between_experts;
  const auto size = static_cast<double>(choice.group_size());
  const double within = std::max(0.0, own - within_group);
  const double between =
      std::max(0.0, own + (size - 1.0) * within_group - size * between_experts) / size;
  std::vector<double> of_groups(choice.groups());
  for (double& value : of_groups) {
    value = draws.normal();
  }
  const double mean_of_groups = std::accumulate(of_groups.begin(), of_groups.end(), 0.0) /
                                static_cast<double>(of_groups.size());
  for (std::uint32_t group = 0; group < choice.groups(); ++group) {
    const auto first = counts.begin() + group * choice.group_size();
    const auto last = first + choice.group_size();
    std::generate(first, last, [&] { return draws.normal(); });
    const double mean = std::accumulate(first, last, 0.0) / size;
    const double common = std::sqrt(between) * (of_groups[group] - mean_of_groups);
    std::transform(first, last, first, [&](double value) {
      return std::max(0.0, tokens * p + std::sqrt(within) * (value - mean) + common);
    });
  }
}

DrawnNull summary_of(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0.0;
  for (const double value : values) {
    squares += (value - mean) * (value - mean);
  }
  return {mean, std::sqrt(squares / (count - 1.0))};
}

/// Deviation of tokens n / (a b), n of chance q, a and b of chance p: to first order in 1/tokens.
double lift_deviation(double tokens, double p, double q) {
  if (!(q > 0.0)) {
    return q == 0.0 ? 0.0 : kNaN;
  }
  const double relative = 1.0 / q - 2.0 / p + 2.0 * q / (p * p) - 1.0;
  return q / (p * p) * std::sqrt(std::max(0.0, relative) / tokens);
}

}  // namespace

UniformRoutingNulls uniform_routing_nulls(const RouterRule& rule, std::int64_t experts,
                                          std::int64_t tokens, std::int32_t draws,
                                          std::uint64_t stream) {
  {
    RouterRule unbiased = rule;
    unbiased.biased = false;
    TokenRouter checked(unbiased, experts);
  }
  UniformChoice choice(rule, experts);
  UniformRoutingNulls nulls;
  const auto e = static_cast<double>(experts);
  const auto count = static_cast<double>(tokens);
  const double p = choice.share();
  nulls.load = 1.0 / e;
  nulls.load_deviation = std::sqrt(p * (1.0 - p) / count) / static_cast<double>(rule.top_k);
  nulls.dead_experts = e * std::pow(1.0 - p, count);
  nulls.coactivation = choice.other() / (p * p);
  nulls.coactivation_deviation = lift_deviation(count, p, choice.other());
  if (choice.is_grouped()) {
    nulls.same_group = choice.same_group() / (p * p);
    nulls.same_group_deviation = lift_deviation(count, p, choice.same_group());
  }
  std::array<std::vector<double>, 4> values;
  std::vector<double> counts(static_cast<std::size_t>(experts));
  for (std::int32_t draw = 0; draw < draws; ++draw) {
    DrawStream numbers(kLoadKey + stream, static_cast<std::uint64_t>(draw));
    std::fill(counts.begin(), counts.end(), 0.0);
    if (count * p > kExactSelections) {
      add_normal_loads(choice, count, numbers, counts);
    } else {
      for (std::int64_t t = 0; t < tokens; ++t) {
        choice.add(numbers, counts);
      }
    }
    const LoadStatistics loads = load_statistics(counts);
    values[0].push_back(loads.cv);
    values[1].push_back(loads.entropy);
    values[2].push_back(loads.gini);
    values[3].push_back(loads.max_over_mean);
  }
  nulls.cv = summary_of(values[0]);
  nulls.entropy = summary_of(values[1]);
  nulls.gini = summary_of(values[2]);
  nulls.max_over_mean = summary_of(values[3]);
  return nulls;
}

double transition_deviation(std::int64_t tokens, double share_from, double share_to) {
  return std::sqrt((1.0 / share_from - 1.0) * (1.0 / share_to - 1.0) / static_cast<double>(tokens));
}

NoiseRouter noise_router(const RouterRule& rule, std::int64_t experts, double mean,
                         double deviation, std::uint64_t stream) {
  if (!std::isfinite(mean) || !std::isfinite(deviation)) {
    return {};
  }
  DrawStream draws(kNoiseKey + stream);
  std::vector<double> margins;
  double entropy = 0.0;
  route_noise(rule, experts, mean, deviation, kNoiseTokens, draws, [&](const RoutedToken& token) {
    entropy += token.entropy;
    margins.push_back(token.margin);
  });
  return {entropy / static_cast<double>(kNoiseTokens), quantile(std::move(margins), 0.5)};
}

}  // namespace vindex::measure
