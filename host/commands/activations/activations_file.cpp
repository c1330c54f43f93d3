// Owns what a file of `vindex activations` is: its row of the table of kinds, what it promises
// beyond its columns, and what is shown of it.
#include "commands/token_tables/activations_cells.hpp"
#include "results/reading/file_checker.hpp"
#include "results/schema/member_columns.hpp"
#include "results/schema/schema.hpp"
#include "results/view/summary.hpp"

#include <fmt/format.h>

#include <cmath>
#include <string_view>

namespace vindex::commands {

namespace {

using engine::activations_array;
using engine::activations_cell;
using engine::kActivationsTable;

void check_activations(const results::RowRules& rules) {
  for (const std::string_view name : {"sparsity", "sparsity_null"}) {
    const std::vector<double> shares =
        rules.array(results::column_number(kActivationsTable.arrays, name)).doubles;
    for (std::size_t i = 1; i < shares.size(); ++i) {
      rules.require(!(shares[i] < shares[i - 1]), name, "does not rise with the threshold");
    }
  }
}

void check_activations_file(results::FileChecker& checker) {
  results::check_rows(checker, check_activations);
}

std::vector<results::SummaryColumn> activations_columns(const results::ResultsView& shown) {
  std::vector<results::SummaryColumn> columns;
  const auto scale = shown.scales.find("threshold");
  const std::size_t thresholds = scale == shown.scales.end() ? 0 : scale->second.doubles.size();
  for (std::size_t i = 0; i < thresholds; ++i) {
    for (const bool is_null : {false, true}) {
      const std::size_t array =
          is_null ? activations_array("sparsity_null") : activations_array("sparsity");
      columns.push_back(
          {.heading = is_null ? "noise" : fmt::format("<={:g} rms", scale->second.doubles[i]),
           .value =
               [array, i](const results::ViewRow& row) {
                 return i < row.arrays[array].size() ? row.arrays[array][i] : std::nan("");
               },
           .is_null = is_null,
           .dropped_as = static_cast<std::uint8_t>(i + 1 < thresholds ? 3 : 0)});
    }
  }
  const std::vector<results::SummaryColumn> more = {
      results::number_column("hoyer", activations_cell("hoyer"), 2),
      results::null_column("noise", activations_cell("hoyer_null")),
      results::number_column("variance", activations_cell("neuron_variance"), 6),
      results::null_column("noise", activations_cell("neuron_variance_null")),
      results::count_column("dead", activations_cell("dead_neurons"), 5),
      results::null_column("noise", activations_cell("dead_neurons_null")),
      results::number_column("kurtosis", activations_cell("kurtosis"), 1),
      results::null_column("noise", activations_cell("kurtosis_null")),
      results::number_column("eff. rank", activations_cell("effective_rank")),
      results::null_column("noise", activations_cell("effective_rank_null")),
      results::number_column("top 8", activations_cell("top8_mass"), 7),
      results::null_column("noise", activations_cell("top8_mass_null")),
      results::number_column("entropy", activations_cell("output_entropy"), 8),
      results::null_column("noise", activations_cell("output_entropy_null")),
      results::number_column("gate f,f+1", activations_cell("gate_adjacent_cosine"), 4),
      results::null_column("+-noise", activations_cell("gate_adjacent_cosine_null_sd"))};
  columns.insert(columns.end(), more.begin(), more.end());
  return columns;
}

results::Summary activations_summary(const results::ResultsView& shown) {
  return {.columns = activations_columns(shown),
          .remark =
              "<=t rms: share of values of at most t times the root mean square; noise: what "
              "products of independent Gaussians give (eff. rank: independent entries; top 8, "
              "entropy: equal logits)",
          .top_by = "effective_rank"};
}

}  // namespace

results::Schema activations_schema() {
  return {.id = results::FileSchema::kActivations,
          .name = "vindex-activations",
          .version = "1.0",
          .rows = "layers",
          .command = "activations",
          .table = "/layer",
          .dimension = "entry",
          .name_column = "tensor",
          .outcome = "measured",
          .members = results::kCellMembers,
          .cells = &kActivationsTable,
          .check = check_activations_file,
          .summarise = activations_summary};
}

}  // namespace vindex::commands
