// Owns gathering pairs into groups with their numbers, and choosing among the groups.
#include "comparison_summary.hpp"

#include "group_numbers.hpp"
#include "pair_summary.hpp"

#include "core/text/nearest_name.hpp"
#include "results/view/first_rows.hpp"
#include "statistics/samples/quantile.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>
#include <variant>

namespace vindex::commands {

namespace {

std::string name_of_row(const results::ViewRow& row) {
  return row.slice < 0 ? row.tensor : fmt::format("{}[{}]", row.tensor, row.slice);
}

/// Compared, and not everywhere equal.
bool is_changed(const results::ViewRow& row) {
  return row.is_measured() && row.cells[pair_cell("max_abs_difference")] > 0.0;
}

using PairRows = std::vector<const results::ViewRow*>;
/// Pairs whose errors can be expected to be alike: block, role, how both sides are stored.
using Kind = std::tuple<model::Block, std::string, std::string, std::string>;
Kind kind_of(const results::ViewRow& row) {
  return {row.block, row.role, row.encoding, row.other_encoding};
}
/// The median error of every kind.
using KindErrors = std::map<Kind, double>;

KindErrors errors_by_kind(const std::vector<results::ViewRow>& rows) {
  std::map<Kind, std::vector<double>> values;
  for (const results::ViewRow& row : rows) {
    const double error = row.cells[pair_cell("relative_error")];
    if (row.is_measured() && !std::isnan(error)) {
      values[kind_of(row)].push_back(error);
    }
  }
  KindErrors errors;
  for (auto& [kind, all] : values) {
    errors[kind] = statistics::quantile(std::move(all), 0.5);
  }
  return errors;
}

/// `which`, a cell or one of those that are none.
double pair_number(const results::ViewRow& row, std::size_t which, const KindErrors& errors) {
  if (which == kShortSide) {
    return std::isnan(row.cells[pair_cell("delta_numerical_rank")])
               ? std::nan("")
               : static_cast<double>(row.shorter());
  }
  if (which == kUnrelated) {
    return unrelated_error(row.cells[pair_cell("norm_a")], row.cells[pair_cell("norm_b")]);
  }
  if (which == kOverItsKind) {
    const auto usual = errors.find(kind_of(row));
    return usual == errors.end() || !(usual->second > 0.0)
               ? std::nan("")
               : row.cells[pair_cell("relative_error")] / usual->second;
  }
  return row.cells[which];
}

double number_over(const PairRows& rows, const GroupNumber& number, const KindErrors& errors) {
  std::vector<double> values;
  for (const results::ViewRow* row : rows) {
    if (!row->is_measured() || (number.over == GroupOver::kChanged && !is_changed(*row))) {
      continue;
    }
    const double value = pair_number(*row, number.cell, errors);
    if (number.cell < kOverItsKind || !std::isnan(value)) {
      values.push_back(value);
    }
  }
  return statistics::quantile(values, number.quantile);
}

PairGroup group_of(const PairRows& rows, const KindErrors& errors) {
  PairGroup group;
  group.layer = rows.front()->layer;
  group.encoding_a = rows.front()->encoding;
  group.encoding_b = rows.front()->other_encoding;
  group.block = rows.front()->block;
  group.role = rows.front()->role;
  group.pairs = static_cast<std::int64_t>(rows.size());
  for (const GroupNumber& number : kGroupNumbers) {
    group.numbers.push_back(number_over(rows, number, errors));
  }
  const double most = group.numbers[group_number("relative_error_most")];
  for (const results::ViewRow* row : rows) {
    if (!row->is_measured()) {
      continue;
    }
    ++group.compared;
    group.changed += is_changed(*row) ? 1 : 0;
    group.same_bits += row->cells[pair_cell("same_bits")] == 1.0 ? 1 : 0;
    if (group.worst.empty() && row->cells[pair_cell("relative_error")] == most) {
      group.worst = name_of_row(*row);
    }
  }
  return group;
}

/// Of the matrices in no pair those of either side: column `side` of /unpaired/.
void count_unpaired(const results::SideTables& beside, ComparisonSummary& compared) {
  for (const results::SideTable& table : beside.tables) {
    for (const results::SideColumn& column : table.columns) {
      if (column.name == "side") {
        for (const std::string& side : std::get<std::vector<std::string>>(column.values)) {
          ++(side == "a" ? compared.unpaired_a : compared.unpaired_b);
        }
      }
    }
  }
}

}  // namespace

ComparisonSummary read_comparison(const std::string& path, const model::Selection& selection,
                                  bool by_layer) {
  const results::ResultsView view = results::read_view(path, {}, results::FileSchema::kCompare);
  ComparisonSummary compared;
  static_cast<results::ViewHead&>(compared) = view;
  compared.delta = std::find(view.optional_columns.begin(), view.optional_columns.end(),
                             kDeltaColumns) != view.optional_columns.end();
  compared.subspace = static_cast<std::int64_t>(view.scale_length);
  count_unpaired(view.beside, compared);
  compared.by_layer = by_layer;
  // Of layers the place of the layer is the first, of roles those of block and role.
  std::map<
      std::tuple<std::int32_t, model::Block, std::int32_t, std::string, std::string, std::string>,
      PairRows>
      groups;
  for (const results::ViewRow& row : view.rows) {
    if (!model::wants(selection, row.layer, row.block, row.role)) {
      continue;
    }
    const auto place = by_layer ? std::tuple(row.layer, model::Block{}, 0, std::string())
                                : std::tuple(0, row.block, model::role_rank(row.role), row.role);
    groups[std::tuple_cat(place, std::tuple(row.encoding, row.other_encoding))].push_back(&row);
  }
  if (groups.empty() && !view.rows.empty()) {
    throw UsageError("E-SELECTION",
                     printable(path) + ": no pair is of these layers, blocks and roles");
  }
  const KindErrors errors = errors_by_kind(view.rows);
  for (const auto& [key, members] : groups) {
    compared.groups.push_back(group_of(members, errors));
  }
  return compared;
}

void keep_top_groups(ComparisonSummary& compared, std::size_t count, const std::string& by,
                     bool is_ascending) {
  const std::string wanted = by.empty() ? "relative_error_over_kind" : by;
  std::vector<std::string> names;
  for (const GroupNumber& number : kGroupNumbers) {
    names.emplace_back(number.name);
  }
  const auto found = std::find(names.begin(), names.end(), wanted);
  if (found == names.end()) {
    const std::string guess = did_you_mean(wanted, names);
    throw UsageError(
        "E-COLUMN", fmt::format("'{}' is no number of a layer; {}{}there are {}", printable(wanted),
                                guess, guess.empty() ? "" : " ", fmt::join(names, " ")));
  }
  results::keep_first(compared.groups, count, is_ascending,
                      [which = static_cast<std::size_t>(found - names.begin())](
                          const PairGroup& group) { return group.numbers[which]; });
}

}  // namespace vindex::commands
