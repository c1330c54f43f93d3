// Owns those tables and looking a rule up by architecture.
#include "model_rules.hpp"

#include "core/text/text_parts.hpp"

#include <algorithm>
#include <iterator>
#include <span>

namespace vindex::organ {
namespace {

using Name = std::string_view;

/// Keys that must be of one type.
struct KeyTypes {
  Name types;
  Name names;
};

constexpr KeyTypes kWholeKeys[] = {
    {"str",
     "general.architecture general.name general.type tokenizer.ggml.model tokenizer.ggml.pre "
     "tokenizer.chat_template"},
    {"u32",
     "general.file_type general.quantization_version general.base_model.count "
     "tokenizer.ggml.token_type_count tokenizer.ggml.bos_token_id tokenizer.ggml.eos_token_id "
     "tokenizer.ggml.eot_token_id tokenizer.ggml.unknown_token_id "
     "tokenizer.ggml.padding_token_id tokenizer.ggml.seperator_token_id "
     "tokenizer.ggml.mask_token_id"},
    {"arr",
     "general.tags tokenizer.ggml.tokens tokenizer.ggml.merges tokenizer.ggml.scores "
     "tokenizer.ggml.token_type"},
    {"bool",
     "tokenizer.ggml.add_bos_token tokenizer.ggml.add_eos_token tokenizer.ggml.add_space_prefix "
     "tokenizer.ggml.remove_extra_whitespaces"},
};

constexpr KeyTypes kArchitectureKeys[] = {
    {"u32",
     "block_count context_length embedding_length vocab_size leading_dense_block_count "
     "nextn_predict_layers expert_count expert_used_count expert_shared_count "
     "expert_feed_forward_length expert_shared_feed_forward_length expert_gating_func "
     "expert_group_count expert_group_used_count pooling_type attention.key_length "
     "attention.value_length attention.key_length_mla attention.value_length_mla "
     "attention.q_lora_rank attention.kv_lora_rank attention.sliding_window rope.dimension_count "
     "rope.scaling.original_context_length ssm.conv_kernel ssm.inner_size ssm.state_size "
     "ssm.time_step_rank ssm.group_count"},
    {"u32|arr",
     "feed_forward_length attention.head_count attention.head_count_kv "
     "attention.sliding_window_pattern"},
    {"bool", "use_parallel_residual expert_weights_norm attention.causal rope.scaling.finetuned"},
    {"f32",
     "expert_weights_scale attn_logit_softcapping final_logit_softcapping logit_scale "
     "embedding_scale residual_scale attention.layer_norm_epsilon "
     "attention.layer_norm_rms_epsilon attention.scale attention.max_alibi_bias "
     "attention.clamp_kqv rope.freq_base rope.freq_base_swa rope.scaling.factor "
     "rope.scaling.attn_factor rope.scaling.yarn_log_multiplier"},
    {"arr", "rope.dimension_sections"},
    {"str", "rope.scaling.type"},
};

constexpr Name kPerLayer =
    "attention.head_count attention.head_count_kv feed_forward_length "
    "attention.sliding_window_pattern attention.recurrent_layers attention.layer_types "
    "attention.shared_kv_layers_map activation_sparsity_scale swiglu_clamp_exp swiglu_clamp_shexp";
constexpr Name kGlobal = "token_embd.weight output_norm.weight";
constexpr Name kLlamaBlock =
    "attn_norm.weight attn_q.weight attn_k.weight attn_v.weight attn_output.weight "
    "ffn_norm.weight";
constexpr Name kDense = "ffn_gate.weight ffn_up.weight ffn_down.weight";
constexpr Name kExpertTensors =
    "ffn_gate_inp.weight ffn_gate_exps.weight|ffn_gate_up_exps.weight "
    "ffn_up_exps.weight|ffn_gate_up_exps.weight ffn_down_exps.weight";
constexpr Name kLlamaOptional =
    "output.weight output.bias rope_freqs.weight rope_factors_long.weight "
    "rope_factors_short.weight attn_q.bias attn_k.bias attn_v.bias attn_output.bias ffn_gate.bias "
    "ffn_up.bias ffn_down.bias ffn_gate_shexp.weight ffn_up_shexp.weight ffn_down_shexp.weight "
    "attn_rot_embd ffn_gate_exps.bias ffn_up_exps.bias ffn_down_exps.bias";
constexpr Name kQwen2Block =
    "attn_norm.weight attn_q.weight attn_k.weight attn_v.weight attn_q.bias attn_k.bias "
    "attn_v.bias attn_output.weight ffn_norm.weight";
constexpr Name kQwen2Optional =
    "output.weight output.bias ffn_gate_inp_shexp.weight ffn_gate_shexp.weight "
    "ffn_up_shexp.weight ffn_down_shexp.weight cls.output.weight cls.output.bias";
constexpr Name kQwen3Block =
    "attn_norm.weight attn_q.weight attn_k.weight attn_v.weight attn_output.weight "
    "attn_q_norm.weight attn_k_norm.weight ffn_norm.weight";
constexpr Name kGemma2Block =
    "attn_norm.weight attn_q.weight attn_k.weight attn_v.weight attn_output.weight "
    "post_attention_norm.weight ffn_norm.weight post_ffw_norm.weight";
constexpr Name kPhi3Block =
    "attn_norm.weight attn_qkv.weight|attn_q.weight attn_output.weight ffn_norm.weight";
constexpr Name kPhi3Dense = "ffn_up.weight ffn_down.weight";
constexpr Name kPhi3Optional =
    "output.weight rope_factors_long.weight rope_factors_short.weight attn_k.weight attn_v.weight "
    "attn_qkv.bias";
constexpr Name kDeepseek2Block =
    "attn_norm.weight attn_q.weight|attn_q_a.weight attn_kv_a_mqa.weight attn_kv_a_norm.weight "
    "attn_kv_b.weight|attn_k_b.weight attn_output.weight ffn_norm.weight";
constexpr Name kDeepseek2Optional =
    "output.weight attn_q_a_norm.weight attn_q_b.weight attn_v_b.weight ffn_gate_shexp.weight "
    "ffn_up_shexp.weight ffn_down_shexp.weight exp_probs_b.bias nextn.eh_proj.weight "
    "nextn.enorm.weight nextn.hnorm.weight nextn.embed_tokens.weight "
    "nextn.shared_head_head.weight nextn.shared_head_norm.weight";

constexpr Name kNone;

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

Name types_in(std::span<const KeyTypes> rows, Name key) {
  const auto row = std::find_if(rows.begin(), rows.end(),
                                [key](const KeyTypes& each) { return has_word(each.names, key); });
  return row == rows.end() ? Name() : row->types;
}

}  // namespace

Name key_types(Name key, Name architecture) {
  const std::size_t length = architecture.size();
  return length > 0 && key.size() > length + 1 && key.starts_with(architecture) &&
                 key[length] == '.'
             ? types_in(kArchitectureKeys, key.substr(length + 1))
             : types_in(kWholeKeys, key);
}

bool is_per_layer(Name name) { return has_word(kPerLayer, name); }

const ArchitectureRule* architecture_rule(Name architecture) {
  const auto* found =
      std::find_if(std::begin(kArchitectures), std::end(kArchitectures),
                   [&](const ArchitectureRule& rule) { return rule.name == architecture; });
  return found == std::end(kArchitectures) ? nullptr : found;
}

}  // namespace vindex::organ
