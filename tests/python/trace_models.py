"""Owns the small random decoders of trace_test.py: one configuration for each rule of a family, with weights large enough that
attention is not uniform and norms and biases that are not the neutral ones of a fresh model, which would hide a forgotten one."""

import json

import torch
import transformers as t

SIZES = dict(vocab_size=97, hidden_size=48, intermediate_size=80, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2)
# Beyond the original context of every rope that has one, within it, and a single token.
LENGTHS = (1, 40, 5, 24, 13)
# Several blocks of keys and queries, a window of more than one.
LONG_LENGTHS = (1500, 2, 700)
EXPERTS = dict(num_experts_per_tok=2)
LATENT = dict(num_key_value_heads=4, kv_lora_rank=20, q_lora_rank=24, qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=10,
              n_routed_experts=8, moe_intermediate_size=28, first_k_dense_replace=1, **EXPERTS)


def rope(kind, theta=10000.0, **parameters):
    return dict(rope_parameters={"rope_type": kind, "rope_theta": theta, **parameters})


def llama(**more):
    return t.LlamaForCausalLM, t.LlamaConfig(**{**SIZES, "head_dim": 16, **more})


def qwen2_moe(**more):
    return t.Qwen2MoeForCausalLM, t.Qwen2MoeConfig(**{**SIZES, "num_experts": 6, "moe_intermediate_size": 28, "decoder_sparse_step": 1,
                                                      "shared_expert_intermediate_size": 36, **EXPERTS, **more})


def qwen3_moe(**more):
    return t.Qwen3MoeForCausalLM, t.Qwen3MoeConfig(**{**SIZES, "head_dim": 16, "num_experts": 6, "moe_intermediate_size": 28,
                                                      "decoder_sparse_step": 1, **EXPERTS, **more})


def gemma2(**more):
    return t.Gemma2ForCausalLM, t.Gemma2Config(**{**SIZES, "num_hidden_layers": 4, "head_dim": 16, "sliding_window": 7, "query_pre_attn_scalar": 16,
                                                  "attn_logit_softcapping": 3.0, "final_logit_softcapping": 4.0, **more})


def gemma3(**more):
    """Six layers of a window to one of the whole context, which turns by another base, stretched."""
    both = {"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}
    return t.Gemma3ForCausalLM, t.Gemma3TextConfig(**{**SIZES, "num_hidden_layers": 7, "head_dim": 16, "sliding_window": 7,
                                                      "query_pre_attn_scalar": 16, "rope_parameters": both, **more})


def deepseek_v2(**more):
    return t.DeepseekV2ForCausalLM, t.DeepseekV2Config(**{**SIZES, **LATENT, "n_shared_experts": 2, "routed_scaling_factor": 2.0, **more})


def deepseek_v3(**more):
    return t.DeepseekV3ForCausalLM, t.DeepseekV3Config(**{**SIZES, **LATENT, "n_shared_experts": 1, "n_group": 4, "topk_group": 2,
                                                          "routed_scaling_factor": 2.5, **more})


def phi3(**more):
    # original_max_position_embeddings is a key of its own beside the rope's.
    return t.Phi3ForCausalLM, t.Phi3Config(**{**SIZES, **more})


def gpt_oss(**more):
    return t.GptOssForCausalLM, t.GptOssConfig(**{**SIZES, "head_dim": 16, "num_local_experts": 6, "num_hidden_layers": 4,
                                                  "sliding_window": 7, **EXPERTS, **more})


# Bases and contexts for which the ramp of YaRN has a width, and the bounds that rounding moves.
YARN = dict(theta=30.0, factor=4.0, original_max_position_embeddings=32, beta_fast=2.0, beta_slow=1.0)
LONG = dict(short_factor=[1.0, 1.05, 1.2, 1.5, 1.8, 2.0], long_factor=[1.0, 1.4, 2.0, 3.0, 5.0, 8.0],
            original_max_position_embeddings=16, factor=4.0)


def families():
    """Name -> (class, configuration)."""
    return {
        "llama": llama(),
        "llama_tied": llama(tie_word_embeddings=True, rms_norm_eps=1e-5, num_key_value_heads=4),
        "llama_biases": llama(attention_bias=True, mlp_bias=True, num_key_value_heads=1),
        "llama_linear": llama(**rope("linear", factor=3.0)),
        "llama_llama3": llama(**rope("llama3", theta=500.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                     original_max_position_embeddings=32)),
        "llama_dynamic": llama(max_position_embeddings=16, **rope("dynamic", factor=4.0)),
        "llama_yarn": llama(**rope("yarn", **YARN)),
        "mistral": (t.MistralForCausalLM, t.MistralConfig(**SIZES, head_dim=16, sliding_window=8)),
        "mistral_long": (t.MistralForCausalLM, t.MistralConfig(**{**SIZES, "max_position_embeddings": 2048}, head_dim=16, sliding_window=650)),
        "ministral": (t.MinistralForCausalLM, t.MinistralConfig(**SIZES, head_dim=16, sliding_window=8, layer_types=[
            "sliding_attention", "full_attention", "sliding_attention"])),
        "ministral3": (t.Ministral3ForCausalLM, t.Ministral3Config(**SIZES, head_dim=16, **rope(
            "yarn", **YARN, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.4))),
        "mixtral": (t.MixtralForCausalLM, t.MixtralConfig(**SIZES, num_local_experts=5, **EXPERTS)),
        "qwen2": (t.Qwen2ForCausalLM, t.Qwen2Config(**SIZES)),
        "qwen2_window": (t.Qwen2ForCausalLM, t.Qwen2Config(**SIZES, use_sliding_window=True, sliding_window=6, max_window_layers=1,
                                                           tie_word_embeddings=True)),
        "qwen2_moe": qwen2_moe(),
        "qwen2_moe_mixed": qwen2_moe(mlp_only_layers=[0], norm_topk_prob=True),
        "qwen3": (t.Qwen3ForCausalLM, t.Qwen3Config(**SIZES, head_dim=16)),
        "qwen3_moe": qwen3_moe(norm_topk_prob=True),
        "qwen3_moe_every_other": qwen3_moe(decoder_sparse_step=2),
        "gemma": (t.GemmaForCausalLM, t.GemmaConfig(**SIZES, head_dim=16, tie_word_embeddings=True)),
        "gemma2": gemma2(),
        "gemma2_scale": gemma2(query_pre_attn_scalar=20),
        "gemma3_text": gemma3(),
        "gemma3": gemma3_with_vision(),
        "gemma3_text_scale": gemma3(query_pre_attn_scalar=20, tie_word_embeddings=False),
        "phi3": phi3(),
        "phi3_partial": phi3(**rope("default", partial_rotary_factor=0.5)),
        "phi3_longrope": phi3(original_max_position_embeddings=16, **rope("longrope", **LONG)),
        "deepseek_v2": deepseek_v2(topk_method="greedy"),
        "deepseek_v2_plain_q_groups": deepseek_v2(q_lora_rank=None, topk_method="group_limited_greedy", n_group=4, topk_group=1),
        "deepseek_v3": deepseek_v3(),
        # The two norms of latents keep 1e-6 there.
        "deepseek_v3_eps": deepseek_v3(rms_norm_eps=1e-2),
        "deepseek_v3_yarn": deepseek_v3(**rope("yarn", **YARN, mscale=1.0, mscale_all_dim=0.8)),
        "kimi_k2": deepseek_v3(n_group=1, topk_group=1, **rope("yarn", **YARN, mscale=1.0, mscale_all_dim=1.0)),
        "gpt_oss": gpt_oss(**rope("yarn", **YARN, truncate=False)),
        "gpt_oss_long": gpt_oss(max_position_embeddings=2048, num_key_value_heads=1, **rope("yarn", **YARN, truncate=False)),
        "gpt_oss_truncated": gpt_oss(**rope("yarn", **YARN, truncate=True)),
        "olmoe": (t.OlmoeForCausalLM, t.OlmoeConfig(**SIZES, num_experts=6, **EXPERTS)),
        "olmoe_normalised": (t.OlmoeForCausalLM, t.OlmoeConfig(**SIZES, num_experts=6, norm_topk_prob=True, clip_qkv=1.5, **EXPERTS)),
        "olmo2": (t.Olmo2ForCausalLM, t.Olmo2Config(**SIZES)),
        "granite": (t.GraniteForCausalLM, t.GraniteConfig(**SIZES, embedding_multiplier=3.0, residual_multiplier=0.4, attention_multiplier=0.15,
                                                          logits_scaling=5.0)),
        "granitemoe": (t.GraniteMoeForCausalLM, t.GraniteMoeConfig(**SIZES, num_local_experts=6, embedding_multiplier=3.0, residual_multiplier=0.4,
                                                                   attention_multiplier=0.15, logits_scaling=5.0, **EXPERTS)),
    }


# As safetensors and as GGUF: what the keys of GGUF hold. Of gpt-oss they do not hold `truncate`, which its models set to false.
IN_GGUF = {"llama", "llama_tied", "llama_linear", "llama_llama3", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "gemma", "gemma2",
           "gemma3_text", "phi3", "phi3_longrope", "deepseek_v2", "deepseek_v3", "kimi_k2", "gpt_oss", "olmoe", "olmo2", "granite",
           "granitemoe"}


def gemma3_with_vision():
    """The text part of a model that sees, whose keys and tensors lie a level deeper."""
    make, text = gemma3()
    vision = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=16, patch_size=8)
    return t.Gemma3ForConditionalGeneration, t.Gemma3Config(text_config=text.to_dict(), vision_config=vision, mm_tokens_per_image=4,
                                                            image_token_index=96, boi_token_index=95, eoi_token_index=94)


def encoded():
    """Name -> (class, configuration): what trace_encoded.py gives another form."""
    return {"gpt_oss": gpt_oss(hidden_size=64, intermediate_size=96, **rope("yarn", **YARN, truncate=False)),
            "deepseek_v3": deepseek_v3()}


def is_gemma(model):
    return model.config.model_type.startswith("gemma")


def law(model, name, shape):
    """(mean, standard deviation) of a tensor's values: weights of variance 2.25 / inputs, norms 0.3 about one, biases of 0.5: every
    term of a layer counts."""
    last = name.split(".")[-1]
    if "bias" in last:
        return 0.0, 0.5
    if last == "sinks":
        return 0.0, 1.0
    if len(shape) == 1:
        return 0.0 if is_gemma(model) else 1.0, 0.3
    if "embed_tokens" in name:
        return 0.0, 1.0 / embedding_factor(model)
    return 0.0, 1.5 / inputs_of(model, shape) ** 0.5


def randomise(model, seed):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, values in [*model.named_parameters(), *model.named_buffers()]:
            if "rotary" in name or "inv_freq" in name or name.endswith("embed_scale"):
                continue
            mean, spread = law(model, name, values.shape)
            values.copy_(mean + torch.randn(values.shape, generator=generator) * spread)


def embedding_factor(model):
    """What the model multiplies embeddings by: rows are made that much smaller, or layers would hardly change the stream."""
    config = model.config.get_text_config()
    return config.hidden_size ** 0.5 if is_gemma(model) else getattr(config, "embedding_multiplier", 1.0)


def inputs_of(model, shape):
    """Columns of a product's weight as it is applied: gpt-oss keeps its experts the other way round."""
    if len(shape) == 3 and model.config.model_type == "gpt_oss":
        return shape[1]
    return shape[-1]


def made(make, config, seed=17):
    torch.manual_seed(seed)
    model = make(config).float().eval()
    randomise(model, seed)
    model.tie_weights()
    return model


def prompts(name="", vocabulary=90, seed=5):
    lengths = LONG_LENGTHS if name.endswith("_long") else LENGTHS
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(3, vocabulary, (length,), generator=generator).tolist() for length in lengths]


def rename_type(folder, model_type, architecture):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config["model_type"], config["architectures"] = model_type, [architecture]
    path.write_text(json.dumps(config))


def older_form(config):
    """config.json as transformers wrote it before version 5, and as most published models have it: rope_theta and rope_scaling in the place of
    rope_parameters, torch_dtype in that of dtype."""
    config = dict(config)
    if "dtype" in config:
        config["torch_dtype"] = config.pop("dtype")
    if "text_config" in config:
        return {**config, "text_config": older_form(config["text_config"])}
    parameters = config.pop("rope_parameters")
    if "full_attention" in parameters:
        whole, local = dict(parameters["full_attention"]), parameters["sliding_attention"]
        config["rope_local_base_freq"] = local["rope_theta"]
        config["sliding_window_pattern"] = 6
        config.pop("layer_types", None)
        parameters = whole
    if config["model_type"] in ("gemma2", "gpt_oss") or config["model_type"].startswith("qwen"):
        config.pop("layer_types", None)  # which layers have a window follows from the family
    parameters = dict(parameters)
    config["rope_theta"] = parameters.pop("rope_theta")
    if "partial_rotary_factor" in parameters:
        config["partial_rotary_factor"] = parameters.pop("partial_rotary_factor")
    kind = parameters.pop("rope_type")
    if config["model_type"] == "phi3":  # its own files say `type`, and the original context outside
        parameters.pop("original_max_position_embeddings", None)
        parameters.pop("factor", None)
        config["rope_scaling"] = None if kind == "default" else {"type": kind, **parameters}
    elif config["model_type"].startswith(("deepseek", "kimi")):
        config["rope_scaling"] = None if kind == "default" else {"type": kind, **parameters}
    else:
        config["rope_scaling"] = None if kind == "default" else {"rope_type": kind, **parameters}
    return config
