// Owns that table.
#include "graft_rules.hpp"

#include "core/text/text_parts.hpp"

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

constexpr KeyRule kRules[] = {
    {"heads", Level::kError, Level::kError, kHeads,
     "attention.head_count attention.head_count_kv attention.key_length attention.value_length "
     "attention.key_length_mla attention.value_length_mla"},
    {"heads", Level::kError, Level::kNote, kHeads,
     "attention.q_lora_rank attention.kv_lora_rank ssm."},
    {"experts", Level::kError, Level::kError, kExpertsReason,
     "expert_count expert_used_count expert_shared_count expert_group_count "
     "expert_group_used_count"},
    {"rope", Level::kError, Level::kNote, kRope, "rope."},
    {"norm-epsilon", Level::kWarning, Level::kWarning, kNumerics,
     "attention.layer_norm_rms_epsilon attention.layer_norm_epsilon attention.group_norm_epsilon"},
    {"softcap", Level::kWarning, Level::kWarning, kNumerics,
     "attn_logit_softcapping final_logit_softcapping router_logit_softcapping"},
    {"scale", Level::kWarning, Level::kWarning, kNumerics,
     "residual_scale embedding_scale logit_scale attention.scale attention.output_scale "
     "attention.value_scale attention.clamp_kqv attention.max_alibi_bias attention.temperature_ "
     "expert_weights_scale expert_weights_norm expert_gating_func"},
    {"sliding-window", Level::kWarning, Level::kWarning, kNumerics,
     "attention.sliding_window attention.sliding_window_pattern attention.chunk_size "
     "attention.shared_kv_layers attention.causal"},
};

}  // namespace

const KeyRule* key_rule(std::string_view suffix) {
  const auto is_of = [suffix](std::string_view name) {
    const bool is_prefix = name.ends_with('.') || name.ends_with('_');
    return is_prefix ? suffix.starts_with(name) : suffix == name;
  };
  const auto found = std::find_if(std::begin(kRules), std::end(kRules), [&](const KeyRule& rule) {
    const auto names = split(rule.suffixes, ' ');
    return std::any_of(names.begin(), names.end(), is_of);
  });
  return found == std::end(kRules) ? nullptr : found;
}

}  // namespace vindex::organ
