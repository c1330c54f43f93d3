#include "routing_job.hpp"

#include "token_slabs.hpp"

#include <vindex/core/error.hpp>
#include <vindex/results/routing_cells.hpp>
#include <vindex/run/unit_stream.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace vindex::run {

namespace {

using results::ArrayCell;
using results::padded_array;
using results::routing_array;
using results::routing_cell;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// What the tokens of one layer came to, and of the layer before it.
struct Tallies {
  measure::RoutingStatistics statistics;
  std::vector<float> transitions;
  std::int64_t transition_tokens = 0;
  std::int64_t left_out = 0;
  double logit_mean = kNaN, logit_deviation = kNaN;
};

Tallies route_layer(const RoutedLayer& layer, measure::MatrixInput& logits,
                    const RoutedLayer* before, measure::MatrixInput* before_logits) {
  const std::int64_t experts = logits.cols();
  const std::int64_t tokens = logits.rows();
  measure::TokenRouter router(layer.rule, experts, layer.bias);
  measure::RoutingTally tally(experts, tokens);
  measure::LogitSpread spread;
  std::unique_ptr<measure::TokenRouter> before_router;
  std::unique_ptr<measure::TransitionTally> transitions;
  if (before != nullptr) {
    before_router =
        std::make_unique<measure::TokenRouter>(before->rule, before_logits->cols(), before->bias);
    transitions = std::make_unique<measure::TransitionTally>(before_logits->cols(), experts);
  }
  Tallies out;
  measure::RoutedToken token;
  measure::RoutedToken earlier;
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
      const auto own =
          values.subspan(t * static_cast<std::size_t>(experts), static_cast<std::size_t>(experts));
      if (!router.route(own, token)) {
        ++out.left_out;
        continue;
      }
      tally.add(token);
      spread.add(own);
      if (before != nullptr &&
          before_router->route(std::span(earlier_values).subspan(t * width, width), earlier)) {
        transitions->add(earlier, token);
      }
    }
  });
  out.statistics = tally.statistics();
  out.logit_mean = spread.mean();
  out.logit_deviation = spread.deviation();
  if (transitions != nullptr) {
    out.transitions = transitions->lift();
    out.transition_tokens = transitions->tokens();
  }
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

RowFacts RoutingJob::facts(std::int64_t row) const {
  const model::MatrixRecord& matrix = record(row);
  RowFacts facts;
  facts.name = printable(matrix.tensor);
  facts.bytes = stored_bytes(matrix);
  facts.cost = static_cast<double>(matrix.rows) * static_cast<double>(matrix.cols);
  return facts;
}

std::vector<RowWork> RoutingJob::works(const std::vector<std::int64_t>& rows) const {
  const auto square = static_cast<std::uint64_t>(scale_) * static_cast<std::uint64_t>(scale_);
  std::vector<RowWork> works;
  for (const std::int64_t row : rows) {
    const model::MatrixRecord& matrix = record(row);
    const std::int64_t before = row - 1;
    RowWork work;
    work.row = row;
    work.name = matrix.tensor;
    std::uint64_t slabs = slab_memory(matrix.cols, 1, false);
    std::uint64_t streamed = slab_memory(matrix.cols, 1, true);
    std::uint64_t tallies = measure::RoutingTally::memory_bytes(matrix.cols, matrix.rows);
    for (const std::int64_t one : {row, before}) {
      if (one < 0) {
        continue;
      }
      const model::MatrixRecord& read = record(one);
      work.matrices.push_back({0, layers_[static_cast<std::size_t>(one)].matrix});
      work.read_bytes += stored_bytes(read);
      work.slot = std::max(work.slot, staged_bytes(read).slot);
      // Slabs are of as many tokens as this layer's.
      const auto values = static_cast<std::uint64_t>(slab_tokens(matrix.cols)) *
                          static_cast<std::uint64_t>(read.cols);
      if (one == before) {
        slabs += values * sizeof(float);
        streamed += values * (sizeof(float) + sizeof(double));
        tallies += measure::TransitionTally::memory_bytes(read.cols, matrix.cols);
      }
    }
    work.cost = static_cast<double>(work.read_bytes);
    work.result_bytes =
        2 * square * sizeof(float) + 2 * static_cast<std::uint64_t>(scale_) * sizeof(double);
    work.output_bytes = work.result_bytes / 2;
    work.workspace = work.least_workspace = slabs + tallies + work.result_bytes;
    work.streamed = work.streamed_workspace = streamed + tallies + work.result_bytes;
    works.push_back(std::move(work));
  }
  return works;
}

Lanes RoutingJob::lanes() const { return {.calls = {threads_}, .batch = 1, .held = 2}; }

const measure::UniformRoutingNulls& RoutingJob::nulls(const RouterRule& rule, std::int64_t experts,
                                                      std::int64_t tokens) {
  const std::vector<std::int64_t> key = {experts,
                                         tokens,
                                         rule.top_k,
                                         rule.groups,
                                         rule.chosen_groups,
                                         static_cast<std::int64_t>(rule.group_score),
                                         static_cast<std::int64_t>(rule.scoring)};
  const std::lock_guard lock(mutex_);  // layers share them: whoever comes second waits
  auto found = nulls_.find(key);
  if (found == nulls_.end()) {
    found = nulls_.emplace(key, measure::uniform_routing_nulls(rule, experts, tokens)).first;
  }
  return found->second;
}

results::ResultRow RoutingJob::route(UnitStream& unit, std::int64_t row) {
  const RoutedLayer& layer = layers_[static_cast<std::size_t>(row)];
  const model::MatrixRecord& matrix = record(row);
  const std::int64_t before = row - 1;
  const bool has_before = before >= 0;
  const Tallies tallies = route_layer(
      layer, *unit.input(0), has_before ? &layers_[static_cast<std::size_t>(before)] : nullptr,
      has_before ? unit.input(1) : nullptr);
  const measure::RoutingStatistics& s = tallies.statistics;
  results::ResultRow out;
  out.method = "float64";
  out.cells = results::empty_cells(results::kRoutingTable);
  out.arrays.resize(results::kRoutingArrays.size());
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
  const measure::UniformRoutingNulls& null = nulls(layer.rule, experts, s.tokens);
  const measure::NoiseRouter noise =
      measure::noise_router(layer.rule, experts, tallies.logit_mean, tallies.logit_deviation);
  const auto set = [&](std::size_t cell, double value) { out.cells[cell] = value; };
  const auto drawn = [&](std::size_t cell, double value, const measure::DrawnNull& of_draws) {
    set(cell, value);
    set(cell + 1, of_draws.mean);
    set(cell + 2, of_draws.deviation);
  };
  set(routing_cell("top_k"), static_cast<double>(layer.rule.top_k));
  set(routing_cell("tokens_left_out"), static_cast<double>(tallies.left_out));
  set(routing_cell("logit_mean"), tallies.logit_mean);
  set(routing_cell("logit_sd"), tallies.logit_deviation);
  set(routing_cell("load_null"), null.load);
  set(routing_cell("load_null_sd"), null.load_deviation);
  drawn(routing_cell("load_cv"), s.loads.cv, null.cv);
  drawn(routing_cell("load_entropy"), s.loads.entropy, null.entropy);
  drawn(routing_cell("gini"), s.loads.gini, null.gini);
  drawn(routing_cell("max_over_mean"), s.loads.max_over_mean, null.max_over_mean);
  set(routing_cell("dead_experts"), static_cast<double>(s.loads.dead_experts));
  set(routing_cell("dead_experts_null"), null.dead_experts);
  set(routing_cell("mean_weight_null"), s.overall_weight);
  set(routing_cell("router_entropy"), s.router_entropy);
  set(routing_cell("router_entropy_null"), std::log(static_cast<double>(experts)));
  set(routing_cell("router_entropy_noise"), noise.entropy);
  set(routing_cell("margin"), s.margin);
  set(routing_cell("margin_null"), std::isnan(s.margin) ? kNaN : 0.0);
  set(routing_cell("margin_noise"), noise.margin);
  set(routing_cell("coactivation_lift_max"), largest_of(s.coactivation_lift));
  set(routing_cell("coactivation_lift_null"), null.coactivation);
  set(routing_cell("coactivation_lift_null_sd"), null.coactivation_deviation);
  set(routing_cell("coactivation_lift_null_same_group"), null.same_group);
  set(routing_cell("coactivation_lift_null_same_group_sd"), null.same_group_deviation);
  const auto wide = static_cast<std::size_t>(scale_);
  const auto count = static_cast<std::size_t>(experts);
  const auto keep = [&](std::string_view name) -> ArrayCell& {
    return out.arrays[results::column_number(results::kRoutingTable.arrays, name)];
  };
  keep("load") = ArrayCell(padded_array(s.load, 1, count, 1, wide));
  keep("mean_weight") = ArrayCell(padded_array(s.mean_weight, 1, count, 1, wide));
  keep("coactivation_lift") =
      ArrayCell(padded_array(s.coactivation_lift, count, count, wide, wide));
  if (has_before) {
    const model::MatrixRecord& earlier = record(before);
    const auto share = [](const RouterRule& rule, std::int64_t of) {
      return static_cast<double>(rule.top_k) / static_cast<double>(of);
    };
    set(routing_cell("previous_layer"), earlier.layer);
    set(routing_cell("transition_lift_max"), largest_of(tallies.transitions));
    set(routing_cell("transition_lift_null"), 1.0);
    set(routing_cell("transition_lift_null_sd"),
        tallies.transition_tokens > 0
            ? measure::transition_deviation(
                  tallies.transition_tokens,
                  share(layers_[static_cast<std::size_t>(before)].rule, earlier.cols),
                  share(layer.rule, experts))
            : kNaN);
    keep("transition_lift") = ArrayCell(padded_array(
        tallies.transitions, static_cast<std::size_t>(earlier.cols), count, wide, wide));
  }
  return out;
}

void RoutingJob::process(UnitStream& unit, std::size_t /*device*/, RowSink& rows) {
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
    row = failed_row(std::current_exception());
  }
  row.index = number;
  rows.push(std::move(row));
}

}  // namespace vindex::run
