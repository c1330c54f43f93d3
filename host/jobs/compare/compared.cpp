// Owns the summary of a comparison by groups of pairs, as text and as JSON.
#include "compared.hpp"

#include "pair_cells.hpp"

#include "core/json_document.hpp"
#include "core/text_table.hpp"
#include "measure/metrics.hpp"
#include "results/gathered_rows.hpp"
#include "results/output_path.hpp"
#include "results/schema.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

namespace vindex::jobs {

namespace {

std::string name_of_row(const results::StoredRow& row) {
  return row.slice < 0 ? row.tensor : fmt::format("{}[{}]", row.tensor, row.slice);
}

/// Compared, and not everywhere equal.
bool is_changed(const results::StoredRow& row) {
  return row.status == measure::Status::kMeasured &&
         row.cell(pair_cell("max_abs_difference")) > 0.0;
}

enum class Over : std::uint8_t { kCompared, kChanged };
/// Not a cell: the shorter side, of pairs whose rank is known.
constexpr std::size_t kShortSide = results::kBehind;

/// A number of a group: a quantile of a cell over pairs.
struct GroupNumber {
  std::string_view name;  ///< in the JSON document, in this order
  std::size_t cell;
  double quantile = 0.5;
  Over over = Over::kCompared;
};
constexpr std::size_t kPlainNumbers = 4, kDeltaNumbers = 8;
constexpr std::array<GroupNumber, 16> kGroupNumbers = {
    {{"cosine_median", pair_cell("cosine")},
     {"cosine_least", pair_cell("cosine"), 0.0},
     {"relative_error_median", pair_cell("relative_error")},
     {"relative_error_most", pair_cell("relative_error"), 1.0},
     // With --delta: beside them what noise of those shapes gives.
     {"delta_numerical_rank", pair_cell("delta_numerical_rank"), 0.5, Over::kChanged},
     {"delta_numerical_rank_null", kShortSide, 0.5, Over::kChanged},
     {"delta_effective_rank", pair_cell("delta_effective_rank"), 0.5, Over::kChanged},
     {"delta_effective_rank_null", pair_cell("delta_effective_rank_null"), 0.5, Over::kChanged},
     {"delta_stable_rank", pair_cell("delta_stable_rank"), 0.5, Over::kChanged},
     {"delta_stable_rank_null", pair_cell("delta_stable_rank_null"), 0.5, Over::kChanged},
     {"delta_rank_gd", pair_cell("delta_rank_gd"), 0.5, Over::kChanged},
     {"delta_rank_edge", pair_cell("delta_rank_edge"), 0.5, Over::kChanged},
     // With --k.
     {"overlap_right", pair_cell("overlap_right")},
     {"overlap_right_null", pair_cell("overlap_right_null")},
     {"overlap_left", pair_cell("overlap_left")},
     {"overlap_left_null", pair_cell("overlap_left_null")}}};

consteval std::size_t number_of(std::string_view name) {
  return results::number_in(kGroupNumbers, name);
}

double number_over(const std::vector<const results::StoredRow*>& rows, const GroupNumber& number) {
  std::vector<double> values;
  for (const results::StoredRow* row : rows) {
    if (row->status != measure::Status::kMeasured ||
        (number.over == Over::kChanged && !is_changed(*row))) {
      continue;
    }
    if (number.cell != kShortSide) {
      values.push_back(row->cell(number.cell));
    } else if (!std::isnan(row->cell(pair_cell("delta_numerical_rank")))) {
      values.push_back(static_cast<double>(row->shorter()));
    }
  }
  return measure::quantile(values, number.quantile);
}

ComparedGroup group_of(const std::vector<const results::StoredRow*>& rows) {
  ComparedGroup group;
  group.block = rows.front()->block;
  group.role = rows.front()->role;
  group.pairs = static_cast<std::int64_t>(rows.size());
  for (const GroupNumber& number : kGroupNumbers) {
    group.numbers.push_back(number_over(rows, number));
  }
  const double most = group.numbers[number_of("relative_error_most")];
  for (const results::StoredRow* row : rows) {
    if (row->status != measure::Status::kMeasured) {
      continue;
    }
    ++group.compared;
    group.changed += is_changed(*row) ? 1 : 0;
    group.same_bits += row->cell(pair_cell("same_bits")) == 1.0 ? 1 : 0;
    if (group.worst.empty() && row->cell(pair_cell("relative_error")) == most) {
      group.worst = name_of_row(*row);
    }
  }
  return group;
}

Compared compared_now(const std::string& path) {
  const results::RunFiles run = results::list_run(path);
  results::GatheredRows gathered;
  results::gather_run(path, run, gathered, results::FileSchema::kCompare);
  Compared compared;
  compared.path = path;
  const results::FileDescription description =
      results::ResultsReader(results::describing_file(path, run), results::FileSchema::kCompare)
          .description();
  compared.model_a = description.model;
  compared.model_b = description.other_model;
  compared.backend = description.backend;
  const results::TableLayout layout =
      results::table_layout(description, model::ResultTable::kMatrix);
  compared.delta = layout.has(kDeltaColumns);
  compared.subspace = static_cast<std::int64_t>(layout.chosen);
  for (const results::UnpairedMatrix& matrix : description.unpaired) {
    ++(matrix.side == "a" ? compared.unpaired_a : compared.unpaired_b);
  }
  const std::vector<const results::StoredRow*> rows = gathered.sorted();
  const results::StatusCounts counts = results::count_statuses(rows);
  compared.pairs = counts.total;
  compared.compared = counts.measured;
  compared.state = results::state_of(run, rows);
  std::map<std::tuple<model::Block, std::int32_t, std::string>,
           std::vector<const results::StoredRow*>>
      groups;
  for (const results::StoredRow* row : rows) {
    groups[{row->block, model::role_rank(row->role), row->role}].push_back(row);
  }
  for (const auto& [key, members] : groups) {
    compared.groups.push_back(group_of(members));
  }
  return compared;
}

/// "-" for NaN.
std::string text_of(const char* format, double value) {
  return std::isnan(value) ? "-" : fmt::format(fmt::runtime(format), value);
}
/// Cosines near 1 say something in their last digits.
std::string cosine_text(double value) { return text_of("{:.6f}", value); }
std::string error_text(double value) { return value == 0.0 ? "0" : text_of("{:.3g}", value); }
std::string rank_text(double value) { return text_of("{:.1f}", value); }
/// A count, or the median of an even number of them.
std::string count_text(double value) { return text_of("{:g}", value); }
std::string share_text(double value) { return text_of("{:.4f}", value); }

constexpr TextColumn kNumberColumn{.right = true};
constexpr TextColumn kCloseColumn{.right = true, .is_close = true};

using CountColumn = std::pair<const char*, std::int64_t ComparedGroup::*>;
struct NumberColumn {
  const char* heading;
  std::size_t number;
  std::string (*text)(double);
  TextColumn layout;
};

std::string groups_table(const Compared& compared, std::initializer_list<CountColumn> counts,
                         std::initializer_list<NumberColumn> numbers, std::size_t width) {
  std::vector<std::vector<std::string>> cells = {{"block", "role"}};
  std::vector<TextColumn> layout = {{}, {.min_width = 8}};
  for (const auto& [heading, count] : counts) {
    cells.front().emplace_back(heading);
    layout.push_back(kNumberColumn);
  }
  for (const NumberColumn& column : numbers) {
    cells.front().emplace_back(column.heading);
    layout.push_back(column.layout);
  }
  for (const ComparedGroup& group : compared.groups) {
    auto& line = cells.emplace_back(
        std::vector<std::string>{std::string(model::block_name(group.block)), group.role});
    for (const auto& [heading, count] : counts) {
      line.push_back(std::to_string(group.*count));
    }
    for (const NumberColumn& column : numbers) {
      line.push_back(column.text(group.numbers[column.number]));
    }
  }
  return table_text(cells, layout, width);
}

/// What rank the changes have.
std::string delta_text(const Compared& compared, std::size_t width) {
  constexpr TextColumn kFirstDropped{.right = true, .is_close = true, .dropped_as = 1};
  return "B - A\n" +
         groups_table(compared, {{"changed", &ComparedGroup::changed}},
                      {{"rank", number_of("delta_numerical_rank"), count_text, kNumberColumn},
                       {"noise", number_of("delta_numerical_rank_null"), count_text, kCloseColumn},
                       {"gd", number_of("delta_rank_gd"), count_text, kCloseColumn},
                       {"edge", number_of("delta_rank_edge"), count_text, kCloseColumn},
                       {"eff.rank", number_of("delta_effective_rank"), rank_text, kNumberColumn},
                       {"noise", number_of("delta_effective_rank_null"), rank_text, kCloseColumn},
                       {"stable", number_of("delta_stable_rank"), rank_text, kFirstDropped},
                       {"noise", number_of("delta_stable_rank_null"), rank_text, kFirstDropped}},
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
  return fmt::format("overlap of the top {} directions\n", compared.subspace) +
         groups_table(compared, {{"pairs", &ComparedGroup::pairs}},
                      {{"right", number_of("overlap_right"), share_text, kNumberColumn},
                       {"noise", number_of("overlap_right_null"), share_text, kCloseColumn},
                       {"left", number_of("overlap_left"), share_text, kCloseColumn},
                       {"noise", number_of("overlap_left_null"), share_text, kCloseColumn}},
                      width);
}

}  // namespace

Compared read_compared(const std::string& path) {
  return results::read_while_it_stays(path, [&] { return compared_now(path); });
}

std::string compared_text(const Compared& compared, std::size_t width) {
  constexpr std::size_t kMost = number_of("relative_error_most");
  std::string text = groups_table(
      compared, {{"pairs", &ComparedGroup::pairs}, {"same bits", &ComparedGroup::same_bits}},
      {{"cosine", number_of("cosine_median"), cosine_text, kCloseColumn},
       {"least", number_of("cosine_least"), cosine_text, kCloseColumn},
       {"error", number_of("relative_error_median"), error_text, kCloseColumn},
       {"most", kMost, error_text, kCloseColumn}},
      width);
  text += wrapped_text(
              "cosine: median and minimum (least); error: median and largest norm(B - A) / norm(A)",
              width, 2) +
          "\n";
  const auto most = [](const ComparedGroup& group) {
    return std::isnan(group.numbers[kMost]) ? -1.0 : group.numbers[kMost];
  };
  const auto worst = std::max_element(
      compared.groups.begin(), compared.groups.end(),
      [&](const ComparedGroup& a, const ComparedGroup& b) { return most(a) < most(b); });
  if (worst != compared.groups.end() && most(*worst) > 0.0) {
    text +=
        wrapped_text(fmt::format("farthest: {}, error {}", worst->worst, error_text(most(*worst))),
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
                      {"same_bits", group.same_bits}});
    Json& one = groups.back();
    const auto add = [&](std::size_t first, std::size_t count) {
      for (std::size_t i = first; i < first + count; ++i) {
        one[std::string(kGroupNumbers[i].name)] = group.numbers[i];
      }
    };
    add(0, kPlainNumbers);
    one["farthest"] = group.worst;
    if (compared.delta) {
      one["changed"] = group.changed;
      add(kPlainNumbers, kDeltaNumbers);
    }
    if (compared.subspace > 0) {
      add(kPlainNumbers + kDeltaNumbers, kGroupNumbers.size() - kPlainNumbers - kDeltaNumbers);
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

}  // namespace vindex::jobs
