"""z_modulus and csci of `vindex organ measure` beside numpy's, on planted tensors and on a trained mixture of experts in Q4_K_M.

Usage: scales_with_numpy.py VINDEX DATA FOLDER. Every matrix, stack and 1-D tensor is checked, in the results file and in the JSON
report; runs with other threads and with a budget that has matrices read in slabs must have the same bits."""

import hashlib
import json
import os
import re
import sys

import h5py
import numpy as np

from model_files import from_bf16, gguf_tensors, gguf_values, to_bf16, write_safetensors
from test_script import call, fresh_folder

VINDEX, DATA, FOLDER = sys.argv[1:4]
MIXTURE = os.path.join(DATA, "gguf", "full", "kjv-moe-Q4_K_M.gguf")
COLUMNS = ["z_modulus", "z_modulus_null", "z_modulus_null_sd", "csci", "csci_null_sd", "z_modulus_signflip", "csci_signflip"]
LEAST = 64


def haar(values):
    """The coefficients of the orthonormal transform, level by level, while there are at least 64."""
    rest, levels = np.asarray(values, dtype=np.float64).ravel(), []
    while len(rest) // 2 >= LEAST:
        even = rest[:len(rest) // 2 * 2]
        levels.append((even[0::2] - even[1::2]) / np.sqrt(2))
        rest = (even[0::2] + even[1::2]) / np.sqrt(2)
    return levels


def scales(values):
    """(z_modulus, csci) by their definitions; NaN where they have no value."""
    levels = haar(values)
    if len(levels) < 2 or not np.isfinite(values).all():
        return np.nan, np.nan
    weights, j = np.array([len(level) for level in levels], dtype=float), np.arange(1, len(levels) + 1)
    power = np.array([np.mean(level ** 2) for level in levels])
    slope = np.polyfit(j, -np.log2(power), 1, w=np.sqrt(weights))[0] if power.all() else np.nan
    found, pairs = [], []
    for below, above in zip(levels, levels[1:]):
        child, parent = np.abs(below[:2 * len(above)]), np.repeat(np.abs(above), 2)
        alike = min(np.var(child), np.var(parent)) < 1e-12 * max(np.mean(child ** 2), 1e-300)
        found.append(np.nan if alike else np.corrcoef(child, parent)[0, 1])
        pairs.append(len(child))
    return slope, np.average(found, weights=pairs)


def flipped(values, name):
    """`values` with the signs of Philox4x32-10 in their order, under the key of `name` (tensor#slice)."""
    key, low = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little"), np.uint64(0xFFFFFFFF)
    blocks = np.arange(-(-values.size // 128), dtype=np.uint64)
    words = [blocks & low, blocks >> np.uint64(32), np.zeros_like(blocks), np.zeros_like(blocks)]
    keys = [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * words[0], np.uint64(0xCD9E8D57) * words[2]
        words = [(b >> np.uint64(32)) ^ words[1] ^ np.uint64(keys[0]), b & low, (a >> np.uint64(32)) ^ words[3] ^ np.uint64(keys[1]), a & low]
        keys = [(keys[0] + 0x9E3779B9) & 0xFFFFFFFF, (keys[1] + 0xBB67AE85) & 0xFFFFFFFF]
    bits = np.stack(words, axis=1)[:, :, None] >> np.arange(32, dtype=np.uint64) & np.uint64(1)
    return np.where(bits.ravel()[:values.size] == 1, -values.ravel(), values.ravel())


def figures(values, name):
    """The columns that are no null, by their names."""
    z, csci = scales(values)
    flipped_z, flipped_csci = scales(flipped(values, name)) if np.isfinite(values).all() else (np.nan, np.nan)
    return {"z_modulus": z, "csci": csci, "z_modulus_signflip": flipped_z, "csci_signflip": flipped_csci}


def same(value, wanted):
    return (np.isnan(value) and np.isnan(wanted)) or abs(value - wanted) <= 1e-9 * max(1.0, abs(wanted))


def measure(model, out, *flags):
    call(VINDEX, "organ", "measure", model, "-o", out, "-q", "--null", "signflip", *flags)
    name = os.path.basename(model).removesuffix(".gguf")
    call(VINDEX, "validate", os.path.join(out, name + ".h5"))
    with h5py.File(os.path.join(out, name + ".h5")) as file:
        table = {group: {column: file[group][column][:] for column in COLUMNS} for group in ("matrix", "tensor")}
        table["tensor"]["name"] = file["tensor/name"].asstr()[:]
        table["tensor"]["z_reason"] = file["tensor/z_reason"].asstr()[:]
        table["matrix"]["tensor"] = file["matrix/tensor"].asstr()[:]
        table["matrix"]["slice"] = file["matrix/slice"][:]
    with open(os.path.join(out, name + ".measure.json"), encoding="utf-8") as file:
        return table, json.load(file)


def check_report(table, report):
    """The JSON has what the file has, null for NaN, and of a class the mean with what noise leaves of it."""
    rows = {name: i for i, name in enumerate(table["tensor"]["name"])}
    for tensor in report["tensors"]:
        row = rows[tensor["name"]]
        for column in COLUMNS:
            value = tensor[column]["mean"] if isinstance(tensor[column], dict) else tensor[column]
            assert same(np.nan if value is None else value, table["tensor"][column][row]), (tensor["name"], column, value)
        assert tensor.get("z_reason", "") == table["tensor"]["z_reason"][row]
    two_d = [t for t in report["tensors"] if "theta_qq" not in t]
    of_class = report["groups"]["all"]["csci"]
    rows = [rows[t["name"]] for t in two_d if table["tensor"]["csci"][rows[t["name"]]] == table["tensor"]["csci"][rows[t["name"]]]]
    assert same(of_class["mean"], np.mean(table["tensor"]["csci"][rows]))
    assert same(of_class["null_sd"], np.sqrt(np.sum(table["tensor"]["csci_null_sd"][rows] ** 2)) / len(rows))


def planted():
    random = np.random.default_rng(5)
    layer = "model.layers.{}.mlp.{}.weight".format
    out = {}
    for i, shape in enumerate([(64, 64), (37, 101), (300, 1000), (129, 777), (8, 32), (8, 31), (3, 341), (5, 1023)]):
        out[layer(i, "up_proj")] = random.standard_normal(shape)
    out[layer(0, "down_proj")] = np.sort(random.standard_normal(120000)).reshape(400, 300)
    out[layer(1, "down_proj")] = random.standard_t(3, (400, 300))
    out[layer(2, "down_proj")] = np.ones((40, 30))
    out[layer(3, "down_proj")] = np.repeat(random.standard_normal((40, 150)), 2, axis=1)
    out[layer(4, "down_proj")] = random.standard_normal((40, 150))
    out[layer(4, "down_proj")][3, 4] = np.inf
    out["model.norm.weight"] = random.standard_normal(5000)
    out["model.layers.0.input_layernorm.weight"] = np.ones(600)
    out["model.layers.1.input_layernorm.weight"] = random.standard_normal(255)
    out["model.layers.2.input_layernorm.weight"] = np.arange(256.0)
    out["model.layers.3.input_layernorm.weight"] = np.where(np.arange(600) == 5, np.nan, 1.0)
    # Larger than the smallest budget: read in slabs of rows, and of columns.
    out["model.embed_tokens.weight"] = random.standard_normal((40001, 129))
    out["lm_head.weight"] = random.standard_normal((129, 40001))
    return {name: to_bf16(values) for name, values in out.items()}


def check_planted():
    model = os.path.join(FOLDER, "planted")
    os.makedirs(model)
    tensors = planted()
    write_safetensors(os.path.join(model, "model.safetensors"), {name: ("BF16", bits) for name, bits in tensors.items()})
    table, report = measure(model, os.path.join(FOLDER, "one"), "--threads", "1")
    check_report(table, report)
    reasons = {"model.layers.5.mlp.up_proj.weight": "fewer than 256 weights",
               "model.layers.2.mlp.down_proj.weight": "all neighbours are equal at some scale",
               "model.layers.3.mlp.down_proj.weight": "all neighbours are equal at some scale",
               "model.layers.4.mlp.down_proj.weight": "1 weights are not finite",
               "model.layers.0.input_layernorm.weight": "all neighbours are equal at some scale",
               "model.layers.1.input_layernorm.weight": "fewer than 256 weights",
               "model.layers.2.input_layernorm.weight": "all differences of some scale are equal: no csci",
               "model.layers.3.input_layernorm.weight": "holds values that are not finite"}
    for i, name in enumerate(table["tensor"]["name"]):
        for column, wanted in figures(from_bf16(tensors[name]), name + "#-1").items():
            found = table["tensor"][column][i]
            assert same(found, wanted), (name, column, found, wanted)
        assert table["tensor"]["z_reason"][i] == reasons.get(name, ""), (name, table["tensor"]["z_reason"][i])
    refused = call(VINDEX, "organ", "measure", model, "-o", os.path.join(FOLDER, "none"), "--null", "signflip", "--threads", "2",
                   "--ram-budget", "1kB", code=78).stderr
    least = int(re.search(r"needs (\d+) bytes", refused)[1])
    assert least < 3 * tensors["lm_head.weight"].nbytes, (least, "bits and float32 values are held whole, not in slabs")
    other, _ = measure(model, os.path.join(FOLDER, "other"), "--threads", "2", "--ram-budget", f"{least}B")
    for group in ("matrix", "tensor"):
        for column in COLUMNS:
            assert other[group][column].tobytes() == table[group][column].tobytes(), (group, column)
    call(VINDEX, "organ", "measure", model, "-o", os.path.join(FOLDER, "plain.h5"), "-q")
    with h5py.File(os.path.join(FOLDER, "plain.h5")) as file:
        assert file["tensor/csci"][:].tobytes() == table["tensor"]["csci"].tobytes()
        assert np.isnan(file["tensor/csci_signflip"][:]).all()
    print(len(tensors), "planted tensors as by numpy, whatever the threads and the slabs")


def check_mixture():
    table, report = measure(MIXTURE, os.path.join(FOLDER, "mixture"))
    check_report(table, report)
    weights = {name: gguf_values(tensor) for name, tensor in gguf_tensors(MIXTURE).items()}
    matrices = 0
    for i, name in enumerate(table["tensor"]["name"]):
        values = weights[name]
        rows = np.flatnonzero(table["matrix"]["tensor"] == name)
        slices = [values] if values.ndim < 3 else list(values)
        keys = ["#-1"] if values.ndim < 3 else [f"#{place}" for place in range(len(values))]
        wanted = [figures(one, name + key) for one, key in zip(slices, keys)]
        for column in wanted[0]:
            for row in rows:
                place = max(0, table["matrix"]["slice"][row])
                assert same(table["matrix"][column][row], wanted[place][column]), (name, column, place)
            assert same(table["tensor"][column][i], np.mean([one[column] for one in wanted])), (name, column)
        matrices += len(rows)
        if len(rows) > 1:
            assert same(table["tensor"]["csci_null_sd"][i], table["matrix"]["csci_null_sd"][rows[0]] / np.sqrt(len(rows)))
    assert matrices > 100
    print(matrices, "matrices of a mixture as by numpy, and the means of their stacks")


fresh_folder(FOLDER)
check_planted()
if os.path.exists(MIXTURE):
    check_mixture()
else:
    print("the mixture was left out:", MIXTURE, "not found")
