// Owns those lists, and finding what is in none of them.
#include "transformer_key_table.hpp"

#include "core/json/json_document.hpp"
#include "core/text/text_parts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

namespace vindex::model {

namespace {

/// Lists of keys with spaces between; KEY=JSON: with that value alone.
struct KeyList {
  std::string_view families;  ///< with spaces between; empty: all of the table
  std::string_view used;
  std::string_view passed_over = {};
  std::string_view used_here = {};
};

// Sources: transformers' configuration and modelling files (5.23) by model_type, its
// configuration_utils.py before version 5 for what any model may have, config.json of published
// models for what their own files read.
constexpr KeyList kConfigKeys[] = {
    {.families = "",
     .used = "model_type vocab_size hidden_size intermediate_size num_hidden_layers "
             "num_attention_heads num_key_value_heads max_position_embeddings rms_norm_eps "
             "tie_word_embeddings rope_parameters rope_scaling rope_theta partial_rotary_factor "
             "original_max_position_embeddings attention_bias mlp_bias quantization_config "
             "is_causal use_bidirectional_attention",
     .passed_over =
         // What a file says of itself and of programs.
     "architectures auto_map transformers_version _name_or_path name_or_path _commit_hash "
     "dtype torch_dtype unsloth_version unsloth_fixed tokenizer_class model_max_length "
     "_attn_implementation _attn_implementation_internal _attn_implementation_autoset "
     "attn_implementation _experts_implementation experts_implementation "
     "_flash_attn_2_enabled use_flash_attn use_flash_attention flash_attention "
     "cache_implementation use_cache pretraining_tp ep_size torchscript use_bfloat16 "
     "tf_legacy_loss gradient_checkpointing return_dict output_attentions "
     "output_hidden_states output_scores return_dict_in_generate remove_invalid_values "
     "problem_type id2label label2id num_labels finetuning_task task_specific_params prefix "
     "is_decoder is_encoder_decoder=false add_cross_attention=false "
     "cross_attention_hidden_size tie_encoder_decoder pruned_heads={} "
     "chunk_size_feed_forward max_sequence_length seq_length transformers.js_config "
     // Training.
     "initializer_range attention_dropout hidden_dropout resid_pdrop embd_pdrop "
     "output_router_logits router_aux_loss_coef router_jitter_noise aux_loss_alpha seq_aux "
     "input_jitter_noise "
     // Tokens and generation.
     "bos_token_id eos_token_id pad_token_id sep_token_id decoder_start_token_id "
     "max_length min_length do_sample num_beams num_beam_groups temperature top_k top_p "
     "typical_p diversity_penalty repetition_penalty length_penalty no_repeat_ngram_size "
     "encoder_no_repeat_ngram_size bad_words_ids num_return_sequences early_stopping "
     "forced_bos_token_id forced_eos_token_id suppress_tokens begin_suppress_tokens "
     "exponential_decay_length_penalty "
     // Of a wrapper's parts, beside the language model's.
     "text_config vision_config audio_config mm_tokens_per_image image_token_index "
     "image_token_id boi_token_index eoi_token_index"},
    {.families = "llama mistral ministral ministral3 mixtral qwen2 qwen2_moe qwen3 qwen3_moe "
                 "gemma phi3 deepseek_v2 deepseek_v3 kimi_k2 olmoe olmo2 granite granitemoe",
     .used = "hidden_act"},
    {.families = "gemma2 gemma3 gemma3_text",
     .used = "hidden_activation query_pre_attn_scalar final_logit_softcapping",
     .passed_over = "hidden_act"},
    {.families = "gemma", .used = "", .passed_over = "hidden_activation"},
    {.families = "llama", .used = "", .passed_over = "is_llama_config rope_interleaved=false"},
    {.families = "phi3",
     .used = "",
     .passed_over = "full_attn_mod=1 interpolate_factor=1 lm_head_bias=false"},
    {.families = "gemma2", .used = "attn_logit_softcapping"},
    {.families = "gemma3 gemma3_text",
     .used = "sliding_window_pattern rope_local_base_freq",
     .passed_over = "_sliding_window_pattern attn_logit_softcapping=null"},
    {.families = "gpt_oss",
     .used = "swiglu_limit swiglu_alpha",
     .passed_over = "hidden_act experts_per_token initial_context_length"},
    {.families = "llama mistral ministral ministral3 mixtral qwen2 qwen2_moe qwen3 qwen3_moe "
                 "gemma gemma2 gemma3 gemma3_text phi3 gpt_oss olmoe olmo2 granite granitemoe",
     .used = "head_dim"},
    {.families = "mistral ministral ministral3 mixtral qwen2 qwen2_moe qwen3 qwen3_moe gemma2 "
                 "gemma3 gemma3_text phi3 gpt_oss",
     .used = "sliding_window"},
    {.families = "ministral qwen2 qwen2_moe qwen3 gemma2 gemma3 gemma3_text gpt_oss",
     .used = "layer_types"},
    {.families = "qwen2 qwen2_moe qwen3 qwen3_moe",
     .used = "use_sliding_window",
     .passed_over = "use_mrope=false"},
    {.families = "qwen2 qwen2_moe qwen3", .used = "max_window_layers"},
    {.families = "qwen3_moe", .used = "", .passed_over = "max_window_layers"},
    {.families = "qwen2_moe", .used = "qkv_bias shared_expert_intermediate_size"},
    {.families = "qwen2_moe qwen3_moe",
     .used = "norm_topk_prob moe_intermediate_size decoder_sparse_step mlp_only_layers"},
    {.families = "mixtral qwen2_moe qwen3_moe deepseek_v2 deepseek_v3 kimi_k2 gpt_oss olmoe "
                 "granitemoe",
     .used = "num_experts_per_tok num_experts num_local_experts n_routed_experts"},
    {.families = "olmoe", .used = "norm_topk_prob clip_qkv"},
    {.families = "granite granitemoe",
     .used = "embedding_multiplier residual_multiplier attention_multiplier logits_scaling"},
    // Which layers are mixtures, and of what size, is seen in their tensors.
    {.families = "deepseek_v2 deepseek_v3 kimi_k2",
     .used = "q_lora_rank kv_lora_rank qk_nope_head_dim qk_rope_head_dim v_head_dim "
             "first_k_dense_replace moe_layer_freq n_shared_experts moe_intermediate_size "
             "n_group topk_group routed_scaling_factor num_nextn_predict_layers num_mtp_layers",
     .passed_over = "qk_head_dim head_dim"},
    {.families = "deepseek_v2", .used = "topk_method", .passed_over = "rope_interleave=true"},
    {.families = "deepseek_v3 kimi_k2", .used = "norm_topk_prob rope_interleave"},
};

constexpr KeyList kOwnRouterKeys[] = {
    {.families = "deepseek_v2 deepseek_vl_v2",
     .used = "",
     .used_here = "norm_topk_prob=false scoring_func=\"softmax\""},
    {.families = "deepseek_v3 deepseek_v32 kimi_k2 kimi_k25 kimi_k2_5 kimi_vl",
     .used = "",
     .used_here = "scoring_func=\"sigmoid\" topk_method=\"noaux_tc\""},
};

// Biases are added where they are stored.
constexpr KeyList kOwnBiasKeys[] = {
    {.families = "mistral ministral ministral3 mixtral phi3 qwen2 qwen2_moe",
     .used = "",
     .used_here = "attention_bias=false"},
    {.families = "mistral ministral ministral3 mixtral qwen2 qwen2_moe qwen3 qwen3_moe gemma "
                 "gemma2 gemma3 gemma3_text phi3 deepseek_v3 kimi_k2 gpt_oss olmoe olmo2 "
                 "granitemoe",
     .used = "",
     .used_here = "mlp_bias=false"},
};

// Source: llama.cpp's src/llama-arch.cpp (names) and src/llama-model.cpp, src/models (use).
constexpr KeyList kGgufKeys[] = {
    {.families = "",
     .used =
         "vocab_size context_length embedding_length block_count feed_forward_length "
         "expert_feed_forward_length expert_shared_feed_forward_length leading_dense_block_count "
         "expert_count expert_used_count expert_shared_count expert_group_count "
         "expert_group_used_count expert_weights_scale expert_weights_norm expert_gating_func "
         "nextn_predict_layers attention.head_count attention.head_count_kv attention.key_length "
         "attention.value_length attention.key_length_mla attention.value_length_mla "
         "attention.layer_norm_rms_epsilon attention.q_lora_rank attention.kv_lora_rank "
         "attention.sliding_window attention.sliding_window_pattern attention.clamp_kqv "
         "attention.causal rope.dimension_count rope.freq_base rope.freq_base_swa "
         "rope.scale_linear rope.scaling.type rope.scaling.factor rope.scaling.attn_factor "
         "rope.scaling.original_context_length rope.scaling.finetuned "
         "rope.scaling.yarn_log_multiplier rope.scaling.yarn_ext_factor "
         "rope.scaling.yarn_attn_factor rope.scaling.yarn_beta_fast rope.scaling.yarn_beta_slow",
     .passed_over = "tensor_data_layout attention.layer_norm_epsilon attention.max_alibi_bias=0 "
                    "use_parallel_residual=false pooling_type"},
    {.families = "mistral3", .used = "attention.temperature_scale"},
    {.families = "gemma2 gemma3", .used = "final_logit_softcapping"},
    {.families = "gemma2", .used = "attn_logit_softcapping"},
    {.families = "granite granitemoe",
     .used = "embedding_scale residual_scale attention.scale logit_scale"},
};

constexpr std::string_view kRopeUsed =
    "rope_type type rope_theta factor partial_rotary_factor original_max_position_embeddings "
    "attention_factor beta_fast beta_slow mscale mscale_all_dim truncate low_freq_factor "
    "high_freq_factor short_factor long_factor llama_4_scaling_beta full_attention "
    "sliding_attention";
constexpr std::string_view kRopePassedOver = "max_position_embeddings finetuned";

// Where wrappers keep the language model's keys (transformer_keys.cpp).
constexpr std::array<std::string_view, 4> kLanguageSections = {"text_config", "language_config",
                                                               "llm_config", "thinker_config"};
constexpr std::size_t kMostNamed = 12;

/// The value behind KEY= in `list`, empty where KEY stands alone; nothing where it does not stand
/// there.
std::optional<std::string_view> listed(std::string_view list, std::string_view key) {
  for (const std::string_view entry : split(list, ' ')) {
    const std::size_t equals = entry.find('=');
    if (entry.substr(0, equals) == key) {
      return equals == std::string_view::npos ? std::string_view() : entry.substr(equals + 1);
    }
  }
  return std::nullopt;
}

KeyRule rule_in(std::span<const KeyList> lists, std::string_view family, std::string_view key) {
  for (const KeyList& list : lists) {
    if (!list.families.empty() && !has_word(list.families, family)) {
      continue;
    }
    if (listed(list.used, key)) {
      return {KeyUse::kUsed};
    }
    if (const auto value = listed(list.passed_over, key)) {
      return {KeyUse::kPassedOver, *value};
    }
    if (const auto value = listed(list.used_here, key)) {
      return {KeyUse::kUsedHere, *value};
    }
  }
  return {};
}

std::string canonical(std::string_view family) {
  std::string name(family);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

/// Null is what a key says that asks for nothing.
bool says(const JsonValue& value, std::string_view wanted) {
  if (value.is_null() || wanted.empty()) {
    return true;
  }
  return Json::of(value).dump() == wanted;
}

bool says(const gguf::Key& key, std::string_view wanted) {
  const auto* number = std::get_if<std::uint64_t>(&key.value);
  const auto* real = std::get_if<double>(&key.value);
  return wanted.empty() || (key.type == gguf::ValueType::kBool
                                ? (number != nullptr && (*number != 0) == (wanted == "true"))
                                : wanted == "0" && ((number != nullptr && *number == 0) ||
                                                    (real != nullptr && *real == 0.0)));
}

/// The language model's members.
const JsonValue::Object* own_members(const input::ModelFiles& files) {
  if (!files.config) {
    return nullptr;
  }
  for (const std::string_view section : kLanguageSections) {
    const JsonValue* inner = files.config->find(section);
    if (inner != nullptr && inner->as_object() != nullptr) {
      return inner->as_object();
    }
  }
  return files.config->as_object();
}

void add_rope(const std::string& name, const JsonValue& rope, std::vector<std::string>& unknown) {
  if (rope.as_object() == nullptr) {
    return;  // reading it refuses what is no object
  }
  for (const auto& [key, value] : *rope.as_object()) {
    if (rope_key_rule(key).use == KeyUse::kUnknown && !value.is_null()) {
      unknown.push_back(fmt::format("{}.{}", name, excerpt(key)));
    }
    if (key == "full_attention" || key == "sliding_attention") {
      add_rope(fmt::format("{}.{}", name, key), value, unknown);
    }
  }
}

std::vector<std::string> unknown_keys(const input::ModelFiles& files, const std::string& family) {
  std::vector<std::string> unknown;
  if (files.format == input::ContainerFormat::kGguf) {
    for (const gguf::Key& key : files.keys) {
      const std::size_t dot = key.name.find('.');
      if (dot == std::string::npos || canonical(key.name.substr(0, dot)) != family) {
        continue;
      }
      const KeyRule rule =
          key_rule(Dialect::kGguf, family, std::string_view(key.name).substr(dot + 1));
      if (rule.use == KeyUse::kUnknown ||
          (rule.use == KeyUse::kPassedOver && !says(key, rule.value))) {
        unknown.push_back(excerpt(key.name));
      }
    }
    return unknown;
  }
  const JsonValue::Object* members = own_members(files);
  if (members == nullptr) {
    return unknown;
  }
  for (const auto& [key, value] : *members) {
    const KeyRule rule = key_rule(Dialect::kHuggingFace, family, key);
    const bool may_count = rule.use == KeyUse::kUnknown || rule.use == KeyUse::kPassedOver;
    if (may_count && !says(value, rule.use == KeyUse::kUnknown ? "null" : rule.value)) {
      unknown.push_back(excerpt(key));
    }
    if (key == "rope_parameters" || key == "rope_scaling") {
      add_rope(key, value, unknown);
    }
  }
  return unknown;
}

/// Of keys that are used here alone, what each says where transformers computes something else.
std::vector<Warning> own_keys(const input::ModelFiles& files, std::span<const KeyList> lists,
                              std::string_view family, const std::string& id) {
  std::vector<Warning> warnings;
  const JsonValue::Object* members =
      files.format == input::ContainerFormat::kGguf ? nullptr : own_members(files);
  if (members == nullptr) {
    return warnings;
  }
  for (const auto& [key, value] : *members) {
    const KeyRule rule = rule_in(lists, canonical(family), key);
    if (rule.use == KeyUse::kUsedHere && !says(value, rule.value)) {
      warnings.push_back(
          {id, fmt::format("{} is {}, which is followed here, as llama.cpp or the model's own "
                           "files do; transformers ignores that key of {} and computes what {} "
                           "means",
                           key, excerpt(Json::of(value).dump()), family, rule.value)});
    }
  }
  return warnings;
}

}  // namespace

KeyRule key_rule(Dialect dialect, std::string_view family, std::string_view key) {
  const std::string name = canonical(family);
  if (dialect == Dialect::kGguf) {
    return rule_in(kGgufKeys, name, key);
  }
  for (const std::span<const KeyList> own :
       {std::span<const KeyList>(kOwnRouterKeys), std::span<const KeyList>(kOwnBiasKeys)}) {
    if (const KeyRule rule = rule_in(own, name, key); rule.use != KeyUse::kUnknown) {
      return rule;
    }
  }
  return rule_in(kConfigKeys, name, key);
}

KeyRule rope_key_rule(std::string_view key) {
  return {has_word(kRopeUsed, key)         ? KeyUse::kUsed
          : has_word(kRopePassedOver, key) ? KeyUse::kPassedOver
                                           : KeyUse::kUnknown};
}

std::vector<std::string> listed_keys(Dialect dialect) {
  std::vector<std::string> keys;
  const auto add = [&](std::span<const KeyList> lists) {
    for (const KeyList& list : lists) {
      for (const std::string_view part : {list.used, list.passed_over, list.used_here}) {
        for (const std::string_view entry : split(part, ' ')) {
          if (!entry.empty()) {
            keys.emplace_back(entry.substr(0, entry.find('=')));
          }
        }
      }
    }
  };
  if (dialect == Dialect::kGguf) {
    add(kGgufKeys);
  } else {
    add(kConfigKeys);
    add(kOwnRouterKeys);
    add(kOwnBiasKeys);
  }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

std::vector<Warning> trace_key_warnings(const input::ModelFiles& files, std::string_view family) {
  std::vector<Warning> warnings = own_keys(files, kOwnRouterKeys, family, "W-TRACE-KEY");
  for (Warning& warning : own_keys(files, kOwnBiasKeys, family, "W-TRACE-KEY")) {
    warnings.push_back(std::move(warning));
  }
  std::vector<std::string> unknown = unknown_keys(files, canonical(family));
  if (!unknown.empty()) {
    const std::size_t more = unknown.size() - std::min(unknown.size(), kMostNamed);
    unknown.resize(unknown.size() - more);
    warnings.push_back(
        {"W-TRACE-KEY",
         fmt::format("keys that are not used, since layers of {} are not known to follow them: "
                     "{}{}; what they ask for is not computed",
                     family, fmt::join(unknown, ", "),
                     more == 0 ? "" : fmt::format(" and {} more", more))});
  }
  return warnings;
}

std::vector<Warning> own_key_warnings(const input::ModelFiles& files, std::string_view family) {
  return own_keys(files, kOwnRouterKeys, family, "W-ROUTER-KEY");
}

}  // namespace vindex::model
