// Owns the grouping of rows by layer, block and role, the statistics of each group, and the
// matching of depths in twentieths.
#include "layer_statistics.hpp"

#include "core/constants.hpp"
#include "statistics/samples/quantile.hpp"

#include <cmath>
#include <map>
#include <tuple>
#include <utility>

namespace vindex::statistics {

namespace {

struct Members {
  std::size_t group = 0;
  std::vector<const LayerRow*> measured;
  std::vector<DrawnMember> drawn;  ///< all of them
};

bool same_shape(const std::vector<const LayerRow*>& rows) {
  for (const LayerRow* row : rows) {
    if (row->rows != rows.front()->rows || row->cols != rows.front()->cols) {
      return false;
    }
  }
  return true;
}

double metric_of(const LayerRow& row, LayerMetric metric, double null) {
  switch (metric) {
    case LayerMetric::kVarAt64:
      return row.var_at_64;
    case LayerMetric::kVarAt64Ratio:
      return row.var_at_64 / null;
    case LayerMetric::kStableRank:
      return row.stable_rank;
    case LayerMetric::kEffectiveRank:
      return row.effective_rank;
    case LayerMetric::kSigmaRatio12:
      return row.sigma_ratio_1_2;
    case LayerMetric::kCount:
      break;
  }
  return kNaN;
}

std::vector<double> metrics_of(const std::vector<const LayerRow*>& rows, LayerMetric metric,
                               double null) {
  std::vector<double> values;
  for (const LayerRow* row : rows) {
    values.push_back(metric_of(*row, metric, null));
  }
  return values;
}

Statistic summarise(const std::vector<const LayerRow*>& rows, LayerMetric metric, double null) {
  Statistic statistic;
  std::vector<double> values;
  values.reserve(rows.size());
  for (const LayerRow* row : rows) {
    const double value = metric_of(*row, metric, null);
    if (std::isnan(value)) {
      continue;
    }
    if (values.empty() || value < statistic.min) {
      statistic.min = value;
      statistic.argmin = row->expert;
    }
    if (values.empty() || value > statistic.max) {
      statistic.max = value;
      statistic.argmax = row->expert;
    }
    values.push_back(value);
  }
  statistic.median = quantile(values, 0.5);
  statistic.q25 = quantile(values, 0.25);
  statistic.q75 = quantile(values, 0.75);
  return statistic;
}

}  // namespace

std::string_view layer_metric_name(LayerMetric metric) {
  static constexpr std::array<std::string_view, kLayerMetricCount> kNames = {
      "var_at_64", "var_at_64_ratio", "stable_rank", "effective_rank", "sigma_ratio_1_2"};
  return kNames[static_cast<std::size_t>(metric)];
}

ValueRange layer_metric_range(LayerMetric metric, std::int64_t short_side, double null) {
  const auto p = static_cast<double>(short_side);
  const bool is_known = short_side > 0;
  // The 64 largest of p parts are at least their share.
  const double least_share = is_known ? std::min(1.0, 64.0 / p) : 0.0;
  switch (metric) {
    case LayerMetric::kVarAt64:
      return {least_share, 1.0};
    case LayerMetric::kVarAt64Ratio:
      return {least_share / null, 1.0 / null};
    case LayerMetric::kStableRank:
    case LayerMetric::kEffectiveRank:
      return {1.0, is_known ? p : kNaN};
    case LayerMetric::kSigmaRatio12:
      return {1.0, kNaN};
    case LayerMetric::kCount:
      break;
  }
  return {};
}

MetricEstimates estimates_of(std::span<const double> values, std::int64_t untried,
                             const ValueRange& range) {
  return {.mean = estimate_mean(values, untried, range),
          .median = estimate_quantile(values, 0.5, untried),
          .q25 = estimate_quantile(values, 0.25, untried),
          .q75 = estimate_quantile(values, 0.75, untried)};
}

std::vector<LayerGroup> layer_groups(std::span<const LayerRow> rows) {
  std::vector<LayerGroup> groups;
  std::map<std::tuple<std::int32_t, std::int32_t, std::string_view>, Members> members;
  for (const LayerRow& row : rows) {
    const auto [entry, is_new] = members.try_emplace({row.layer, row.block, row.role});
    if (is_new) {
      entry->second.group = groups.size();
      LayerGroup& group = groups.emplace_back();
      group.layer = row.layer;
      group.block = row.block;
      group.role = row.role;
    }
    if (row.measured) {
      entry->second.measured.push_back(&row);
    }
    entry->second.drawn.push_back(row.drawn);
  }
  for (auto& [key, member] : members) {
    LayerGroup& group = groups[member.group];
    std::vector<const LayerRow*>& measured = member.measured;
    group.count = static_cast<std::int64_t>(measured.size());
    const DrawnGroup drawn = drawn_group(member.drawn);
    if (drawn.is_drawn()) {
      std::erase_if(measured, [&](const LayerRow* row) { return !drawn.holds(row->drawn.draw); });
      group.n_measured = static_cast<std::int64_t>(measured.size());
      group.n_total = drawn.total;
    }
    if (measured.empty()) {
      continue;
    }
    group.var_at_64_null = same_shape(measured) ? measured.front()->var_at_64_null : kNaN;
    const std::int64_t short_side =
        same_shape(measured) ? std::min(measured.front()->rows, measured.front()->cols) : 0;
    for (std::size_t m = 0; m < kLayerMetricCount; ++m) {
      const auto metric = static_cast<LayerMetric>(m);
      group.statistics[m] = summarise(measured, metric, group.var_at_64_null);
      if (drawn.is_drawn()) {
        group.estimates[m] =
            estimates_of(metrics_of(measured, metric, group.var_at_64_null), drawn.untried(),
                         layer_metric_range(metric, short_side, group.var_at_64_null));
      }
    }
  }
  return groups;
}

// Matching by relative depth: a rule and no estimate. Depths in twentieths, by integers so that
// halves round the same everywhere.

std::vector<DepthMatch> match_depths(std::size_t layers_a, std::size_t layers_b) {
  constexpr std::size_t kSteps = 20;  // integers, so that halves are exact
  std::vector<DepthMatch> matches;
  if (layers_a == 0 || layers_b == 0) {
    return matches;
  }
  const auto position = [](std::size_t step, std::size_t layers) {
    return (2 * step * (layers - 1) + kSteps) / (2 * kSteps);
  };
  for (std::size_t step = 0; step <= kSteps; ++step) {
    matches.push_back({static_cast<double>(step) / static_cast<double>(kSteps),
                       position(step, layers_a), position(step, layers_b)});
  }
  return matches;
}

}  // namespace vindex::statistics
