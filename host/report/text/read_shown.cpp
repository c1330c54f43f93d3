// Owns reading a results file for `show`: which rows, which k, which numbers; and which of the
// shown matrices belong together: groups of equal role and shape, and the members far from the
// rest.
#include "shown_metric.hpp"

#include "commands/spectra/spectra_cells.hpp"
#include "core/text/nearest_name.hpp"
#include "core/text/secrets.hpp"
#include "results/parts/parts_folder.hpp"
#include "results/reading/gathered_rows.hpp"
#include "results/runs/gather_run.hpp"
#include "statistics/samples/quantile.hpp"
#include "statistics/samples/robust_scale.hpp"
#include "statistics/spectrum/var_at_k.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <vector>

namespace vindex::report {

namespace {

template <typename Number>
std::vector<double> member_values(std::span<const ShownMatrix> matrices,
                                  const std::vector<std::size_t>& members, const Number& number) {
  std::vector<double> values;
  for (const std::size_t i : members) {
    const double value = number(matrices[i].numbers);
    if (!std::isnan(value)) {
      values.push_back(value);
    }
  }
  return values;
}

/// Positions of the matrices of every (layer, block, role), groups in the order in which each first
/// appears.
using GroupMembers = std::vector<std::vector<std::size_t>>;
GroupMembers members_of(std::span<const ShownMatrix> matrices) {
  GroupMembers groups;
  std::map<std::tuple<std::int32_t, model::Block, std::string_view>, std::size_t> places;
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    const auto [place, is_new] =
        places.try_emplace({matrices[i].layer, matrices[i].block, matrices[i].role}, groups.size());
    if (is_new) {
      groups.emplace_back();
    }
    groups[place->second].push_back(i);
  }
  return groups;
}

/// Of `members` only those that stand for the whole group; all where nothing was drawn.
statistics::DrawnGroup keep_drawn(std::span<const ShownMatrix> matrices,
                                  std::vector<std::size_t>& members) {
  std::vector<statistics::DrawnMember> drawn;
  for (const std::size_t i : members) {
    drawn.push_back({.draw = matrices[i].draw,
                     .draw_of = matrices[i].draw_of,
                     .is_tried = matrices[i].is_tried});
  }
  const statistics::DrawnGroup group = statistics::drawn_group(drawn);
  if (group.is_drawn()) {
    std::erase_if(members, [&](std::size_t i) { return !group.holds(matrices[i].draw); });
  }
  return group;
}

}  // namespace

std::vector<ShownGroup> shown_groups(std::span<const ShownMatrix> matrices) {
  std::vector<ShownGroup> groups;
  for (std::vector<std::size_t>& members : members_of(matrices)) {
    const ShownMatrix& first = matrices[members.front()];
    ShownGroup& group = groups.emplace_back();
    group.layer = first.layer;
    group.block = first.block;
    group.role = first.role;
    const auto measured = [&] {
      return std::count_if(members.begin(), members.end(),
                           [&](std::size_t i) { return matrices[i].measured; });
    };
    group.count = measured();
    if (first.k > 0) {
      group.k = first.k;
    }
    const statistics::DrawnGroup drawn = keep_drawn(matrices, members);
    if (drawn.is_drawn()) {
      group.n_measured = measured();
      group.n_total = drawn.total;
    }
    const auto all = [&](const auto& number) { return member_values(matrices, members, number); };
    const auto median = [&](const auto& number) { return statistics::quantile(all(number), 0.5); };
    const std::vector<double> values = all([](const MetricNumbers& n) { return n.value; });
    group.values = static_cast<std::int64_t>(values.size());
    if (values.empty()) {
      continue;
    }
    group.median = statistics::quantile(values, 0.5);
    group.q25 = statistics::quantile(values, 0.25);
    group.q75 = statistics::quantile(values, 0.75);
    if (drawn.is_drawn()) {
      group.estimates = statistics::estimates_of(values, drawn.untried());
    }
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    group.min = *least;
    group.max = *most;
    const std::vector<double> nulls = all([](const MetricNumbers& n) { return n.null; });
    if (nulls.size() == values.size() &&
        std::equal(nulls.begin() + 1, nulls.end(), nulls.begin())) {
      group.null = nulls.front();
    }
    group.difference = median([](const MetricNumbers& n) { return n.difference(); });
    group.ratio = median([](const MetricNumbers& n) { return n.ratio(); });
    group.sign_flip = median([](const MetricNumbers& n) { return n.sign_flip; });
    group.sign_flip_z = median([](const MetricNumbers& n) { return n.sign_flip_z; });
  }
  return groups;
}

std::vector<ExpertGroup> expert_groups(std::span<const ShownMatrix> matrices) {
  std::vector<ExpertGroup> groups;
  for (const std::vector<std::size_t>& members : members_of(matrices)) {
    const ShownMatrix& first = matrices[members.front()];
    std::vector<RankedExpert> ranked;
    for (const std::size_t i : members) {
      const ShownMatrix& matrix = matrices[i];
      if (matrix.block == model::Block::kRoutedExpert && matrix.expert >= 0 &&
          std::isfinite(matrix.numbers.value)) {
        ranked.push_back({.matrix = &matrix});
      }
    }
    if (ranked.empty()) {
      continue;
    }
    std::vector<double> values;
    for (const RankedExpert& expert : ranked) {
      values.push_back(expert.matrix->numbers.value);
    }
    ExpertGroup& group = groups.emplace_back();
    group.layer = first.layer;
    group.role = first.role;
    group.count = static_cast<std::int64_t>(values.size());
    group.median = statistics::quantile(values, 0.5);
    group.scale = statistics::robust_scale(values, group.median);
    for (RankedExpert& expert : ranked) {
      const double away = expert.matrix->numbers.value - group.median;
      expert.z = group.scale > 0.0 ? away / group.scale : 0.0;
      expert.is_far = group.count >= kFewestExperts && std::abs(expert.z) > kFarZ;
    }
    std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) {
      return a.matrix->numbers.value < b.matrix->numbers.value;
    });
    for (std::size_t i = 0; i < ranked.size(); ++i) {
      if (ranked[i].is_far || i == 0 || i + 1 == ranked.size()) {
        group.experts.push_back(ranked[i]);
      }
    }
  }
  return groups;
}

std::vector<const ShownMatrix*> top_matrices(std::span<const ShownMatrix> matrices,
                                             std::size_t count, bool ascending) {
  std::vector<const ShownMatrix*> sorted;
  for (const ShownMatrix& matrix : matrices) {
    if (matrix.measured && !std::isnan(matrix.sort_by)) {
      sorted.push_back(&matrix);
    }
  }
  std::stable_sort(sorted.begin(), sorted.end(), [&](const auto* a, const auto* b) {
    return ascending ? a->sort_by < b->sort_by : a->sort_by > b->sort_by;
  });
  sorted.resize(std::min(sorted.size(), count));
  return sorted;
}

namespace {

/// Every row of the state at `path`, and what the newest file says of the run. Returns its files.
results::RunFiles gather(const std::string& path, results::GatheredRows& gathered, Shown& shown) {
  const results::RunFiles run = results::list_run(path);
  results::gather_run(path, run, gathered);
  const auto published = static_cast<std::int32_t>(run.files.runs.size());
  const results::h5::File& file = gathered.pool().reader(run.has_file ? published : 0).file();
  shown.model = without_secrets(file.text_attribute("/", "model"));
  shown.mode = file.text_attribute("/", "mode");
  shown.backend = file.text_attribute("/", "backend");
  return run;
}

UsageError no_such(const char* option, const std::string& wanted, const std::string& path,
                   const std::string& there, const std::string& guess = "") {
  return UsageError("E-SELECTION",
                    fmt::format("{} {}: no matrix of {}; {}{}there are {}", option, excerpt(wanted),
                                printable(path), guess, guess.empty() ? "" : " ", there));
}

/// Refuses a layer, block or role that no row has.
void expect_all_there(const std::vector<const results::StoredRow*>& rows,
                      const model::Selection& selection, const std::string& path) {
  std::set<std::int32_t> layers;
  std::set<model::Block> blocks;
  std::set<std::string> roles;
  for (const results::StoredRow* row : rows) {
    layers.insert(row->layer);
    blocks.insert(row->block);
    roles.insert(row->role);
  }
  for (const auto& [first, last] : selection.layers) {
    const auto place = layers.lower_bound(first);
    if (place == layers.end() || *place > last) {
      throw no_such("--layer",
                    first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last),
                    path, "layers " + model::layers_text(layers));
    }
  }
  for (const model::Block block : selection.blocks) {
    if (!blocks.contains(block)) {
      std::vector<std::string> names;
      std::transform(blocks.begin(), blocks.end(), std::back_inserter(names),
                     [](model::Block one) { return std::string(model::block_name(one)); });
      throw no_such("--block", std::string(model::block_name(block)), path, name_list(names));
    }
  }
  for (const std::string& role : selection.roles) {
    if (!roles.contains(role)) {
      const std::vector<std::string> names(roles.begin(), roles.end());
      throw no_such("--role", role, path, name_list(names), did_you_mean(role, names));
    }
  }
}

ShownMatrix matrix_of(const results::StoredRow& row) {
  ShownMatrix matrix;
  static_cast<results::RowIdentity&>(matrix) = row;
  matrix.measured = row.status == MatrixStatus::kMeasured;
  matrix.is_tried = row.status != MatrixStatus::kSkipped;
  matrix.reason = row.reason;
  return matrix;
}

/// Gives every matrix its k: `k` where it is given, else one for all groups or for each its own.
/// Returns the one of all.
std::optional<std::int32_t> choose_k(std::vector<ShownMatrix>& matrices,
                                     const std::vector<const results::StoredRow*>& rows,
                                     std::optional<std::int32_t> k) {
  const GroupMembers groups = members_of(matrices);
  std::vector<std::optional<std::int32_t>> each(groups.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (const std::size_t i : groups[g]) {
      if (rows[i]->status != MatrixStatus::kMeasured) {
        continue;
      }
      const auto own = statistics::informative_k(
          rows[i]->shorter(), commands::spectrum_numbers(rows[i]->cells).nulls.var_at_k);
      if (own) {
        each[g] = std::min(each[g].value_or(*own), *own);
      }
    }
  }
  const std::optional<std::int32_t> common = k ? k : statistics::common_k(each);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (const std::size_t i : groups[g]) {
      matrices[i].k = common ? *common : each[g].value_or(0);
    }
  }
  return common;
}

}  // namespace

std::string ShownMetric::label() const {
  if (!name.starts_with("var_at_k")) {
    return name;
  }
  const std::string rest = name.substr(std::string_view("var_at_k").size());
  return k ? fmt::format("var@{}{}", *k, rest) : "var@k" + rest;
}

namespace {

/// The first that has rows; of an adapter what it adds to the model, not the factors.
model::ResultTable leading_table(const std::vector<const results::StoredRow*>& rows,
                                 const std::vector<model::ResultTable>& tables) {
  if (tables.empty()) {
    return model::ResultTable::kMatrix;
  }
  const auto matrices = results::rows_of(rows, model::ResultTable::kMatrix);
  const bool is_adapter = !results::rows_of(rows, model::ResultTable::kProduct).empty() &&
                          std::all_of(matrices.begin(), matrices.end(), [](const auto* row) {
                            return row->role.starts_with("lora_");
                          });
  return is_adapter ? model::ResultTable::kProduct : tables.front();
}

Shown rows_shown_now(const std::string& path, const ShowQuery& query) {
  Shown shown;
  shown.path = path;
  results::GatheredRows gathered;
  const results::RunFiles run = gather(path, gathered, shown);
  const std::vector<const results::StoredRow*> tables = gathered.sorted();
  std::copy_if(results::kTables.begin(), results::kTables.end(),
               std::back_inserter(shown.other_tables),
               [&](model::ResultTable table) { return !results::rows_of(tables, table).empty(); });
  shown.table = query.table.value_or(leading_table(tables, shown.other_tables));
  const auto wanted = results::rows_of(tables, shown.table);
  if (wanted.empty() && query.table) {
    throw MissingInputError("E-SHOW-TABLE",
                            fmt::format("{} has no rows of the table {}", printable(path),
                                        model::table_name(shown.table)));
  }
  shown.is_adapter = !query.table && shown.table == model::ResultTable::kProduct &&
                     shown.table != shown.other_tables.front();
  std::erase(shown.other_tables, shown.table);
  const std::vector<const results::StoredRow*> all(wanted.begin(), wanted.end());
  const results::StatusCounts counts = results::count_statuses(all);
  shown.matrices_total = counts.total;
  shown.matrices_measured = counts.measured;
  shown.n_total = results::drawn_from(all);
  shown.state = results::state_of(run, tables);

  expect_all_there(all, query.selection, path);
  std::vector<const results::StoredRow*> rows;
  std::copy_if(all.begin(), all.end(), std::back_inserter(rows),
               [&](const results::StoredRow* row) {
                 return model::wants(query.selection, row->layer, row->block, row->role);
               });
  if (rows.empty() && !all.empty()) {
    throw UsageError("E-SELECTION",
                     "no matrix of " + printable(path) +
                         " is in the layers, blocks and roles asked for together; `vindex show` "
                         "without them lists what there is");
  }
  for (const results::StoredRow* row : rows) {
    shown.matrices.push_back(matrix_of(*row));
  }
  results::ValueColumns columns(gathered.pool(), shown.table, rows);
  shown.metric = shown_metric(query, columns);
  if (columns.width(shown.metric.name) > 1) {
    shown.metric.k = choose_k(shown.matrices, rows, shown.metric.k);
  }
  fill_numbers(shown.matrices, shown.metric, columns);
  shown.sort_by = fill_sort_column(shown.matrices, shown.metric, query.sort_by, columns);
  return shown;
}

}  // namespace

Shown read_shown(const std::string& path, const ShowQuery& query) {
  return results::read_while_it_stays(path, [&] { return rows_shown_now(path, query); });
}

}  // namespace vindex::report
