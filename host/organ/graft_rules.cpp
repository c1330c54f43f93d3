// Owns that table.
#include "graft_rules.hpp"

#include <algorithm>
#include <iterator>

namespace vindex::organ {
namespace {

constexpr std::string_view kHeads =
    "the host's graph cuts q, k and v by its own counts; choose a donor that has the same";
constexpr std::string_view kExpertsReason =
    "the host's graph routes by its own counts; choose a donor that has the same";
constexpr std::string_view kRope =
    "the host's rotation meets weights trained with the donor's; leave the skeleton out, or graft "
    "the other way round";
constexpr std::string_view kNumerics = "the host's value will hold for the donor's weights";

// clang-format off
constexpr KeyRule kRules[] = {
    {"attention.head_count", "heads", Level::kError, Level::kError, kHeads},
    {"attention.head_count_kv", "heads", Level::kError, Level::kError, kHeads},
    {"attention.key_length", "heads", Level::kError, Level::kError, kHeads},
    {"attention.value_length", "heads", Level::kError, Level::kError, kHeads},
    {"attention.key_length_mla", "heads", Level::kError, Level::kError, kHeads},
    {"attention.value_length_mla", "heads", Level::kError, Level::kError, kHeads},
    {"attention.q_lora_rank", "heads", Level::kError, Level::kNote, kHeads},
    {"attention.kv_lora_rank", "heads", Level::kError, Level::kNote, kHeads},
    {"ssm.", "heads", Level::kError, Level::kNote, kHeads},
    {"expert_count", "experts", Level::kError, Level::kError, kExpertsReason},
    {"expert_used_count", "experts", Level::kError, Level::kError, kExpertsReason},
    {"expert_shared_count", "experts", Level::kError, Level::kError, kExpertsReason},
    {"expert_group_count", "experts", Level::kError, Level::kError, kExpertsReason},
    {"expert_group_used_count", "experts", Level::kError, Level::kError, kExpertsReason},
    {"rope.", "rope", Level::kError, Level::kNote, kRope},
    {"attention.layer_norm_rms_epsilon", "norm-epsilon", Level::kWarning, Level::kWarning, kNumerics},
    {"attention.layer_norm_epsilon", "norm-epsilon", Level::kWarning, Level::kWarning, kNumerics},
    {"attention.group_norm_epsilon", "norm-epsilon", Level::kWarning, Level::kWarning, kNumerics},
    {"attn_logit_softcapping", "softcap", Level::kWarning, Level::kWarning, kNumerics},
    {"final_logit_softcapping", "softcap", Level::kWarning, Level::kWarning, kNumerics},
    {"router_logit_softcapping", "softcap", Level::kWarning, Level::kWarning, kNumerics},
    {"residual_scale", "scale", Level::kWarning, Level::kWarning, kNumerics},
    {"embedding_scale", "scale", Level::kWarning, Level::kWarning, kNumerics},
    {"logit_scale", "scale", Level::kWarning, Level::kWarning, kNumerics},
    {"attention.scale", "scale", Level::kWarning, Level::kWarning, kNumerics},
    {"attention.output_scale", "scale", Level::kWarning, Level::kWarning, kNumerics},
    {"attention.value_scale", "scale", Level::kWarning, Level::kWarning, kNumerics},
    {"attention.clamp_kqv", "scale", Level::kWarning, Level::kWarning, kNumerics},
    {"attention.max_alibi_bias", "scale", Level::kWarning, Level::kWarning, kNumerics},
    {"attention.temperature_", "scale", Level::kWarning, Level::kWarning, kNumerics},
    {"expert_weights_scale", "scale", Level::kWarning, Level::kWarning, kNumerics},
    {"expert_weights_norm", "scale", Level::kWarning, Level::kWarning, kNumerics},
    {"expert_gating_func", "scale", Level::kWarning, Level::kWarning, kNumerics},
    {"attention.sliding_window", "sliding-window", Level::kWarning, Level::kWarning, kNumerics},
    {"attention.sliding_window_pattern", "sliding-window", Level::kWarning, Level::kWarning, kNumerics},
    {"attention.chunk_size", "sliding-window", Level::kWarning, Level::kWarning, kNumerics},
    {"attention.shared_kv_layers", "sliding-window", Level::kWarning, Level::kWarning, kNumerics},
    {"attention.causal", "sliding-window", Level::kWarning, Level::kWarning, kNumerics},
};
// clang-format on

}  // namespace

const KeyRule* key_rule(std::string_view suffix) {
  const auto found = std::find_if(std::begin(kRules), std::end(kRules), [&](const KeyRule& rule) {
    const bool is_prefix = rule.suffix.ends_with('.') || rule.suffix.ends_with('_');
    return is_prefix ? suffix.starts_with(rule.suffix) : suffix == rule.suffix;
  });
  return found == std::end(kRules) ? nullptr : found;
}

}  // namespace vindex::organ
