"""`vindex compare` of a Hugging Face model with GGUF files of it: rows of q and k that a converter permuted, kv_b_proj split into heads, experts in stacks.

Usage: compare_containers.py VINDEX DATA FOLDER. The trained mixture is left out where DATA is."""

import glob
import json
import os
import subprocess
import sys

import gguf
import h5py
import numpy as np

from model_files import finish_gguf, write_safetensors
from test_script import call

VINDEX, DATA, FOLDER = sys.argv[1:4]
HEADS, KV_HEADS, HEIGHT, WIDTH = 4, 2, 8, 24


def permuted(weights, heads):
    """As convert_hf_to_gguf.py permutes q and k of the llama architecture."""
    return np.ascontiguousarray(weights.reshape(heads, 2, weights.shape[0] // heads // 2, weights.shape[1]).swapaxes(1, 2).reshape(weights.shape))


def compared(a, b, name, more=(), check=True):
    out = os.path.join(FOLDER, name + ".h5")
    run = subprocess.run([VINDEX, "compare", a, b, "-o", out, "--restart", *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if check:
        assert run.returncode == 0, run.stderr
        call(VINDEX, "validate", out)
    with h5py.File(out, "r") as file:
        return {group + "/" + name: file[group][name].asstr()[()] if file[group][name].dtype.kind == "O" else file[group][name][()]
                for group in ("pair", "unpaired") for name in file[group]}, run


def expect(good, what):
    if not good:
        print("FAILED:", what)
    return 0 if good else 1


def llama():
    random = np.random.default_rng(1)
    made = {name: random.standard_normal((rows, WIDTH)).astype(np.float32)
            for name, rows in {"q_proj": HEADS * HEIGHT, "k_proj": KV_HEADS * HEIGHT, "v_proj": KV_HEADS * HEIGHT}.items()}
    folder = os.path.join(FOLDER, "llama")
    os.makedirs(folder, exist_ok=True)
    write_safetensors(os.path.join(folder, "model.safetensors"),
                      {f"model.layers.0.self_attn.{name}.weight": values for name, values in made.items()})
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump({"model_type": "llama", "num_hidden_layers": 1, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS}, file)
    path = os.path.join(FOLDER, "llama.gguf")
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_tensor("blk.0.attn_q.weight", permuted(made["q_proj"], HEADS))
    writer.add_tensor("blk.0.attn_k.weight", permuted(made["k_proj"], KV_HEADS))
    writer.add_tensor("blk.0.attn_v.weight", made["v_proj"])
    finish_gguf(writer)
    failures = 0
    for a, b, words in ((folder, path, "rotated pairs to halves"), (path, folder, "halves to rotated pairs")):
        pair, _ = compared(a, b, "llama", ["--delta", "--k", "3"])
        for i, role in enumerate(pair["pair/role"]):
            is_turned = role != "v_proj"
            failures += expect(pair["pair/same_bits"][i] == 1 and pair["pair/cosine"][i] == 1.0, f"{role}: equal weights")
            failures += expect((words in pair["pair/reason"][i]) == is_turned, f"{role}: {pair['pair/reason'][i]}")
            failures += expect(pair["pair/delta_spectral_norm"][i] == 0.0 and "delta: zero matrix" in pair["pair/reason"][i], f"{role}: no change")
            failures += expect(abs(pair["pair/overlap_left"][i] - 1) < 1e-6 and pair["pair/angles_left"][i].max() < 0.01, f"{role}: left subspaces")
    # Unrelated weights stay in the order that they are stored in.
    other = os.path.join(FOLDER, "other.safetensors")
    write_safetensors(other, {f"model.layers.0.self_attn.{name}.weight": random.standard_normal(values.shape).astype(np.float32)
                              for name, values in made.items()})
    pair, _ = compared(path, other, "unrelated")
    failures += expect(all(text == "" for text in pair["pair/reason"]), f"unrelated weights: {pair['pair/reason']}")
    return failures


def whole(tensors, name):
    """kv_b_proj of a layer out of its heads."""
    key, value = tensors[name.replace("kv_b", "k_b")], tensors[name.replace("kv_b", "v_b")]
    parts = [part for head in range(len(key)) for part in (key[head].T, value[head])]
    return np.concatenate(parts)


def mixture():
    original, same = os.path.join(DATA, "moe"), os.path.join(DATA, "moe", "kjv-moe-7.6M-BF16.gguf")
    small = os.path.join(DATA, "gguf", "full", "kjv-moe-Q4_K_M.gguf")
    if not os.path.exists(small) or not glob.glob(os.path.join(original, "*.safetensors")):
        print("left out: no trained mixture in", DATA)
        return 0
    folder = os.path.join(FOLDER, "moe")  # the folder holds both containers
    os.makedirs(folder, exist_ok=True)
    for path in glob.glob(os.path.join(original, "*")):
        if not path.endswith(".gguf") and not os.path.exists(os.path.join(folder, os.path.basename(path))):
            os.symlink(path, os.path.join(folder, os.path.basename(path)))
    failures = 0
    for a, b in ((folder, same), (same, folder)):
        pair, _ = compared(a, b, "same")
        roles = list(pair["pair/role"])
        failures += expect(len(roles) == 109 and roles.count("kv_b_proj") == 4, f"109 pairs, 4 kv_b_proj: {len(roles)}, {roles.count('kv_b_proj')}")
        failures += expect(len(pair["unpaired/tensor"]) == 0, f"nobody is alone: {pair['unpaired/tensor'][:4]}")
        failures += expect(np.all(pair["pair/same_bits"] == 1) and np.all(pair["pair/cosine"] == 1.0), "every decoded weight is equal")
    tensors = {}
    for label, path in (("BF16", same), ("Q4_K_M", small)):
        tensors[label] = {}
        for tensor in gguf.GGUFReader(path).tensors:
            values = np.asarray(gguf.quants.dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
            tensors[label][tensor.name] = values.reshape(tuple(int(n) for n in reversed(tensor.shape)))
    pair, _ = compared(small, folder, "quantised", ["--delta"])
    worst = 0.0
    for i, name in enumerate(pair["pair/tensor_a"]):
        if pair["pair/role"][i] == "kv_b_proj":
            a, b = (whole(tensors[label], name.split(" + ")[0].replace("k_b", "kv_b")) for label in ("Q4_K_M", "BF16"))
        else:
            a, b = tensors["Q4_K_M"][name], tensors["BF16"][name]
            if pair["pair/slice"][i] >= 0:
                a, b = a[pair["pair/slice"][i]], b[pair["pair/slice"][i]]
        a, b = a.astype(np.float64), b.astype(np.float64)
        wanted = np.linalg.norm(b - a) / np.linalg.norm(a)
        worst = max(worst, abs(pair["pair/relative_error"][i] - wanted))
        if pair["pair/same_bits"][i] == 0:
            delta = np.linalg.norm((b - a).astype(np.float32), 2)
            failures += expect(abs(pair["pair/delta_spectral_norm"][i] / delta - 1) < 1e-5, f"{name}: norm of the difference")
    failures += expect(len(pair["pair/role"]) == 109 and worst < 1e-9, f"errors of Q4_K_M are numpy's, to {worst:.1e}")
    return failures


def main():
    os.makedirs(FOLDER, exist_ok=True)
    failures = llama() + mixture()
    print("containers compared,", failures, "failures")
    return 0 if failures == 0 else 1


sys.exit(main())
