#include "gathered_rows.hpp"
#include "results_file.hpp"

#include <vindex/core/error.hpp>
#include <vindex/core/text_table.hpp>
#include <vindex/measure/metrics.hpp>
#include <vindex/results/compared.hpp>
#include <vindex/results/pair_cells.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

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
                                 {.least = 8},
                                 number,
                                 number,
                                 {.right = true, .is_close = true},
                                 {.right = true, .is_close = true},
                                 {.right = true, .is_close = true},
                                 {.right = true, .is_close = true}},
                                width);
  text += wrapped_text("cosine: median and least; error: median and largest norm(B - A) / norm(A)",
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
  if (compared.unpaired_a + compared.unpaired_b > 0) {
    text += wrapped_text(fmt::format("without a partner: {} of A, {} of B (/unpaired/ has them)",
                                     compared.unpaired_a, compared.unpaired_b),
                         width, 2) +
            "\n";
  }
  return text;
}

std::string compared_json(const Compared& compared) {
  using Json = nlohmann::ordered_json;
  const auto number = [](double value) { return std::isnan(value) ? Json(nullptr) : Json(value); };
  Json groups = Json::array();
  for (const ComparedGroup& group : compared.groups) {
    groups.push_back({{"block", model::block_name(group.block)},
                      {"role", group.role},
                      {"pairs", group.pairs},
                      {"compared", group.compared},
                      {"same_bits", group.same_bits},
                      {"cosine_median", number(group.cosine_median)},
                      {"cosine_least", number(group.cosine_least)},
                      {"relative_error_median", number(group.error_median)},
                      {"relative_error_most", number(group.error_most)},
                      {"farthest", group.worst}});
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
              {"groups", std::move(groups)}}
             .dump(-1, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

}  // namespace vindex::results
