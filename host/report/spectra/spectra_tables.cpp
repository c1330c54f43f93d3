// Owns the columns of groups, experts and first matrices: how each is printed and stored.
#include "spectra_tables.hpp"

#include "metric_text.hpp"

#include "core/json/json_document.hpp"
#include "core/text/short_names.hpp"
#include "core/text/text_table.hpp"
#include "results/view/table_view.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vindex::report {

namespace {

/// "0.685..0.688"; a spread of one value is none.
std::string quartiles_text(const ViewedMetric& metric, const MetricGroup& group) {
  if (group.values < 2) {
    return kNone;
  }
  return metric.is_share ? fmt::format("{:.3f}..{:.3f}", group.q25, group.q75)
                         : fmt::format("{}..{}", digits_text(group.q25, metric.is_count),
                                       digits_text(group.q75, metric.is_count));
}

/// "16 of 384" where a group was drawn and is not whole.
std::string count_text(const MetricGroup& group) {
  return group.n_measured < group.n_total ? fmt::format("{} of {}", group.n_measured, group.n_total)
                                          : std::to_string(group.count);
}

std::string block_text(model::Block block) { return std::string(model::block_name(block)); }

std::string k_text(std::int32_t k) { return k > 0 ? std::to_string(k) : kNone; }

std::string layer_text(std::int32_t layer) { return layer < 0 ? kNone : std::to_string(layer); }

/// Numbers move together before a name is shortened: they are what a table is for.
constexpr TextColumn kNumber = {.right = true, .is_close = true};
/// "routed..." at the least.
constexpr TextColumn kBlock = {.min_width = 9, .keep = Keep::kStart, .is_close = true};
constexpr TextColumn kRole = {.min_width = 10};

constexpr TextColumn dropped(std::uint8_t turn) {
  return {.right = true, .is_close = true, .dropped_as = turn};
}

/// What goes where not even short names leave room for the numbers of a metric.
constexpr TextColumn given_up(std::uint8_t turn) {
  return {.right = true, .is_close = true, .given_up_as = turn};
}

bool has_own_k(const ViewedMetric& metric) { return metric.is_by_k() && !metric.k; }

bool is_principal(model::Block block) {
  return block == model::Block::kRoutedExpert || block == model::Block::kRouter ||
         block == model::Block::kDenseMlp;
}

std::string name_text(const MatrixView& matrix) {
  return matrix.slice < 0 ? printable(matrix.tensor)
                          : fmt::format("{}#{}", printable(matrix.tensor), matrix.slice);
}

/// Why there is no number at all: the reason that most of the measured rows give.
std::string silence_text(const SpectraView& view, std::size_t width) {
  std::map<std::string, std::int64_t> reasons;
  for (const MatrixView& matrix : view.matrices) {
    if (matrix.measured && !std::isnan(matrix.numbers.value)) {
      return "";
    }
    if (matrix.measured && !matrix.reason.empty()) {
      ++reasons[matrix.reason];
    }
  }
  const auto most =
      std::max_element(reasons.begin(), reasons.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  const std::string why = most == reasons.end() ? "" : ": " + printable(most->first);
  return wrapped_text(fmt::format("(no matrix here has a value of {}{})", view.metric.label(), why),
                      width, 2) +
         "\n";
}

/// The null of a value and what follows from both, then the sign flip: columns of every table, of
/// the functions or members that have them. `difference` and `flip`: how these stand; without
/// `difference` it is for programs alone.
template <typename Row>
void add_nulls(results::TableView<Row>& table, const ViewedMetric& metric,
               const std::array<std::function<double(const Row&)>, 4>& numbers,
               std::optional<TextColumn> difference, TextColumn flip) {
  const auto value = [metric](double number) { return value_text(metric, number); };
  if (metric.has_null) {
    table.number("noise", kNumber, "null", value, numbers[0]);
    if (difference) {
      table.printed("diff", *difference, [metric, away = numbers[1]](const Row& row) {
        return difference_text(metric, away(row));
      });
    }
    table.stored("difference", numbers[1])
        .number("ratio", kNumber, "ratio", ratio_text, numbers[2]);
  }
  if (metric.has_sign_flip) {
    table.number("flip", flip, "signflip", value, numbers[3]);
  }
}

void add_estimate(Json& to, const std::string& name, const statistics::Estimate& estimate) {
  to[name + "_se"] = estimate.error;
  to[name + "_low"] = estimate.low;
  to[name + "_high"] = estimate.high;
}

/// What is known of a drawn group alone.
void add_estimates(const MetricGroup& group, Json& to) {
  if (group.n_total > 0) {
    to["n_measured"] = group.n_measured;
    to["n_total"] = group.n_total;
    to["mean"] = group.estimates.mean.value;
    add_estimate(to, "mean", group.estimates.mean);
    add_estimate(to, "median", group.estimates.median);
    add_estimate(to, "q25", group.estimates.q25);
    add_estimate(to, "q75", group.estimates.q75);
  }
}

using GroupRow = const MetricGroup&;

results::TableView<MetricGroup> groups_table(const SpectraView& view) {
  const ViewedMetric& metric = view.metric;
  const bool is_drawn = view.n_total > 0;
  results::TableView<MetricGroup> table;
  table.printed("layer", kNumber, [](GroupRow group) { return layer_text(group.layer); })
      .printed("block", kBlock, [](GroupRow group) { return block_text(group.block); })
      .printed("role", kRole, [](GroupRow group) { return printable(group.role); })
      .printed("n", is_drawn ? kNumber : given_up(1), count_text)
      .stored("layer", &MetricGroup::layer)
      .stored("block", [](GroupRow group) { return block_text(group.block); })
      .stored("role", &MetricGroup::role)
      .stored("count", &MetricGroup::count)
      .stored("values", &MetricGroup::values);
  if (has_own_k(metric)) {
    table.printed("k", kNumber, [](GroupRow group) { return k_text(group.k.value_or(0)); });
  }
  if (metric.is_by_k()) {
    table.stored("k", [](GroupRow group) { return Json::given(group.k); });
  }
  table.number(
      heading(metric, "median"), kNumber, "median",
      [metric](double value) { return value_text(metric, value); }, &MetricGroup::median);
  if (is_drawn) {
    table.printed("+-", kNumber,
                  [](GroupRow group) { return error_text(group.estimates.median.error); });
  }
  table
      .printed("q25..q75", dropped(1),
               [metric](GroupRow group) { return quartiles_text(metric, group); })
      .stored("q25", &MetricGroup::q25)
      .stored("q75", &MetricGroup::q75)
      .stored("min", &MetricGroup::min)
      .stored("max", &MetricGroup::max)
      .members(add_estimates);
  add_nulls<MetricGroup>(
      table, metric,
      {&MetricGroup::null, &MetricGroup::difference, &MetricGroup::ratio, &MetricGroup::sign_flip},
      kNumber, kNumber);
  if (metric.has_spread) {
    table.number("z", given_up(2), "signflip_z", z_text, &MetricGroup::sign_flip_z);
  }
  return table;
}

/// Of a row that is a matrix.
template <typename Row, typename Member>
auto number_of(Member member) {
  return [member](const Row& row) -> double { return std::invoke(member, row.numbers); };
}

/// Who a matrix is (for programs), and its value.
template <typename Row>
void add_matrix(results::TableView<Row>& table, const ViewedMetric& metric) {
  table.stored("tensor", &MatrixView::tensor)
      .stored("slice", &MatrixView::slice)
      .stored("layer", &MatrixView::layer)
      .stored("expert", &MatrixView::expert)
      .stored("block", [](const Row& row) { return block_text(row.block); })
      .stored("role", &MatrixView::role)
      .stored("rows", &MatrixView::rows)
      .stored("cols", &MatrixView::cols)
      .stored("encoding", &MatrixView::encoding);
  if (metric.is_by_k()) {
    table.stored("k", [](const Row& row) { return row.k > 0 ? Json(row.k) : Json(); });
  }
  table.number(
      heading(metric, "value"), kNumber, "value",
      [metric](double value) { return value_text(metric, value); },
      number_of<Row>(&MetricNumbers::value));
}

/// What noise gives for it, and (for programs) the spread of several sign flips.
template <typename Row>
void add_matrix_nulls(results::TableView<Row>& table, const ViewedMetric& metric,
                      std::optional<TextColumn> difference, TextColumn flip) {
  add_nulls<Row>(table, metric,
                 {number_of<Row>(&MetricNumbers::null), number_of<Row>(&MetricNumbers::difference),
                  number_of<Row>(&MetricNumbers::ratio), number_of<Row>(&MetricNumbers::sign_flip)},
                 difference, flip);
  if (metric.has_spread) {
    table.stored("signflip_std", number_of<Row>(&MetricNumbers::sign_flip_std))
        .stored("signflip_z", number_of<Row>(&MetricNumbers::sign_flip_z))
        .stored("signflip_p", number_of<Row>(&MetricNumbers::sign_flip_p));
  }
}

/// An expert that stands out of its group.
struct ExpertRow : MatrixView {
  double median = 0.0;  ///< of the group
  double z = 0.0;
  bool is_far = false;
  std::string which;  ///< "min", "max, far", "far"
};

std::vector<ExpertRow> rows_of(const ExpertGroup& group) {
  std::vector<ExpertRow> rows;
  for (const RankedExpert& expert : group.experts) {
    const std::string end = &expert == &group.experts.front()  ? "min"
                            : &expert == &group.experts.back() ? "max"
                                                               : "";
    rows.push_back({*expert.matrix, group.median, expert.z, expert.is_far,
                    end + (!expert.is_far ? ""
                           : end.empty()  ? "far"
                                          : ", far")});
  }
  return rows;
}

results::TableView<ExpertRow> experts_table(const SpectraView& view) {
  using Row = const ExpertRow&;
  const ViewedMetric& metric = view.metric;
  results::TableView<ExpertRow> table;
  table.printed("layer", kNumber, [](Row row) { return layer_text(row.layer); })
      .printed("role", kRole, [](Row row) { return printable(row.role); })
      .printed("expert", kNumber, [](Row row) { return std::to_string(row.expert); });
  if (has_own_k(metric)) {
    table.printed("k", kNumber, [](Row row) { return std::to_string(row.k); });
  }
  add_matrix(table, metric);
  table.printed("median", dropped(1), [metric](Row row) { return value_text(metric, row.median); })
      .printed("z", kNumber, [](Row row) { return z_text(row.z); });
  add_matrix_nulls(table, metric, std::nullopt, kNumber);
  return table.printed("which", {}, &ExpertRow::which)
      .stored("robust_z", &ExpertRow::z)
      .stored("far", &ExpertRow::is_far);
}

results::TableView<MatrixView> top_table(const SpectraView& view) {
  using Row = const MatrixView&;
  const ViewedMetric& metric = view.metric;
  constexpr std::array<std::string_view, 5> kOwnColumns = {"value", "null", "difference", "ratio",
                                                           "signflip"};
  results::TableView<MatrixView> table;
  if (std::find(kOwnColumns.begin(), kOwnColumns.end(), view.sort_by) == kOwnColumns.end()) {
    // The last line has a long name in full.
    constexpr std::size_t kLongest = 12;
    table.printed(view.sort_by.size() <= kLongest ? view.sort_by : "by", kNumber,
                  [](Row row) { return digits_text(row.sort_by, true); });
  }
  if (has_own_k(metric)) {
    table.printed("k", kNumber, [](Row row) { return k_text(row.k); });
  }
  add_matrix(table, metric);
  add_matrix_nulls(table, metric, view.sort_by == "difference" ? kNumber : given_up(1),
                   view.sort_by == "signflip" ? kNumber : given_up(2));
  return table
      .printed("shape", dropped(1),
               [](Row row) { return fmt::format("{}x{}", row.rows, row.cols); })
      .printed("matrix", {}, &MatrixView::tensor)
      .stored("by", &MatrixView::sort_by);
}

std::vector<MatrixView> top_rows(const SpectraView& view, std::size_t count, bool ascending) {
  std::vector<MatrixView> rows;
  for (const MatrixView* matrix : top_matrices(view.matrices, count, ascending)) {
    rows.push_back(*matrix);
  }
  return rows;
}

/// What every document begins with.
Json document_of(const SpectraView& view) {
  Json out = {{"schema", "vindex-show/1"},
              {"file", view.path},
              {"state", view.state},
              {"table", model::table_name(view.table)},
              {"model", view.model},
              {"mode", view.mode},
              {"backend", view.backend},
              {"matrices_total", view.rows_total},
              {"matrices_measured", view.rows_measured},
              {"metric", view.metric.name},
              {"k", Json::given(view.metric.k)}};
  if (view.n_total > 0) {
    out["n_total"] = view.n_total;
  }
  return out;
}

std::string text_of(const Json& document) { return document.dump(2) + "\n"; }

}  // namespace

std::string groups_text(const SpectraView& view, std::size_t width, std::size_t max_lines) {
  std::vector<MetricGroup> groups = metric_groups(view.matrices);
  const std::size_t all = groups.size();
  if (all > max_lines) {
    std::erase_if(groups, [](const MetricGroup& group) { return !is_principal(group.block); });
  }
  std::string out = groups_table(view).text(groups, width);
  if (groups.size() < all) {
    out += fmt::format("({} further groups: `vindex show {}`)\n", all - groups.size(),
                       printable(view.path));
  }
  if (view.n_total > 0) {
    out += wrapped_text(
               "n: drawn at random and measured, of all in the model; +-: standard error "
               "of the median over all of them",
               width) +
           "\n";
  }
  return out + silence_text(view, width);
}

std::string groups_json(const SpectraView& view) {
  Json document = document_of(view);
  document["groups"] = groups_table(view).json(metric_groups(view.matrices));
  return text_of(document);
}

std::string experts_text(const SpectraView& view, std::size_t width) {
  const std::vector<ExpertGroup> groups = expert_groups(view.matrices);
  if (groups.empty()) {
    return "(no routed expert here has a value)\n";
  }
  std::vector<ExpertRow> rows;
  std::int64_t all = 0;
  for (const ExpertGroup& group : groups) {
    all += group.count;
    const std::vector<ExpertRow> more = rows_of(group);
    rows.insert(rows.end(), more.begin(), more.end());
  }
  const auto far =
      std::count_if(rows.begin(), rows.end(), [](const ExpertRow& row) { return row.is_far; });
  return experts_table(view).text(rows, width) +
         wrapped_text(fmt::format("far: {} of {} experts, by a robust z beyond {} "
                                  "(from the median and the MAD of their layer and role, {} "
                                  "experts at least)",
                                  far, all, kFarZ, kFewestExperts),
                      width) +
         "\n";
}

std::string experts_json(const SpectraView& view) {
  Json document = document_of(view);
  document["far_z"] = kFarZ;
  document["fewest_experts"] = kFewestExperts;
  const auto table = experts_table(view);
  document["groups"] = Json::list(expert_groups(view.matrices), [&](const ExpertGroup& group) {
    return Json{{"layer", group.layer}, {"role", group.role},
                {"count", group.count}, {"median", group.median},
                {"scale", group.scale}, {"experts", table.json(rows_of(group))}};
  });
  return text_of(document);
}

std::string top_text(const SpectraView& view, std::size_t count, bool ascending,
                     std::size_t width) {
  std::vector<MatrixView> rows = top_rows(view, count, ascending);
  ShortNames names;
  std::transform(rows.begin(), rows.end(), std::back_inserter(names.names), name_text);
  if (width != std::numeric_limits<std::size_t>::max()) {
    names = short_names(names.names);
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].tensor = names.names[i];
  }
  return top_table(view).text(rows, width) + shared_text(names, width) +
         fmt::format("({} of {} matrices, by {}, {} first)\n", rows.size(), view.matrices.size(),
                     view.sort_by, ascending ? "smallest" : "largest");
}

std::string top_json(const SpectraView& view, std::size_t count, bool ascending) {
  Json document = document_of(view);
  document["by"] = view.sort_by;
  document["ascending"] = ascending;
  document["matrices"] = top_table(view).json(top_rows(view, count, ascending));
  return text_of(document);
}

}  // namespace vindex::report
