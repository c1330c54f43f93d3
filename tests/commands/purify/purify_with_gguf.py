#!/usr/bin/env python3
"""`vindex organ purify` against numpy: what it makes of matrices, what it leaves alone, what it says of both.

    purify_with_gguf.py PROGRAM DATA_FOLDER SCRATCH_FOLDER
"""
import functools
import glob
import json
import os
import shutil
import subprocess
import sys

import gguf
import numpy as np

from model_files import finish_gguf, gguf_tensors as tensors, gguf_values as values, read_safetensors
from test_script import fresh_folder

PROGRAM, DATA, FOLDER = sys.argv[1:4]
FAILED = []


def check(holds, text):
    if not holds:
        FAILED.append(text)
        print("FAILED:", text)


def purify(model, *flags, code=0):
    run = subprocess.run([PROGRAM, "organ", "purify", model, *flags, "--backend", "cpu", "--json"], capture_output=True, text=True)
    check(run.returncode == code, f"{model} {flags}: exit {run.returncode}: {run.stderr}")
    return json.loads(run.stdout) if run.returncode == 0 else None


def path(name):
    return os.path.join(FOLDER, name)


# --- the rules, in numpy -------------------------------------------------------------------------------------------

@functools.lru_cache
def law_cdf(beta):
    """Marchenko-Pastur by quadrature: eigenvalues and their cumulative probability."""
    theta = np.linspace(0.0, np.pi, 100001)
    x = 1 + beta - 2 * np.sqrt(beta) * np.cos(theta)
    with np.errstate(invalid="ignore"):
        density = np.where(x > 0, 2 / np.pi * np.sin(theta) ** 2 / np.maximum(x, 1e-300), 0.0)
    total = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(theta))])
    return x, total / total[-1]


def fit(y, beta, n):
    x, cdf = law_cdf(beta)
    unit = np.median(y) / np.sqrt(np.interp(0.5, cdf, x))
    expected = np.interp(np.sort((y / unit) ** 2), x, cdf)
    p = len(y)
    ks = max(np.max(np.arange(1, p + 1) / p - expected), np.max(expected - np.arange(p) / p))
    return unit, ks


def svd_rule(w, method):
    u, y, v = np.linalg.svd(w.astype(np.float64), full_matrices=False)
    beta, n = min(w.shape) / max(w.shape), max(w.shape)
    unit, ks = fit(y, beta, n)
    z = y / unit
    if method == "svd-shrink":
        new = np.where(z > 1 + np.sqrt(beta), np.sqrt(np.maximum((z * z - beta - 1) ** 2 - 4 * beta, 0)) / z * unit, 0)
    else:
        threshold = np.sqrt(2 * (beta + 1) + 8 * beta / (beta + 1 + np.sqrt(beta * beta + 14 * beta + 1)))
        new = np.where(z > threshold, y, 0)
    return (u * new) @ v, unit / np.sqrt(n), ks, int((new > 0).sum())


def fft_rule(w, universal, rho=0.95):
    f = w.ravel().astype(np.float64)
    bins = np.fft.rfft(f, norm="ortho")
    power = np.abs(bins) ** 2
    if universal:
        least = np.median(np.abs(bins)) ** 2 / np.log(2) * np.log(f.size)
    else:
        weight = np.full(bins.size, 2.0)
        weight[0] = 1.0
        weight[-1] = 1.0 if f.size % 2 == 0 else 2.0
        order = np.argsort(-power)
        held = np.cumsum((power * weight)[order])
        least = power[order[np.searchsorted(held, rho * held[-1])]]
    return np.fft.irfft(np.where(power >= least, bins, 0), f.size, norm="ortho").reshape(w.shape)


def pair_means(a, counts):
    """Orthonormal sums and details of neighbouring means, of `counts` values each; one that is left over moves up."""
    even = a.size // 2 * 2
    left, right, m, n = a[0:even:2], a[1:even:2], counts[0:even:2], counts[1:even:2]
    c, s = np.sqrt(m / (m + n)), np.sqrt(n / (m + n))
    return np.append(c * left + s * right, a[even:]), np.append(m + n, counts[even:]), s * left - c * right, (c, s)


def haar_rule(w, method):
    f = w.ravel().astype(np.float64)
    a, counts = f, np.ones(f.size)
    details, turns = [], []
    for _ in range(6):
        a, counts, d, turn = pair_means(a, counts)
        details.append(d)
        turns.append(turn)
    sigma = np.median(np.abs(details[0])) / 0.6745
    out = []
    for level, d in enumerate(details):
        if method == "haar":
            if level < 5:
                parent = np.repeat(details[level + 1] ** 2, 2)[:d.size]
                own = d[:parent.size] ** 2  # a last detail without a parent stays
                c = 2 * np.sqrt(own * parent) / np.maximum(own + parent, 1e-300)
                d = np.append(d[:parent.size] * np.minimum(1, c / 0.5), d[parent.size:])
        else:
            threshold = sigma * np.sqrt(2 * np.log(f.size))
            if method == "haar-bayes":
                signal = np.mean(d ** 2) - sigma ** 2
                threshold = sigma ** 2 / np.sqrt(signal) if signal > 0 else np.inf
            d = np.sign(d) * np.maximum(np.abs(d) - threshold, 0)
        out.append(d)
    for d, (c, s) in zip(reversed(out), reversed(turns)):
        pairs = np.stack([c * a[:d.size] + s * d, s * a[:d.size] - c * d], axis=1).ravel()
        a = np.append(pairs, a[d.size:])
    return a.reshape(w.shape)


# --- a model of known matrices -------------------------------------------------------------------------------------

def make_model(name):
    random = np.random.default_rng(7)

    def signal(rows, cols, rank=4):
        s = random.standard_normal((rows, rank)) @ random.standard_normal((rank, cols))
        return (s + 0.3 * random.standard_normal((rows, cols))).astype(np.float32)

    def noise(*shape):
        return random.standard_normal(shape).astype(np.float32)

    q = np.linalg.qr(noise(96, 96))[0] * np.arange(1, 97) ** -0.5 @ np.linalg.qr(noise(160, 96))[0].T
    holed = signal(64, 96)
    holed[3, 5] = np.nan
    writer = gguf.GGUFWriter(path(name), "llama")
    writer.add_block_count(2)
    writer.add_uint32("llama.some_key", 7)
    writer.add_tensor("token_embd.weight", signal(64, 96))
    writer.add_tensor("blk.0.ffn_norm.weight", noise(160))
    writer.add_tensor("blk.0.ffn_up.weight", signal(96, 160))
    writer.add_tensor("blk.0.ffn_down.weight", signal(160, 96).astype(np.float16))
    writer.add_tensor("blk.0.ffn_gate_inp.weight", signal(64, 96))
    writer.add_tensor("blk.0.attn_q.weight", noise(96, 160))
    writer.add_tensor("blk.1.attn_k.weight", q.astype(np.float32))
    writer.add_tensor("blk.1.attn_v.weight", holed)
    writer.add_tensor("blk.1.attn_output.weight", noise(3, 96))
    writer.add_tensor("blk.1.ffn_up.weight", np.zeros((64, 144), np.uint8), raw_dtype=gguf.GGMLQuantizationType.Q4_K)
    writer.add_tensor("blk.1.ffn_gate_exps.weight", np.stack([signal(64, 96), noise(64, 96), signal(64, 96)]))
    finish_gguf(writer)
    return path(name)


PURIFIED = {"blk.0.ffn_up.weight": [0], "blk.0.ffn_down.weight": [0], "blk.1.ffn_gate_exps.weight": [0, 2]}
OUTCOMES = {"blk.0.attn_q.weight": "no rank", "blk.1.attn_k.weight": "no bulk", "blk.1.attn_v.weight": "not finite",
            "blk.1.attn_output.weight": "too small"}


def by_name(report):
    return {tensor["name"]: tensor for tensor in report["tensors"]}


def near(a, b, tolerance):
    return np.abs(a - b).max() <= tolerance * np.abs(b).max()


def check_default(model):
    report = purify(model, "-o", path("out.gguf"), "--factors", path("f.safetensors"), "--report", path("r.json"))
    check(report == json.load(open(path("r.json"))), "--report and --json say the same")
    check(report["schema"] == "organ-purify/1" and report["totals"]["purified"] == 4, "four matrices are purified")
    before, after, told = tensors(model), tensors(path("out.gguf")), by_name(report)
    check(list(before) == list(after), "tensors keep their order")
    for name, tensor in before.items():
        same = tensor.data.tobytes() == after[name].data.tobytes()
        check(same == (name not in PURIFIED), f"{name}: bytes")
        check(tensor.tensor_type == after[name].tensor_type, f"{name}: type")
        check(told[name]["changed"] == (name in PURIFIED), f"{name}: report")
    for name, outcome in OUTCOMES.items():
        check(told[name]["matrices"][0]["outcome"] == outcome, f"{name}: {told[name]['matrices'][0]}")
    check("no encoder for Q4_K" in told["blk.1.ffn_up.weight"]["skipped"], "Q4_K has no encoder")
    for name in ("token_embd.weight", "blk.0.ffn_gate_inp.weight", "blk.0.ffn_norm.weight"):
        check("--include" in told[name]["skipped"], f"{name} is not asked for")
    factors, about = read_safetensors(path("f.safetensors"))
    check(about["schema"] == "organ-factors/1" and json.loads(about["blk.0.ffn_up.weight"])["rank"] == 4, "metadata")
    for name, slices in PURIFIED.items():
        old, new = values(before[name]), values(after[name])
        stack = old.ndim == 3
        for k, row in enumerate(told[name]["matrices"]):
            w, got = (old[k], new[k]) if stack else (old, new)
            if k not in slices:
                check(row["outcome"] == "no rank" and (w == got).all(), f"{name} {k}: untouched")
                continue
            expected, sigma, ks, rank = svd_rule(w, "svd-shrink")
            half = before[name].tensor_type == gguf.GGMLQuantizationType.F16
            check(near(got, expected, 1e-3 if half else 2e-5), f"{name} {k}: shrunk values")
            check(row["rank"] == rank == 4 and abs(row["ks"] - ks) < 1e-3, f"{name} {k}: {row['ks']} {ks}")
            check(abs(row["sigma_hat"] / sigma - 1) < 1e-4, f"{name} {k}: sigma {row['sigma_hat']} {sigma}")
            removed = 1 - (expected ** 2).sum() / (w.astype(float) ** 2).sum()
            check(abs(row["energy_removed"] - removed) < 1e-5, f"{name} {k}: energy")
            cosine = (expected * w).sum() / np.linalg.norm(expected) / np.linalg.norm(w)
            check(abs(row["cosine"] - cosine) < 1e-6, f"{name} {k}: cosine")
            change = np.linalg.norm(expected - w) / np.linalg.norm(w)
            check(abs(row["relative_change"] - change) < 1e-5 and row["visible"], f"{name} {k}: change")
            key = f"{name}#{k}" if stack else name
            product = factors[key + ".b"] @ factors[key + ".a"]
            check(factors[key + ".a"].shape == (4, w.shape[1]) and near(product, expected, 2e-5), f"{key}: factors")
    check(len(factors) == 8, "a pair for every purified matrix")
    keys = gguf.GGUFReader(path("out.gguf")).fields
    check("organ.history" in keys and "llama.some_key" in keys, "keys and provenance")


def check_out_type(model):
    before = tensors(model)
    for name in ("Q8_0", "BF16", "Q4_0"):
        report = by_name(purify(model, "-o", path("typed.gguf"), "--out-type", name, "--force"))
        after = tensors(path("typed.gguf"))
        check(list(before) == list(after), "tensors keep their order")
        for key, tensor in before.items():
            if key not in PURIFIED:
                check(tensor.data.tobytes() == after[key].data.tobytes(), f"{name}: {key} keeps its bytes")
                continue
            check(after[key].tensor_type.name == name == report[key]["out_type"], f"{key} is {name}")
            old, new = values(tensor), values(after[key])
            for k, row in enumerate(report[key]["matrices"]):
                w, got = (old[k], new[k]) if old.ndim == 3 else (old, new)
                target = svd_rule(w, "svd-shrink")[0] if row["changed"] else w.astype(float)
                error = np.linalg.norm(got - target) / np.linalg.norm(target)
                check(error < {"Q8_0": 0.01, "BF16": 0.003, "Q4_0": 0.12}[name], f"{name}: {key} {k}: {error}")
                if row["changed"]:
                    check(abs(row["requantisation_error"] - error) < 1e-3 * error + 2e-5, f"{key} {k}: told error")
                    written = np.linalg.norm(got - w) / np.linalg.norm(w)
                    check(abs(row["written_change"] - written) < 1e-4, f"{name}: {key} {k}: written change")
                    check(0 < row["do_nothing"]["requantisation_error"] < 0.12, f"{name}: {key}: doing nothing")


def check_methods(model):
    w = values(tensors(model)["blk.0.ffn_up.weight"])
    rules = {"svd-gd": lambda: svd_rule(w, "svd-gd")[0], "fft": lambda: fft_rule(w, False),
             "fft-universal": lambda: fft_rule(w, True), "haar": lambda: haar_rule(w, "haar"),
             "haar-bayes": lambda: haar_rule(w, "haar-bayes"), "haar-visu": lambda: haar_rule(w, "haar-visu")}
    u, y, v = np.linalg.svd(w.astype(float), full_matrices=False)
    rules["laser"] = lambda: (u[:, :9] * y[:9]) @ v[:9]  # floor(0.1 * 96)
    for method, rule in rules.items():
        purify(model, "-o", path("method.gguf"), "--method", method, "--accept-findings", "--force", "--tensors", "blk.0.ffn_up.weight")
        got = values(tensors(path("method.gguf"))["blk.0.ffn_up.weight"])
        expected = rule()
        check(near(got, expected, 3e-5), f"{method}: {np.abs(got - expected).max()}")


def check_real_models():
    for model in [*sorted(glob.glob(f"{DATA}/gguf/full/*.gguf")), f"{DATA}/gguf/split/kjv-moe-Q8_0-00001-of-00005.gguf",
                  *[f"{DATA}/gguf/conformance/{name}.gguf" for name in ("f32", "q8_0", "iq1_s")]]:
        if not os.path.exists(model):
            print("not here:", model)
            continue
        report = purify(model, "-o", path("real.gguf"), "--force")
        before = {}
        for part in sorted(glob.glob(model.replace("-00001-of-", "-*-of-"))):
            before.update(tensors(part))
        after = tensors(path("real.gguf"))
        changed = {tensor["name"] for tensor in report["tensors"] if tensor["changed"]}
        check(set(before) == set(after), f"{model}: all tensors")
        for name, tensor in before.items():
            if name not in changed:
                check(tensor.data.tobytes() == after[name].data.tobytes(), f"{model}: {name} keeps its bytes")
        forced = purify(model, "-o", path("real.gguf"), "--force", "--accept-findings", "--out-type", "F16", "--layers", "0-1")
        after = tensors(path("real.gguf"))
        for tensor in forced["tensors"]:
            check(after[tensor["name"]].tensor_type.name == tensor["out_type"], f"{model}: {tensor['name']}")
        for name, tensor in before.items():
            if not any(told["name"] == name and told["changed"] for told in forced["tensors"]):
                check(tensor.data.tobytes() == after[name].data.tobytes(), f"{model}: {name} keeps its bytes")


fresh_folder(FOLDER)
made = make_model("made.gguf")
check_default(made)
check_out_type(made)
check_methods(made)
check_real_models()
shutil.rmtree(FOLDER, ignore_errors=True)
sys.exit(1 if FAILED else 0)
