// Owns reading a file of pairs as groups of them, and choosing among the groups.
#include "compare_summary.hpp"
#include "compared.hpp"
#include "group_numbers.hpp"

#include "core/text/nearest_name.hpp"
#include "results/parts/output_path.hpp"
#include "results/parts/parts_folder.hpp"
#include "results/reading/gathered_rows.hpp"
#include "results/runs/gather_run.hpp"
#include "results/schema/table_layout.hpp"
#include "statistics/samples/quantile.hpp"
#include "statistics/spectrum/metrics.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

namespace vindex::commands {

namespace {

std::string name_of_row(const results::StoredRow& row) {
  return row.slice < 0 ? row.tensor : fmt::format("{}[{}]", row.tensor, row.slice);
}

/// Compared, and not everywhere equal.
bool is_changed(const results::StoredRow& row) {
  return row.status == MatrixStatus::kMeasured && row.cell(pair_cell("max_abs_difference")) > 0.0;
}

using PairRows = std::vector<const results::StoredRow*>;
/// Pairs whose errors can be expected to be alike: block, role, how both sides are stored.
using Kind = std::tuple<model::Block, std::string, std::string, std::string>;
Kind kind_of(const results::StoredRow& row) {
  return {row.block, row.role, row.encoding, row.other_encoding};
}
/// The median error of every kind.
using KindErrors = std::map<Kind, double>;

KindErrors errors_by_kind(const PairRows& rows) {
  std::map<Kind, std::vector<double>> values;
  for (const results::StoredRow* row : rows) {
    const double error = row->cell(pair_cell("relative_error"));
    if (row->status == MatrixStatus::kMeasured && !std::isnan(error)) {
      values[kind_of(*row)].push_back(error);
    }
  }
  KindErrors errors;
  for (auto& [kind, all] : values) {
    errors[kind] = statistics::quantile(std::move(all), 0.5);
  }
  return errors;
}

/// `which`, a cell or one of those that are none.
double pair_number(const results::StoredRow& row, std::size_t which, const KindErrors& errors) {
  if (which == kShortSide) {
    return std::isnan(row.cell(pair_cell("delta_numerical_rank")))
               ? std::nan("")
               : static_cast<double>(row.shorter());
  }
  if (which == kUnrelated) {
    return unrelated_error(row.cell(pair_cell("norm_a")), row.cell(pair_cell("norm_b")));
  }
  if (which == kOverItsKind) {
    const auto usual = errors.find(kind_of(row));
    return usual == errors.end() || !(usual->second > 0.0)
               ? std::nan("")
               : row.cell(pair_cell("relative_error")) / usual->second;
  }
  return row.cell(which);
}

double number_over(const PairRows& rows, const GroupNumber& number, const KindErrors& errors) {
  std::vector<double> values;
  for (const results::StoredRow* row : rows) {
    if (row->status != MatrixStatus::kMeasured ||
        (number.over == GroupOver::kChanged && !is_changed(*row))) {
      continue;
    }
    const double value = pair_number(*row, number.cell, errors);
    if (number.cell < kOverItsKind || !std::isnan(value)) {
      values.push_back(value);
    }
  }
  return statistics::quantile(values, number.quantile);
}

ComparedGroup group_of(const PairRows& rows, const KindErrors& errors) {
  ComparedGroup group;
  group.layer = rows.front()->layer;
  group.encoding_a = printable(rows.front()->encoding);
  group.encoding_b = printable(rows.front()->other_encoding);
  group.block = rows.front()->block;
  group.role = rows.front()->role;
  group.pairs = static_cast<std::int64_t>(rows.size());
  for (const GroupNumber& number : kGroupNumbers) {
    group.numbers.push_back(number_over(rows, number, errors));
  }
  const double most = group.numbers[group_number("relative_error_most")];
  for (const results::StoredRow* row : rows) {
    if (row->status != MatrixStatus::kMeasured) {
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

Compared compared_now(const std::string& path, const model::Selection& selection, bool by_layer) {
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
  compared.subspace = static_cast<std::int64_t>(layout.scale_length);
  for (const results::UnpairedMatrix& matrix : description.unpaired) {
    ++(matrix.side == "a" ? compared.unpaired_a : compared.unpaired_b);
  }
  const std::vector<const results::StoredRow*> rows = gathered.sorted();
  const results::StatusCounts counts = results::count_statuses(rows);
  compared.pairs = counts.total;
  compared.compared = counts.measured;
  compared.state = results::state_of(run, rows);
  compared.by_layer = by_layer;
  // Of layers the place of the layer is the first, of roles those of block and role.
  std::map<
      std::tuple<std::int32_t, model::Block, std::int32_t, std::string, std::string, std::string>,
      PairRows>
      groups;
  for (const results::StoredRow* row : rows) {
    if (!model::wants(selection, row->layer, row->block, row->role)) {
      continue;
    }
    const auto place = by_layer ? std::tuple(row->layer, model::Block{}, 0, std::string())
                                : std::tuple(0, row->block, model::role_rank(row->role), row->role);
    groups[std::tuple_cat(place, std::tuple(row->encoding, row->other_encoding))].push_back(row);
  }
  if (groups.empty() && !rows.empty()) {
    throw UsageError("E-SELECTION",
                     printable(path) + ": no pair is of these layers, blocks and roles");
  }
  const KindErrors errors = errors_by_kind(rows);
  for (const auto& [key, members] : groups) {
    compared.groups.push_back(group_of(members, errors));
  }
  return compared;
}

}  // namespace

Compared read_compared(const std::string& path, const model::Selection& selection, bool by_layer) {
  return results::read_while_it_stays(path,
                                      [&] { return compared_now(path, selection, by_layer); });
}

void keep_top_groups(Compared& compared, std::size_t count, const std::string& by,
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
  const auto number = [which = static_cast<std::size_t>(found - names.begin())](
                          const ComparedGroup& group) { return group.numbers[which]; };
  std::erase_if(compared.groups,
                [&](const ComparedGroup& group) { return std::isnan(number(group)); });
  std::stable_sort(compared.groups.begin(), compared.groups.end(),
                   [&](const ComparedGroup& a, const ComparedGroup& b) {
                     return is_ascending ? number(a) < number(b) : number(a) > number(b);
                   });
  compared.groups.resize(std::min(compared.groups.size(), count));
}

}  // namespace vindex::commands
