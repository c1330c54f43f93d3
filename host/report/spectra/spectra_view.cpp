// Owns which rows of a file of spectra are shown, at which k.
#include "spectra_view.hpp"

#include "metric_groups.hpp"

#include "commands/spectra/spectra_cells.hpp"
#include "core/text/nearest_name.hpp"
#include "results/reading/value_columns.hpp"
#include "results/view/view_source.hpp"
#include "statistics/spectrum/var_at_k.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <vector>

namespace vindex::report {

namespace {

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

MatrixView matrix_of(const results::StoredRow& row) {
  MatrixView matrix;
  static_cast<results::RowIdentity&>(matrix) = row;
  matrix.measured = row.status == MatrixStatus::kMeasured;
  matrix.is_tried = row.status != MatrixStatus::kSkipped;
  matrix.reason = row.reason;
  return matrix;
}

/// Gives every matrix its k: `k` where it is given, else one for all groups or for each its own.
/// Returns the one of all.
std::optional<std::int32_t> choose_k(std::vector<MatrixView>& matrices,
                                     const std::vector<const results::StoredRow*>& rows,
                                     std::optional<std::int32_t> k) {
  const GroupMembers groups = group_members(matrices);
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

SpectraView view_of_spectra(results::ViewSource& source, const std::string& path,
                            const ShowQuery& query) {
  SpectraView view;
  const std::vector<const results::StoredRow*>& tables = source.rows();
  std::copy_if(results::kTables.begin(), results::kTables.end(),
               std::back_inserter(view.other_tables),
               [&](model::ResultTable table) { return !results::rows_of(tables, table).empty(); });
  view.table = query.table.value_or(leading_table(tables, view.other_tables));
  const auto wanted = results::rows_of(tables, view.table);
  if (wanted.empty() && query.table) {
    throw MissingInputError("E-SHOW-TABLE",
                            fmt::format("{} has no rows of the table {}", printable(path),
                                        model::table_name(view.table)));
  }
  view.is_adapter = !query.table && view.table == model::ResultTable::kProduct &&
                    view.table != view.other_tables.front();
  std::erase(view.other_tables, view.table);
  const std::vector<const results::StoredRow*> all(wanted.begin(), wanted.end());
  source.describe(view, all);
  view.mode = source.reader().file().text_attribute("/", "mode");
  view.n_total = results::drawn_from(all);

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
  std::transform(rows.begin(), rows.end(), std::back_inserter(view.matrices),
                 [](const results::StoredRow* row) { return matrix_of(*row); });
  results::ValueColumns columns(source.pool(), view.table, rows);
  view.metric = find_metric(query.metric, query.k, columns);
  if (columns.width(view.metric.name) > 1) {
    view.metric.k = choose_k(view.matrices, rows, view.metric.k);
  }
  fill_numbers(view.matrices, view.metric, columns);
  view.sort_by = fill_sort_column(view.matrices, view.metric, query.sort_by, columns);
  return view;
}

}  // namespace

SpectraView read_spectra_view(const std::string& path, const ShowQuery& query) {
  return results::make_view(path, results::FileSchema::kResults, [&](results::ViewSource& source) {
    return view_of_spectra(source, path, query);
  });
}

}  // namespace vindex::report
