// Owns the tables of families: their names, and what the names of their tensors mean.
// Sources: transformers' modelling files by model_type; llama.cpp gguf-py/gguf/constants.py and
// tensor_mapping.py @ d32676d7; the models' own safetensors indices.
#include "families.hpp"

namespace vindex::model {

namespace {

using enum Block;
using enum Layout;

constexpr NameRow kHuggingFaceNames[] = {
    {"(embed_tokens|wte|tok_embeddings|embed|embed_in|embeddings|word_embeddings)", kEmbedding,
     "embed_tokens"},
    {"(wpe|embed_positions|position_embeddings)", kEmbedding, ""},
    {"(lm_head|head|embed_out|output)", kOutput, "lm_head"},

    // Attention; MLA names of DeepSeek; the short names of DeepSeek's and Meta's own files.
    {"{layer}.(self_attn|attn|attention).(q_proj|wq)", kAttention, "q_proj"},
    {"{layer}.(self_attn|attn|attention).(k_proj|wk)", kAttention, "k_proj"},
    {"{layer}.(self_attn|attn|attention).(v_proj|wv)", kAttention, "v_proj"},
    {"{layer}.(self_attn|attn|attention).(o_proj|wo|out_proj|dense)", kAttention, "o_proj"},
    {"{layer}.(self_attn|attn|attention).(qkv_proj|Wqkv|query_key_value)", kAttention, "qkv_proj"},
    {"{layer}.norm_attn_norm.attn.Wqkv", kAttention, "qkv_proj"},
    {"{layer}.norm_attn_norm.attn.out_proj", kAttention, "o_proj"},
    {"{layer}.(self_attn|attn|attention).(q_a_proj|wq_a)", kAttention, "q_a_proj"},
    {"{layer}.(self_attn|attn|attention).(q_b_proj|wq_b)", kAttention, "q_b_proj"},
    {"{layer}.(self_attn|attn|attention).(kv_a_proj_with_mqa|kv_a_proj|wkv_a|wkv_a_with_mqa)",
     kAttention, "kv_a_proj"},
    {"{layer}.(self_attn|attn|attention).(kv_b_proj|wkv_b)", kAttention, "kv_b_proj"},
    {"{layer}.(self_attn|attn).k_b_proj", kAttention, "k_b_proj", kHeadStack},
    {"{layer}.(self_attn|attn).v_b_proj", kAttention, "v_b_proj", kHeadStack},
    {"{layer}.(self_attn|attn|attention).*", kAttention, ""},

    // Dense feed-forward.
    {"{layer}.(mlp|feed_forward|ffn).(gate_proj|w1)", kDenseMlp, "gate_proj"},
    {"{layer}.(mlp|feed_forward|ffn).(up_proj|w3|fc1|dense_h_to_4h)", kDenseMlp, "up_proj"},
    {"{layer}.(mlp|feed_forward|ffn).(down_proj|w2|fc2|dense_4h_to_h)", kDenseMlp, "down_proj"},
    {"{layer}.(mlp|feed_forward|ffn).gate_up_proj", kDenseMlp, "gate_up_proj"},

    // Routers.
    {"{layer}.(mlp|block_sparse_moe|feed_forward|ffn).gate", kRouter, "router"},
    {"{layer}.(mlp|block_sparse_moe|feed_forward|ffn).router", kRouter, "router"},
    {"{layer}.(mlp|block_sparse_moe|ffn).(gate.wg|router.layer)", kRouter, "router"},
    {"{layer}.(mlp|block_sparse_moe|ffn).shared_expert_gate", kRouter, "shared_expert_gate"},
    {"{layer}.(mlp|block_sparse_moe|ffn).(gate.e_score_correction_bias|e_score_correction_bias)",
     kRouter, "e_score_correction_bias"},
    {"{layer}.ffn.gate.tid2eid", kRouter, "tid2eid", kLookupTable},

    // Routed experts: one tensor per expert.
    {"{layer}.(mlp|block_sparse_moe|feed_forward|ffn).experts.{expert}.(gate_proj|w1)",
     kRoutedExpert, "gate_proj"},
    {"{layer}.(mlp|block_sparse_moe|feed_forward|ffn).experts.{expert}.(up_proj|w3)", kRoutedExpert,
     "up_proj"},
    {"{layer}.(mlp|block_sparse_moe|feed_forward|ffn).experts.{expert}.(down_proj|w2)",
     kRoutedExpert, "down_proj"},
    {"{layer}.(mlp|block_sparse_moe|feed_forward|ffn).experts.{expert}.gate_up_proj", kRoutedExpert,
     "gate_up_proj"},
    // Mistral's own files name no block around the mixture.
    {"{layer}.gate", kRouter, "router"},
    {"{layer}.experts.{expert}.w1", kRoutedExpert, "gate_proj"},
    {"{layer}.experts.{expert}.w3", kRoutedExpert, "up_proj"},
    {"{layer}.experts.{expert}.w2", kRoutedExpert, "down_proj"},
    {"{layer}.shared_experts.w1", kSharedExpert, "gate_proj"},
    {"{layer}.shared_experts.w3", kSharedExpert, "up_proj"},
    {"{layer}.shared_experts.w2", kSharedExpert, "down_proj"},
    // Routed experts: stacks.
    {"{layer}.(mlp|block_sparse_moe).experts.gate_up_proj", kRoutedExpert, "gate_up_proj",
     kExpertStackTransposed, "gpt_oss"},
    {"{layer}.(mlp|block_sparse_moe).experts.down_proj", kRoutedExpert, "down_proj",
     kExpertStackTransposed, "gpt_oss"},
    {"{layer}.feed_forward.experts.gate_up_proj", kRoutedExpert, "gate_up_proj",
     kExpertStackTransposed},
    {"{layer}.feed_forward.experts.down_proj", kRoutedExpert, "down_proj", kExpertStackTransposed},
    {"{layer}.(mlp|block_sparse_moe).experts.gate_up_proj", kRoutedExpert, "gate_up_proj",
     kExpertStack},
    {"{layer}.(mlp|block_sparse_moe|feed_forward).experts.gate_proj", kRoutedExpert, "gate_proj",
     kExpertStack},
    {"{layer}.(mlp|block_sparse_moe|feed_forward).experts.up_proj", kRoutedExpert, "up_proj",
     kExpertStack},
    {"{layer}.(mlp|block_sparse_moe).experts.down_proj", kRoutedExpert, "down_proj", kExpertStack},
    // MLX stacks the experts under a name of its own.
    {"{layer}.(mlp|block_sparse_moe|feed_forward|ffn).switch_mlp.(gate_proj|w1)", kRoutedExpert,
     "gate_proj", kExpertStack},
    {"{layer}.(mlp|block_sparse_moe|feed_forward|ffn).switch_mlp.(up_proj|w3)", kRoutedExpert,
     "up_proj", kExpertStack},
    {"{layer}.(mlp|block_sparse_moe|feed_forward|ffn).switch_mlp.(down_proj|w2)", kRoutedExpert,
     "down_proj", kExpertStack},
    {"{layer}.block_sparse_moe.input_linear", kRoutedExpert, "gate_up_proj", kExpertStack},
    {"{layer}.block_sparse_moe.output_linear", kRoutedExpert, "down_proj", kExpertStack},
    // dbrx keeps all experts of a layer in one 2-D tensor [experts x inner, hidden].
    {"{layer}.ffn.experts.mlp.w1", kRoutedExpert, "gate_proj"},
    {"{layer}.ffn.experts.mlp.v1", kRoutedExpert, "up_proj"},
    {"{layer}.ffn.experts.mlp.w2", kRoutedExpert, "down_proj", kTransposed},
    {"{layer}.(mlp|block_sparse_moe|feed_forward|ffn).experts.*", kRoutedExpert, ""},

    // kimi_k3 runs its experts in a narrower width of their own, between these two.
    {"{layer}.block_sparse_moe.(routed_expert_down_proj|routed_expert_up_proj)", kRoutedExpert, ""},

    // Shared experts.
    {"{layer}.(mlp|block_sparse_moe|feed_forward|ffn).(shared_experts|shared_expert|shared_mlp)."
     "(gate_proj|w1)",
     kSharedExpert, "gate_proj"},
    {"{layer}.(mlp|block_sparse_moe|feed_forward|ffn).(shared_experts|shared_expert|shared_mlp)."
     "(up_proj|w3)",
     kSharedExpert, "up_proj"},
    {"{layer}.(mlp|block_sparse_moe|feed_forward|ffn).(shared_experts|shared_expert|shared_mlp)."
     "(down_proj|w2)",
     kSharedExpert, "down_proj"},
    {"{layer}.(mlp|block_sparse_moe|feed_forward|ffn).(shared_experts|shared_expert|shared_mlp)."
     "gate_up_proj",
     kSharedExpert, "gate_up_proj"},
    {"{layer}.shared_mlp.input_linear", kSharedExpert, "gate_up_proj"},
    {"{layer}.shared_mlp.output_linear", kSharedExpert, "down_proj"},

    // State space and linear attention.
    {"{layer}.(mixer|mamba|ssm|linear_attn).in_proj", kSsm, "in_proj"},
    {"{layer}.(mixer|mamba|ssm|linear_attn).out_proj", kSsm, "out_proj"},
    {"{layer}.(mixer|mamba|ssm|linear_attn).x_proj", kSsm, "x_proj"},
    {"{layer}.(mixer|mamba|ssm|linear_attn).dt_proj", kSsm, "dt_proj"},
    {"{layer}.(mixer|mamba|ssm|linear_attn).*", kSsm, ""},

    // Multi-token prediction layers keep their number; eh_proj and the like stay `other`.
    {"{layer}.embed_tokens", kEmbedding, "embed_tokens"},
    {"{layer}.shared_head.head", kOutput, "lm_head"},

    // GPT-2 stores in x out.
    {"{layer}.attn.c_attn", kAttention, "qkv_proj", kTransposed, "gpt2"},
    {"{layer}.attn.c_proj", kAttention, "o_proj", kTransposed, "gpt2"},
    {"{layer}.mlp.c_fc", kDenseMlp, "up_proj", kTransposed, "gpt2"},
    {"{layer}.mlp.c_proj", kDenseMlp, "down_proj", kTransposed, "gpt2"},
};

constexpr NameRow kGgufNames[] = {
    {"token_embd", kEmbedding, "embed_tokens"},
    {"(position_embd|token_types|per_layer_token_embd)", kEmbedding, ""},
    {"output", kOutput, "lm_head"},

    {"{layer}.attn_q", kAttention, "q_proj"},
    {"{layer}.attn_k", kAttention, "k_proj"},
    {"{layer}.attn_v", kAttention, "v_proj"},
    {"{layer}.attn_output", kAttention, "o_proj"},
    {"{layer}.attn_qkv", kAttention, "qkv_proj"},
    {"{layer}.attn_q_a", kAttention, "q_a_proj"},
    {"{layer}.attn_q_b", kAttention, "q_b_proj"},
    {"{layer}.(attn_kv_a_mqa|attn_kv_a)", kAttention, "kv_a_proj"},
    {"{layer}.attn_kv_b", kAttention, "kv_b_proj"},
    {"{layer}.attn_k_b", kAttention, "k_b_proj", kHeadStack},
    {"{layer}.attn_v_b", kAttention, "v_b_proj", kHeadStack},
    {"{layer}.(attn_gate|attn_sinks|attn_output_a|attn_output_b|attn_kv)", kAttention, ""},
    {"{layer}.indexer.*", kAttention, ""},

    {"{layer}.ffn_up", kDenseMlp, "gate_up_proj", kMatrix, "fused_ffn_up"},
    {"{layer}.ffn_gate", kDenseMlp, "gate_proj"},
    {"{layer}.ffn_up", kDenseMlp, "up_proj"},
    {"{layer}.ffn_down", kDenseMlp, "down_proj"},

    {"{layer}.ffn_gate_inp", kRouter, "router"},
    {"{layer}.ffn_gate_inp_shexp", kRouter, "shared_expert_gate"},
    {"{layer}.exp_probs_b", kRouter, "e_score_correction_bias"},
    {"{layer}.ffn_gate_tid2eid", kRouter, "tid2eid", kLookupTable},

    {"{layer}.ffn_gate_exps", kRoutedExpert, "gate_proj", kExpertStack},
    {"{layer}.ffn_up_exps", kRoutedExpert, "up_proj", kExpertStack},
    {"{layer}.ffn_down_exps", kRoutedExpert, "down_proj", kExpertStack},
    {"{layer}.ffn_gate_up_exps", kRoutedExpert, "gate_up_proj", kExpertStack},
    // Before April 2024: one tensor per expert.
    {"{layer}.ffn_gate.{expert}", kRoutedExpert, "gate_proj"},
    {"{layer}.ffn_up.{expert}", kRoutedExpert, "up_proj"},
    {"{layer}.ffn_down.{expert}", kRoutedExpert, "down_proj"},

    {"{layer}.ffn_gate_shexp", kSharedExpert, "gate_proj"},
    {"{layer}.ffn_up_shexp", kSharedExpert, "up_proj"},
    {"{layer}.ffn_down_shexp", kSharedExpert, "down_proj"},

    {"{layer}.ssm_in", kSsm, "in_proj"},
    {"{layer}.ssm_out", kSsm, "out_proj"},
    {"{layer}.ssm_x", kSsm, "x_proj"},
    {"{layer}.ssm_dt", kSsm, "dt_proj"},
    {"{layer}.(ssm_a|ssm_d|ssm_conv1d|ssm_ba|ssm_beta_alpha|ssm_in_qkvz)", kSsm, ""},

    {"{layer}.nextn.embed_tokens", kEmbedding, "embed_tokens"},
    {"{layer}.nextn.shared_head_head", kOutput, "lm_head"},
};

constexpr FamilyRow kHuggingFaceFamilies[] = {
    {"",
     "llama mistral mistral3 ministral ministral3 mixtral qwen2 qwen2_moe qwen2_vl qwen2_5_vl "
     "qwen3 qwen3_moe qwen3_next qwen3_vl qwen3_vl_moe qwen3_5 qwen3_5_moe qwen3_5_text "
     "qwen3_5_moe_text qwen3_vl_text qwen3_vl_moe_text gemma gemma2 gemma3 gemma3_text gemma3n "
     "gemma4 phi phi3 phimoe deepseek deepseek_v2 deepseek_v3 deepseek_v32 deepseek_v4 "
     "deepseek_vl_v2 kimi_k2 kimi_k25 kimi_k2_5 kimi_k3 kimi_linear kimi_vl mistral4 voxtral glm "
     "glm4 glm4_moe glm4v glm4v_moe glm4_moe_lite glm_moe_dsa olmo olmo2 olmo3 olmoe granite "
     "granitemoe granitemoeshared granitemoehybrid llama4 llama4_text dbrx mamba mamba2 "
     "falcon_mamba jamba minimax minimax_m2 minimax_text_01 ernie4_5 ernie4_5_moe "
     "ernie4_5_vl_moe hunyuan_v1_dense hunyuan_v1_moe hunyuan smollm3 seed_oss stablelm "
     "starcoder2 cohere cohere2 exaone4 nemotron dots1 bailing_moe bailing_moe_v2 longcat_flash "
     "exaone_moe nemotron_h lfm2 lfm2_moe step3p5 afmoe apertus flex_olmo gpt_neox llava"},
    {"gpt_oss", "gpt_oss"},
    {"gpt2", "gpt2"},
};

constexpr FamilyRow kGgufFamilies[] = {
    {"",
     "llama llama4 deci mistral3 mistral4 falcon falcon-h1 baichuan grok gpt2 gptj gptneox mpt "
     "starcoder starcoder2 refact bloom stablelm qwen qwen2 qwen2moe qwen2vl qwen3 qwen3moe "
     "qwen3next qwen3vl qwen3vlmoe qwen35 qwen35moe phi2 phimoe plamo plamo2 codeshell orion "
     "internlm2 minicpm minicpm3 gemma gemma2 gemma3 gemma3n gemma4 mamba mamba2 jamba xverse "
     "command-r cohere2 dbrx olmo olmo2 olmoe openelm arctic deepseek deepseek2 deepseek32 "
     "deepseek4 glm4moe bitnet nemotron nemotron_h exaone exaone4 granite granitemoe "
     "granitehybrid chameleon bailingmoe bailingmoe2 dots1 arcee afmoe ernie4_5 ernie4_5-moe "
     "hunyuan-moe hunyuan-dense smollm3 gpt-oss lfm2 lfm2moe smallthinker llada llada-moe "
     "seed_oss grovemoe apertus minimax-m2 kimi-linear step35"},
    {"fused_ffn_up", "phi3 chatglm glm4"},
};

}  // namespace

std::span<const NameRow> name_rows(Dialect dialect) {
  return dialect == Dialect::kGguf ? std::span<const NameRow>(kGgufNames)
                                   : std::span<const NameRow>(kHuggingFaceNames);
}

std::span<const FamilyRow> family_rows(Dialect dialect) {
  return dialect == Dialect::kGguf ? std::span<const FamilyRow>(kGgufFamilies)
                                   : std::span<const FamilyRow>(kHuggingFaceFamilies);
}

}  // namespace vindex::model
