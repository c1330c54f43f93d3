// Owns the rows of both tables: reasons of unmeasured tensors, quantiles over groups.
#include "derived_tables.hpp"

#include "draw_lines.hpp"
#include "spectra_cells.hpp"

#include "commands/spectra/sampled/sample_columns.hpp"
#include "core/constants.hpp"
#include "statistics/layers/layer_statistics.hpp"
#include "statistics/null/drawn_nulls.hpp"
#include "statistics/null/nulls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace vindex::commands {

namespace {

struct Merged {
  decode::Moments moments;
  std::int64_t slices = 0;    ///< rows of this tensor in the file
  std::int64_t decoded = 0;   ///< of them with moments
  std::int64_t elements = 0;  ///< covered by those
  statistics::MeanScales scales;
  std::string unmeasured;  ///< why the first slice without a spectrum has none
};

/// Why the statistics of a tensor are absent; empty where they are there.
std::string missing_reason(const results::TensorEntry& tensor, const Merged* merged) {
  if (!tensor.in_matrix) {
    return tensor.reason;
  }
  if (merged == nullptr) {
    return "not selected";
  }
  if (merged->elements == tensor.count) {
    return "";
  }
  if (merged->decoded == 0) {
    return "not measured";
  }
  return fmt::format("only {} of {} weights measured", merged->elements, tensor.count);
}

/// A row of /tensor/.
struct TensorRow {
  const results::TensorEntry* tensor = nullptr;
  std::string reason;
  std::optional<decode::Moments> moments;  ///< where all of it was measured
  statistics::ScaleFigures scales = {};
  std::string scales_missing = {};
};

/// The figures across scales of a tensor of matrices, and why one of them is missing.
void set_scales(const results::TensorEntry& tensor, const Merged* merged, TensorRow& row) {
  if (!row.reason.empty() || merged == nullptr) {
    row.scales_missing = row.reason;
    return;
  }
  if (!merged->unmeasured.empty()) {
    row.scales_missing = merged->unmeasured;
    return;
  }
  row.scales = merged->scales.mean();
  const std::int64_t size = tensor.count / merged->slices;
  const bool is_older = size >= statistics::kLeastScaled && std::isnan(row.scales.csci_null_sd);
  row.scales_missing =
      is_older ? "measured before schema 1.4" : statistics::missing_scales(size, row.scales);
}

std::vector<TensorRow> tensor_rows(std::span<const results::TensorEntry> tensors,
                                   std::span<const results::StoredRow* const> rows) {
  std::unordered_map<std::string_view, Merged> merged;
  for (const results::StoredRow* row : rows) {
    Merged& tensor = merged[row->tensor];
    ++tensor.slices;
    if (const auto moments = moments_of(*row)) {
      tensor.moments = tensor.decoded == 0 ? *moments : decode::merge(tensor.moments, *moments);
      ++tensor.decoded;
      tensor.elements += moments->count + moments->nonfinite;
    }
    tensor.scales.add(row->rows * row->cols, scales_of(*row));
    if (row->status != MatrixStatus::kMeasured && tensor.unmeasured.empty()) {
      tensor.unmeasured = row->reason;
    }
  }
  std::vector<TensorRow> out;
  for (const results::TensorEntry& tensor : tensors) {
    const auto found = merged.find(tensor.name);
    const Merged* const sums = found == merged.end() ? nullptr : &found->second;
    TensorRow& row = out.emplace_back();
    row.tensor = &tensor;
    row.reason = missing_reason(tensor, sums);
    if (sums != nullptr && sums->elements == tensor.count && sums->decoded > 0) {
      row.moments = sums->moments;
    }
    if (tensor.in_matrix) {
      set_scales(tensor, sums, row);
    } else {
      row.scales = tensor.scales;
      row.scales_missing = tensor.scales_missing.empty() && std::isnan(tensor.scales.z_modulus)
                               ? tensor.reason
                               : tensor.scales_missing;
    }
  }
  return out;
}

void add_scales(results::SideTable& table, const std::vector<TensorRow>& rows) {
  for (const ScaleColumn& column : scale_columns()) {
    results::add_column(table, rows, column.name, "1", column.long_name,
                        [&](const TensorRow& row) { return row.scales.*column.member; });
  }
  results::add_column(table, rows, "z_reason", "", "why z_modulus or csci is missing",
                      &TensorRow::scales_missing);
}

/// Where a tensor of the model has any.
void add_block_scales(results::SideTable& table, std::span<const results::TensorEntry> tensors) {
  using results::TensorEntry;
  const bool any = std::any_of(tensors.begin(), tensors.end(), [](const TensorEntry& tensor) {
    return tensor.block_scales.count > 0;
  });
  if (!any) {
    return;
  }
  results::add_column(table, tensors, "scale_count", "1", "scales of a float8 tensor's blocks",
                      [](const TensorEntry& tensor) { return tensor.block_scales.count; });
  results::add_column(table, tensors, "scale_mean", "1", "their mean",
                      [](const TensorEntry& tensor) { return tensor.block_scales.mean; });
  results::add_column(table, tensors, "scale_cv", "1",
                      "their population standard deviation over their mean",
                      [](const TensorEntry& tensor) { return tensor.block_scales.cv; });
}

/// Class and angles; the angles of a matrix are in its rows.
void add_samples(results::SideTable& table, std::span<const results::TensorEntry> tensors) {
  results::add_column(table, tensors, "organ_class", "", "kind of tensor by its name",
                      &results::TensorEntry::organ_class);
  for (const auto columns : {qq_columns(), sample_columns()}) {
    for (const SampleColumn& column : columns) {
      if (column.is_count) {
        results::add_column(table, tensors, column.name, "1", column.long_name,
                            [&](const results::TensorEntry& tensor) {
                              return tensor.angles.count > 0
                                         ? static_cast<std::int32_t>(column.value(tensor.angles))
                                         : 0;
                            });
      } else {
        results::add_column(table, tensors, column.name, "1", column.long_name,
                            [&](const results::TensorEntry& tensor) {
                              return tensor.angles.count > 0 ? column.value(tensor.angles) : kNaN;
                            });
      }
    }
  }
}

}  // namespace

results::SideTable tensor_table(std::span<const results::TensorEntry> tensors,
                                TensorSamples samples,
                                std::span<const results::StoredRow* const> rows) {
  results::SideTable table{.group = "/tensor",
                           .dimension = "entry",
                           .long_name = "number of the tensor",
                           .coordinates = {"layer", "block", "role", "name"}};
  const std::vector<TensorRow> all = tensor_rows(tensors, rows);
  const auto of_entry = [&](const char* name, const char* units, const char* long_name,
                            auto results::TensorEntry::*member) {
    results::add_column(table, tensors, name, units, long_name, member);
  };
  /// A statistic of the finite weights; NaN where there are none.
  const auto statistic = [&](const char* name, const char* long_name,
                             double (*value)(const decode::Moments&)) {
    results::add_column(table, all, name, "1", long_name, [&](const TensorRow& row) {
      return row.moments && row.moments->count > 0 ? value(*row.moments) : kNaN;
    });
  };
  const auto count = [&](const char* name, const char* long_name,
                         std::int64_t decode::Moments::*member) {
    results::add_column(table, all, name, "1", long_name, [&](const TensorRow& row) {
      return row.moments ? (*row.moments).*member : std::int64_t{-1};
    });
  };
  of_entry("name", "", "logical name", &results::TensorEntry::name);
  of_entry("stored", "", "names of the stored tensors", &results::TensorEntry::stored);
  of_entry("block", "", "part of the transformer", &results::TensorEntry::block);
  of_entry("role", "", "what the tensor does in its block", &results::TensorEntry::role);
  of_entry("layer", "", "layer number in the name, -1 if none", &results::TensorEntry::layer);
  of_entry("shape", "", "logical shape, outermost first", &results::TensorEntry::shape);
  of_entry("encoding", "", "how the weights are stored", &results::TensorEntry::encoding);
  of_entry("count", "1", "weights", &results::TensorEntry::count);
  results::add_column(
      table, tensors, "in_matrix", "", "1 where the tensor gives rows of /matrix/",
      [](const results::TensorEntry& tensor) { return std::int8_t{tensor.in_matrix}; });
  results::add_column(table, all, "reason", "",
                      "why it gives none, or why its statistics are missing", &TensorRow::reason);
  using decode::Moments;
  statistic("mean", "mean weight", [](const Moments& m) { return m.mean; });
  statistic("std", "population standard deviation of the weights", decode::standard_deviation);
  statistic("min", "smallest weight", [](const Moments& m) { return double{m.min}; });
  statistic("max", "largest weight", [](const Moments& m) { return double{m.max}; });
  statistic("excess_kurtosis", "excess kurtosis of the weights", decode::excess_kurtosis);
  statistic("frobenius_norm", "root of the sum of squared weights",
            [](const Moments& m) { return std::sqrt(m.sum_squares); });
  count("zeros", "weights that are zero, -1 if not measured", &Moments::zeros);
  count("nonfinite", "weights not finite, -1 if not measured", &Moments::nonfinite);
  if (samples != TensorSamples::kNone) {
    add_samples(table, tensors);
  }
  if (samples == TensorSamples::kScales) {
    add_scales(table, all);
    add_block_scales(table, tensors);
  }
  return table;
}

std::vector<statistics::LayerGroup> groups_of(std::span<const results::StoredRow* const> rows) {
  std::vector<statistics::LayerRow> input;
  input.reserve(rows.size());
  for (const results::StoredRow* row : rows) {
    statistics::LayerRow one;
    one.layer = row->layer;
    one.block = static_cast<std::int32_t>(row->block);
    one.role = row->role;
    one.expert = row->expert;
    one.rows = row->rows;
    one.cols = row->cols;
    one.measured = row->status == MatrixStatus::kMeasured;
    one.drawn = drawn_member(*row);
    one.var_at_64 = var_at_k_of(*row, statistics::kPlaceOf64);
    one.var_at_64_null = var_at_k_null_of(*row, statistics::kPlaceOf64);
    one.stable_rank = metric_of(*row, statistics::Metric::kStableRank);
    one.effective_rank = metric_of(*row, statistics::Metric::kEffectiveRank);
    one.sigma_ratio_1_2 = metric_of(*row, statistics::Metric::kSigmaRatio12);
    input.push_back(one);
  }
  return statistics::layer_groups(input);
}

namespace {

/// Why ends of intervals are NaN; empty where none is.
std::string interval_reason(const statistics::LayerGroup& group) {
  using statistics::Estimate;
  const auto is_open = [](const Estimate& one) {
    return !std::isnan(one.value) && (std::isnan(one.low) || std::isnan(one.high));
  };
  std::string means;
  bool is_quantile = false;
  for (std::size_t m = 0; m < statistics::kLayerMetricCount; ++m) {
    const statistics::MetricEstimates& of = group.estimates[m];
    is_quantile |= is_open(of.median) || is_open(of.q25) || is_open(of.q75);
    if (is_open(of.mean)) {
      means += (means.empty() ? "" : ", ") +
               std::string(statistics::layer_metric_name(static_cast<statistics::LayerMetric>(m)));
    }
  }
  std::string text;
  if (!means.empty()) {
    text = "mean of " + means + ": not from a sample, one value may be as large as it likes";
  }
  if (is_quantile) {
    text += (text.empty() ? "" : "; ") +
            fmt::format("quantiles: not from a sample of this size, {} of {}", group.n_measured,
                        group.n_total);
  }
  return text;
}

/// Mean and quantiles of the whole group as its sample tells them: how far they may be off.
void add_estimates(results::SideTable& table, const std::vector<statistics::LayerGroup>& groups) {
  using statistics::Estimate;
  using statistics::LayerGroup;
  using statistics::MetricEstimates;
  struct Figure {
    const char* name;
    Estimate MetricEstimates::*member;
    const char* meaning;
  };
  constexpr Figure kFigures[] = {{"mean", &MetricEstimates::mean, "the mean"},
                                 {"median", &MetricEstimates::median, "the median"},
                                 {"q25", &MetricEstimates::q25, "the lower quartile"},
                                 {"q75", &MetricEstimates::q75, "the upper quartile"}};
  results::add_column(table, groups, "n_measured", "1",
                      "measured matrices that were drawn at random: those of the statistics",
                      &LayerGroup::n_measured);
  results::add_column(table, groups, "n_total", "1", "matrices of the group in the model",
                      &LayerGroup::n_total);
  for (std::size_t m = 0; m < statistics::kLayerMetricCount; ++m) {
    const std::string name(statistics::layer_metric_name(static_cast<statistics::LayerMetric>(m)));
    for (const Figure& figure : kFigures) {
      const auto add = [&](const std::string& suffix, const std::string& long_name,
                           double Estimate::*number) {
        results::add_column(
            table, groups, name + suffix, "1", long_name,
            [&](const LayerGroup& group) { return group.estimates[m].*figure.member.*number; });
      };
      const std::string suffix = std::string("_") + figure.name;
      const std::string of = fmt::format(" of {} of {}", figure.meaning, name);
      if (figure.member == &MetricEstimates::mean) {
        add(suffix, "mean of " + name + " over the matrices", &Estimate::value);
      }
      add(suffix + "_se", "standard error" + of + ", finite-population corrected",
          &Estimate::error);
      const char* none = figure.member == &MetricEstimates::mean
                             ? ", whatever the values are; NaN where the metric has no bound"
                             : ", whatever the values are; NaN where the sample has no bound";
      add(suffix + "_low", "lower end of the 95 % interval" + of + none, &Estimate::low);
      add(suffix + "_high", "upper end of the 95 % interval" + of + none, &Estimate::high);
    }
  }
  results::add_column(table, groups, "interval_reason", "", "why ends of intervals are NaN",
                      interval_reason);
}

}  // namespace

results::SideTable layer_table(std::span<const results::StoredRow* const> rows, bool drawn) {
  using Group = statistics::LayerGroup;
  using statistics::Statistic;
  results::SideTable table{.group = "/layer",
                           .dimension = "group",
                           .long_name = "number of the (layer, block, role)",
                           .coordinates = {"layer", "block", "role"}};
  const std::vector<Group> groups = groups_of(rows);
  results::add_column(table, groups, "layer", "", "layer number, -1 if none", &Group::layer);
  results::add_column(
      table, groups, "block", "", "part of the transformer", [](const Group& group) {
        return std::string(model::block_name(static_cast<model::Block>(group.block)));
      });
  results::add_column(table, groups, "role", "", "what the matrices do in their block",
                      [](const Group& group) { return std::string(group.role); });
  results::add_column(table, groups, "count", "1", "measured matrices", &Group::count);
  results::add_column(table, groups, "var_at_64_null", "1",
                      "var_at_64 of iid noise; NaN where shapes differ", &Group::var_at_64_null);
  for (std::size_t m = 0; m < statistics::kLayerMetricCount; ++m) {
    const std::string name(statistics::layer_metric_name(static_cast<statistics::LayerMetric>(m)));
    const auto add = [&](const char* suffix, const char* units, const std::string& long_name,
                         auto Statistic::*member) {
      results::add_column(table, groups, name + suffix, units, long_name,
                          [&](const Group& group) { return group.statistics[m].*member; });
    };
    const std::string over = " of " + name + " over the matrices";
    const std::string none = " " + name + ", -1 for non-experts";
    add("_median", "1", "median" + over, &Statistic::median);
    add("_q25", "1", "lower quartile" + over, &Statistic::q25);
    add("_q75", "1", "upper quartile" + over, &Statistic::q75);
    add("_min", "1", "minimum" + over, &Statistic::min);
    add("_max", "1", "maximum" + over, &Statistic::max);
    add("_argmin", "", "expert with the minimum" + none, &Statistic::argmin);
    add("_argmax", "", "expert with the greatest" + none, &Statistic::argmax);
  }
  if (drawn) {
    add_estimates(table, groups);
  }
  return table;
}

results::SideTable null_table(std::span<const results::StoredRow* const> rows) {
  constexpr std::size_t kMostNullShapes = 256;  // each takes draws where nothing was measured
  struct NullShape {
    std::int64_t short_side = 0, long_side = 0;
    statistics::MetricValues errors;
  };
  std::set<std::pair<std::int64_t, std::int64_t>> sides;
  for (const results::StoredRow* row : rows) {
    const auto [p, n] = std::minmax(row->rows, row->cols);
    if (p >= 2 && p < statistics::kMinComputedNull && sides.size() < kMostNullShapes) {
      sides.insert({p, n});
    }
  }
  std::vector<NullShape> shapes;
  for (const auto& [p, n] : sides) {
    shapes.push_back({p, n, statistics::null_errors(p, n)});
  }
  results::SideTable table{.group = "/null",
                           .dimension = "shape",
                           .long_name = "number of the shape",
                           .coordinates = {"p", "n"}};
  results::add_column(table, shapes, "p", "1", "the smaller of rows and cols",
                      &NullShape::short_side);
  results::add_column(table, shapes, "n", "1", "the larger of them", &NullShape::long_side);
  for (std::size_t i = 0; i < kVarAtK.size(); ++i) {
    results::add_column(
        table, shapes, fmt::format("var_at_{}_null_error", kVarAtK[i]), "1",
        fmt::format("standard error of var_at_k_null at k = {}, a mean of draws", kVarAtK[i]),
        [i](const NullShape& shape) { return shape.errors.var_at_k[i]; });
  }
  for (const statistics::MetricRow& metric : statistics::metric_rows()) {
    if (metric.has_null) {
      results::add_column(
          table, shapes, fmt::format("{}_null_error", metric.name), "1",
          fmt::format("standard error of {}_null, a mean of draws; 0: it is exact", metric.name),
          [&metric](const NullShape& shape) { return shape.errors[metric.metric]; });
    }
  }
  return table;
}

}  // namespace vindex::commands
