// Owns routing one layer's logits token by token, its tallies, and transitions from the layer
// before.
#include "routing_row.hpp"

#include "routing_cells.hpp"

#include "core/constants.hpp"
#include "engine/run/job.hpp"
#include "engine/units/row_slabs.hpp"
#include "statistics/routing/routing_statistics.hpp"
#include "statistics/routing/token_router.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <optional>
#include <span>

namespace vindex::engine {

namespace {

using results::ArrayCell;
using results::padded_array;

/// Of every token that a null draws: a dozen numbers.
constexpr std::uint64_t kDrawnTokenBytes =
    12 * sizeof(double) * static_cast<std::uint64_t>(statistics::kNoiseTokens);

/// What the tokens of one layer came to, and of the layer before it.
struct Tallies {
  explicit Tallies(const MatrixInput& logits) : own(logits.cols(), logits.rows()) {}
  statistics::RoutingTally own;
  std::optional<statistics::TransitionTally> transitions;
  statistics::LogitSpread spread, spread_before;
  std::int64_t left_out = 0, tokens_before = 0;
};

Tallies route_layer(const RoutedLogits& own_layer, const RoutedLogits* layer_before) {
  const LayerRouter& layer = own_layer.router;
  MatrixInput& logits = own_layer.logits;
  const LayerRouter* const before = layer_before == nullptr ? nullptr : &layer_before->router;
  MatrixInput* const before_logits = layer_before == nullptr ? nullptr : &layer_before->logits;
  const auto experts = static_cast<std::size_t>(logits.cols());
  statistics::TokenRouter router(layer.rule, logits.cols(), layer.bias);
  std::optional<statistics::TokenRouter> before_router;
  Tallies out(logits);
  if (before != nullptr) {
    before_router.emplace(before->rule, before_logits->cols(), before->bias);
    out.transitions.emplace(before_logits->cols(), logits.cols());
  }
  statistics::RoutedToken token;
  statistics::RoutedToken earlier;
  std::vector<float> earlier_values;
  for_each_slab(logits, 1, [&](const decode::EncodedMatrix& slab, std::span<const float> values) {
    std::size_t width = 0;
    if (before != nullptr) {
      width = static_cast<std::size_t>(before_logits->cols());
      earlier_values.resize(static_cast<std::size_t>(slab.rows) * width);
      decode::decode_matrix(before_logits->row_slab(slab.first_row, slab.rows),
                            earlier_values.data(), before_logits->cols());
    }
    for (std::size_t t = 0; t < static_cast<std::size_t>(slab.rows); ++t) {
      const auto own = values.subspan(t * experts, experts);
      const auto of_before = std::span<const float>(earlier_values).subspan(t * width, width);
      // Both spreads are of all tokens that their layer routes, whatever the other does.
      const bool came = before_router && before_router->route(of_before, earlier);
      if (came) {
        out.spread_before.add(of_before);
        ++out.tokens_before;
      }
      if (!router.route(own, token)) {
        ++out.left_out;
        continue;
      }
      out.own.add(token);
      out.spread.add(own);
      if (came) {
        out.transitions->add(earlier, token);
      }
    }
  });
  return out;
}

double largest_of(const std::vector<float>& lifts) {
  double largest = kNaN;
  for (const float lift : lifts) {
    if (!std::isnan(lift) && !(lift <= largest)) {
      largest = lift;
    }
  }
  return largest;
}

}  // namespace

results::ResultRow routing_row(const RoutedLogits& own, const RoutedLogits* before,
                               std::int64_t scale, RoutingNullCache& nulls) {
  const Tallies tallies = route_layer(own, before);
  const statistics::RoutingStatistics s = tallies.own.statistics();
  results::ResultRow out;
  out.method = "float64";
  out.cells = results::empty_cells(kRoutingTable);
  out.arrays.resize(kRoutingArrays.size());
  if (tallies.left_out > 0) {
    out.reason = fmt::format("{} of {} tokens have logits that are not finite, left out",
                             tallies.left_out, own.logits.rows());
  }
  if (s.tokens == 0) {
    out.status = MatrixStatus::kNotFinite;
    return out;
  }
  out.status = MatrixStatus::kMeasured;
  const std::int64_t experts = own.logits.cols();
  const double logit_mean = tallies.spread.mean();
  const double logit_deviation = tallies.spread.deviation();
  const statistics::NoiseRouter& noise =
      nulls.noise(own.router.rule, experts, logit_mean, logit_deviation, s.tokens);
  const statistics::UniformRoutingNulls& null = nulls.uniform(noise.choice, s.tokens);
  const auto set = [&](std::size_t cell, double value) { out.cells[cell] = value; };
  const auto beside = [&](std::size_t cell, const statistics::DrawnNull& of_null) {
    set(cell, of_null.mean);
    set(cell + 1, of_null.deviation);
  };
  set(routing_cell("top_k"), static_cast<double>(own.router.rule.top_k));
  set(routing_cell("tokens_left_out"), static_cast<double>(tallies.left_out));
  set(routing_cell("logit_mean"), logit_mean);
  set(routing_cell("logit_sd"), logit_deviation);
  set(routing_cell("load_null"), null.load);
  set(routing_cell("load_null_sd"), null.load_deviation);
  set(routing_cell("load_cv"), s.loads.cv);
  beside(routing_cell("load_cv_null"), null.cv);
  set(routing_cell("load_entropy"), s.loads.entropy);
  beside(routing_cell("load_entropy_null"), null.entropy);
  set(routing_cell("gini"), s.loads.gini);
  beside(routing_cell("gini_null"), null.gini);
  set(routing_cell("max_over_mean"), s.loads.max_over_mean);
  beside(routing_cell("max_over_mean_null"), null.max_over_mean);
  set(routing_cell("dead_experts"), static_cast<double>(s.loads.dead_experts));
  beside(routing_cell("dead_experts_null"), null.dead_experts);
  set(routing_cell("mean_weight_null"), s.overall_weight);
  set(routing_cell("mean_weight_null_sd"),
      statistics::mean_weight_deviation(s, noise.choice.share()));
  set(routing_cell("router_entropy"), s.router_entropy);
  beside(routing_cell("router_entropy_null"), noise.entropy);
  set(routing_cell("router_entropy_noise"), noise.entropy.mean);
  set(routing_cell("margin"), s.margin);
  beside(routing_cell("margin_null"), noise.margin);
  set(routing_cell("margin_noise"), noise.margin.mean);
  const double max_together = largest_of(s.coactivation_lift);
  set(routing_cell("coactivation_lift_max"), max_together);
  beside(routing_cell("coactivation_lift_max_null"), null.coactivation_max.null);
  set(routing_cell("coactivation_lift_max_p"), null.coactivation_max.chance(max_together));
  set(routing_cell("coactivation_lift_null"), null.coactivation);
  set(routing_cell("coactivation_lift_null_sd"), null.coactivation_deviation);
  set(routing_cell("coactivation_lift_null_same_group"), null.same_group);
  set(routing_cell("coactivation_lift_null_same_group_sd"), null.same_group_deviation);
  const auto wide = static_cast<std::size_t>(scale);
  const auto count = static_cast<std::size_t>(experts);
  const auto keep = [&](std::size_t array, const std::vector<double>& values) {
    out.arrays[array] = ArrayCell(padded_array(values, 1, count, 1, wide));
  };
  const auto keep_square = [&](std::size_t array, const std::vector<float>& values,
                               std::size_t rows) {
    out.arrays[array] = ArrayCell(padded_array(values, rows, count, wide, wide));
  };
  keep(routing_array("load"), s.load);
  keep(routing_array("mean_weight"), s.mean_weight);
  keep_square(routing_array("coactivation_lift"), s.coactivation_lift, count);
  keep_square(routing_array("coactivation_lift_p"),
              tallies.own.tails(null, noise.choice.group_size()), count);
  if (before == nullptr) {
    return out;
  }
  const std::vector<float> transitions = tallies.transitions->lift();
  const double max_next = largest_of(transitions);
  set(routing_cell("previous_layer"), before->layer);
  set(routing_cell("transition_lift_max"), max_next);
  if (const std::int64_t tokens = tallies.transitions->tokens(); tokens > 0) {
    const statistics::NoiseRouter& noise_before =
        nulls.noise(before->router.rule, before->logits.cols(), tallies.spread_before.mean(),
                    tallies.spread_before.deviation(), tallies.tokens_before);
    const statistics::MaximumNull& largest =
        nulls.transition(noise_before.choice, noise.choice, tokens);
    beside(routing_cell("transition_lift_max_null"), largest.null);
    set(routing_cell("transition_lift_max_p"), largest.chance(max_next));
    set(routing_cell("transition_lift_null"), 1.0);
    set(routing_cell("transition_lift_null_sd"),
        statistics::transition_deviation(tokens, noise_before.choice.share(),
                                         noise.choice.share()));
  }
  const auto rows = static_cast<std::size_t>(before->logits.cols());
  keep_square(routing_array("transition_lift"), transitions, rows);
  keep_square(routing_array("transition_lift_p"), tallies.transitions->tails(), rows);
  return out;
}

std::uint64_t routing_arrays_bytes(std::int64_t scale) {
  const auto side = static_cast<std::uint64_t>(scale);
  return 4 * side * side * sizeof(float) + 2 * side * sizeof(double);
}

std::uint64_t routing_row_bytes(std::int64_t tokens, std::int64_t experts, std::int64_t before,
                                std::int64_t scale) {
  const auto square = static_cast<std::uint64_t>(scale) * static_cast<std::uint64_t>(scale);
  // Pairs of experts are counted again for nulls, and tokens drawn.
  return statistics::RoutingTally::memory_bytes(experts, tokens) + square * sizeof(std::uint32_t) +
         kDrawnTokenBytes +
         (before > 0 ? statistics::TransitionTally::memory_bytes(before, experts) : 0) +
         routing_arrays_bytes(scale);
}

}  // namespace vindex::engine
