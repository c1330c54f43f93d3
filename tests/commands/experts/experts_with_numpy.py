"""Compares `vindex experts` with numpy on a trained mixture of experts, as separate tensors (safetensors) and as stacks (GGUF, BF16 and
Q4_K_M), weights decoded here and by the package `gguf`.

Usage: experts_with_numpy.py VINDEX DATA FOLDER. Exit 77 (skipped) where data is missing. Prints a table by layer and role."""

import glob
import os
import re
import sys

import h5py
import numpy as np

from model_files import gguf_tensors, gguf_values, read_safetensors
from test_script import call, need

VINDEX, DATA, FOLDER = sys.argv[1:4]
MOE = os.path.join(DATA, "moe")
BF16 = os.path.join(MOE, "kjv-moe-7.6M-BF16.gguf")
Q4 = os.path.join(DATA, "gguf", "full", "kjv-moe-Q4_K_M.gguf")
K = 4
ROLES = {"gate_proj": "gate", "up_proj": "up", "down_proj": "down"}


def safetensors_experts():
    """{(layer, role): [E, rows, cols]} of the folder, BF16 by hand."""
    found = {}
    for path in sorted(glob.glob(os.path.join(MOE, "*.safetensors"))):
        for name, values in read_safetensors(path)[0].items():
            layer, expert = re.search(r"layers\.(\d+)", name), re.search(r"\.experts\.(\d+)\.(\w+)", name)
            if expert:
                found.setdefault((int(layer[1]), expert[2]), {})[int(expert[1])] = values
    return {key: np.stack([one[i] for i in range(len(one))]) for key, one in found.items()}


def gguf_experts(path):
    return {(int(name.split(".")[1]), role): gguf_values(tensor) for name, tensor in gguf_tensors(path).items()
            for role, short in ROLES.items() if name.endswith(f"ffn_{short}_exps.weight")}


def cosines(x):
    norms = np.linalg.norm(x, axis=1)
    return (x @ x.T) / np.outer(norms, norms), norms


def overlaps(experts):
    """Of the first K right and left singular vectors, both from float64 Gram matrices of the shorter side."""
    wide = experts.astype(np.float64)
    turned = wide.shape[1] > wide.shape[2]
    if turned:
        wide = wide.swapaxes(1, 2)
    short = np.linalg.eigh(wide @ wide.swapaxes(1, 2))[1][:, :, :-K - 1:-1].swapaxes(1, 2)
    long = short @ wide
    long /= np.linalg.norm(long, axis=2, keepdims=True)
    sides = []
    for vectors in (short, long) if turned else (long, short):
        flat = vectors.reshape(-1, vectors.shape[2])
        products = (flat @ flat.T).reshape(len(experts), K, len(experts), K)
        sides.append(np.sum(products**2, axis=(1, 3)) / K)
    return sides


KNOWN = {}  # the folder's weights are those of its GGUF file


def wanted_of(experts):
    key = experts.shape, experts.astype(np.float32).tobytes()
    if key not in KNOWN:
        KNOWN[key] = computed(experts)
    return KNOWN[key]


def computed(experts):
    count, rows, cols = experts.shape
    x = experts.reshape(count, -1).astype(np.float64)
    plain, norms = cosines(x)
    y = x - x.mean(axis=0)
    centred, _ = cosines(y)
    spectrum = np.linalg.eigvalsh(y @ y.T)[::-1].clip(min=0)
    share = spectrum / spectrum.sum()
    off = ~np.eye(count, dtype=bool)
    best = np.unravel_index(np.argmax(np.where(np.triu(off), plain, -2)), plain.shape)
    positive = share[share > 1e-15]
    right, left = overlaps(experts)
    return {
        "cosine": plain, "cosine_centred": centred, "norm": norms, "expert_axis_spectrum": spectrum,
        "cosine_mean": plain[off].mean(), "cosine_max": plain[best], "cosine_max_expert": best[0], "cosine_max_other": best[1],
        "cosine_centred_mean": centred[off].mean(), "cosine_centred_max": np.where(off, centred, -2).max(),
        "cosine_null": 0.0, "cosine_null_sd": 1 / np.sqrt(rows * cols),
        "cosine_mean_null_sd": np.sqrt(2 / (count * (count - 1) * rows * cols)), "cosine_centred_null": -1 / (count - 1),
        "mean_expert_share": np.sum(x.mean(axis=0) ** 2) / np.mean(norms**2), "mean_expert_share_null": 1 / count,
        "rank_90": 1 + np.searchsorted(np.cumsum(share), 0.9), "effective_rank": np.exp(-np.sum(positive * np.log(positive))),
        "overlap_right": right, "overlap_left": left,
        "overlap_right_null": K / cols, "overlap_left_null": K / rows, "overlap_k": K, "experts": count, "experts_counted": count,
    }


def differences(label, model, reference):
    out = os.path.join(FOLDER, label + ".h5")
    call(VINDEX, "experts", model, "-o", out, "--k", K, "--restart", "--quiet")
    call(VINDEX, "validate", out)
    failures, worst = 0, {}
    with h5py.File(out, "r") as file:
        group = file["group"]
        layers = group["layer"][()]
        roles = [role.decode() for role in group["role"][()]]
        failures += sorted(zip(layers.tolist(), roles)) != sorted(reference)
        print(f"{label}: {len(roles)} groups\n{'layer':>5} {'role':10} {'mean':>9} {'max':>9} {'rank_90':>7} {'overlap':>8}")
        for row, key in enumerate(zip(layers.tolist(), roles)):
            wanted = wanted_of(reference[key])
            failures += group["status"][row] != 0 or group["reason"][row] != b""
            for name, value in wanted.items():
                got = group[name][row]
                scale = np.max(np.abs(value)) if np.ndim(value) else max(abs(value), 1e-3)
                error = float(np.max(np.abs(got - value)) / scale)
                allowed = 1e-4 if name.startswith("overlap") else 2e-6
                worst[name] = max(worst.get(name, 0.0), error)
                failures += not error <= allowed
            print(f"{key[0]:5} {key[1]:10} {group['cosine_mean'][row]:9.6f} {group['cosine_max'][row]:9.6f} "
                  f"{group['rank_90'][row]:7} {group['overlap_right_mean'][row]:8.4f}")
    print("largest relative deviations:", ", ".join(f"{name} {error:.0e}" for name, error in sorted(worst.items(), key=lambda x: -x[1])[:8]))
    return failures


def main():
    need(BF16, Q4)
    os.makedirs(FOLDER, exist_ok=True)
    failures = differences("folder", MOE, safetensors_experts())
    failures += differences("bf16", BF16, gguf_experts(BF16))
    failures += differences("q4", Q4, gguf_experts(Q4))
    return 0 if failures == 0 else 1


sys.exit(main())
