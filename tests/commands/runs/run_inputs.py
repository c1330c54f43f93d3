"""Owns what the rows of run_table.py read: small models, dumps and lists, each made in a folder when a row names it."""

import json
import os
import struct

import numpy as np

from model_files import write_safetensors
from test_script import call

PROMPTS = [5, 9, 5, 14, 8, 8, 5, 9, 8, 5, 14, 14]


def noise(seed, *shape):
    return (np.random.default_rng(seed).standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)


def folder_model(path, tensors, **config):
    os.makedirs(path)
    with open(os.path.join(path, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    write_safetensors(os.path.join(path, "model.safetensors"), tensors)


def llama(path, heads=4, hidden=24, neurons=40, layers=3, vocabulary=30):
    """A model with everything that a forward pass needs, two heads for each head of keys, and a vocabulary."""
    size = hidden // heads
    ones = np.ones(hidden, np.float32)
    tensors = {"model.embed_tokens.weight": noise(1, vocabulary, hidden), "lm_head.weight": noise(2, vocabulary, hidden), "model.norm.weight": ones}
    for layer in range(layers):
        at, seed = f"model.layers.{layer}.", 10 * layer + 3
        tensors |= {at + "input_layernorm.weight": ones, at + "post_attention_layernorm.weight": ones,
                    at + "self_attn.q_proj.weight": noise(seed, hidden, hidden), at + "self_attn.o_proj.weight": noise(seed + 1, hidden, hidden),
                    at + "self_attn.k_proj.weight": noise(seed + 2, heads // 2 * size, hidden),
                    at + "self_attn.v_proj.weight": noise(seed + 3, heads // 2 * size, hidden),
                    at + "mlp.gate_proj.weight": noise(seed + 4, neurons, hidden), at + "mlp.up_proj.weight": noise(seed + 5, neurons, hidden),
                    at + "mlp.down_proj.weight": noise(seed + 6, hidden, neurons)}
    folder_model(path, tensors, model_type="llama", hidden_size=hidden, intermediate_size=neurons, num_hidden_layers=layers,
                 num_attention_heads=heads, num_key_value_heads=heads // 2, vocab_size=vocabulary, rms_norm_eps=1e-5, rope_theta=10000.0,
                 hidden_act="silu", tie_word_embeddings=False, max_position_embeddings=4096)
    with open(os.path.join(path, "tokenizer.json"), "w", encoding="utf-8") as file:
        json.dump({"model": {"type": "BPE", "vocab": {f"\u0120w{i}": i for i in range(vocabulary)}, "merges": []},
                   "pre_tokenizer": {"type": "ByteLevel"}}, file)


def wide_llama(path):
    llama(path, heads=8, hidden=256, neurons=1024, layers=2)


def mixture(path):
    write_safetensors(path, {f"model.layers.{layer}.mlp.experts.{expert}.{role}.weight": noise(100 * layer + expert, 48, 40)
                             for layer in range(3) for expert in range(6) for role in ("up_proj", "down_proj")})


def adapter(path):
    at = "base_model.model.model.layers.{}.self_attn.q_proj.lora_"
    os.makedirs(path)
    with open(os.path.join(path, "adapter_config.json"), "w", encoding="utf-8") as file:
        json.dump({"peft_type": "LORA", "r": 3, "lora_alpha": 6}, file)
    write_safetensors(os.path.join(path, "adapter_model.safetensors"),
                      {at.format(layer) + side + ".weight": noise(layer, *shape) for layer in range(3) for side, shape in (("A", (3, 24)), ("B", (24, 3)))})


def imatrix(path):
    """An importance matrix of `llama`, as llama.cpp's older format has it."""
    with open(path, "wb") as file:
        names = [f"blk.{layer}.{name}.weight" for layer in range(3) for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up")]
        file.write(struct.pack("<i", len(names)))
        for number, name in enumerate(names):
            sums = (1 + np.arange(24) * (number + 1) % 7).astype("<f4")
            file.write(struct.pack("<i", len(name)) + name.encode() + struct.pack("<ii", 10, len(sums)) + sums.tobytes())


def dump_of(path, arrays, prompts=True):
    os.makedirs(path)
    rows = len(next(iter(arrays.values())))
    arrays = arrays | {"token_ids": np.arange(rows) * 7 % 101}
    if prompts:
        arrays["prompt"] = np.repeat(np.arange(len(PROMPTS)), PROMPTS).astype(np.int32)
    for name, values in arrays.items():
        np.save(os.path.join(path, name + ".npy"), values)


def hidden(path):
    """More columns than rows: CKA by Gram matrices."""
    dump_of(path, {f"hidden.{layer}": noise(layer, sum(PROMPTS), 130) for layer in range(6)})


def other_hidden(path):
    dump_of(path, {f"hidden.{layer}": noise(layer, sum(PROMPTS), 130)[:, :70] for layer in (1, 3, 4)})


def activations(path):
    arrays = {f"mlp.{layer}": noise(layer, 3000, 40) for layer in range(3)}
    dump_of(path, arrays | {f"router_logits.{layer}": noise(layer + 7, 3000, 16) for layer in range(3)}, prompts=False)


def long_hidden(path):
    """More rows than columns: CKA by features."""
    dump_of(path, {f"hidden.{layer}": noise(layer, 6000, 40) for layer in range(3)}, prompts=False)


def prompts(path):
    lengths, ids = [1, 40, 3, 300, 13, 2, 77, 8], np.random.default_rng(2)
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps({"ids": ids.integers(0, 30, length).tolist()}) + "\n" for length in lengths)


def vectors(*shape):
    return lambda path: np.save(path, noise(sum(shape), *shape))


SYNTH = {"experts": "layer:8x160x96:bf16", "experts_fp8": "layer:8x160x96:fp8", "packed": "layer:12x128x96:int4", "mini_q8": "kimi-k2-mini-q8_0",
         "mini": "kimi-k2-mini"}
MADE = {"llama": llama, "mixture.safetensors": mixture, "wide": wide_llama, "adapter": adapter, "imatrix.dat": imatrix, "hidden": hidden, "other_hidden": other_hidden,
        "activations": activations, "long_hidden": long_hidden, "ids.jsonl": prompts, "direction.npy": vectors(24), "key.npy": vectors(40),
        "keys.npy": vectors(40, 3), "values.npy": vectors(24, 3), "queries.npy": vectors(60, 256)}


def make(program, folder, name):
    """The input `name` in `folder`, of one row. Its path."""
    path = os.path.join(folder, name)
    if os.path.exists(path):
        return path
    if name in SYNTH:
        call(program, "synth", SYNTH[name], "-o", path, "-q")
    elif name == "organs":
        call(program, "organ", "extract", os.path.join(make(program, folder, "mini_q8"), "kimi-k2-mini-Q8_0.gguf"), "-o", path, "-q")
    else:
        MADE[name](path)
    return path
