// Owns what uniform routing gives (statistics/routing/routing_nulls.hpp).
//
// Loads of experts are sums of exchangeable choices, so their means and deviations are exact: one
// expert's share is k / E in the mean with deviation sqrt(p (1 - p) / T) / k, p = k / E; E (1 -
// p)^T experts are dead. Statistics of all loads (cv, entropy, Gini, maximum) have no such formula
// and are drawn.
//
// Entropy and margin are means and medians over tokens of drawn normal logits. A layer is compared
// with noise of the mean and deviation of its own logits, so what its statistic owes to those must
// not count as scatter: it is taken out by linear regression on the sufficient statistics of normal
// logits, sum and sum of squares.
#include "routing_nulls.hpp"

#include "lift_maxima.hpp"
#include "load_statistics.hpp"
#include "token_router.hpp"
#include "uniform_choice.hpp"

#include "core/constants.hpp"
#include "statistics/samples/quantile.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <vector>

namespace vindex::statistics {

namespace {

/// Of every drawn token: what its scores gave, and how its own logits lie about the law's mean.
struct DrawnTokens {
  std::vector<double> entropy, margin;
  std::vector<double> offset;  ///< mean of its logits less the law's
  std::vector<double> about_law,
      about_own;  ///< mean square about the law's, variance about its own
  std::map<std::vector<std::uint32_t>, double, std::greater<>> patterns;
};

DrawnTokens draw_tokens(RouterRule rule, std::int64_t experts, double mean, double deviation) {
  rule.biased = false;
  TokenRouter router(rule, experts);
  const std::uint64_t key =
      null_key(NullPurpose::kTokens,
               {static_cast<std::uint64_t>(experts), static_cast<std::uint64_t>(rule.top_k),
                static_cast<std::uint64_t>(rule.groups), std::bit_cast<std::uint64_t>(mean),
                std::bit_cast<std::uint64_t>(deviation)});
  DrawStream draws(key);
  DrawnTokens out;
  RoutedToken token;
  std::vector<float> logits(static_cast<std::size_t>(experts));
  const auto count = static_cast<double>(experts);
  const std::int64_t groups = rule.is_grouped() ? rule.groups : 1;
  std::vector<std::uint32_t> parts;
  for (std::int64_t t = 0; t < kNoiseTokens; ++t) {
    double sum = 0.0;
    double squares = 0.0;
    for (float& logit : logits) {
      const double normal = draws.normal();
      logit = static_cast<float>(mean + deviation * normal);
      sum += normal;
      squares += normal * normal;
    }
    if (!router.route(logits, token)) {
      continue;  // beyond float32: no token goes anywhere
    }
    out.entropy.push_back(token.entropy);
    out.margin.push_back(token.margin);
    out.offset.push_back(sum / count);
    out.about_law.push_back(squares / count);
    out.about_own.push_back((squares - sum * sum / count) / std::max(1.0, count - 1.0));
    parts.assign(static_cast<std::size_t>(groups), 0);
    for (const std::int32_t expert : token.experts) {
      ++parts[static_cast<std::size_t>(expert / (experts / groups))];
    }
    std::erase(parts, 0U);
    std::sort(parts.begin(), parts.end(), std::greater<>());
    out.patterns[parts] += 1.0;
  }
  return out;
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// Slope of `y` over `x`.
double slope(const std::vector<double>& y, const std::vector<double>& x) {
  const double middle_y = mean_of(y);
  const double middle_x = mean_of(x);
  double products = 0.0;
  double squares = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    products += (y[i] - middle_y) * (x[i] - middle_x);
    squares += (x[i] - middle_x) * (x[i] - middle_x);
  }
  return squares > 0.0 ? products / squares : 0.0;
}

/// Mean over a layer's tokens of what `values` gives for the drawn ones. A layer is compared by the
/// mean and deviation of its own logits. Derivatives by these are slopes over the sufficient
/// statistics of normal logits; what follows a token's own logits is taken out of its value, which
/// is how the layer's number varies about a null that follows its logits.
DrawnNull compared_by_own(std::vector<double> values, const DrawnTokens& tokens,
                          std::int64_t count) {
  const double by_mean = slope(values, tokens.offset);
  const double by_square = slope(values, tokens.about_law);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] -= by_mean * tokens.offset[i] + by_square * (tokens.about_own[i] - 1.0);
  }
  const DrawnNull of_tokens = summary_of(values);
  return {of_tokens.mean,
          of_tokens.deviation * std::sqrt(1.0 / static_cast<double>(count) +
                                          1.0 / static_cast<double>(values.size()))};
}

/// Median over a layer's tokens: by its influence function, and with the bias of few tokens.
DrawnNull median_compared_by_own(const DrawnTokens& tokens, std::int64_t count) {
  std::vector<double> sorted = tokens.margin;
  std::sort(sorted.begin(), sorted.end());
  const double median = quantile(sorted, 0.5);
  const double spread = quantile(sorted, 0.55) - quantile(sorted, 0.45);
  const double bend = (quantile(sorted, 0.6) - 2.0 * median + quantile(sorted, 0.4)) / 0.01;
  std::vector<double> influence;
  for (const double margin : tokens.margin) {
    const double side = margin < median ? -0.5 : 0.5;
    influence.push_back(median + side * spread / 0.1);
  }
  DrawnNull null = compared_by_own(std::move(influence), tokens, count);
  null.mean += bend / (8.0 * (static_cast<double>(count) + 2.0));
  null.mean = std::max(0.0, null.mean);
  return null;
}

}  // namespace

NoiseRouter noise_router(const RouterRule& rule, std::int64_t experts, double mean,
                         double deviation, std::int64_t tokens) {
  NoiseRouter out;
  out.choice = {experts, rule.top_k, rule.is_grouped() ? rule.groups : 1, {}};
  if (!rule.is_grouped()) {
    out.choice.patterns = {{{static_cast<std::uint32_t>(rule.top_k)}, 1.0}};
  }
  if (!std::isfinite(mean) || !std::isfinite(deviation)) {
    return out;
  }
  if (rule.scoring == RouterScoring::kSoftmax) {
    mean = 0.0;  // it does not see a shift
  }
  // Equal logits are chosen among by number; those that are nearly equal, by chance.
  constexpr double kNearlyEqual = 1e-3;
  const DrawnTokens drawn = draw_tokens(rule, experts, deviation > 0.0 ? mean : 0.0,
                                        deviation > 0.0 ? deviation : kNearlyEqual);
  if (drawn.entropy.empty()) {
    return out;
  }
  if (rule.is_grouped()) {
    for (const auto& [parts, count] : drawn.patterns) {
      out.choice.patterns.push_back({parts, count / static_cast<double>(drawn.entropy.size())});
    }
  }
  const bool has_margin = !std::isnan(drawn.margin.front());
  if (!(deviation > 0.0)) {
    out.entropy = {std::log(static_cast<double>(experts)), 0.0};
    out.margin = has_margin ? DrawnNull{0.0, 0.0} : DrawnNull{};
    return out;
  }
  out.entropy = compared_by_own(drawn.entropy, drawn, tokens);
  out.entropy.mean = std::min(out.entropy.mean, std::log(static_cast<double>(experts)));
  if (has_margin) {
    out.margin = median_compared_by_own(drawn, tokens);
  }
  return out;
}

double UniformRoutingNulls::lift(std::size_t expert, std::size_t other,
                                 std::int64_t group_size) const {
  const auto size = static_cast<std::size_t>(group_size);
  return !std::isnan(same_group) && expert / size == other / size ? same_group : coactivation;
}

UniformRoutingNulls uniform_routing_nulls(const ChoiceLaw& law, std::int64_t tokens) {
  UniformRoutingNulls nulls;
  const auto e = static_cast<double>(law.experts);
  const auto count = static_cast<double>(tokens);
  const double p = law.share();
  nulls.load = 1.0 / e;
  nulls.load_deviation = std::sqrt(p * (1.0 - p) / count) / static_cast<double>(law.top_k);
  nulls.dead_experts.mean = e * std::pow(1.0 - p, count);
  if (law.patterns.empty()) {
    nulls.coactivation = nulls.coactivation_deviation = kNaN;
    return nulls;
  }
  const PairLaw other = other_pairs(law);
  nulls.coactivation = other.mean();
  nulls.coactivation_deviation = other.deviation(count);
  if (const PairLaw same = same_group_pairs(law); same.pairs > 0.0) {
    nulls.same_group = same.mean();
    nulls.same_group_deviation = same.deviation(count);
  }
  std::array<std::vector<double>, 5> values;
  std::vector<double> counts(static_cast<std::size_t>(law.experts));
  const std::uint64_t key = null_key(NullPurpose::kLoads, law, tokens);
  LoadDraws loads_of(law);
  for (std::int32_t draw = 0; draw < kRoutingDraws; ++draw) {
    DrawStream numbers(key, static_cast<std::uint64_t>(draw));
    loads_of.next(tokens, numbers, counts);
    const LoadStatistics loads = load_statistics(counts);
    values[0].push_back(loads.cv);
    values[1].push_back(loads.entropy);
    values[2].push_back(loads.gini);
    values[3].push_back(loads.max_over_mean);
    values[4].push_back(static_cast<double>(loads.dead_experts));
  }
  nulls.cv = summary_of(values[0]);
  nulls.entropy = summary_of(values[1]);
  nulls.gini = summary_of(values[2]);
  nulls.max_over_mean = summary_of(values[3]);
  nulls.dead_experts.deviation = summary_of(values[4]).deviation;
  nulls.coactivation_max = coactivation_maximum(law, tokens);
  return nulls;
}

double transition_deviation(std::int64_t tokens, double share_from, double share_to) {
  return std::sqrt((1.0 / share_from - 1.0) * (1.0 / share_to - 1.0) / static_cast<double>(tokens));
}

}  // namespace vindex::statistics
