// Owns the tables and headlines that `show` prints of rows of cells, a list of columns for each
// kind.
#include "activations_cells.hpp"
#include "cka_cells.hpp"
#include "experts_cells.hpp"
#include "routing_cells.hpp"
#include "shown_cells.hpp"

#include "core/text_table.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <utility>

namespace vindex::results {

namespace {

/// A column of a table: a heading, and a row's number. Columns without a number are left out.
struct ShownColumn {
  std::string heading;
  std::function<double(const ShownRow&)> value;
  bool is_count = false;
  bool is_null = false;         ///< stands right beside what it is the null of
  std::uint8_t dropped_as = 0;  ///< TextColumn's
};

ShownColumn cell(const char* heading, std::size_t number, std::uint8_t dropped_as = 0) {
  return {.heading = heading,
          .value = [number](const ShownRow& row) { return row.cells[number]; },
          .dropped_as = dropped_as};
}
ShownColumn count(const char* heading, std::size_t number, std::uint8_t dropped_as = 0) {
  ShownColumn column = cell(heading, number, dropped_as);
  column.is_count = true;
  return column;
}
ShownColumn null(const char* heading, std::size_t number, std::uint8_t dropped_as = 0) {
  ShownColumn column = cell(heading, number, dropped_as);
  column.is_null = true;
  return column;
}

std::vector<ShownColumn> experts_columns() {
  return {count("E", experts_cell("experts")),
          cell("cosine", experts_cell("cosine_mean")),
          null("+-noise", experts_cell("cosine_mean_null_sd"), 4),
          cell("max", experts_cell("cosine_max")),
          null("noise", experts_cell("cosine_max_null"), 4),
          count("of", experts_cell("cosine_max_expert"), 2),
          count("and", experts_cell("cosine_max_other"), 2),
          cell("centred", experts_cell("cosine_centred_mean"), 6),
          null("noise", experts_cell("cosine_centred_null"), 5),
          cell("eff. rank", experts_cell("effective_rank")),
          null("noise", experts_cell("effective_rank_null")),
          count("rank_90", experts_cell("rank_90"), 3),
          cell("right", experts_cell("overlap_right_mean"), 1),
          null("noise", experts_cell("overlap_right_null"), 1),
          cell("left", experts_cell("overlap_left_mean"), 1),
          null("noise", experts_cell("overlap_left_null"), 1)};
}

std::vector<ShownColumn> activations_columns(const ShownCells& shown) {
  std::vector<ShownColumn> columns;
  const auto scale = shown.scales.find("threshold");
  const std::size_t thresholds = scale == shown.scales.end() ? 0 : scale->second.doubles.size();
  for (std::size_t i = 0; i < thresholds; ++i) {
    for (const bool is_null : {false, true}) {
      const std::size_t array =
          is_null ? activations_array("sparsity_null") : activations_array("sparsity");
      columns.push_back(
          {.heading = is_null ? "noise" : fmt::format("<={:g} rms", scale->second.doubles[i]),
           .value =
               [array, i](const ShownRow& row) {
                 return i < row.arrays[array].size() ? row.arrays[array][i] : std::nan("");
               },
           .is_null = is_null,
           .dropped_as = static_cast<std::uint8_t>(i + 1 < thresholds ? 3
                                                   : is_null          ? 8
                                                                      : 0)});
    }
  }
  const std::vector<ShownColumn> more = {
      cell("hoyer", activations_cell("hoyer"), 2),
      null("noise", activations_cell("hoyer_null"), 2),
      cell("variance", activations_cell("neuron_variance")),
      count("dead", activations_cell("dead_neurons"), 7),
      cell("kurtosis", activations_cell("kurtosis"), 1),
      cell("eff. rank", activations_cell("effective_rank")),
      null("noise", activations_cell("effective_rank_null"), 5),
      cell("top 8", activations_cell("top8_mass")),
      null("noise", activations_cell("top8_mass_null"), 6),
      cell("entropy", activations_cell("output_entropy")),
      null("noise", activations_cell("output_entropy_null"), 6),
      cell("gate f,f+1", activations_cell("gate_adjacent_cosine"), 4),
      null("+-noise", activations_cell("gate_adjacent_cosine_null_sd"), 4)};
  columns.insert(columns.end(), more.begin(), more.end());
  return columns;
}

std::vector<ShownColumn> routing_columns() {
  return {{.heading = "E",
           .value = [](const ShownRow& row) { return static_cast<double>(row.cols); },
           .is_count = true},
          count("k", routing_cell("top_k")),
          cell("load cv", routing_cell("load_cv")),
          null("noise", routing_cell("load_cv_null")),
          cell("entropy", routing_cell("load_entropy"), 2),
          null("noise", routing_cell("load_entropy_null"), 2),
          cell("gini", routing_cell("gini"), 3),
          null("noise", routing_cell("gini_null"), 3),
          cell("max/mean", routing_cell("max_over_mean")),
          null("noise", routing_cell("max_over_mean_null"), 4),
          count("dead", routing_cell("dead_experts")),
          cell("H(token)", routing_cell("router_entropy"), 6),
          null("noise", routing_cell("router_entropy_noise"), 4),
          cell("margin", routing_cell("margin"), 5),
          null("noise", routing_cell("margin_noise"), 5),
          cell("pairs", routing_cell("coactivation_lift_max"), 8),
          null("noise", routing_cell("coactivation_lift_max_null"), 8),
          cell("next", routing_cell("transition_lift_max"), 7),
          null("noise", routing_cell("transition_lift_max_null"), 7)};
}

std::vector<ShownColumn> cka_columns() {
  return {count("best in B", cka_cell("best_layer_b")), cell("cka", cka_cell("best_cka")),
          cell("next in A", cka_cell("adjacent_cka"))};
}

std::string number_text(double value, bool is_count) {
  return std::isnan(value) ? "-"
         : is_count        ? fmt::format("{:.0f}", value)
         : value == 0.0    ? "0"
                           : fmt::format("{:.3g}", value);
}

std::string rows_table(const ShownCells& shown, const std::vector<ShownColumn>& columns,
                       std::size_t width) {
  std::vector<const ShownColumn*> used;
  for (const ShownColumn& column : columns) {
    if (std::any_of(shown.rows.begin(), shown.rows.end(),
                    [&](const ShownRow& row) { return !std::isnan(column.value(row)); })) {
      used.push_back(&column);
    }
  }
  std::vector<std::vector<std::string>> cells = {{"layer", "role"}};
  std::vector<TextColumn> layout = {{.right = true}, {.min_width = 8}};
  for (const ShownColumn* column : used) {
    cells.front().push_back(column->heading);
    layout.push_back(
        {.right = true, .is_close = column->is_null, .dropped_as = column->dropped_as});
  }
  for (const ShownRow& row : shown.rows) {
    std::vector<std::string> line = {row.layer < 0 ? "-" : std::to_string(row.layer), row.role};
    for (const ShownColumn* column : used) {
      line.push_back(number_text(column->value(row), column->is_count));
    }
    cells.push_back(std::move(line));
  }
  return table_text(cells, layout, width);
}

std::string matched_table(const ShownCells& shown, std::size_t width) {
  std::vector<std::vector<std::string>> cells = {
      {"depth", "layer of A", "of B", "cka", "noise 95 %", "p", "biased"}};
  for (const MatchedLayer& layer : shown.matched) {
    cells.push_back({fmt::format("{:.0f} %", 100.0 * layer.depth), std::to_string(layer.layer_a),
                     std::to_string(layer.layer_b), number_text(layer.cka, false),
                     number_text(layer.null_q95, false), number_text(layer.p, false),
                     number_text(layer.cka_biased, false)});
  }
  const TextColumn number{.right = true};
  return table_text(cells,
                    {number,
                     number,
                     number,
                     number,
                     {.right = true, .is_close = true},
                     number,
                     {.right = true, .dropped_as = 1}},
                    width);
}

std::string stages_text(const ShownCells& shown) {
  if (!shown.stages) {
    return "stages of A: not known: they take the CKA of every layer and the next one, and its "
           "standard error over prompts";
  }
  if (shown.stage_breaks.empty()) {
    return fmt::format("stages of A: 1 (no neighbours below {:.3g} and 3 standard errors)",
                       shown.stages->threshold);
  }
  return fmt::format("stages of A: {} (breaks behind layers {})", shown.stages->count,
                     fmt::join(shown.stage_breaks, ", "));
}

/// What the headings mean, and what stands out.
std::string remarks(const ShownCells& shown) {
  switch (shown.schema) {
    case FileSchema::kExperts:
      return "cosine of two experts' weights, mean over pairs, and the largest; centred: without "
             "the mean expert; eff. rank of the experts as vectors; noise: what independent "
             "entries give";
    case FileSchema::kCka:
      return stages_text(shown);
    case FileSchema::kActivations:
      return "<=t rms: share of values of at most t times the root mean square; noise: what "
             "products of independent Gaussians give (eff. rank: independent entries; top 8, "
             "entropy: equal logits)";
    default:
      return "load: the share of selections that an expert gets; noise: uniform routing of as "
             "many tokens; H(token): entropy of a token's scores, noise: normal logits of the same "
             "mean and spread; pairs, next: the largest coactivation_lift and transition_lift";
  }
}

std::string unmeasured_text(const ShownCells& shown, std::size_t width) {
  std::string text;
  for (const ShownRow& row : shown.rows) {
    if (row.status != "measured" && row.status != "skipped") {
      text += wrapped_text(fmt::format("{} {}: {}", row.status, row.tensor, row.reason), width, 2) +
              "\n";
    }
  }
  return text;
}

}  // namespace

std::string cells_headline(const ShownCells& shown) {
  return fmt::format("{}: {} of {} {} {} ({}), {}{}\n", printable(shown.path), shown.rows_measured,
                     shown.rows_total, row_noun(shown.schema), outcome_word(shown.schema),
                     shown.state, shown.model,
                     shown.other_model.empty() ? "" : " beside " + shown.other_model);
}

std::string cells_text(const ShownCells& shown, std::size_t width) {
  std::string text;
  switch (shown.schema) {
    case FileSchema::kExperts:
      text = rows_table(shown, experts_columns(), width);
      break;
    case FileSchema::kCka:
      text = rows_table(shown, cka_columns(), width) + "\n" + matched_table(shown, width);
      break;
    case FileSchema::kActivations:
      text = rows_table(shown, activations_columns(shown), width);
      break;
    default:
      text = rows_table(shown, routing_columns(), width);
      break;
  }
  return text + wrapped_text(remarks(shown), width, 2) + "\n" + unmeasured_text(shown, width);
}

}  // namespace vindex::results
