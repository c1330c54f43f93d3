// Owns what a row of /layer/ of a file of `vindex routing` holds (schema vindex-routing): where a
// router sends tokens, and what uniform routing of as many tokens would give. A row's `rows` are
// tokens, its `cols` experts. Optional columns are those that files of version 1.0 do not have;
// every file that is written now has them.
#pragma once

#include "cell_table.hpp"

#include <array>

namespace vindex::results {

inline constexpr std::array<ScaleColumn, 2> kRoutingScales = {
    {{"expert", "number of the expert"}, {"expert_other", "number of the other expert"}}};

inline constexpr std::array<CellColumn, 46> kRoutingCells = {{
    {"top_k", "experts chosen per token", true, {1.0}},
    {"tokens_left_out", "tokens whose logits are not finite", true, kNotNegative},
    {"logit_mean", "mean of all logits"},
    {"logit_sd", "standard deviation of a token's logits about their mean", false, kNotNegative},
    {"load_null", "an expert's load under uniform routing: 1/E", false, kShareRange},
    {"load_null_sd", "its standard deviation (closed form)", false, kNotNegative},
    {"load_cv", "standard deviation of the loads over their mean", false, kNotNegative},
    {"load_cv_null", "mean load_cv of draws of uniform routing", false, kNotNegative},
    {"load_cv_null_sd", "standard deviation of these draws", false, kNotNegative},
    {"load_entropy", "entropy of the loads over ln E", false, kShareRange},
    {"load_entropy_null", "mean load_entropy of draws of uniform routing", false, kShareRange},
    {"load_entropy_null_sd", "standard deviation of these draws", false, kNotNegative},
    {"gini", "Gini coefficient of the loads", false, kShareRange},
    {"gini_null", "mean gini of draws of uniform routing", false, kShareRange},
    {"gini_null_sd", "standard deviation of these draws", false, kNotNegative},
    {"max_over_mean", "largest load over the mean load", false, {1.0}},
    {"max_over_mean_null", "mean max_over_mean of draws of uniform routing", false, {1.0}},
    {"max_over_mean_null_sd", "standard deviation of these draws", false, kNotNegative},
    {"dead_experts", "experts that no token chose", true, kNotNegative},
    {"dead_experts_null", "mean dead_experts under uniform routing (closed form)", false,
     kNotNegative},
    {"dead_experts_null_sd", "standard deviation of dead_experts of draws of uniform routing",
     false, kNotNegative, Presence::kOptional},
    {"mean_weight_null",
     "mean_weight where no expert is preferred: the mean over all selections (closed form)", false,
     kNotNegative},
    {"mean_weight_null_sd",
     "its standard deviation, of as many selections as experts have on "
     "average (closed form)",
     false, kNotNegative, Presence::kOptional},
    {"router_entropy", "entropy of a token's scores as probabilities, in nats, mean over tokens",
     false, kNotNegative},
    {"router_entropy_null",
     "router_entropy of independent normal logits of logit_mean and logit_sd (drawn tokens); in "
     "files of version 1.0 that of equal scores, ln E",
     false, kNotNegative},
    {"router_entropy_null_sd", "its standard deviation, of layers of as many tokens", false,
     kNotNegative, Presence::kOptional},
    {"router_entropy_noise", "router_entropy_null, by its name in version 1.0", false,
     kNotNegative},
    {"margin", "k-th less (k+1)-th score that decides, median over tokens", false, kNotNegative},
    {"margin_null",
     "margin of independent normal logits of logit_mean and logit_sd (drawn tokens); in files of "
     "version 1.0 that of equal scores, 0",
     false, kNotNegative},
    {"margin_null_sd", "its standard deviation, of layers of as many tokens", false, kNotNegative,
     Presence::kOptional},
    {"margin_noise", "margin_null, by its name in version 1.0", false, kNotNegative},
    {"coactivation_lift_max", "largest off-diagonal coactivation_lift", false, kNotNegative},
    {"coactivation_lift_max_null", "mean coactivation_lift_max under uniform routing", false,
     kNotNegative, Presence::kOptional},
    {"coactivation_lift_max_null_sd", "its standard deviation", false, kNotNegative,
     Presence::kOptional},
    {"coactivation_lift_max_p", "chance of as large a coactivation_lift_max under uniform routing",
     false, kShareRange, Presence::kOptional},
    {"coactivation_lift_null",
     "coactivation_lift under uniform routing, of experts of different groups where there are "
     "groups: E (k-1) / (k (E-1)) without them",
     false, kNotNegative},
    {"coactivation_lift_null_sd", "its standard deviation (first order in 1/tokens)", false,
     kNotNegative},
    {"coactivation_lift_null_same_group", "coactivation_lift_null of experts of one group", false,
     kNotNegative},
    {"coactivation_lift_null_same_group_sd", "its standard deviation", false, kNotNegative},
    {"transition_lift_max", "largest transition_lift", false, kNotNegative},
    {"transition_lift_max_null", "mean transition_lift_max under uniform routing", false,
     kNotNegative, Presence::kOptional},
    {"transition_lift_max_null_sd", "its standard deviation", false, kNotNegative,
     Presence::kOptional},
    {"transition_lift_max_p", "chance of as large a transition_lift_max under uniform routing",
     false, kShareRange, Presence::kOptional},
    {"transition_lift_null", "transition_lift under uniform routing: 1", false, kNotNegative},
    {"transition_lift_null_sd", "its standard deviation (first order in 1/tokens)", false,
     kNotNegative},
    {"previous_layer", "layer that transition_lift comes from", true, kNotNegative},
}};

inline constexpr std::array<ArrayColumn, 6> kRoutingArrays = {{
    {"load", "share of the selections that fell on the expert", {"expert"}, false, kShareRange},
    {"mean_weight",
     "mean weight of the expert where it was chosen",
     {"expert"},
     false,
     kNotNegative},
    {"coactivation_lift",
     "how often both experts were chosen for one token, over what their loads let expect",
     {"expert", "expert_other"},
     true,
     kNotNegative},
    {"coactivation_lift_p",
     "twice the smaller Poisson tail of how often both were chosen, where fewer than 5 times are "
     "expected; NaN elsewhere",
     {"expert", "expert_other"},
     true,
     kShareRange,
     Presence::kOptional},
    {"transition_lift",
     "how often a token of `expert` of previous_layer went to `expert_other` here, over what the "
     "loads let expect",
     {"expert", "expert_other"},
     true,
     kNotNegative},
    {"transition_lift_p",
     "coactivation_lift_p of these transitions",
     {"expert", "expert_other"},
     true,
     kShareRange,
     Presence::kOptional},
}};

inline constexpr CellTable kRoutingTable = {kRoutingCells, kRoutingArrays, kRoutingScales};

consteval std::size_t routing_cell(std::string_view name) { return cell_in(kRoutingCells, name); }
consteval std::size_t routing_array(std::string_view name) {
  return number_in(kRoutingArrays, name);
}

}  // namespace vindex::results
