// Owns what a file of `vindex trace --statistics` is: its row of the table of kinds, the CKA of its
// layers that follows from their Gram matrices (/cka/), what it promises beyond its columns, and
// what is shown of it.
#include "trace_cells.hpp"

#include "results/reading/file_checker.hpp"
#include "results/reading/source_pool.hpp"
#include "results/reading/square_array.hpp"
#include "results/reading/table_rows.hpp"
#include "results/schema/member_columns.hpp"
#include "results/schema/schema.hpp"
#include "results/view/summary.hpp"
#include "statistics/cka/gram_cka.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <variant>

namespace vindex::commands {

namespace {

/// Two layers of the file, the first before the second or the same.
struct LayerPair {
  std::int64_t layer = 0, other = 0;
  double cka = 0.0, null = 0.0, null_deviation = 0.0, biased = 0.0;
};

/// Of every two layers whose Gram matrices are there, in order.
std::vector<LayerPair> layer_pairs(std::span<const results::StoredRow* const> rows,
                                   results::BulkSource& bulk) {
  std::vector<std::pair<std::int64_t, std::vector<float>>> grams;
  std::int64_t prompts = 0;
  for (const results::StoredRow* const row : rows) {
    const double pooled = row->cells.size() > trace_cell("pooled_prompts")
                              ? row->cells[trace_cell("pooled_prompts")]
                              : std::nan("");
    if (!(pooled > 0.0)) {
      continue;
    }
    std::vector<float> gram = bulk.array(*row, trace_array("gram")).floats;
    const auto side = static_cast<std::size_t>(pooled);
    if (side > 0 && gram.size() == side * side) {
      prompts = static_cast<std::int64_t>(side);
      grams.emplace_back(row->layer, std::move(gram));
    }
  }
  std::vector<LayerPair> pairs;
  const double deviation = statistics::permuted_cka_deviation(prompts);
  for (std::size_t i = 0; i < grams.size(); ++i) {
    for (std::size_t j = i; j < grams.size(); ++j) {
      const statistics::GramCka cka =
          statistics::gram_cka(grams[i].second, grams[j].second, prompts);
      pairs.push_back({grams[i].first, grams[j].first, cka.unbiased, 0.0, deviation, cka.biased});
    }
  }
  return pairs;
}

results::SideTable pairs_table(const std::vector<LayerPair>& pairs) {
  results::SideTable table{.group = "/cka", .dimension = "entry", .long_name = "row number"};
  const auto add = [&](const char* name, const char* units, const char* long_name, auto member) {
    results::add_column(table, pairs, name, units, long_name, member);
  };
  add("layer", "", "layer", &LayerPair::layer);
  add("layer_other", "", "the same layer, or one behind it", &LayerPair::other);
  add("cka", "1", "unbiased linear CKA of the prompts' mean states", &LayerPair::cka);
  add("cka_null", "1", "its mean over all orders of the prompts of one layer: 0", &LayerPair::null);
  add("cka_null_sd", "1", "its standard deviation over them: sqrt(2 / (n (n - 3)))",
      &LayerPair::null_deviation);
  add("cka_biased", "1", "the biased estimate, as most published figures", &LayerPair::biased);
  return table;
}

results::SideTables trace_beside(const results::FileDescription& /*description*/,
                                 std::span<const results::StoredRow* const> rows,
                                 results::BulkSource& bulk, bool whole) {
  return whole ? results::SideTables{.tables = {pairs_table(layer_pairs(rows, bulk))}}
               : results::SideTables{};
}

void check_row(const results::RowRules& rules) {
  if (rules.row.role == "router_logits") {
    double sum = 0.0;
    for (const double share : rules.array(trace_array("load")).doubles) {
      sum += std::isnan(share) ? 0.0 : share;
    }
    rules.require(std::abs(sum - 1.0) <= 1e-9, "load",
                  fmt::format("has loads that sum to {}, not 1", sum));
  }
  const double pooled = rules.cell(trace_cell("pooled_prompts"));
  if (pooled > 0.0) {
    const results::ArrayCell gram = rules.array(trace_array("gram"));
    const results::Square square(gram.floats, static_cast<std::size_t>(pooled));
    rules.require(square.is_square() && square.is_symmetric(0.0), "gram", "is not symmetric");
  }
  const double loss = rules.cell(trace_cell("loss"));
  const double perplexity = rules.cell(trace_cell("perplexity"));
  rules.require(std::isnan(loss) || std::isinf(perplexity) ||
                    std::abs(std::log(perplexity) - loss) <= 1e-9 * std::max(1.0, loss),
                "perplexity", "is not exp(loss)");
}

void check_trace_file(results::FileChecker& checker) {
  results::check_rows(checker, check_row);
  checker.table(pairs_table({}));
  std::vector<const results::StoredRow*> rows;
  for (const results::StoredRow& row : checker.rows()) {
    rows.push_back(&row);
  }
  results::ReaderSource bulk(checker.reader());
  const std::vector<LayerPair> pairs = layer_pairs(rows, bulk);
  const results::h5::File& file = checker.reader().file();
  const auto cka = results::read_numbers<double>(file, "/cka/cka", {pairs.size()});
  const auto layer = results::read_numbers<std::int64_t>(file, "/cka/layer", {pairs.size()});
  const auto other = results::read_numbers<std::int64_t>(file, "/cka/layer_other", {pairs.size()});
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    checker.require(layer[i] == pairs[i].layer && other[i] == pairs[i].other,
                    "/cka: a row of other layers than have a Gram matrix there");
    checker.require(
        std::abs(cka[i] - pairs[i].cka) <= 1e-9 || (std::isnan(cka[i]) && std::isnan(pairs[i].cka)),
        "/cka/cka: not what the Gram matrices give");
  }
}

template <typename T>
const std::vector<T>& column_of(const results::SideTable& table, std::size_t column) {
  return std::get<std::vector<T>>(table.columns.at(column).values);
}

/// Adjacent layers in a line each; the whole matrix is in the file.
results::SummaryTable adjacent_table(const results::SideTable& pairs) {
  results::SummaryTable table = {
      .cells = {{"layer", "next", "cka", "+-noise", "biased"}},
      .layout = {{.right = true},
                 {.right = true},
                 {.right = true},
                 {.right = true, .is_close = true},
                 {.right = true}},
      .title = "CKA of each layer and the next one, of the prompts' mean states"};
  const auto& layer = column_of<std::int64_t>(pairs, 0);
  const auto& other = column_of<std::int64_t>(pairs, 1);
  const auto& cka = column_of<double>(pairs, 2);
  if (std::all_of(cka.begin(), cka.end(), [](double value) { return std::isnan(value); })) {
    table.title += "; the unbiased estimate takes 4 prompts";
  }
  for (std::size_t i = 0; i < pairs.rows; ++i) {
    // Behind a layer and itself comes the layer and the next one.
    if (i > 0 && layer[i - 1] == other[i - 1] && layer[i] == layer[i - 1]) {
      table.cells.push_back({std::to_string(layer[i]), std::to_string(other[i]),
                             results::number_text(cka[i]),
                             results::number_text(column_of<double>(pairs, 4)[i]),
                             results::number_text(column_of<double>(pairs, 5)[i])});
    }
  }
  return table;
}

Json pairs_json(const results::SideTable& pairs) {
  Json list = Json::array();
  for (std::size_t i = 0; i < pairs.rows; ++i) {
    Json one = Json::object();
    one["layer"] = column_of<std::int64_t>(pairs, 0)[i];
    one["layer_other"] = column_of<std::int64_t>(pairs, 1)[i];
    for (std::size_t column = 2; column < pairs.columns.size(); ++column) {
      one[pairs.columns[column].name] = column_of<double>(pairs, column)[i];
    }
    list.push_back(std::move(one));
  }
  return list;
}

/// A table of the rows of `roles`, as `columns`; those without a number in any row are left out.
results::SummaryTable role_table(const results::ResultsView& shown,
                                 std::span<const std::string_view> roles, std::string title,
                                 std::span<const results::SummaryColumn> columns) {
  std::vector<const results::ViewRow*> rows;
  for (const results::ViewRow& row : shown.rows) {
    if (std::find(roles.begin(), roles.end(), row.role) != roles.end()) {
      rows.push_back(&row);
    }
  }
  results::SummaryTable table{.title = std::move(title)};
  if (rows.empty()) {
    return table;
  }
  table.cells.resize(rows.size() + 1);
  const auto add = [&](std::string heading, TextColumn layout, const auto& text) {
    table.layout.push_back(layout);
    table.cells.front().push_back(std::move(heading));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      table.cells[i + 1].push_back(text(*rows[i]));
    }
  };
  add("layer", {.right = true}, [](const results::ViewRow& row) {
    return row.layer < 0 ? std::string("-") : std::to_string(row.layer);
  });
  if (roles.size() > 1) {
    add("of", {}, [](const results::ViewRow& row) { return row.role; });
  }
  for (const results::SummaryColumn& column : columns) {
    const bool is_there = std::any_of(
        rows.begin(), rows.end(), [&](const auto* row) { return !std::isnan(column.value(*row)); });
    if (is_there) {
      add(column.heading,
          {.right = true, .is_close = column.is_null, .dropped_as = column.dropped_as},
          [&](const results::ViewRow& row) {
            return results::number_text(column.value(row), column.is_count);
          });
    }
  }
  return table;
}

/// Number and null, dropped together.
void add_pair(std::vector<results::SummaryColumn>& columns, const char* heading, std::size_t cell,
              std::size_t null, std::uint8_t dropped_as = 0, bool is_count = false) {
  columns.push_back(is_count ? results::count_column(heading, cell, dropped_as)
                             : results::number_column(heading, cell, dropped_as));
  columns.push_back(results::null_column("noise", null));
  columns.back().dropped_as = dropped_as;
}

std::vector<results::SummaryColumn> value_columns() {
  std::vector<results::SummaryColumn> out;
  add_pair(out, "hoyer", trace_cell("hoyer"), trace_cell("hoyer_null"));
  add_pair(out, "variance", trace_cell("neuron_variance"), trace_cell("neuron_variance_null"), 2);
  add_pair(out, "dead", trace_cell("dead_neurons"), trace_cell("dead_neurons_null"), 1, true);
  add_pair(out, "kurtosis", trace_cell("kurtosis"), trace_cell("kurtosis_null"));
  add_pair(out, "eff. rank", trace_cell("effective_rank"), trace_cell("effective_rank_null"));
  return out;
}

std::vector<results::SummaryColumn> router_columns() {
  std::vector<results::SummaryColumn> out;
  add_pair(out, "load cv", trace_cell("load_cv"), trace_cell("load_cv_null"));
  add_pair(out, "dead", trace_cell("dead_experts"), trace_cell("dead_experts_null"), 2, true);
  add_pair(out, "H(token)", trace_cell("router_entropy"), trace_cell("router_entropy_null"), 1);
  add_pair(out, "margin", trace_cell("margin"), trace_cell("margin_null"));
  add_pair(out, "pairs", trace_cell("coactivation_lift_max"),
           trace_cell("coactivation_lift_max_null"));
  add_pair(out, "next", trace_cell("transition_lift_max"), trace_cell("transition_lift_max_null"));
  return out;
}

std::vector<results::SummaryColumn> logit_columns() {
  std::vector<results::SummaryColumn> out;
  add_pair(out, "loss", trace_cell("loss"), trace_cell("loss_null"));
  out.push_back(results::number_column("+-", trace_cell("loss_se")));
  add_pair(out, "entropy", trace_cell("output_entropy"), trace_cell("output_entropy_null"));
  add_pair(out, "top 8", trace_cell("top8_mass"), trace_cell("top8_mass_null"));
  return out;
}

results::Summary trace_summary(const results::ResultsView& shown) {
  using Roles = std::vector<std::string_view>;
  results::Summary summary = {
      .remark =
          "noise of values: products of independent Gaussians (hidden: Gaussians); of "
          "routers: uniform routing of as many tokens; of logits: the uniform law; loss in "
          "nats a token",
      .has_own_tables = true,
      .top_by = "kurtosis"};
  const auto add = [&](const Roles& roles, const char* title,
                       const std::vector<results::SummaryColumn>& columns) {
    results::SummaryTable table = role_table(shown, roles, title, columns);
    if (!table.cells.empty()) {
      summary.tables.push_back(std::move(table));
    }
    summary.columns.insert(summary.columns.end(), columns.begin(), columns.end());
  };
  add({"hidden", "mlp"}, "values", value_columns());
  add({"router_logits"}, "routers", router_columns());
  add({"logits"}, "logits", logit_columns());
  const results::SideTable& pairs = shown.beside.tables.front();
  if (pairs.rows > 1) {
    summary.tables.push_back(adjacent_table(pairs));
  }
  summary.members["cka"] = pairs_json(pairs);
  return summary;
}

}  // namespace

results::Schema trace_schema() {
  return {.id = results::FileSchema::kTrace,
          .name = "vindex-trace",
          .version = "1.0",
          .rows = "activations",
          .command = "trace",
          .table = "/layer",
          .dimension = "entry",
          .name_column = "tensor",
          .outcome = "measured",
          .members = results::kCellMembers,
          .cells = &kTraceTable,
          .beside = trace_beside,
          .check = check_trace_file,
          .summarise = trace_summary};
}

}  // namespace vindex::commands
