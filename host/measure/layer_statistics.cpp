#include <vindex/core/constants.hpp>
#include <vindex/measure/layer_statistics.hpp>
#include <vindex/measure/metrics.hpp>

#include <cmath>
#include <map>
#include <tuple>

namespace vindex::measure {
namespace {

struct Members {
  std::size_t group = 0;
  std::vector<const LayerRow*> measured;
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
  }
  for (const auto& [key, member] : members) {
    LayerGroup& group = groups[member.group];
    const std::vector<const LayerRow*>& measured = member.measured;
    group.count = static_cast<std::int64_t>(measured.size());
    if (measured.empty()) {
      continue;
    }
    group.var_at_64_null = same_shape(measured) ? measured.front()->var_at_64_null : kNaN;
    for (std::size_t m = 0; m < kLayerMetricCount; ++m) {
      group.statistics[m] = summarise(measured, static_cast<LayerMetric>(m), group.var_at_64_null);
    }
  }
  return groups;
}

}  // namespace vindex::measure
