"""Owns the GGUF form of a Hugging Face folder of trace_models.py, in float32: names from gguf's own map, keys and the changes of
tensors as llama.cpp's convert_hf_to_gguf.py makes them (rows of queries and keys permuted where the architecture turns neighbours,
gemma's norms plus one, experts of a layer in one tensor, the factors of llama 3's rope in a tensor, DeepSeek's kv_b whole or split)."""

import json
import re

import gguf
import numpy as np

ARCHITECTURES = {"llama": "llama", "mistral": "llama", "mixtral": "llama", "qwen2": "qwen2", "qwen2_moe": "qwen2moe", "qwen3": "qwen3",
                 "qwen3_moe": "qwen3moe", "gemma": "gemma", "gemma2": "gemma2", "gemma3_text": "gemma3", "phi3": "phi3", "deepseek_v2": "deepseek2",
                 "deepseek_v3": "deepseek2", "kimi_k2": "deepseek2", "gpt_oss": "gpt-oss", "olmoe": "olmoe", "olmo2": "olmo2", "granite": "granite",
                 "granitemoe": "granitemoe"}
# Rope turns pairs of neighbours there: convert_hf_to_gguf.py permutes, llama.cpp's llama_model_rope_type() says NORM.
NEIGHBOURS = {"llama", "granite", "granitemoe"}


def permute(rows, heads):
    """LlamaModel.permute of convert_hf_to_gguf.py: component i of the first half of a head and of the second become neighbours."""
    return rows.reshape(heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def stacked(tensors):
    """Per-expert tensors `...experts.N.PART` as one `...experts.PART` [experts, rows, columns]."""
    found, groups = {}, {}
    for name, values in tensors.items():
        part = re.fullmatch(r"(.*\.experts)\.(\d+)\.(.*)", name)
        if part:
            groups.setdefault(f"{part[1]}.{part[3]}", {})[int(part[2])] = values
        else:
            found[name] = values
    for name, experts in groups.items():
        found[name] = np.stack([experts[number] for number in range(len(experts))])
    return found


def per_family(name, values, config, arch, split_kv):
    """(name as gguf's map knows it, values) of one tensor of the folder."""
    head_count, groups = config["num_attention_heads"], config["num_key_value_heads"]
    if arch in NEIGHBOURS and re.search(r"self_attn\.[qk]_proj\.", name):
        yield name, permute(values, head_count if ".q_proj." in name else groups)
    elif arch.startswith("gemma") and name.endswith("norm.weight"):
        yield name, values + 1
    elif arch == "gpt-oss" and ".experts." in name:
        bias = ".bias" if name.endswith("_bias") else ".weight"
        stem = name.removesuffix("_bias")
        turned = values if bias == ".bias" else values.swapaxes(1, 2)
        if stem.endswith("gate_up_proj"):
            for part, first in (("gate_proj", 0), ("up_proj", 1)):
                yield stem.replace("gate_up_proj", part) + bias, turned[:, first::2]
        else:
            yield stem + bias, turned
    elif arch == "granitemoe" and name.endswith("input_linear.weight"):
        for part, half in zip(("gate", "up"), np.split(values, 2, axis=1)):
            yield name.split(".block_sparse_moe")[0] + f".block_sparse_moe.experts.{'w1' if part == 'gate' else 'w3'}.weight", half
    elif arch == "deepseek2" and name.endswith("e_score_correction_bias"):
        yield name.replace("_bias", ".bias"), values
    elif arch == "deepseek2" and name.endswith("kv_b_proj.weight") and split_kv:
        nope = config["qk_nope_head_dim"]
        of_heads = values.reshape(head_count, nope + config["v_head_dim"], -1)
        yield name.replace("kv_b_proj", "k_b_proj"), of_heads[:, :nope].swapaxes(1, 2)
        yield name.replace("kv_b_proj", "v_b_proj"), of_heads[:, nope:]
    else:
        yield name, values


def llama3_factors(config, dims):
    """rope_freqs.weight: what llama.cpp divides each frequency by."""
    rope = config["rope_parameters"]
    frequencies = rope["rope_theta"] ** -(np.arange(0, dims, 2, dtype=np.float64) / dims)
    waves = 2 * np.pi / frequencies
    long, short = (rope["original_max_position_embeddings"] / rope[f"{side}_freq_factor"] for side in ("low", "high"))
    smooth = (rope["original_max_position_embeddings"] / waves - rope["low_freq_factor"]) / (rope["high_freq_factor"] - rope["low_freq_factor"])
    return np.where(waves < short, 1.0, np.where(waves > long, rope["factor"], 1 / ((1 - smooth) / rope["factor"] + smooth))).astype(np.float32)


def add_rope(writer, config, arch, dims):
    rope = config["rope_parameters"]
    rope = rope.get("full_attention", rope)
    writer.add_rope_dimension_count(dims)
    writer.add_rope_freq_base(rope["rope_theta"])
    kind = rope["rope_type"]
    if kind == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])
    elif kind == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        writer.add_rope_scaling_yarn_beta_fast(rope["beta_fast"])
        writer.add_rope_scaling_yarn_beta_slow(rope["beta_slow"])
        if arch == "deepseek2":
            writer.add_rope_scaling_yarn_log_mul(0.1 * rope["mscale_all_dim"])
    elif kind == "longrope":
        original = rope["original_max_position_embeddings"]
        writer.add_rope_scaling_orig_ctx_len(original)
        writer.add_rope_scaling_attn_factors(float(np.sqrt(1 + np.log(config["max_position_embeddings"] / original) / np.log(original))))
        writer.add_tensor("rope_factors_long.weight", np.array(rope["long_factor"], dtype=np.float32))
        writer.add_tensor("rope_factors_short.weight", np.array(rope["short_factor"], dtype=np.float32))
    elif kind == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_factors(config, dims))
    else:
        assert kind == "default", kind


def add_experts(writer, config, arch):
    count = config.get("num_local_experts") or config.get("num_experts") or config.get("n_routed_experts")
    if not count:
        return
    writer.add_expert_count(count)
    writer.add_expert_used_count(config["num_experts_per_tok"])
    if "moe_intermediate_size" in config:
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    elif arch == "gpt-oss":
        writer.add_expert_feed_forward_length(config["intermediate_size"])
    if arch == "qwen2moe":
        writer.add_expert_shared_feed_forward_length(config["shared_expert_intermediate_size"])
    if arch == "deepseek2":
        v3 = config["model_type"] != "deepseek_v2"
        writer.add_leading_dense_block_count(config["first_k_dense_replace"])
        writer.add_expert_shared_count(config["n_shared_experts"])
        writer.add_expert_weights_scale(config["routed_scaling_factor"])
        writer.add_expert_weights_norm(bool(config["norm_topk_prob"]))
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID if v3 else gguf.ExpertGatingFuncType.SOFTMAX)
        if v3:
            writer.add_expert_group_count(config["n_group"])
            writer.add_expert_group_used_count(config["topk_group"])


def add_attention(writer, config, arch, split_kv):
    """Keys of attention; the number of components that turn."""
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(1 if split_kv else config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    if arch == "deepseek2":
        nope, turned, latent = config["qk_nope_head_dim"], config["qk_rope_head_dim"], config["kv_lora_rank"]
        if config["q_lora_rank"]:
            writer.add_q_lora_rank(config["q_lora_rank"])
        writer.add_kv_lora_rank(latent)
        writer.add_key_length(latent + turned if split_kv else nope + turned)
        writer.add_value_length(latent if split_kv else config["v_head_dim"])
        if split_kv:
            writer.add_key_length_mla(nope + turned)
            writer.add_value_length_mla(config["v_head_dim"])
        return turned
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    if config.get("sliding_window") and (arch in ("gemma2", "gemma3", "gpt-oss") or config["model_type"] == "mistral"):
        writer.add_sliding_window(config["sliding_window"])
    if arch == "gemma2":
        writer.add_attn_logit_softcapping(config["attn_logit_softcapping"])
        writer.add_final_logit_softcapping(config["final_logit_softcapping"])
    if arch.startswith("granite"):
        writer.add_attention_scale(config["attention_multiplier"])
        writer.add_embedding_scale(config["embedding_multiplier"])
        writer.add_residual_scale(config["residual_multiplier"])
        writer.add_logit_scale(config["logits_scaling"])
    if config.get("clip_qkv"):
        writer.add_clamp_kqv(config["clip_qkv"])
    return int(head_dim * config["rope_parameters"].get("partial_rotary_factor", 1.0))


def write(folder, tensors, path, split_kv=False):
    """Writes `path` from the folder's config.json and its tensors, float32 by name."""
    config = json.loads((folder / "config.json").read_text())
    arch = ARCHITECTURES[config["model_type"]]
    writer = gguf.GGUFWriter(path, arch)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_vocab_size(config["vocab_size"])
    add_rope(writer, config, arch, add_attention(writer, config, arch, split_kv))
    add_experts(writer, config, arch)
    kinds = {name: kind for kind, name in gguf.MODEL_ARCH_NAMES.items()}
    names = gguf.get_tensor_name_map(kinds[arch], config["num_hidden_layers"])
    for name, values in stacked(tensors).items():
        for known, changed in per_family(name, values, config, arch, split_kv):
            target = names.get_name(known, try_suffixes=(".weight", ".bias"))
            assert target, known
            target += ".weight" if target.endswith("attn_sinks") else ""
            writer.add_tensor(target, np.ascontiguousarray(changed.squeeze(0) if target.endswith("ffn_gate_inp_shexp.weight") else changed))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def dequantised(paths):
    """Name -> float32 values, by gguf's own decoders."""
    tensors = {}
    for path in paths:
        for tensor in gguf.GGUFReader(path).tensors:
            tensors[tensor.name] = gguf.dequantize(tensor.data, tensor.tensor_type).reshape(tuple(reversed(tensor.shape.tolist())))
    return tensors


def deepseek_tensors(tensors, layers, heads):
    """Tensors of a deepseek2 file with split kv_b under the names that transformers loads."""
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.DEEPSEEK2, layers)
    plain = ["model.embed_tokens", "model.norm", "lm_head"]
    for layer in range(layers):
        block = f"model.layers.{layer}."
        plain += [block + part for part in ("input_layernorm", "post_attention_layernorm", "mlp.gate")]
        plain += [f"{block}self_attn.{part}" for part in ("q_a_proj", "q_a_layernorm", "q_b_proj", "q_proj", "kv_a_proj_with_mqa", "kv_a_layernorm", "o_proj")]
        plain += [f"{block}{part}_proj" for part in ("mlp.gate", "mlp.up", "mlp.down", "mlp.shared_experts.gate", "mlp.shared_experts.up",
                                                     "mlp.shared_experts.down")]
    found = {}
    for name in plain:
        stored = names.get_name(name) + ".weight"
        if stored in tensors:
            found[name + ".weight"] = tensors.pop(stored)
    for layer in range(layers):
        block, stored = f"model.layers.{layer}.", f"blk.{layer}."
        keys, values = (tensors.pop(f"{stored}attn_{part}_b.weight") for part in "kv")
        found[block + "self_attn.kv_b_proj.weight"] = np.concatenate([keys.swapaxes(1, 2), values], axis=1).reshape(
            heads * (keys.shape[2] + values.shape[1]), -1)
        if f"{stored}exp_probs_b.bias" in tensors:
            found[block + "mlp.gate.e_score_correction_bias"] = tensors.pop(f"{stored}exp_probs_b.bias")
        for part in ("gate", "up", "down"):
            for number, expert in enumerate(tensors.pop(f"{stored}ffn_{part}_exps.weight", ())):
                found[f"{block}mlp.experts.{number}.{part}_proj.weight"] = expert
    assert not tensors, list(tensors)
    return {name: np.ascontiguousarray(values) for name, values in found.items()}
