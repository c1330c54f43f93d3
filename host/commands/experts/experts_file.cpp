// Owns what a file of `vindex experts` is: its row of the table of kinds, what it promises beyond
// its columns, and what is shown of it.
#include "experts_cells.hpp"
#include "outlying_experts.hpp"

#include "results/reading/file_checker.hpp"
#include "results/reading/square_array.hpp"
#include "results/schema/member_columns.hpp"
#include "results/schema/schema.hpp"
#include "results/view/summary.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>

namespace vindex::commands {

namespace {

void check_experts(const results::RowRules& rules) {
  const double reported = rules.cell(experts_cell("experts"));
  const auto experts = reported >= 0.0 ? static_cast<std::size_t>(reported) : std::size_t{0};
  for (const std::string_view name :
       {"cosine", "cosine_centred", "overlap_right", "overlap_left"}) {
    const results::ArrayCell array =
        rules.array(results::column_number(kExpertsTable.arrays, name));
    if (!array.empty()) {
      const results::Square square(array.floats, experts);
      rules.require(square.is_square(), name, "is not square");
      rules.require(square.is_symmetric(1e-6), name, "is not symmetric");
      rules.require(square.has_diagonal(1.0, 1e-4), name, "has no diagonal of ones");
    }
  }
  const results::ArrayCell spectrum = rules.array(experts_array("expert_axis_spectrum"));
  const auto end = std::find_if(spectrum.doubles.begin(), spectrum.doubles.end(),
                                [](double value) { return std::isnan(value); });
  rules.require(std::is_sorted(spectrum.doubles.begin(), end, std::greater<>()),
                "expert_axis_spectrum", "does not descend");
}

void check_experts_file(results::FileChecker& checker) {
  results::check_rows(checker, check_experts);
}

results::Summary experts_summary(const results::ResultsView& shown) {
  const OutlyingExperts found = outlying_experts(shown);
  return {.columns = {results::count_column("E", experts_cell("experts")),
                      results::number_column("cosine", experts_cell("cosine_mean")),
                      results::null_column("+-noise", experts_cell("cosine_mean_null_sd")),
                      results::number_column("max", experts_cell("cosine_max")),
                      results::null_column("noise", experts_cell("cosine_max_null")),
                      results::count_column("of", experts_cell("cosine_max_expert"), 3),
                      results::count_column("and", experts_cell("cosine_max_other"), 3),
                      results::number_column("centred", experts_cell("cosine_centred_mean"), 1),
                      results::null_column("noise", experts_cell("cosine_centred_null")),
                      results::number_column("eff.rank", experts_cell("effective_rank"), 4),
                      results::null_column("noise", experts_cell("effective_rank_null")),
                      results::number_column("rank_90", experts_cell("rank_90"), 2),
                      results::null_column("noise", experts_cell("rank_90_null"))},
          .tables = expert_tables(shown, found),
          .remark =
              "cosine of two experts' weights: mean over pairs, and the largest, of two "
              "experts; centred: without the mean expert; eff.rank of the experts as "
              "vectors; noise: what independent entries give; " +
              outliers_text(found),
          .members = expert_members(found),
          .top_by = "cosine_max"};
}

}  // namespace

results::Schema experts_schema() {
  return {.id = results::FileSchema::kExperts,
          .name = "vindex-experts",
          .version = "1.2",
          .rows = "groups",
          .command = "experts",
          .table = "/group",
          .dimension = "group",
          .name_column = "tensor",
          .outcome = "measured",
          .members = results::kCellMembers,
          .cells = &kExpertsTable,
          .check = check_experts_file,
          .derive = derive_experts,
          .summarise = experts_summary};
}

}  // namespace vindex::commands
