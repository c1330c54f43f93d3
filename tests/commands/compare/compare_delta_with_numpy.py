"""What rank is a fine-tune: a planted rank-4 change below and above the step of BF16, Q8_0 and Q4_K, found by `vindex compare --delta --k`.

Usage: compare_delta_with_numpy.py VINDEX FOLDER [PAGE]. Every number is checked against numpy on
weights decoded by the package `gguf`; the table that is printed stands in PAGE (docs/commands/compare.md), whose numbers are checked too.

Q8_0 is the package's own encoder; it has none for Q4_K: the one here takes scale and offset of 32 weights from their extremes (llama.cpp
searches for better ones, so that its steps are somewhat smaller)."""

import os
import sys

import gguf
import h5py
import numpy as np
from gguf.constants import GGMLQuantizationType

from model_files import finish_gguf
from test_script import call

VINDEX, FOLDER = sys.argv[1:3]
PAGE = sys.argv[3] if len(sys.argv) > 3 else None
ROWS, COLS, RANK, K = 512, 768, 4, 4
LEVELS = [0.01, 0.1, 1.0, 10.0]  # of the step
TYPES = {"BF16": GGMLQuantizationType.BF16, "Q8_0": GGMLQuantizationType.Q8_0, "Q4_K": GGMLQuantizationType.Q4_K}


def encode_q4_k(weights):
    """Blocks of 256: two float16, eight 6-bit scales and offsets, 4-bit codes (ggml's block_q4_K)."""
    blocks = weights.reshape(-1, 8, 32)
    low = np.minimum(blocks.min(axis=2), 0.0)
    scale = (blocks.max(axis=2) - low) / 15.0
    d = (scale.max(axis=1) / 63.0).astype(np.float16)
    d_min = ((-low).max(axis=1) / 63.0).astype(np.float16)
    wide = [np.where(x == 0, 1, x).astype(np.float32)[:, None] for x in (d, d_min)]
    scales = np.clip(np.rint(scale / wide[0]), 0, 63).astype(np.uint8)
    offsets = np.clip(np.rint(-low / wide[1]), 0, 63).astype(np.uint8)
    step = (d.astype(np.float32)[:, None] * scales)[..., None]
    offset = (d_min.astype(np.float32)[:, None] * offsets)[..., None]
    codes = np.clip(np.rint((blocks + offset) / np.where(step == 0, 1, step)), 0, 15).astype(np.uint8)
    packed = np.zeros((len(blocks), 12), dtype=np.uint8)
    for j in range(4):
        packed[:, j] = scales[:, j] & 63 | (scales[:, j + 4] >> 4) << 6
        packed[:, j + 4] = offsets[:, j] & 63 | (offsets[:, j + 4] >> 4) << 6
        packed[:, j + 8] = scales[:, j + 4] & 15 | (offsets[:, j + 4] & 15) << 4
    pairs = codes.reshape(-1, 4, 2, 32)
    nibbles = pairs[:, :, 0] | pairs[:, :, 1] << 4
    out = np.concatenate([d[:, None].view(np.uint8), d_min[:, None].view(np.uint8), packed, nibbles.reshape(-1, 128)], axis=1)
    return out.reshape(weights.shape[0], -1)


def encode(name, weights):
    return encode_q4_k(weights) if name == "Q4_K" else gguf.quants.quantize(weights, TYPES[name])


def decode(name, weights):
    return np.asarray(gguf.quants.dequantize(encode(name, weights), TYPES[name]), dtype=np.float32).reshape(weights.shape)


def write(name, path, matrices):
    writer = gguf.GGUFWriter(path, "llama")
    for layer, weights in enumerate(matrices):
        writer.add_tensor(f"blk.{layer}.attn_output.weight", encode(name, weights), raw_dtype=TYPES[name])
    finish_gguf(writer)


def median_of_noise(g):
    """Of Marchenko and Pastur, by bisection on a fine grid of the substituted angle."""
    theta = np.linspace(0.0, np.pi, 400001)
    x = 1 + g - 2 * np.sqrt(g) * np.cos(theta)
    density = 2 / np.pi * np.sin(theta) ** 2 / x
    share = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2) * (theta[1] - theta[0])])
    return np.interp(0.5, share / share[-1], x)


def by_numpy(delta, s):
    """Of a difference and its singular values."""
    power = s**2 / np.sum(s**2)
    p, n = min(delta.shape), max(delta.shape)
    g = p / n
    unit = np.median(s) / np.sqrt(median_of_noise(g))
    hard = np.sqrt(2 * (g + 1) + 8 * g / (g + 1 + np.sqrt(g**2 + 14 * g + 1)))
    return {"delta_frobenius_norm": np.linalg.norm(s), "delta_spectral_norm": s[0], "delta_stable_rank": 1 / power[0],
            "delta_effective_rank": np.exp(-np.sum(power[power > 0] * np.log(power[power > 0]))),
            "delta_rank_edge": np.sum(s / unit > 1 + np.sqrt(g)), "delta_rank_gd": np.sum(s / unit > hard),
            "delta_var_at_k": np.array([power[:k].sum() for k in (1, 2, 4, 8, 16, 32, 64, 128, 256)])}


def svd(matrix):
    """Left vectors, all values, the first K right vectors; by the float64 Gram matrix, a fifth of the time of a whole decomposition. It loses
    values below 1e-8 of the largest, which no number here depends on."""
    wide = matrix.astype(np.float64)
    squares, left = np.linalg.eigh(wide @ wide.T)
    values, left = np.sqrt(squares[::-1].clip(min=0)), left[:, ::-1]
    return left, values, left[:, :K].T @ wide / values[:K, None]


def overlaps(a, b):
    """Of two decompositions."""
    out = {}
    (ua, _, va), (ub, _, vb) = a, b
    for side, left, right in (("right", va[:K].T, vb[:K].T), ("left", ua[:, :K], ub[:, :K])):
        cosines = np.linalg.svd(left.T @ right, compute_uv=False)
        out["overlap_" + side] = np.sum(cosines**2) / K
        out["angles_" + side] = np.degrees(np.arccos(np.clip(cosines, -1, 1)))
    return out


def numbers_of(line):
    return [float(word) for word in line.replace("|", " ").split()[1:]]


def main():
    os.makedirs(FOLDER, exist_ok=True)
    random = np.random.default_rng(4)
    base = (random.standard_normal((ROWS, COLS)) * 0.02).astype(np.float32)
    change = random.standard_normal((ROWS, RANK)) @ random.standard_normal((RANK, COLS))
    change /= np.sqrt(np.mean(change**2))
    planted = svd(change)[2][:RANK]
    failures = 0
    lines = []
    for name in TYPES:
        step = np.sqrt(12 * np.mean((decode(name, base).astype(np.float64) - base) ** 2))
        tuned = [(base + level * step * change).astype(np.float32) for level in LEVELS]
        files = [os.path.join(FOLDER, f"{side}-{name}.gguf") for side in ("base", "tuned")]
        write(name, files[0], [base] * len(LEVELS))
        write(name, files[1], tuned)
        out = os.path.join(FOLDER, name + ".h5")
        call(VINDEX, "compare", *files, "-o", out, "--delta", "--k", K, "--restart", "--quiet")
        call(VINDEX, "validate", out)
        with h5py.File(out, "r") as file:
            pair = {key: value[()] for key, value in file["pair"].items()}
        assert list(pair["layer"]) == list(range(len(LEVELS)))
        a = decode(name, base)
        of_a = svd(a)
        for layer, level in enumerate(LEVELS):
            b = decode(name, tuned[layer])
            delta = svd(b - a)
            wanted = by_numpy(b - a, delta[1])
            for key, value in wanted.items():
                good = np.allclose(pair[key][layer], value, rtol=1e-5, atol=0)
                failures += not good
                if not good:
                    print(name, level, key, pair[key][layer], "numpy", value)
            for key, value in overlaps(of_a, svd(b)).items():
                # Angles: 0.01 degrees, since near 0 an arc cosine in float64 of float32 vectors knows no more.
                good = np.allclose(pair[key][layer], value, atol=0.05 if key.startswith("angles") else 2e-5)
                failures += not good
                if not good:
                    print(name, level, key, pair[key][layer], "numpy", value)
            failures += pair["overlap_right_null"][layer] != K / COLS or pair["overlap_left_null"][layer] != K / ROWS
            top = delta[2][:RANK]
            lines.append(f"| {name} {level:g} | {pair['relative_error'][layer]:.2g} | {pair['delta_rank_gd'][layer]} | {pair['delta_rank_edge'][layer]} "
                         f"| {pair['delta_effective_rank'][layer]:.3g} | {pair['delta_effective_rank_null'][layer]:.3g} "
                         f"| {pair['delta_stable_rank'][layer]:.3g} | {pair['delta_stable_rank_null'][layer]:.3g} "
                         f"| {pair['delta_theta'][layer]:.1f} | {np.sum((planted @ top.T) ** 2) / RANK:.2f} |")
    print("\n".join(lines))
    if PAGE is not None:
        with open(PAGE, encoding="utf-8") as page:
            told = [line.strip() for line in page]
        for line in lines:
            start = line[:line.index("|", 2)]
            found = [other for other in told if other.startswith(start)]
            good = len(found) == 1 and np.allclose(numbers_of(found[0]), numbers_of(line), rtol=0.03, atol=0.02)
            failures += not good
            if not good:
                print(f"{PAGE} says otherwise: {found}")
    return 0 if failures == 0 else 1


sys.exit(main())
