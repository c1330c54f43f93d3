"""Compares `vindex compare` with numpy on a trained mixture of experts: BF16 beside Q8_0 and Q4_K_M, weights decoded by the package `gguf`.

Usage: compare_with_numpy.py VINDEX DATA FOLDER. Exit 77 (skipped) where data is missing. Prints a table by block and role."""

import glob
import os
import sys

import h5py
import numpy as np

from model_files import gguf_tensors, gguf_values
from test_script import call, need

VINDEX, DATA, FOLDER = sys.argv[1:4]
BASE = os.path.join(DATA, "moe", "kjv-moe-7.6M-BF16.gguf")
OTHERS = {"Q8_0": sorted(glob.glob(os.path.join(DATA, "gguf", "split", "kjv-moe-Q8_0-*.gguf"))),
          "Q4_K_M": [os.path.join(DATA, "gguf", "full", "kjv-moe-Q4_K_M.gguf")]}
COLUMNS = ["cosine", "norm_a", "norm_b", "relative_error", "max_abs_difference"]


def weights(paths):
    return {name: gguf_values(tensor) for name, tensor in gguf_tensors(*paths).items()}


def by_numpy(a, b):
    same = np.array_equal(a.view(np.uint32), b.view(np.uint32))
    a, b = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    norm_a, norm_b = np.linalg.norm(a), np.linalg.norm(b)
    return same, [a @ b / (norm_a * norm_b), norm_a, norm_b, np.linalg.norm(b - a) / norm_a, np.abs(b - a).max()]


def main():
    need(BASE, *(paths[0] if paths else "" for paths in OTHERS.values()))
    os.makedirs(FOLDER, exist_ok=True)
    base = weights([BASE])
    failures = 0
    for label, paths in OTHERS.items():
        out = os.path.join(FOLDER, label + ".h5")
        call(VINDEX, "compare", BASE, paths[0], "-o", out, "--restart", "--quiet")
        other = weights(paths)
        worst, groups = 0.0, {}
        with h5py.File(out, "r") as file:
            pair = file["pair"]
            names = [name.decode() for name in pair["tensor_a"][()]]
            partners = [name.decode() for name in pair["tensor_b"][()]]
            slices = pair["slice"][()]
            got = np.stack([pair[name][()] for name in COLUMNS], axis=1)
            for i, name in enumerate(names):
                a, b = base[name], other[partners[i]]
                if slices[i] >= 0:
                    a, b = a[slices[i]], b[slices[i]]
                same, wanted = by_numpy(a, b)
                error = np.abs(got[i] - wanted) / np.maximum(np.abs(wanted), 1e-300)
                error = np.where(np.array(wanted) == got[i], 0.0, error)
                failures += not (pair["status"][i] == 0 and pair["same_bits"][i] == same and error.max() <= 1e-11)
                failures += pair["cosine_null_sd"][i] != 1.0 / np.sqrt(float(a.shape[0]) * float(a.shape[1]))
                worst = max(worst, error.max())
                key = (pair["block"][i].decode(), pair["role"][i].decode())
                groups.setdefault(key, []).append((got[i][0], wanted[0], got[i][3], wanted[3]))
        print(f"BF16 beside {label}: {len(names)} pairs, largest relative deviation from numpy {worst:.1e}")
        print(f"{'block':14} {'role':20} {'n':>3} {'cosine':>10} {'numpy':>10} {'error':>10} {'numpy':>10}")
        for (block, role), rows in groups.items():
            medians = np.median(np.array(rows), axis=0)
            print(f"{block:14} {role:20} {len(rows):3} {medians[0]:10.7f} {medians[1]:10.7f} {medians[2]:10.3e} {medians[3]:10.3e}")
        failures += len(names) < 50
    return 0 if failures == 0 else 1


sys.exit(main())
