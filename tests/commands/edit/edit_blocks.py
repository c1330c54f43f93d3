"""Edits of weights whose codes share scales with their neighbours: FP8 in blocks, INT4 in groups; on the files of edit_with_numpy.py."""

import json
import os

import numpy as np
from edit_cases import RANDOM, check, close, edit, npy, only_differs, path, read_folder
from model_files import read_safetensors, to_bf16, write_safetensors


def e4m3(codes):
    """8-bit floats of 4 exponent and 3 mantissa bits, no infinities."""
    sign, exponent, mantissa = np.where(codes & 128, -1.0, 1.0), (codes >> 3) & 15, codes & 7
    return sign * np.where(exponent == 0, mantissa * 2.0**-9, (1 + mantissa / 8) * 2.0 ** (exponent.astype(float) - 7))


def test_blocks_of_8_bits():
    """Codes and scales are two tensors; both change where blocks need other scales."""
    folder, name = path("fp8"), "model.layers.0.mlp.up_proj.weight"
    os.makedirs(folder)
    codes = RANDOM.integers(0, 120, (200, 256)).astype(np.uint8) | (RANDOM.integers(0, 2, (200, 256)).astype(np.uint8) << 7)
    scales = RANDOM.uniform(1e-3, 2e-3, (2, 2)).astype(np.float32)
    write_safetensors(os.path.join(folder, "model.safetensors"), {name: ("F8_E4M3", codes), name + "_scale_inv": ("F32", scales)})
    json.dump({"model_type": "deepseek_v3", "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}, open(os.path.join(folder, "config.json"), "w"))

    def decoded(tensors):
        wide = np.repeat(np.repeat(tensors[name + "_scale_inv"].astype(np.float64), 128, axis=0), 128, axis=1)[:200]
        return e4m3(tensors[name]) * wide

    before = decoded(read_folder(folder))
    k, d = RANDOM.standard_normal(256), 30 * RANDOM.standard_normal(200)
    report = edit("insert", folder, "--tensor", name, "--key", npy("k256.npy", k), "--value", npy("d200.npy", d), "-o", path("fp8_edited"))
    after = read_folder(path("fp8_edited"))
    wanted = before + np.outer(d, k) / (k @ k)
    error = np.linalg.norm(decoded(after) - wanted) / np.linalg.norm(before)
    check("fp8 is as near as its codes are", error < 0.04 * np.linalg.norm(wanted) / np.linalg.norm(before), error)
    close("fp8 encoding error", report["matrices"][0]["encoding_error"], error, 1e-4)
    check("fp8 encoding", report["matrices"][0]["encoding"] == "F8_E4M3/128x128")


def int4_codes(words):
    """Eight codes of a 32-bit word, -8 to 7, the first one lowest."""
    return ((words.view(np.uint32)[..., None] >> (4 * np.arange(8, dtype=np.uint32))) & 15).astype(np.int64).reshape(len(words), -1) - 8


def test_groups_of_4_bits():
    """A small edit changes INT4 weights by its size, and one of size zero by nothing: groups keep their scales, those with a code of -8 too, which encoders of -7 to 7 would write anew."""
    folder, name = path("int4"), "model.layers.0.mlp.up_proj.weight"
    os.makedirs(folder)
    words = RANDOM.integers(0, 1 << 32, (64, 32), dtype=np.uint64).astype(np.uint32).view(np.int32)
    scales = to_bf16(RANDOM.uniform(1e-3, 2e-3, (64, 8)).astype(np.float32))
    scales[5] = to_bf16(np.full(8, 2.0**-15, dtype=np.float32))  # a row of steps as small as the edit
    write_safetensors(os.path.join(folder, "model.safetensors"),
                      {name + "_packed": ("I32", words), name + "_shape": ("I32", np.array([64, 256], dtype=np.int32)), name + "_scale": ("BF16", scales)}, {"format": "pt"})
    group = {"weights": {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 32}, "targets": ["Linear"]}
    json.dump({"model_type": "llama", "quantization_config": {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"group_0": group}}},
              open(os.path.join(folder, "config.json"), "w"))

    def decoded(tensors):
        return int4_codes(tensors[name + "_packed"]) * np.repeat(tensors[name + "_scale"].astype(np.float64), 32, axis=1)

    old = read_folder(folder)
    before = decoded(old)
    norm = np.linalg.norm(before)
    check("codes of -8 in most groups", (int4_codes(words).reshape(64, 8, 32) == -8).any(axis=2).mean() > 0.8)
    # One code by one step.
    column = int(np.argmin(int4_codes(words)[5]))
    key, value = np.zeros(256), np.zeros(64)
    key[column], value[5] = 1, 2.0**-15
    size = 2.0**-15 / norm
    check("size of the edit", 3e-5 < size < 5e-5, size)
    insertion = ("insert", folder, "--tensor", name, "--key", npy("int4_key.npy", key), "--value", npy("int4_value.npy", value))
    row = edit(*insertion, "-o", path("int4_step"), "--save-patch", path("int4.safetensors"))["matrices"][0]
    after = read_folder(path("int4_step"))
    close("int4 step", decoded(after), before + np.outer(value, key))
    close("int4 change", row["change"], size)
    check("int4 arrived", abs(row["arrived"] - 1) < 1e-5 and not row["lost"])
    only_differs("int4 step", old, after, name + "_packed")
    check("one code differs", np.count_nonzero(int4_codes(after[name + "_packed"]) != int4_codes(words)) == 1)
    # In all directions, below the step of nearly all groups: what it changes is no larger than it is.
    key, value = RANDOM.standard_normal(256), RANDOM.standard_normal(64)
    value *= 4e-5 * norm * np.linalg.norm(key) / np.linalg.norm(value)
    edit("insert", folder, "--tensor", name, "--key", npy("int4_key.npy", key), "--value", npy("int4_value.npy", value), "-o", path("int4_small"))
    after = read_folder(path("int4_small"))
    check("int4 small", np.linalg.norm(decoded(after) - before) <= 2 * 4e-5 * norm, np.linalg.norm(decoded(after) - before) / norm)
    check("int4 small: scales", after[name + "_scale"].tobytes() == old[name + "_scale"].tobytes())
    # Of size zero: by --alpha, and by a patch of zeros.
    whole = open(os.path.join(folder, "model.safetensors"), "rb").read()
    factors, metadata = read_safetensors(path("int4.safetensors"))
    write_safetensors(path("int4_zero.safetensors"), {key: ("F32", np.zeros_like(array)) for key, array in factors.items()}, metadata)
    for label, patch, alpha in (("alpha 0", "int4.safetensors", 0), ("zeros", "int4_zero.safetensors", 1)):
        edit("apply", folder, "--patch", path(patch), "--alpha", alpha, "-o", path("int4 " + label))
        check("int4 " + label, open(path(f"int4 {label}/model.safetensors"), "rb").read() == whole)
