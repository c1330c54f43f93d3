// Owns the summary of a comparison by groups of pairs, as text and as JSON.
#include "gathered_rows.hpp"
#include "pair_columns.hpp"
#include "results_file.hpp"

#include <vindex/core/error.hpp>
#include <vindex/core/json_document.hpp>
#include <vindex/core/text_table.hpp>
#include <vindex/measure/metrics.hpp>
#include <vindex/results/compared.hpp>
#include <vindex/results/pair_cells.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

namespace vindex::results {

namespace {

double cell_of(const StoredRow& row, PairCell cell) {
  return row.cells.empty() ? std::nan("") : row.cells[cell_number(cell)];
}

std::string name_of_row(const StoredRow& row) {
  return row.slice < 0 ? row.tensor : fmt::format("{}[{}]", row.tensor, row.slice);
}

/// Compared, and not everywhere equal.
bool is_changed(const StoredRow& row) {
  return row.status == measure::Status::kMeasured &&
         cell_of(row, PairCell::kMaxAbsDifference) > 0.0;
}

ComparedGroup group_of(const std::vector<const StoredRow*>& rows) {
  ComparedGroup group;
  group.block = rows.front()->block;
  group.role = rows.front()->role;
  group.pairs = static_cast<std::int64_t>(rows.size());
  std::vector<double> cosines, errors;
  for (const StoredRow* row : rows) {
    if (row->status != measure::Status::kMeasured) {
      continue;
    }
    ++group.compared;
    group.same_bits += cell_of(*row, PairCell::kSameBits) == 1.0 ? 1 : 0;
    cosines.push_back(cell_of(*row, PairCell::kCosine));
    const double error = cell_of(*row, PairCell::kRelativeError);
    errors.push_back(error);
    if (!std::isnan(error) && !(error <= group.error_most)) {
      group.error_most = error;
      group.worst = name_of_row(*row);
    }
  }
  group.cosine_median = measure::quantile(cosines, 0.5);
  group.cosine_least = measure::quantile(cosines, 0.0);
  group.error_median = measure::quantile(errors, 0.5);
  const auto median = [&](PairCell cell, bool of_changed) {
    std::vector<double> values;
    for (const StoredRow* row : rows) {
      if (row->status == measure::Status::kMeasured && (!of_changed || is_changed(*row))) {
        values.push_back(cell_of(*row, cell));
      }
    }
    return measure::quantile(values, 0.5);
  };
  std::vector<double> short_sides;
  for (const StoredRow* row : rows) {
    if (is_changed(*row) && !std::isnan(cell_of(*row, PairCell::kDeltaNumericalRank))) {
      short_sides.push_back(static_cast<double>(row->shorter()));
    }
  }
  group.delta_numerical_rank = median(PairCell::kDeltaNumericalRank, true);
  group.delta_numerical_rank_null = measure::quantile(short_sides, 0.5);
  group.changed = std::count_if(rows.begin(), rows.end(),
                                [](const StoredRow* row) { return is_changed(*row); });
  group.delta_effective_rank = median(PairCell::kDeltaEffectiveRank, true);
  group.delta_effective_rank_null = median(PairCell::kDeltaEffectiveRankNull, true);
  group.delta_stable_rank = median(PairCell::kDeltaStableRank, true);
  group.delta_stable_rank_null = median(PairCell::kDeltaStableRankNull, true);
  group.delta_rank_gd = median(PairCell::kDeltaRankGd, true);
  group.delta_rank_edge = median(PairCell::kDeltaRankEdge, true);
  group.overlap_right = median(PairCell::kOverlapRight, false);
  group.overlap_right_null = median(PairCell::kOverlapRightNull, false);
  group.overlap_left = median(PairCell::kOverlapLeft, false);
  group.overlap_left_null = median(PairCell::kOverlapLeftNull, false);
  return group;
}

Compared compared_now(const std::string& path) {
  const RunFiles run = list_run(path);
  GatheredRows gathered;
  gather_run(path, run, gathered, FileSchema::kCompare);
  Compared compared;
  compared.path = path;
  const std::string& described = run.has_file             ? path
                                 : run.files.runs.empty() ? run.files.parts.front()
                                                          : run.files.runs.front();
  const FileDescription description = ResultsReader(described, FileSchema::kCompare).description();
  compared.model_a = description.model;
  compared.model_b = description.other_model;
  compared.backend = description.backend;
  const PairColumns asked = pair_columns_of(description);
  compared.delta = asked.delta;
  compared.subspace = asked.subspace;
  for (const UnpairedMatrix& matrix : description.unpaired) {
    ++(matrix.side == "a" ? compared.unpaired_a : compared.unpaired_b);
  }
  const std::vector<const StoredRow*> rows = gathered.sorted();
  const StatusCounts counts = count_statuses(rows);
  compared.pairs = counts.total;
  compared.compared = counts.measured;
  compared.state = !run.has_file ? "running" : counts.skipped == 0 ? "complete" : "partial";
  std::map<std::tuple<model::Block, std::int32_t, std::string>, std::vector<const StoredRow*>>
      groups;
  for (const StoredRow* row : rows) {
    groups[{row->block, model::role_rank(row->role), row->role}].push_back(row);
  }
  for (const auto& [key, members] : groups) {
    compared.groups.push_back(group_of(members));
  }
  return compared;
}

/// Cosines near 1 say something in their last digits.
std::string cosine_text(double value) {
  return std::isnan(value) ? "-" : fmt::format("{:.6f}", value);
}
std::string error_text(double value) {
  return std::isnan(value) ? "-" : value == 0.0 ? "0" : fmt::format("{:.3g}", value);
}

}  // namespace

Compared read_compared(const std::string& path) {
  return read_while_it_stays(path, [&] { return compared_now(path); });
}

namespace {

std::string rank_text(double value) {
  return std::isnan(value) ? "-" : fmt::format("{:.1f}", value);
}
/// A count, or the median of an even number of them.
std::string count_text(double value) {
  return std::isnan(value) ? "-" : fmt::format("{:g}", value);
}
std::string share_text(double value) {
  return std::isnan(value) ? "-" : fmt::format("{:.4f}", value);
}

constexpr TextColumn kNumberColumn{.right = true};
constexpr TextColumn kCloseColumn{.right = true, .is_close = true};

/// What rank the changes have.
std::string delta_text(const Compared& compared, std::size_t width) {
  std::vector<std::vector<std::string>> cells = {{"block", "role", "changed", "rank", "noise", "gd",
                                                  "edge", "eff.rank", "noise", "stable", "noise"}};
  for (const ComparedGroup& group : compared.groups) {
    cells.push_back({std::string(model::block_name(group.block)), group.role,
                     std::to_string(group.changed), count_text(group.delta_numerical_rank),
                     count_text(group.delta_numerical_rank_null), count_text(group.delta_rank_gd),
                     count_text(group.delta_rank_edge), rank_text(group.delta_effective_rank),
                     rank_text(group.delta_effective_rank_null), rank_text(group.delta_stable_rank),
                     rank_text(group.delta_stable_rank_null)});
  }
  constexpr TextColumn kFirstDropped{.right = true, .is_close = true, .dropped_as = 1};
  return "B - A\n" +
         table_text(cells,
                    {{},
                     {.min_width = 8},
                     kNumberColumn,
                     kNumberColumn,
                     kCloseColumn,
                     kCloseColumn,
                     kCloseColumn,
                     kNumberColumn,
                     kCloseColumn,
                     kFirstDropped,
                     kFirstDropped},
                    width) +
         wrapped_text(
             "medians over the changed pairs: rank, of what is above rounding; gd, edge: singular "
             "values above the optimal threshold and above the noise's edge (0 and 0.2 of noise); "
             "effective and stable rank; noise: of that shape",
             width, 2) +
         "\n";
}

/// How near the strongest directions are.
std::string overlap_text(const Compared& compared, std::size_t width) {
  std::vector<std::vector<std::string>> cells = {
      {"block", "role", "pairs", "right", "noise", "left", "noise"}};
  for (const ComparedGroup& group : compared.groups) {
    cells.push_back({std::string(model::block_name(group.block)), group.role,
                     std::to_string(group.pairs), share_text(group.overlap_right),
                     share_text(group.overlap_right_null), share_text(group.overlap_left),
                     share_text(group.overlap_left_null)});
  }
  return fmt::format("overlap of the top {} directions\n", compared.subspace) +
         table_text(cells,
                    {{},
                     {.min_width = 8},
                     kNumberColumn,
                     kNumberColumn,
                     kCloseColumn,
                     kCloseColumn,
                     kCloseColumn},
                    width);
}

}  // namespace

std::string compared_text(const Compared& compared, std::size_t width) {
  std::vector<std::vector<std::string>> cells = {
      {"block", "role", "pairs", "same bits", "cosine", "least", "error", "most"}};
  for (const ComparedGroup& group : compared.groups) {
    cells.push_back({std::string(model::block_name(group.block)), group.role,
                     std::to_string(group.pairs), std::to_string(group.same_bits),
                     cosine_text(group.cosine_median), cosine_text(group.cosine_least),
                     error_text(group.error_median), error_text(group.error_most)});
  }
  const TextColumn number{.right = true};
  std::string text = table_text(cells,
                                {{},
                                 {.min_width = 8},
                                 number,
                                 number,
                                 {.right = true, .is_close = true},
                                 {.right = true, .is_close = true},
                                 {.right = true, .is_close = true},
                                 {.right = true, .is_close = true}},
                                width);
  text += wrapped_text(
              "cosine: median and minimum (least); error: median and largest norm(B - A) / norm(A)",
              width, 2) +
          "\n";
  const auto worst = std::max_element(compared.groups.begin(), compared.groups.end(),
                                      [](const ComparedGroup& a, const ComparedGroup& b) {
                                        return (std::isnan(a.error_most) ? -1.0 : a.error_most) <
                                               (std::isnan(b.error_most) ? -1.0 : b.error_most);
                                      });
  if (worst != compared.groups.end() && worst->error_most > 0.0) {
    text += wrapped_text(
                fmt::format("farthest: {}, error {}", worst->worst, error_text(worst->error_most)),
                width, 2) +
            "\n";
  }
  if (compared.delta) {
    text += delta_text(compared, width);
  }
  if (compared.subspace > 0) {
    text += overlap_text(compared, width);
  }
  if (compared.unpaired_a + compared.unpaired_b > 0) {
    text += wrapped_text(fmt::format("without a partner: {} of A, {} of B (/unpaired/ has them)",
                                     compared.unpaired_a, compared.unpaired_b),
                         width, 2) +
            "\n";
  }
  return text;
}

std::string compared_json(const Compared& compared) {
  Json groups = Json::array();
  for (const ComparedGroup& group : compared.groups) {
    groups.push_back({{"block", model::block_name(group.block)},
                      {"role", group.role},
                      {"pairs", group.pairs},
                      {"compared", group.compared},
                      {"same_bits", group.same_bits},
                      {"cosine_median", group.cosine_median},
                      {"cosine_least", group.cosine_least},
                      {"relative_error_median", group.error_median},
                      {"relative_error_most", group.error_most},
                      {"farthest", group.worst}});
    if (compared.delta) {
      groups.back().update({{"changed", group.changed},
                            {"delta_numerical_rank", group.delta_numerical_rank},
                            {"delta_numerical_rank_null", group.delta_numerical_rank_null},
                            {"delta_effective_rank", group.delta_effective_rank},
                            {"delta_effective_rank_null", group.delta_effective_rank_null},
                            {"delta_stable_rank", group.delta_stable_rank},
                            {"delta_stable_rank_null", group.delta_stable_rank_null},
                            {"delta_rank_gd", group.delta_rank_gd},
                            {"delta_rank_edge", group.delta_rank_edge}});
    }
    if (compared.subspace > 0) {
      groups.back().update({{"overlap_right", group.overlap_right},
                            {"overlap_right_null", group.overlap_right_null},
                            {"overlap_left", group.overlap_left},
                            {"overlap_left_null", group.overlap_left_null}});
    }
  }
  return Json{{"schema", "vindex-compare-summary/1"},
              {"file", printable(compared.path)},
              {"state", compared.state},
              {"model_a", compared.model_a},
              {"model_b", compared.model_b},
              {"backend", compared.backend},
              {"pairs", compared.pairs},
              {"compared", compared.compared},
              {"unpaired_a", compared.unpaired_a},
              {"unpaired_b", compared.unpaired_b},
              {"delta", compared.delta},
              {"k", compared.subspace > 0 ? Json(compared.subspace) : Json(nullptr)},
              {"groups", std::move(groups)}}
             .dump() +
         "\n";
}

}  // namespace vindex::results
