// Owns the scores of experts against their group, the tables made of them, and their members in
// JSON.
#include "outlying_experts.hpp"

#include "experts_cells.hpp"

#include "statistics/samples/quantile.hpp"
#include "statistics/samples/robust_scale.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

namespace vindex::commands {

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
/// Fewer have no group to be far from.
constexpr std::size_t kFewestExperts = 5;
/// Of a table of outliers.
constexpr std::size_t kMostLines = 12;
/// Places in ViewRow::derived.
constexpr std::size_t kMeanCosine = 0, kNearestCosine = 1, kNearest = 2, kPairScale = 3;

/// What the farthest of so many experts has by chance; drawing it takes a while.
struct ScoreNoise {
  std::map<std::int64_t, double> of_values, of_nearest;
};

double kept_or(std::map<std::int64_t, double>& known, std::int64_t count,
               double (*draw)(std::int64_t)) {
  const auto [place, is_new] = known.try_emplace(count, kNaN);
  if (is_new) {
    place->second = draw(count);
  }
  return place->second;
}

/// Adds the outliers among `values`, one for each expert, NaN for one that has none. Of `nearest`
/// the scale is that of all pairs, `pair_scale`; NaN: they are values of their own.
void add_outliers(const results::ViewRow& row, const char* of, const std::vector<double>& values,
                  double pair_scale, ScoreNoise& noise, OutlyingExperts& out) {
  std::vector<double> present;
  std::vector<std::int64_t> experts;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) {
      present.push_back(values[i]);
      experts.push_back(static_cast<std::int64_t>(i));
    }
  }
  if (present.size() < kFewestExperts) {
    return;
  }
  ++out.groups;
  const auto count = static_cast<std::int64_t>(present.size());
  const bool is_nearest = !std::isnan(pair_scale);
  const double bound = is_nearest
                           ? kept_or(noise.of_nearest, count, statistics::largest_nearest_q95)
                           : kept_or(noise.of_values, count, statistics::largest_score_q95);
  const double median = statistics::quantile(present, 0.5);
  const double scale = is_nearest ? pair_scale : statistics::robust_scale(present, median);
  const std::size_t before = out.experts.size();
  for (std::size_t i = 0; i < present.size(); ++i) {
    const double score = scale > 0.0 ? (present[i] - median) / scale : 0.0;
    if (std::abs(score) > bound) {
      out.experts.push_back({.row = &row,
                             .expert = experts[i],
                             .of = of,
                             .value = present[i],
                             .median = median,
                             .z = score,
                             .z_noise = bound});
    }
  }
  out.groups_with += out.experts.size() > before ? 1 : 0;
}

results::SummaryTable overlap_table(const results::ResultsView& shown) {
  constexpr TextColumn kNumber{.right = true};
  constexpr TextColumn kClose{.right = true, .is_close = true};
  results::SummaryTable table = {
      .cells = {{"layer", "role", "K", "right", "noise", "+-", "left", "noise", "+-"}},
      .layout =
          {kNumber, {.min_width = 8}, kNumber, kNumber, kClose, kClose, kNumber, kClose, kClose},
      .title = "overlap of the top K singular subspaces of two experts, mean over pairs"};
  const auto text = [](const results::ViewRow& row, std::size_t cell) {
    return results::number_text(row.cells[cell]);
  };
  for (const results::ViewRow& row : shown.rows) {
    const double k = row.cells[experts_cell("overlap_k")];
    if (std::isnan(k)) {
      continue;
    }
    table.cells.push_back({std::to_string(row.layer), row.role, results::number_text(k, true),
                           text(row, experts_cell("overlap_right_mean")),
                           text(row, experts_cell("overlap_right_null")),
                           text(row, experts_cell("overlap_right_mean_null_sd")),
                           text(row, experts_cell("overlap_left_mean")),
                           text(row, experts_cell("overlap_left_null")),
                           text(row, experts_cell("overlap_left_mean_null_sd"))});
  }
  return table;
}

results::SummaryTable outlier_table(const OutlyingExperts& found) {
  constexpr TextColumn kNumber{.right = true};
  results::SummaryTable table = {
      .cells = {{"layer", "role", "expert", "by its", "value", "median", "z", "noise 95 %"}},
      .layout = {kNumber,
                 {.min_width = 8},
                 kNumber,
                 {},
                 kNumber,
                 kNumber,
                 kNumber,
                 {.right = true, .is_close = true}},
      .title = "experts that stand out from their layer and role"};
  for (const OutlyingExpert& one : found.experts) {
    if (table.cells.size() > kMostLines) {
      break;
    }
    table.cells.push_back(
        {std::to_string(one.row->layer), one.row->role, std::to_string(one.expert),
         one.nearest < 0 ? std::string(one.of) : fmt::format("{}: {}", one.of, one.nearest),
         results::number_text(one.value), results::number_text(one.median),
         fmt::format("{:+.1f}", one.z), fmt::format("{:.1f}", one.z_noise)});
  }
  return table;
}

}  // namespace

std::vector<std::vector<double>> derive_experts(const results::StoredRow& row,
                                                results::BulkSource& bulk) {
  const results::ArrayCell array = bulk.array(row, experts_array("cosine"));
  const auto side = static_cast<std::size_t>(std::sqrt(static_cast<double>(array.floats.size())));
  const double reported = row.cell(experts_cell("experts"));
  const std::size_t experts =
      reported >= 0.0 ? std::min(side, static_cast<std::size_t>(reported)) : 0;
  std::vector<std::vector<double>> derived(3, std::vector<double>(experts, kNaN));
  std::vector<double> pairs;
  for (std::size_t i = 0; i < experts; ++i) {
    double sum = 0.0;
    std::size_t count = 0;
    for (std::size_t j = 0; j < experts; ++j) {
      const auto cosine = static_cast<double>(array.floats[i * side + j]);
      if (i == j || std::isnan(cosine)) {
        continue;
      }
      sum += cosine;
      ++count;
      if (j < i) {
        pairs.push_back(cosine);
      }
      if (!(cosine <= derived[kNearestCosine][i])) {
        derived[kNearestCosine][i] = cosine;
        derived[kNearest][i] = static_cast<double>(j);
      }
    }
    derived[kMeanCosine][i] = count > 0 ? sum / static_cast<double>(count) : kNaN;
  }
  derived.push_back({statistics::robust_scale(pairs, statistics::quantile(pairs, 0.5))});
  return derived;
}

OutlyingExperts outlying_experts(const results::ResultsView& shown) {
  OutlyingExperts out;
  ScoreNoise noise;
  for (const results::ViewRow& row : shown.rows) {
    if (row.derived.empty()) {
      continue;
    }
    add_outliers(row, "norm", row.arrays[experts_array("norm")], kNaN, noise, out);
    add_outliers(row, "mean cosine", row.derived[kMeanCosine], kNaN, noise, out);
    const std::size_t before = out.experts.size();
    add_outliers(row, "nearest", row.derived[kNearestCosine], row.derived[kPairScale].front(),
                 noise, out);
    for (std::size_t i = before; i < out.experts.size(); ++i) {
      OutlyingExpert& one = out.experts[i];
      one.nearest =
          static_cast<std::int64_t>(row.derived[kNearest][static_cast<std::size_t>(one.expert)]);
    }
  }
  std::stable_sort(out.experts.begin(), out.experts.end(),
                   [](const OutlyingExpert& a, const OutlyingExpert& b) {
                     return std::abs(a.z) / a.z_noise > std::abs(b.z) / b.z_noise;
                   });
  return out;
}

std::vector<results::SummaryTable> expert_tables(const results::ResultsView& shown,
                                                 const OutlyingExperts& found) {
  std::vector<results::SummaryTable> tables;
  results::SummaryTable overlaps = overlap_table(shown);
  if (overlaps.cells.size() > 1) {
    tables.push_back(std::move(overlaps));
  }
  results::SummaryTable outliers = outlier_table(found);
  if (outliers.cells.size() > 1) {
    tables.push_back(std::move(outliers));
  }
  return tables;
}

std::string outliers_text(const OutlyingExperts& found) {
  if (found.groups == 0) {
    return fmt::format("no group has {} experts for one to stand out from", kFewestExperts);
  }
  constexpr double kByChance = 0.05;
  std::string text = fmt::format(
      "z: robust, of an expert's norm, mean cosine and cosine with its nearest (in units of all "
      "pairs' scale), among those of its layer and role; its noise: the farthest of as many normal "
      "values, or of normal cosines, in 95 of 100 draws. {} "
      "stand{} out, in {} of {} comparisons ({:.1f} by chance)",
      found.experts.empty() ? "none" : std::to_string(found.experts.size()),
      found.experts.size() <= 1 ? "s" : "", found.groups_with, found.groups,
      kByChance * static_cast<double>(found.groups));
  if (found.experts.size() > kMostLines) {
    text += fmt::format(" ({} are not shown: --layer and --role choose, --json has all)",
                        found.experts.size() - kMostLines);
  }
  return text;
}

Json expert_members(const OutlyingExperts& found) {
  Json members = Json::object();
  members["comparisons"] = found.groups;
  members["comparisons_with_outliers"] = found.groups_with;
  Json& list = members["outlying"] = Json::array();
  for (const OutlyingExpert& one : found.experts) {
    list.push_back({{"layer", one.row->layer},
                    {"role", one.row->role},
                    {"expert", one.expert},
                    {"by", one.of},
                    {"value", one.value},
                    {"median", one.median},
                    {"z", one.z},
                    {"z_null_q95", one.z_noise},
                    {"nearest", one.nearest < 0 ? Json(nullptr) : Json(one.nearest)}});
  }
  return members;
}

}  // namespace vindex::commands
