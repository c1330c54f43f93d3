// Owns what a file of `vindex routing` is: its row of the table of kinds, what it promises beyond
// its columns, and what is shown of it.
#include "commands/token_tables/routing_cells.hpp"
#include "results/reading/file_checker.hpp"
#include "results/reading/square_array.hpp"
#include "results/schema/member_columns.hpp"
#include "results/schema/schema.hpp"
#include "results/view/summary.hpp"

#include <fmt/format.h>

#include <cmath>

namespace vindex::commands {

namespace {

using engine::routing_array;
using engine::routing_cell;

void check_routing(const results::RowRules& rules) {
  const results::ArrayCell load = rules.array(routing_array("load"));
  double sum = 0.0;
  double dead = 0.0;
  for (const double share : load.doubles) {
    sum += std::isnan(share) ? 0.0 : share;
    dead += share == 0.0 ? 1.0 : 0.0;
  }
  rules.require(std::abs(sum - 1.0) <= 1e-9, "load",
                fmt::format("has loads that sum to {}, not 1", sum));
  const double reported = rules.cell(routing_cell("dead_experts"));
  rules.require(std::isnan(reported) || reported == dead, "dead_experts",
                fmt::format("reports {} dead experts, the loads of {}", reported, dead));
  const results::ArrayCell lift = rules.array(routing_array("coactivation_lift"));
  rules.require(results::Square(lift.floats, load.doubles.size()).is_symmetric(1e-5),
                "coactivation_lift", "is not symmetric");
  const results::ArrayCell tails = rules.array(routing_array("coactivation_lift_p"));  // not in 1.0
  rules.require(
      tails.empty() || results::Square(tails.floats, load.doubles.size()).is_symmetric(1e-6),
      "coactivation_lift_p", "is not symmetric");
}

void check_routing_file(results::FileChecker& checker) {
  results::check_rows(checker, check_routing);
}

results::Summary routing_summary(const results::ResultsView&) {
  return {
      .columns = {{.heading = "E",
                   .value =
                       [](const results::ViewRow& row) { return static_cast<double>(row.cols); },
                   .is_count = true},
                  results::count_column("k", routing_cell("top_k")),
                  results::number_column("load cv", routing_cell("load_cv")),
                  results::null_column("noise", routing_cell("load_cv_null")),
                  results::number_column("entropy", routing_cell("load_entropy"), 2),
                  results::null_column("noise", routing_cell("load_entropy_null")),
                  results::number_column("gini", routing_cell("gini"), 3),
                  results::null_column("noise", routing_cell("gini_null")),
                  results::number_column("max/mean", routing_cell("max_over_mean"), 9),
                  results::null_column("noise", routing_cell("max_over_mean_null")),
                  results::count_column("dead", routing_cell("dead_experts"), 4),
                  results::null_column("noise", routing_cell("dead_experts_null")),
                  results::number_column("H(token)", routing_cell("router_entropy"), 6),
                  results::null_column("noise", routing_cell("router_entropy_noise")),
                  results::number_column("margin", routing_cell("margin"), 5),
                  results::null_column("noise", routing_cell("margin_noise")),
                  results::number_column("pairs", routing_cell("coactivation_lift_max"), 8),
                  results::null_column("noise", routing_cell("coactivation_lift_max_null")),
                  results::number_column("next", routing_cell("transition_lift_max"), 7),
                  results::null_column("noise", routing_cell("transition_lift_max_null"))},
      .remark =
          "load: the share of selections that an expert gets; noise: uniform routing of as "
          "many tokens; H(token): entropy of a token's scores, noise: normal logits of the "
          "same mean and spread; pairs, next: the largest coactivation_lift and "
          "transition_lift",
      .top_by = "load_cv"};
}

}  // namespace

results::Schema routing_schema() {
  return {.id = results::FileSchema::kRouting,
          .name = "vindex-routing",
          .version = "1.1",
          .rows = "layers",
          .command = "routing",
          .table = "/layer",
          .dimension = "entry",
          .name_column = "tensor",
          .outcome = "measured",
          .members = results::kCellMembers,
          .cells = &engine::kRoutingTable,
          .check = check_routing_file,
          .summarise = routing_summary};
}

}  // namespace vindex::commands
