// Owns the columns of the table of single pairs, and what each shows where its number is not known.
#include "pair_summary.hpp"

#include "pair_cells.hpp"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <string>
#include <utility>

namespace vindex::commands {

namespace {

using results::null_column;
using results::number_column;

results::SummaryColumn text_column(std::string heading,
                                   std::function<std::string(const results::ViewRow&)> text) {
  results::SummaryColumn column;
  column.heading = std::move(heading);
  column.text = std::move(text);
  return column;
}

}  // namespace

double unrelated_error(double norm_a, double norm_b) {
  const double share = norm_b / norm_a;
  return norm_a > 0.0 ? std::sqrt(1.0 + share * share) : std::nan("");
}

results::Summary pair_summary(const results::ResultsView& /*shown*/) {
  results::SummaryColumn unrelated = null_column("noise", pair_cell("norm_a"));
  unrelated.value = [](const results::ViewRow& row) {
    return unrelated_error(row.cells[pair_cell("norm_a")], row.cells[pair_cell("norm_b")]);
  };
  unrelated.cell = results::kAfterPrevious;
  // Cosines near 1 say something in their last digits.
  results::SummaryColumn cosine = number_column("cosine", pair_cell("cosine"), 6);
  cosine.text = [](const results::ViewRow& row) {
    const double value = row.cells[pair_cell("cosine")];
    return std::isnan(value) ? "-" : fmt::format("{:.6f}", value);
  };
  return {.columns = {text_column("A", [](const auto& row) { return row.encoding; }),
                      text_column("B", [](const auto& row) { return row.other_encoding; }),
                      number_column("error", pair_cell("relative_error")), unrelated, cosine,
                      null_column("+-noise", pair_cell("cosine_null_sd")),
                      number_column("rank_gd", pair_cell("delta_rank_gd"), 3),
                      number_column("eff.rank", pair_cell("delta_effective_rank"), 2),
                      null_column("noise", pair_cell("delta_effective_rank_null")),
                      number_column("theta", pair_cell("delta_theta"), 1),
                      null_column("noise", pair_cell("delta_theta_null")),
                      number_column("right", pair_cell("overlap_right"), 5),
                      null_column("noise", pair_cell("overlap_right_null")),
                      number_column("left", pair_cell("overlap_left"), 4),
                      null_column("noise", pair_cell("overlap_left_null"))},
          .remark =
              "error: norm(B - A) / norm(A), noise: of unrelated weights of these norms; "
              "rank_gd of B - A: 0 of noise",
          .has_names = true,
          .top_by = "relative_error"};
}

}  // namespace vindex::commands
