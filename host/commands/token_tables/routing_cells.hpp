// Owns what a row of /layer/ of a file of `vindex routing` holds (schema vindex-routing): where a
// router sends tokens, and what uniform routing of as many tokens would give. A row's `rows` are
// tokens, its `cols` experts. Optional columns are those that files of version 1.0 do not have;
// every file that is written now has them.
#pragma once

#include "results/schema/cell_table.hpp"

#include <array>

namespace vindex::engine {

inline constexpr std::array<results::ScaleColumn, 2> kRoutingScales = {
    {{"expert", "number of the expert"}, {"expert_other", "number of the other expert"}}};

inline constexpr std::array<results::CellColumn, 46> kRoutingCells = {{
    {"top_k", "experts chosen per token", true, {1.0}},
    {"tokens_left_out", "tokens whose logits are not finite", true, results::kNotNegative},
    {"logit_mean", "mean of all logits"},
    {"logit_sd", "standard deviation of a token's logits about their mean", false,
     results::kNotNegative},
    {"load_null", "an expert's load under uniform routing: 1/E", false, results::kShareRange},
    {"load_null_sd", "its standard deviation (closed form)", false, results::kNotNegative},
    {"load_cv", "standard deviation of the loads over their mean", false, results::kNotNegative},
    {"load_cv_null", "mean load_cv of draws of uniform routing", false, results::kNotNegative},
    {"load_cv_null_sd", "standard deviation of these draws", false, results::kNotNegative},
    {"load_entropy", "entropy of the loads over ln E", false, results::kShareRange},
    {"load_entropy_null", "mean load_entropy of draws of uniform routing", false,
     results::kShareRange},
    {"load_entropy_null_sd", "standard deviation of these draws", false, results::kNotNegative},
    {"gini", "Gini coefficient of the loads", false, results::kShareRange},
    {"gini_null", "mean gini of draws of uniform routing", false, results::kShareRange},
    {"gini_null_sd", "standard deviation of these draws", false, results::kNotNegative},
    {"max_over_mean", "largest load over the mean load", false, {1.0}},
    {"max_over_mean_null", "mean max_over_mean of draws of uniform routing", false, {1.0}},
    {"max_over_mean_null_sd", "standard deviation of these draws", false, results::kNotNegative},
    {"dead_experts", "experts that no token chose", true, results::kNotNegative},
    {"dead_experts_null", "mean dead_experts under uniform routing (closed form)", false,
     results::kNotNegative},
    {"dead_experts_null_sd", "standard deviation of dead_experts of draws of uniform routing",
     false, results::kNotNegative, results::Presence::kOptional},
    {"mean_weight_null",
     "mean_weight where no expert is preferred: the mean over all selections (closed form)", false,
     results::kNotNegative},
    {"mean_weight_null_sd",
     "its standard deviation, of as many selections as experts have on "
     "average (closed form)",
     false, results::kNotNegative, results::Presence::kOptional},
    {"router_entropy", "entropy of a token's scores as probabilities, in nats, mean over tokens",
     false, results::kNotNegative},
    {"router_entropy_null",
     "router_entropy of independent normal logits of logit_mean and logit_sd (drawn tokens); in "
     "files of version 1.0 that of equal scores, ln E",
     false, results::kNotNegative},
    {"router_entropy_null_sd", "its standard deviation, of layers of as many tokens", false,
     results::kNotNegative, results::Presence::kOptional},
    {"router_entropy_noise", "router_entropy_null, by its name in version 1.0", false,
     results::kNotNegative},
    {"margin", "k-th less (k+1)-th score that decides, median over tokens", false,
     results::kNotNegative},
    {"margin_null",
     "margin of independent normal logits of logit_mean and logit_sd (drawn tokens); in files of "
     "version 1.0 that of equal scores, 0",
     false, results::kNotNegative},
    {"margin_null_sd", "its standard deviation, of layers of as many tokens", false,
     results::kNotNegative, results::Presence::kOptional},
    {"margin_noise", "margin_null, by its name in version 1.0", false, results::kNotNegative},
    {"coactivation_lift_max", "largest off-diagonal coactivation_lift", false,
     results::kNotNegative},
    {"coactivation_lift_max_null", "mean coactivation_lift_max under uniform routing", false,
     results::kNotNegative, results::Presence::kOptional},
    {"coactivation_lift_max_null_sd", "its standard deviation", false, results::kNotNegative,
     results::Presence::kOptional},
    {"coactivation_lift_max_p", "chance of as large a coactivation_lift_max under uniform routing",
     false, results::kShareRange, results::Presence::kOptional},
    {"coactivation_lift_null",
     "coactivation_lift under uniform routing, of experts of different groups where there are "
     "groups: E (k-1) / (k (E-1)) without them",
     false, results::kNotNegative},
    {"coactivation_lift_null_sd", "its standard deviation (first order in 1/tokens)", false,
     results::kNotNegative},
    {"coactivation_lift_null_same_group", "coactivation_lift_null of experts of one group", false,
     results::kNotNegative},
    {"coactivation_lift_null_same_group_sd", "its standard deviation", false,
     results::kNotNegative},
    {"transition_lift_max", "largest transition_lift", false, results::kNotNegative},
    {"transition_lift_max_null", "mean transition_lift_max under uniform routing", false,
     results::kNotNegative, results::Presence::kOptional},
    {"transition_lift_max_null_sd", "its standard deviation", false, results::kNotNegative,
     results::Presence::kOptional},
    {"transition_lift_max_p", "chance of as large a transition_lift_max under uniform routing",
     false, results::kShareRange, results::Presence::kOptional},
    {"transition_lift_null", "transition_lift under uniform routing: 1", false,
     results::kNotNegative},
    {"transition_lift_null_sd", "its standard deviation (first order in 1/tokens)", false,
     results::kNotNegative},
    {"previous_layer", "layer that transition_lift comes from", true, results::kNotNegative},
}};

inline constexpr std::array<results::ArrayColumn, 6> kRoutingArrays = {{
    {"load",
     "share of the selections that fell on the expert",
     {"expert"},
     false,
     results::kShareRange},
    {"mean_weight",
     "mean weight of the expert where it was chosen",
     {"expert"},
     false,
     results::kNotNegative},
    {"coactivation_lift",
     "how often both experts were chosen for one token, over what their loads let expect",
     {"expert", "expert_other"},
     true,
     results::kNotNegative},
    {"coactivation_lift_p",
     "two-sided Poisson mid-p of how often both were chosen, where fewer than 5 times are "
     "expected; NaN elsewhere",
     {"expert", "expert_other"},
     true,
     results::kShareRange,
     results::Presence::kOptional},
    {"transition_lift",
     "how often a token of `expert` of previous_layer went to `expert_other` here, over what the "
     "loads let expect",
     {"expert", "expert_other"},
     true,
     results::kNotNegative},
    {"transition_lift_p",
     "coactivation_lift_p of these transitions",
     {"expert", "expert_other"},
     true,
     results::kShareRange,
     results::Presence::kOptional},
}};

inline constexpr results::CellTable kRoutingTable = {kRoutingCells, kRoutingArrays, kRoutingScales};

consteval std::size_t routing_cell(std::string_view name) {
  return results::cell_in(kRoutingCells, name);
}
consteval std::size_t routing_array(std::string_view name) {
  return results::number_in(kRoutingArrays, name);
}

}  // namespace vindex::engine
