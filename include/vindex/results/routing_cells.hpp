// Owns what a row of /layer/ of a file of `vindex routing` holds (schema vindex-routing): where a
// router sends tokens, and what uniform routing of as many tokens would give. A row's `rows` are
// tokens, its `cols` experts.
#pragma once

#include <vindex/results/cell_table.hpp>

#include <array>

namespace vindex::results {

inline constexpr std::array<ScaleColumn, 2> kRoutingScales = {
    {{"expert", "number of the expert"}, {"expert_other", "number of the other expert"}}};

inline constexpr std::array<CellColumn, 21> kRoutingCells = {{
    {"top_k", "experts chosen per token", true, {1.0}},
    {"load_null_sd",
     "standard deviation of an expert's load under uniform routing, whose mean is "
     "1/E",
     false, kNotNegative},
    {"load_cv", "standard deviation of the loads over their mean", false, kNotNegative},
    {"load_cv_null", "load_cv under uniform routing", false, kNotNegative},
    {"load_entropy", "entropy of the loads over ln E", false, kShareRange},
    {"load_entropy_null", "load_entropy under uniform routing", false, kShareRange},
    {"gini", "Gini coefficient of the loads", false, kShareRange},
    {"gini_null", "gini under uniform routing", false, kShareRange},
    {"max_over_mean", "largest load over the mean load", false, {1.0}},
    {"max_over_mean_null", "max_over_mean under uniform routing", false, {1.0}},
    {"dead_experts", "experts that no token chose", true, kNotNegative},
    {"dead_experts_null", "dead_experts under uniform routing", false, kNotNegative},
    {"router_entropy", "entropy of a token's scores as probabilities, in nats, mean over tokens",
     false, kNotNegative},
    {"router_entropy_null", "router_entropy of equal scores: ln E", false, kNotNegative},
    {"margin", "k-th less (k+1)-th score, median over tokens", false, kNotNegative},
    {"margin_null", "margin under uniform routing", false, kNotNegative},
    {"coactivation_lift_max", "largest off-diagonal coactivation_lift", false, kNotNegative},
    {"coactivation_lift_null_sd",
     "standard deviation of a coactivation_lift under uniform routing, whose mean is 1", false,
     kNotNegative},
    {"transition_lift_max", "largest transition_lift", false, kNotNegative},
    {"transition_lift_null_sd",
     "standard deviation of a transition_lift under uniform routing, whose mean is 1", false,
     kNotNegative},
    {"previous_layer", "layer that transition_lift comes from", true, kNotNegative},
}};

inline constexpr std::array<ArrayColumn, 4> kRoutingArrays = {{
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
    {"transition_lift",
     "how often a token of `expert` of previous_layer went to `expert_other` here, over what the "
     "loads let expect",
     {"expert", "expert_other"},
     true,
     kNotNegative},
}};

inline constexpr CellTable kRoutingTable = {kRoutingCells, kRoutingArrays, kRoutingScales};

consteval std::size_t routing_cell(std::string_view name) { return number_in(kRoutingCells, name); }
consteval std::size_t routing_array(std::string_view name) {
  return number_in(kRoutingArrays, name);
}

}  // namespace vindex::results
