// Owns the rows of both tables: reasons of unmeasured tensors, quantiles over groups.
#include "derived_tables.hpp"

#include "sample_columns.hpp"
#include "table_writer.hpp"

#include <vindex/core/constants.hpp>
#include <vindex/measure/layer_statistics.hpp>

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <string_view>
#include <unordered_map>

namespace vindex::results {

namespace {

struct Merged {
  decode::Moments moments;
  std::int64_t slices = 0;    ///< rows of this tensor in the file
  std::int64_t decoded = 0;   ///< of them with moments
  std::int64_t elements = 0;  ///< covered by those
};

template <typename T>
std::span<const T> view(const std::vector<T>& values) {
  return values;
}

/// Why the statistics of a tensor are absent; empty where they are there.
std::string missing_reason(const TensorEntry& tensor, const Merged* merged) {
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

/// Class and angles; the angles of a matrix are in its rows.
void write_samples(TableWriter& table, std::span<const TensorEntry> tensors) {
  std::vector<std::string> classes;
  for (const TensorEntry& tensor : tensors) {
    classes.push_back(tensor.organ_class);
  }
  table.strings("organ_class", classes, "kind of tensor by its name");
  for (const auto columns : {qq_columns(), sample_columns()}) {
    for (const SampleColumn& column : columns) {
      std::vector<double> values;
      for (const TensorEntry& tensor : tensors) {
        values.push_back(tensor.angles.count > 0 ? column.value(tensor.angles)
                                                 : (column.is_count ? 0.0 : kNaN));
      }
      if (column.is_count) {
        const std::vector<std::int32_t> counts(values.begin(), values.end());
        table.numbers(column.name, view(counts), column.long_name, "1");
      } else {
        table.numbers(column.name, view(values), column.long_name, "1");
      }
    }
  }
}

}  // namespace

void write_tensors(h5::File& file, std::span<const TensorEntry> tensors, bool sampled,
                   std::span<const StoredRow* const> rows) {
  std::unordered_map<std::string_view, Merged> merged;
  for (const StoredRow* row : rows) {
    Merged& tensor = merged[row->tensor];
    ++tensor.slices;
    if (row->has_moments) {
      tensor.moments =
          tensor.decoded == 0 ? row->moments : decode::merge(tensor.moments, row->moments);
      ++tensor.decoded;
      tensor.elements += row->moments.count + row->moments.nonfinite;
    }
  }
  const std::size_t n = tensors.size();
  std::vector<std::string> name(n), stored(n), block(n), role(n), shape(n), encoding(n), reason(n);
  std::vector<std::int32_t> layer(n);
  std::vector<std::int64_t> count(n), zeros(n, -1), nonfinite(n, -1);
  std::vector<std::int8_t> in_matrix(n);
  std::vector<double> mean(n, kNaN), deviation(n, kNaN), least(n, kNaN), most(n, kNaN),
      kurtosis(n, kNaN), norm(n, kNaN);
  for (std::size_t i = 0; i < n; ++i) {
    const TensorEntry& tensor = tensors[i];
    name[i] = tensor.name;
    stored[i] = tensor.stored;
    block[i] = tensor.block;
    role[i] = tensor.role;
    shape[i] = tensor.shape;
    encoding[i] = tensor.encoding;
    layer[i] = tensor.layer;
    count[i] = tensor.count;
    in_matrix[i] = tensor.in_matrix ? 1 : 0;
    const auto found = merged.find(tensor.name);
    const Merged* sums = found == merged.end() ? nullptr : &found->second;
    reason[i] = missing_reason(tensor, sums);
    if (sums == nullptr || sums->elements != tensor.count || sums->decoded == 0) {
      continue;
    }
    const decode::Moments& moments = sums->moments;
    zeros[i] = moments.zeros;
    nonfinite[i] = moments.nonfinite;
    if (moments.count > 0) {
      mean[i] = moments.mean;
      least[i] = moments.min;
      most[i] = moments.max;
      norm[i] = std::sqrt(moments.sum_squares);
      deviation[i] = decode::standard_deviation(moments);
      kurtosis[i] = decode::excess_kurtosis(moments);
    }
  }
  TableWriter table(file, "/tensor", "entry", n, "number of the tensor",
                    {"layer", "block", "role", "name"});
  table.strings("name", name, "logical name");
  table.strings("stored", stored, "names of the stored tensors");
  table.strings("block", block, "part of the transformer");
  table.strings("role", role, "what the tensor does in its block");
  table.numbers("layer", view(layer), "layer number in the name, -1 if none", "");
  table.strings("shape", shape, "logical shape, outermost first");
  table.strings("encoding", encoding, "how the weights are stored");
  table.numbers("count", view(count), "weights", "1");
  table.numbers("in_matrix", view(in_matrix), "1 where the tensor gives rows of /matrix/", "");
  table.strings("reason", reason, "why it gives none, or why its statistics are missing");
  table.numbers("mean", view(mean), "mean weight", "1");
  table.numbers("std", view(deviation), "population standard deviation of the weights", "1");
  table.numbers("min", view(least), "smallest weight", "1");
  table.numbers("max", view(most), "largest weight", "1");
  table.numbers("excess_kurtosis", view(kurtosis), "excess kurtosis of the weights", "1");
  table.numbers("frobenius_norm", view(norm), "root of the sum of squared weights", "1");
  table.numbers("zeros", view(zeros), "weights that are zero, -1 if not measured", "1");
  table.numbers("nonfinite", view(nonfinite), "weights not finite, -1 if not measured", "1");
  if (sampled) {
    write_samples(table, tensors);
  }
}

std::vector<measure::LayerGroup> groups_of(std::span<const StoredRow* const> rows) {
  constexpr std::size_t kVarAt64 = 6;
  static_assert(measure::kVarAtK[kVarAt64] == 64);
  std::vector<measure::LayerRow> input;
  input.reserve(rows.size());
  for (const StoredRow* row : rows) {
    measure::LayerRow one;
    one.layer = row->layer;
    one.block = static_cast<std::int32_t>(row->block);
    one.role = row->role;
    one.expert = row->expert;
    one.rows = row->rows;
    one.cols = row->cols;
    one.measured = row->status == measure::Status::kMeasured;
    one.var_at_64 = row->values.var_at_k[kVarAt64];
    one.var_at_64_null = row->nulls.var_at_k[kVarAt64];
    one.stable_rank = row->values[measure::Metric::kStableRank];
    one.effective_rank = row->values[measure::Metric::kEffectiveRank];
    one.sigma_ratio_1_2 = row->values[measure::Metric::kSigmaRatio12];
    input.push_back(one);
  }
  return measure::layer_groups(input);
}

void write_layers(h5::File& file, std::span<const StoredRow* const> rows) {
  const std::vector<measure::LayerGroup> groups = groups_of(rows);
  const std::size_t n = groups.size();
  TableWriter table(file, "/layer", "group", n, "number of the (layer, block, role)",
                    {"layer", "block", "role"});
  std::vector<std::int32_t> layer(n);
  std::vector<std::string> block(n), role(n);
  std::vector<std::int64_t> count(n);
  std::vector<double> null(n);
  for (std::size_t i = 0; i < n; ++i) {
    layer[i] = groups[i].layer;
    block[i] = model::block_name(static_cast<model::Block>(groups[i].block));
    role[i] = std::string(groups[i].role);
    count[i] = groups[i].count;
    null[i] = groups[i].var_at_64_null;
  }
  table.numbers("layer", view(layer), "layer number, -1 if none", "");
  table.strings("block", block, "part of the transformer");
  table.strings("role", role, "what the matrices do in their block");
  table.numbers("count", view(count), "measured matrices", "1");
  table.numbers("var_at_64_null", view(null), "var_at_64 of iid noise; NaN where shapes differ",
                "1");
  for (std::size_t m = 0; m < measure::kLayerMetricCount; ++m) {
    const std::string name(measure::layer_metric_name(static_cast<measure::LayerMetric>(m)));
    const auto column = [&](const char* suffix, const char* what,
                            double measure::Statistic::*member) {
      std::vector<double> values(n);
      for (std::size_t i = 0; i < n; ++i) {
        values[i] = groups[i].statistics[m].*member;
      }
      table.numbers(name + suffix, view(values), what + (" of " + name) + " over the matrices",
                    "1");
    };
    const auto extreme = [&](const char* suffix, const char* what,
                             std::int32_t measure::Statistic::*member) {
      std::vector<std::int32_t> values(n);
      for (std::size_t i = 0; i < n; ++i) {
        values[i] = groups[i].statistics[m].*member;
      }
      table.numbers(name + suffix, view(values), what + (" " + name) + ", -1 for non-experts", "");
    };
    column("_median", "median", &measure::Statistic::median);
    column("_q25", "lower quartile", &measure::Statistic::q25);
    column("_q75", "upper quartile", &measure::Statistic::q75);
    column("_min", "minimum", &measure::Statistic::min);
    column("_max", "maximum", &measure::Statistic::max);
    extreme("_argmin", "expert with the minimum", &measure::Statistic::argmin);
    extreme("_argmax", "expert with the greatest", &measure::Statistic::argmax);
  }
}

}  // namespace vindex::results
