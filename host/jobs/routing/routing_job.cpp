// Owns routing one layer's logits token by token, its tallies, and transitions from the layer
// before.
#include "routing_job.hpp"

#include "routing_cells.hpp"

#include "core/constants.hpp"
#include "engine/row_slabs.hpp"
#include "engine/unit_stream.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace vindex::jobs {

namespace {

using results::ArrayCell;
using results::padded_array;

/// Of every token that a null draws: a dozen numbers.
constexpr std::uint64_t kDrawnTokenBytes =
    12 * sizeof(double) * static_cast<std::uint64_t>(measure::kNoiseTokens);

/// What the tokens of one layer came to, and of the layer before it.
struct Tallies {
  explicit Tallies(const measure::MatrixInput& logits) : own(logits.cols(), logits.rows()) {}
  measure::RoutingTally own;
  std::optional<measure::TransitionTally> transitions;
  measure::LogitSpread spread, spread_before;
  std::int64_t left_out = 0, tokens_before = 0;
};

Tallies route_layer(const RoutedLayer& layer, measure::MatrixInput& logits,
                    const RoutedLayer* before, measure::MatrixInput* before_logits) {
  const auto experts = static_cast<std::size_t>(logits.cols());
  measure::TokenRouter router(layer.rule, logits.cols(), layer.bias);
  std::optional<measure::TokenRouter> before_router;
  Tallies out(logits);
  if (before != nullptr) {
    before_router.emplace(before->rule, before_logits->cols(), before->bias);
    out.transitions.emplace(before_logits->cols(), logits.cols());
  }
  measure::RoutedToken token;
  measure::RoutedToken earlier;
  std::vector<float> earlier_values;
  engine::for_each_slab(
      logits, 1, [&](const decode::EncodedMatrix& slab, std::span<const float> values) {
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

RoutingJob::RoutingJob(model::Dump dump, std::vector<RoutedLayer> layers, std::int64_t scale,
                       std::int32_t threads)
    : dump_(std::move(dump)),
      views_({{&dump_.files, &dump_.index}}),
      layers_(std::move(layers)),
      scale_(scale),
      threads_(threads) {}

const model::MatrixRecord& RoutingJob::record(std::int64_t row) const {
  const RoutedLayer& layer = layers_[static_cast<std::size_t>(row)];
  return dump_.index.matrices[static_cast<std::size_t>(layer.matrix)];
}

engine::RowFacts RoutingJob::facts(std::int64_t row) const {
  const model::MatrixRecord& matrix = record(row);
  engine::RowFacts facts;
  facts.name = printable(matrix.tensor);
  facts.bytes = engine::stored_bytes(matrix);
  facts.cost = static_cast<double>(matrix.rows) * static_cast<double>(matrix.cols);
  return facts;
}

std::vector<engine::RowWork> RoutingJob::works(const std::vector<std::int64_t>& rows) const {
  const auto square = static_cast<std::uint64_t>(scale_) * static_cast<std::uint64_t>(scale_);
  std::vector<engine::RowWork> works;
  for (const std::int64_t row : rows) {
    const model::MatrixRecord& matrix = record(row);
    const std::int64_t before = row - 1;
    engine::RowWork work;
    work.row = row;
    work.name = matrix.tensor;
    std::uint64_t slabs = engine::slab_memory(matrix.cols, 1, false);
    std::uint64_t streamed = engine::slab_memory(matrix.cols, 1, true);
    // Pairs of experts are counted again for nulls, and tokens drawn.
    std::uint64_t tallies = measure::RoutingTally::memory_bytes(matrix.cols, matrix.rows) +
                            square * sizeof(std::uint32_t) + kDrawnTokenBytes;
    for (const std::int64_t one : {row, before}) {
      if (one < 0) {
        continue;
      }
      const model::MatrixRecord& read = record(one);
      work.matrices.push_back({0, layers_[static_cast<std::size_t>(one)].matrix});
      work.read_bytes += engine::stored_bytes(read);
      work.slot = std::max(work.slot, engine::staged_bytes(read).slot);
      // Slabs are of as many tokens as this layer's.
      const auto values = static_cast<std::uint64_t>(engine::slab_rows(matrix.cols)) *
                          static_cast<std::uint64_t>(read.cols);
      if (one == before) {
        slabs += values * sizeof(float);
        streamed += values * (sizeof(float) + sizeof(double));
        tallies += measure::TransitionTally::memory_bytes(read.cols, matrix.cols);
      }
    }
    work.cost = static_cast<double>(work.read_bytes);
    work.result_bytes =
        4 * square * sizeof(float) + 2 * static_cast<std::uint64_t>(scale_) * sizeof(double);
    work.output_bytes = work.result_bytes / 2;
    work.workspace = work.min_workspace = slabs + tallies + work.result_bytes;
    work.streamed = work.streamed_workspace = streamed + tallies + work.result_bytes;
    works.push_back(std::move(work));
  }
  return works;
}

engine::Lanes RoutingJob::lanes() const { return {.calls = {threads_}, .batch = 1, .held = 2}; }

results::ResultRow RoutingJob::route(engine::UnitStream& unit, std::int64_t row) {
  const RoutedLayer& layer = layers_[static_cast<std::size_t>(row)];
  const model::MatrixRecord& matrix = record(row);
  const RoutedLayer* const before = row > 0 ? &layers_[static_cast<std::size_t>(row - 1)] : nullptr;
  const Tallies tallies =
      route_layer(layer, *unit.input(0), before, before == nullptr ? nullptr : unit.input(1));
  const measure::RoutingStatistics s = tallies.own.statistics();
  results::ResultRow out;
  out.method = "float64";
  out.cells = results::empty_cells(kRoutingTable);
  out.arrays.resize(kRoutingArrays.size());
  if (tallies.left_out > 0) {
    out.reason = fmt::format("{} of {} tokens have logits that are not finite, left out",
                             tallies.left_out, matrix.rows);
  }
  if (s.tokens == 0) {
    out.status = measure::Status::kNotFinite;
    return out;
  }
  out.status = measure::Status::kMeasured;
  const std::int64_t experts = matrix.cols;
  const double logit_mean = tallies.spread.mean();
  const double logit_deviation = tallies.spread.deviation();
  const measure::NoiseRouter& noise =
      nulls_.noise(layer.rule, experts, logit_mean, logit_deviation, s.tokens);
  const measure::UniformRoutingNulls& null = nulls_.uniform(noise.choice, s.tokens);
  const auto set = [&](std::size_t cell, double value) { out.cells[cell] = value; };
  const auto beside = [&](std::size_t cell, const measure::DrawnNull& of_null) {
    set(cell, of_null.mean);
    set(cell + 1, of_null.deviation);
  };
  set(routing_cell("top_k"), static_cast<double>(layer.rule.top_k));
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
  set(routing_cell("mean_weight_null_sd"), measure::mean_weight_deviation(s, noise.choice.share()));
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
  const auto wide = static_cast<std::size_t>(scale_);
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
  const model::MatrixRecord& earlier = record(row - 1);
  const std::vector<float> transitions = tallies.transitions->lift();
  const double max_next = largest_of(transitions);
  set(routing_cell("previous_layer"), earlier.layer);
  set(routing_cell("transition_lift_max"), max_next);
  if (const std::int64_t tokens = tallies.transitions->tokens(); tokens > 0) {
    const measure::NoiseRouter& noise_before =
        nulls_.noise(before->rule, earlier.cols, tallies.spread_before.mean(),
                     tallies.spread_before.deviation(), tallies.tokens_before);
    const measure::MaximumNull& largest =
        nulls_.transition(noise_before.choice, noise.choice, tokens);
    beside(routing_cell("transition_lift_max_null"), largest.null);
    set(routing_cell("transition_lift_max_p"), largest.chance(max_next));
    set(routing_cell("transition_lift_null"), 1.0);
    set(routing_cell("transition_lift_null_sd"),
        measure::transition_deviation(tokens, noise_before.choice.share(), noise.choice.share()));
  }
  const auto rows = static_cast<std::size_t>(earlier.cols);
  keep_square(routing_array("transition_lift"), transitions, rows);
  keep_square(routing_array("transition_lift_p"), tallies.transitions->tails(), rows);
  return out;
}

void RoutingJob::process(engine::UnitStream& unit, std::size_t /*device*/, engine::RowSink& rows) {
  const std::int64_t number = unit.unit->rows.front();
  results::ResultRow row;
  try {
    for (std::size_t i = 0; i < unit.size(); ++i) {
      unit.wait(i);
      unit.require_read(i);
    }
    row = route(unit, number);
    for (std::size_t i = 0; i < unit.size(); ++i) {
      unit.require_read(i);  // what was read slab by slab is believed only now
    }
  } catch (const std::exception&) {
    row = engine::failed_row(std::current_exception());
  }
  row.index = number;
  rows.push(std::move(row));
}

}  // namespace vindex::jobs
