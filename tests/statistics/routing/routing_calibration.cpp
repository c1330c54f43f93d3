// Owns drawing the layers, and the comparison of each statistic with its null.
#include "routing_calibration.hpp"

#include "statistics/routing/routing_statistics.hpp"
#include "statistics/routing/token_router.hpp"
#include "statistics/samples/random_draws.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace vindex::statistics::testing {

namespace {

constexpr double kThree = 3.0;
constexpr double kChanceOfThree = 0.0027;

/// Statistics by name, in the order in which they came.
class Gatherer {
 public:
  void z(const std::string& name, double value, double mean, double deviation) {
    if (std::isnan(value) || !(deviation > 0.0)) {
      return;
    }
    Sums& sums = of(name);
    const double z = (value - mean) / deviation;
    sums.count += 1.0;
    sums.z += z;
    sums.squares += z * z;
    sums.beyond += std::abs(z) > kThree ? 1.0 : 0.0;
  }
  void z(const std::string& name, double value, const DrawnNull& null) {
    z(name, value, null.mean, null.deviation);
  }
  void p(const std::string& name, double chance) {
    if (!std::isnan(chance)) {
      Sums& sums = of(name);
      sums.count += 1.0;
      sums.beyond += chance < kChanceOfThree ? 1.0 : 0.0;
      sums.at_05 += chance <= 0.05 ? 1.0 : 0.0;
      sums.p += chance;
    }
  }
  std::vector<CalibratedStatistic> results() const {
    std::vector<CalibratedStatistic> out;
    for (const std::string& name : names_) {
      const Sums& sums = sums_.at(name);
      const double mean = sums.z / sums.count;
      out.push_back({name, mean, std::sqrt(std::max(0.0, sums.squares / sums.count - mean * mean)),
                     sums.beyond / sums.count, sums.at_05 / sums.count, sums.p / sums.count,
                     sums.count});
    }
    return out;
  }

 private:
  struct Sums {
    double count = 0.0, z = 0.0, squares = 0.0, beyond = 0.0, at_05 = 0.0, p = 0.0;
  };
  Sums& of(const std::string& name) {
    if (!sums_.contains(name)) {
      names_.push_back(name);
    }
    return sums_[name];
  }
  std::vector<std::string> names_;
  std::map<std::string, Sums> sums_;
};

double largest(const std::vector<float>& lifts) {
  double out = std::nan("");
  for (const float lift : lifts) {
    out = std::fmax(out, lift);
  }
  return out;
}

struct Layer {
  RoutingTally tally;
  LogitSpread spread;
  std::vector<RoutedToken> routed;
};

Layer draw_layer(const RoutingCase& routing, std::uint64_t stream) {
  DrawStream draws(0xCA11B8A7E, stream);
  const std::vector<float> bias(
      routing.rule.biased ? static_cast<std::size_t>(routing.experts) : 0U, 0.25F);
  TokenRouter router(routing.rule, routing.experts, bias);
  Layer layer{RoutingTally(routing.experts, routing.tokens), {}, {}};
  std::vector<float> logits(static_cast<std::size_t>(routing.experts));
  RoutedToken token;
  for (std::int64_t t = 0; t < routing.tokens; ++t) {
    for (float& logit : logits) {
      logit = static_cast<float>(routing.logit_mean + routing.logit_sd * draws.normal());
    }
    router.route(logits, token);
    layer.tally.add(token);
    layer.spread.add(logits);
    layer.routed.push_back(token);
  }
  return layer;
}

void compare_lifts(const RoutingCase& routing, const Layer& layer, const RoutingStatistics& s,
                   const UniformRoutingNulls& nulls, Gatherer& out) {
  const std::int64_t size = routing.experts / (routing.rule.is_grouped() ? routing.rule.groups : 1);
  const auto experts = static_cast<std::size_t>(routing.experts);
  const std::vector<float> tails = layer.tally.tails(nulls, size);
  for (std::size_t e = 0; e < experts; ++e) {
    for (std::size_t f = e + 1; f < experts; ++f) {
      const std::size_t at = e * experts + f;
      const double null = nulls.lift(e, f, size);
      if (std::isnan(tails[at])) {
        out.z("coactivation_lift", s.coactivation_lift[at], null,
              null == nulls.same_group ? nulls.same_group_deviation : nulls.coactivation_deviation);
      } else {
        out.p("coactivation_lift p", tails[at]);
      }
    }
  }
  const double most = largest(s.coactivation_lift);
  out.z("coactivation_lift_max", most, nulls.coactivation_max.null);
  out.p("coactivation_lift_max p", nulls.coactivation_max.chance(most));
}

}  // namespace

std::vector<CalibratedStatistic> calibrate(const RoutingCase& routing, int repeats) {
  const RouterRule& rule = routing.rule;
  const ChoiceLaw law =
      noise_router(rule, routing.experts, routing.logit_mean, routing.logit_sd, routing.tokens)
          .choice;
  const UniformRoutingNulls nulls = uniform_routing_nulls(law, routing.tokens);
  const MaximumNull transition = transition_maximum(law, law, routing.tokens);
  Gatherer out;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const auto stream = 2 * static_cast<std::uint64_t>(repeat);
    const Layer layer = draw_layer(routing, stream);
    const RoutingStatistics s = layer.tally.statistics();
    const NoiseRouter noise = noise_router(rule, routing.experts, layer.spread.mean(),
                                           layer.spread.deviation(), routing.tokens);
    for (const double load : s.load) {
      out.z("load", load, nulls.load, nulls.load_deviation);
    }
    out.z("load_cv", s.loads.cv, nulls.cv);
    out.z("load_entropy", s.loads.entropy, nulls.entropy);
    out.z("gini", s.loads.gini, nulls.gini);
    out.z("max_over_mean", s.loads.max_over_mean, nulls.max_over_mean);
    out.z("dead_experts", static_cast<double>(s.loads.dead_experts), nulls.dead_experts);
    for (const double weight : s.mean_weight) {
      out.z("mean_weight", weight, s.overall_weight, mean_weight_deviation(s, law.share()));
    }
    out.z("router_entropy", s.router_entropy, noise.entropy);
    out.z("margin", s.margin, noise.margin);
    compare_lifts(routing, layer, s, nulls, out);
    const Layer next = draw_layer(routing, stream + 1);
    TransitionTally tally(routing.experts, routing.experts);
    for (std::size_t t = 0; t < layer.routed.size(); ++t) {
      tally.add(layer.routed[t], next.routed[t]);
    }
    const std::vector<float> lifts = tally.lift();
    const std::vector<float> tails = tally.tails();
    for (std::size_t at = 0; at < lifts.size(); ++at) {
      if (std::isnan(tails[at])) {
        out.z("transition_lift", lifts[at], 1.0,
              transition_deviation(routing.tokens, law.share(), law.share()));
      } else {
        out.p("transition_lift p", tails[at]);
      }
    }
    out.z("transition_lift_max", largest(lifts), transition.null);
    out.p("transition_lift_max p", transition.chance(largest(lifts)));
  }
  return out.results();
}

std::vector<RoutingCase> documented_cases() {
  using enum RouterScoring;
  const RouterRule groups{
      .scoring = kSigmoid, .top_k = 4, .normalised = true, .groups = 4, .chosen_groups = 2};
  RouterRule biased = groups;
  biased.biased = true;
  RouterRule largest_of_group = groups;
  largest_of_group.scoring = kSoftmax;
  largest_of_group.group_score = GroupScore::kLargest;
  return {{"8, 2, softmax", {.top_k = 2, .normalised = true}, 8, 400, 0.0, 1.0},
          {"8, 2, softmax, many tokens", {.top_k = 2}, 8, 60000, 0.0, 1.0},
          {"16, 1, sigmoid", {.scoring = kSigmoid, .top_k = 1}, 16, 300, -1.0, 0.7},
          {"64, 8, softmax, few tokens", {.top_k = 8}, 64, 50, 0.0, 2.0},
          {"64, 8, softmax", {.top_k = 8}, 64, 2000, 0.0, 2.0},
          {"64, 8, softmax, many tokens", {.top_k = 8}, 64, 20000, 0.0, 2.0},
          {"128, 4, sqrtsoftplus", {.scoring = kSqrtSoftplus, .top_k = 4}, 128, 1000, 0.5, 1.5},
          {"32, 4, 2 of 4 groups, sd 0.3", groups, 32, 500, 0.0, 0.3},
          {"32, 4, 2 of 4 groups, sd 3", groups, 32, 500, -1.0, 3.0},
          {"32, 4, 2 of 4 groups, equal biases", biased, 32, 6000, 0.0, 1.0},
          {"32, 4, 2 of 4 groups, softmax", largest_of_group, 32, 500, 0.0, 1.5}};
}

}  // namespace vindex::statistics::testing
