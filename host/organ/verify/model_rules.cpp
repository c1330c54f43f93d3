// Owns those tables and looking a rule up by architecture.
#include "model_rules.hpp"

#include <algorithm>
#include <array>
#include <iterator>

namespace vindex::organ {
namespace {

using Name = std::string_view;

constexpr KeyRule kWholeKeys[] = {
    {"general.architecture", "str"},
    {"general.name", "str"},
    {"general.type", "str"},
    {"general.file_type", "u32"},
    {"general.quantization_version", "u32"},
    {"general.base_model.count", "u32"},
    {"general.tags", "arr"},
    {"tokenizer.ggml.model", "str"},
    {"tokenizer.ggml.pre", "str"},
    {"tokenizer.ggml.tokens", "arr"},
    {"tokenizer.ggml.merges", "arr"},
    {"tokenizer.ggml.scores", "arr"},
    {"tokenizer.ggml.token_type", "arr"},
    {"tokenizer.ggml.token_type_count", "u32"},
    {"tokenizer.ggml.bos_token_id", "u32"},
    {"tokenizer.ggml.eos_token_id", "u32"},
    {"tokenizer.ggml.eot_token_id", "u32"},
    {"tokenizer.ggml.unknown_token_id", "u32"},
    {"tokenizer.ggml.padding_token_id", "u32"},
    {"tokenizer.ggml.seperator_token_id", "u32"},
    {"tokenizer.ggml.mask_token_id", "u32"},
    {"tokenizer.ggml.add_bos_token", "bool"},
    {"tokenizer.ggml.add_eos_token", "bool"},
    {"tokenizer.ggml.add_space_prefix", "bool"},
    {"tokenizer.ggml.remove_extra_whitespaces", "bool"},
    {"tokenizer.chat_template", "str"},
};

constexpr KeyRule kArchitectureKeys[] = {
    {"block_count", "u32"},
    {"context_length", "u32"},
    {"embedding_length", "u32"},
    {"feed_forward_length", "u32|arr"},
    {"vocab_size", "u32"},
    {"use_parallel_residual", "bool"},
    {"leading_dense_block_count", "u32"},
    {"nextn_predict_layers", "u32"},
    {"expert_count", "u32"},
    {"expert_used_count", "u32"},
    {"expert_shared_count", "u32"},
    {"expert_feed_forward_length", "u32"},
    {"expert_shared_feed_forward_length", "u32"},
    {"expert_gating_func", "u32"},
    {"expert_group_count", "u32"},
    {"expert_group_used_count", "u32"},
    {"expert_weights_scale", "f32"},
    {"expert_weights_norm", "bool"},
    {"attn_logit_softcapping", "f32"},
    {"final_logit_softcapping", "f32"},
    {"logit_scale", "f32"},
    {"embedding_scale", "f32"},
    {"residual_scale", "f32"},
    {"pooling_type", "u32"},
    {"attention.head_count", "u32|arr"},
    {"attention.head_count_kv", "u32|arr"},
    {"attention.key_length", "u32"},
    {"attention.value_length", "u32"},
    {"attention.key_length_mla", "u32"},
    {"attention.value_length_mla", "u32"},
    {"attention.q_lora_rank", "u32"},
    {"attention.kv_lora_rank", "u32"},
    {"attention.layer_norm_epsilon", "f32"},
    {"attention.layer_norm_rms_epsilon", "f32"},
    {"attention.causal", "bool"},
    {"attention.scale", "f32"},
    {"attention.sliding_window", "u32"},
    {"attention.sliding_window_pattern", "u32|arr"},
    {"attention.max_alibi_bias", "f32"},
    {"attention.clamp_kqv", "f32"},
    {"rope.dimension_count", "u32"},
    {"rope.dimension_sections", "arr"},
    {"rope.freq_base", "f32"},
    {"rope.freq_base_swa", "f32"},
    {"rope.scaling.type", "str"},
    {"rope.scaling.factor", "f32"},
    {"rope.scaling.attn_factor", "f32"},
    {"rope.scaling.original_context_length", "u32"},
    {"rope.scaling.finetuned", "bool"},
    {"rope.scaling.yarn_log_multiplier", "f32"},
    {"ssm.conv_kernel", "u32"},
    {"ssm.inner_size", "u32"},
    {"ssm.state_size", "u32"},
    {"ssm.time_step_rank", "u32"},
    {"ssm.group_count", "u32"},
};

constexpr Name kPerLayer[] = {"attention.head_count",
                              "attention.head_count_kv",
                              "feed_forward_length",
                              "attention.sliding_window_pattern",
                              "attention.recurrent_layers",
                              "attention.layer_types",
                              "attention.shared_kv_layers_map",
                              "activation_sparsity_scale",
                              "swiglu_clamp_exp",
                              "swiglu_clamp_shexp"};

constexpr Name kGlobal[] = {"token_embd.weight", "output_norm.weight"};
constexpr Name kLlamaBlock[] = {"attn_norm.weight", "attn_q.weight",      "attn_k.weight",
                                "attn_v.weight",    "attn_output.weight", "ffn_norm.weight"};
constexpr Name kDense[] = {"ffn_gate.weight", "ffn_up.weight", "ffn_down.weight"};
constexpr Name kExpertTensors[] = {
    "ffn_gate_inp.weight", "ffn_gate_exps.weight|ffn_gate_up_exps.weight",
    "ffn_up_exps.weight|ffn_gate_up_exps.weight", "ffn_down_exps.weight"};
constexpr Name kLlamaOptional[] = {"output.weight",
                                   "output.bias",
                                   "rope_freqs.weight",
                                   "rope_factors_long.weight",
                                   "rope_factors_short.weight",
                                   "attn_q.bias",
                                   "attn_k.bias",
                                   "attn_v.bias",
                                   "attn_output.bias",
                                   "ffn_gate.bias",
                                   "ffn_up.bias",
                                   "ffn_down.bias",
                                   "ffn_gate_shexp.weight",
                                   "ffn_up_shexp.weight",
                                   "ffn_down_shexp.weight",
                                   "rope_freqs.weight",
                                   "attn_rot_embd",
                                   "ffn_gate_exps.bias",
                                   "ffn_up_exps.bias",
                                   "ffn_down_exps.bias"};
constexpr Name kQwen2Block[] = {"attn_norm.weight", "attn_q.weight",      "attn_k.weight",
                                "attn_v.weight",    "attn_q.bias",        "attn_k.bias",
                                "attn_v.bias",      "attn_output.weight", "ffn_norm.weight"};
constexpr Name kQwen2Optional[] = {
    "output.weight",         "output.bias",         "ffn_gate_inp_shexp.weight",
    "ffn_gate_shexp.weight", "ffn_up_shexp.weight", "ffn_down_shexp.weight",
    "cls.output.weight",     "cls.output.bias"};
constexpr Name kQwen3Block[] = {"attn_norm.weight",   "attn_q.weight",      "attn_k.weight",
                                "attn_v.weight",      "attn_output.weight", "attn_q_norm.weight",
                                "attn_k_norm.weight", "ffn_norm.weight"};
constexpr Name kGemma2Block[] = {"attn_norm.weight",   "attn_q.weight",
                                 "attn_k.weight",      "attn_v.weight",
                                 "attn_output.weight", "post_attention_norm.weight",
                                 "ffn_norm.weight",    "post_ffw_norm.weight"};
constexpr Name kPhi3Block[] = {"attn_norm.weight", "attn_qkv.weight|attn_q.weight",
                               "attn_output.weight", "ffn_norm.weight"};
constexpr Name kPhi3Dense[] = {"ffn_up.weight", "ffn_down.weight"};
constexpr Name kPhi3Optional[] = {"output.weight",
                                  "rope_factors_long.weight",
                                  "rope_factors_short.weight",
                                  "attn_k.weight",
                                  "attn_v.weight",
                                  "attn_qkv.bias"};
constexpr Name kDeepseek2Block[] = {
    "attn_norm.weight",      "attn_q.weight|attn_q_a.weight",    "attn_kv_a_mqa.weight",
    "attn_kv_a_norm.weight", "attn_kv_b.weight|attn_k_b.weight", "attn_output.weight",
    "ffn_norm.weight"};
constexpr Name kDeepseek2Optional[] = {"output.weight",
                                       "attn_q_a_norm.weight",
                                       "attn_q_b.weight",
                                       "attn_v_b.weight",
                                       "ffn_gate_shexp.weight",
                                       "ffn_up_shexp.weight",
                                       "ffn_down_shexp.weight",
                                       "exp_probs_b.bias",
                                       "nextn.eh_proj.weight",
                                       "nextn.enorm.weight",
                                       "nextn.hnorm.weight",
                                       "nextn.embed_tokens.weight",
                                       "nextn.shared_head_head.weight",
                                       "nextn.shared_head_norm.weight"};
constexpr std::span<const Name> kNone;

constexpr ArchitectureRule kArchitectures[] = {
    {"llama", kGlobal, kLlamaBlock, kDense, kExpertTensors, kLlamaOptional},
    {"qwen2", kGlobal, kQwen2Block, kDense, kNone, kQwen2Optional},
    {"qwen2moe", kGlobal, kQwen2Block, kDense, kExpertTensors, kQwen2Optional},
    {"qwen3", kGlobal, kQwen3Block, kDense, kNone, kQwen2Optional},
    {"qwen3moe", kGlobal, kQwen3Block, kDense, kExpertTensors, kQwen2Optional},
    {"gemma2", kGlobal, kGemma2Block, kDense, kNone, kNone},
    {"phi3", kGlobal, kPhi3Block, kPhi3Dense, kNone, kPhi3Optional},
    {"deepseek2", kGlobal, kDeepseek2Block, kDense, kExpertTensors, kDeepseek2Optional},
};

template <std::size_t N>
const KeyRule* find_rule(const KeyRule (&rules)[N], Name name) {
  const auto* found = std::find_if(std::begin(rules), std::end(rules),
                                   [name](const KeyRule& rule) { return rule.name == name; });
  return found == std::end(rules) ? nullptr : found;
}

}  // namespace

const KeyRule* key_rule(Name key, Name architecture) {
  if (!architecture.empty() && key.size() > architecture.size() + 1 &&
      key.starts_with(architecture) && key[architecture.size()] == '.') {
    return find_rule(kArchitectureKeys, key.substr(architecture.size() + 1));
  }
  return find_rule(kWholeKeys, key);
}

bool is_per_layer(Name name) {
  return std::find(std::begin(kPerLayer), std::end(kPerLayer), name) != std::end(kPerLayer);
}

const ArchitectureRule* architecture_rule(Name architecture) {
  const auto* found =
      std::find_if(std::begin(kArchitectures), std::end(kArchitectures),
                   [&](const ArchitectureRule& rule) { return rule.name == architecture; });
  return found == std::end(kArchitectures) ? nullptr : found;
}

}  // namespace vindex::organ
