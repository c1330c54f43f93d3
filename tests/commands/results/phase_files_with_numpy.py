"""Measures a small dump by activations, cka and routing, shows the files and joins them in phase-json, all through the
program.

Usage: phase_files_with_numpy.py VINDEX FOLDER."""

import json
import os
import sys


import h5py
import numpy as np

from test_script import call, fresh_folder

VINDEX, FOLDER = sys.argv[1:3]
fresh_folder(FOLDER)
os.makedirs(FOLDER + "/dump")
TOKENS, HIDDEN, NEURONS, EXPERTS, LAYERS = 96, 12, 20, 8, 3


def vindex(*arguments, code=0):
    done = call(VINDEX, *arguments, code=code, cwd=FOLDER)
    return done.stdout if code == 0 else done.stderr


random = np.random.default_rng(5)
arrays = {"token_ids": np.arange(TOKENS, dtype=np.int64), "prompt": np.repeat(np.arange(12), 8).astype(np.int64),
          "logits": random.normal(size=(TOKENS, 30)).astype(np.float32)}
hidden = random.normal(size=(TOKENS, HIDDEN))
for layer in range(LAYERS):
    hidden = hidden + 0.3 * random.normal(size=(TOKENS, HIDDEN))
    arrays[f"hidden.{layer}"] = hidden.astype(np.float32)
    arrays[f"mlp.{layer}"] = (random.normal(size=(TOKENS, NEURONS)) * random.normal(size=(TOKENS, NEURONS))).astype(np.float32)
    arrays[f"router_logits.{layer}"] = random.normal(size=(TOKENS, EXPERTS)).astype(np.float32)
for name, array in arrays.items():
    np.save(f"{FOLDER}/dump/{name}.npy", array)

vindex("activations", "dump", "-o", "a.h5", "-q")
vindex("cka", "dump", "dump", "-o", "c.h5", "--permutations", "20", "-q")
vindex("routing", "dump", "-o", "r.h5", "--top-k", "2", "--scoring", "softmax", "-q")
for name in ("a", "c", "r"):
    assert "valid" in vindex("validate", f"{name}.h5")
    assert "complete" in vindex("show", f"{name}.h5")
    shown = json.loads(vindex("show", f"{name}.h5", "--json"))
    assert shown["state"] == "complete" and shown["rows_measured"] == len(shown["rows"])
    assert "E-SHOW-KIND" in vindex("show", f"{name}.h5", "--metric", "stable_rank", code=64)
    table = vindex("export", f"{name}.h5", "--format", "csv", "-o", "-").splitlines()
    assert len(table) == 1 + len(shown["rows"])

vindex("export", "a.h5", "--format", "phase-json", "-o", "all", "--cka", "c.h5", "--routing", "r.h5")
assert sorted(os.listdir(FOLDER + "/all")) == ["phase1_moe_svd_agg.json", "phase3_routing_stats.json"]
with open(FOLDER + "/all/phase1_moe_svd_agg.json", encoding="utf-8") as file:
    aggregate = json.load(file)
mlp = np.stack([arrays[f"mlp.{layer}"] for layer in range(LAYERS)]).astype(np.float64)
rms = np.sqrt((mlp**2).mean(axis=(1, 2)))[:, None, None]
one = aggregate["C1"]["thresholds"][-1]
assert abs(one["median"] - np.median((np.abs(mlp) <= one["t"] * rms).mean(axis=(1, 2)))) < 1e-12
assert abs(aggregate["C4"]["neuron_variance"]["median"] - np.median(mlp.var(axis=1).mean(axis=1))) < 1e-9
probability = np.exp(arrays["logits"].astype(np.float64))
probability /= probability.sum(axis=1, keepdims=True)
top8 = np.sort(probability, axis=1)[:, -8:].sum(axis=1).mean()
assert abs(aggregate["C2"]["top8_mass"] - top8) < 1e-6
assert aggregate["C3"] is None and "--model" in aggregate["not_measured"]["C3"]
with h5py.File(FOLDER + "/c.h5") as f:
    assert aggregate["C5"]["stages"] == f.attrs["stages"]
    assert np.allclose(f["matched/cka"][0], f["cka"][0, 0])
with open(FOLDER + "/all/phase3_routing_stats.json", encoding="utf-8") as file:
    routing = json.load(file)
for layer in range(LAYERS):
    chosen = np.argsort(-arrays[f"router_logits.{layer}"], axis=1)[:, :2]
    load = np.bincount(chosen.ravel(), minlength=EXPERTS) / chosen.size
    assert np.allclose(routing["layers"][str(layer)]["load"], load)
# The same file twice, and a file of another kind, are refused; so is a dump of another width.
assert "E-EXPORT-TWICE" in vindex("export", "r.h5", "--format", "phase-json", "-o", "x", "--routing", "r.h5", code=64)
assert "E-RESULTS-KIND" in vindex("export", "a.h5", "--format", "phase-json", "-o", "x", "--cka", "r.h5", code=65)
os.makedirs(FOLDER + "/other")
for name, array in arrays.items():
    np.save(f"{FOLDER}/other/{name}.npy", array[:, :10] if name.startswith("hidden") else array)
vindex("cka", "other", "other", "-o", "o.h5", "--permutations", "5", "-q")
vindex("activations", "dump", "-o", "h.h5", "--hidden", "-q")
assert "E-EXPORT-MODEL" in vindex("export", "h.h5", "--format", "phase-json", "-o", "x", "--cka", "o.h5", code=78)
print("phase files of", TOKENS, "tokens")
