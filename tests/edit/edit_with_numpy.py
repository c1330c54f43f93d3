"""Holds `vindex edit` against numpy: every verb, both sides, stacks and transposed storage, undo, patches, GGUF by the package `gguf`.

Usage: edit_with_numpy.py VINDEX DATA FOLDER. Exit 77 (skipped) where a package is missing; parts that need DATA are left out without it."""

import glob
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import time

try:
    import gguf
    import numpy as np
except ImportError as missing:
    print("skipped:", missing)
    sys.exit(77)

VINDEX, DATA, FOLDER = sys.argv[1:4]
RANDOM = np.random.default_rng(13)
FAILURES = []


def check(what, condition, detail=""):
    if not condition:
        FAILURES.append(what)
        print("FAILED:", what, detail)


def close(what, got, wanted, tolerance=1e-6):
    error = np.abs(np.asarray(got, dtype=np.float64) - wanted).max() / max(np.abs(wanted).max(), 1e-300)
    check(what, error <= tolerance, f"relative error {error:.1e}")


def to_bf16(values):
    """float32 to bfloat16 bits, nearest, ties to even."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def write_safetensors(path, tensors, metadata=None):
    header, data = {}, b""
    if metadata:
        header["__metadata__"] = metadata
    for name, (dtype, array) in tensors.items():
        raw = array.tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path):
    with open(path, "rb") as file:
        raw = file.read()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + size])
    metadata = header.pop("__metadata__", {})
    types = {"F32": np.float32, "BF16": np.uint16, "F16": np.float16, "F8_E4M3": np.uint8, "I32": np.int32, "F64": np.float64}
    out = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        array = np.frombuffer(raw[8 + size + begin:8 + size + end], dtype=types[entry["dtype"]]).reshape(entry["shape"])
        out[name] = from_bf16(array) if entry["dtype"] == "BF16" else array
    return out, metadata


def read_folder(folder):
    out = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.safetensors"))):
        out.update(read_safetensors(path)[0])
    return out


def path(name):
    return os.path.join(FOLDER, name)


def npy(name, array):
    np.save(path(name), array)
    return path(name)


def edit(*arguments, code=0):
    done = subprocess.run([VINDEX, "edit", *map(str, arguments), "--json", "--quiet"], capture_output=True, text=True, check=False)
    check(f"exit code of {arguments[:6]}", done.returncode == code, f"{done.returncode}: {done.stderr.strip()}")
    if code:
        return done.stderr
    return json.loads(done.stdout) if done.returncode == 0 else None


def only_differs(what, before, after, name):
    check(what + ": names", before.keys() == after.keys())
    for key in before:
        same = before[key].tobytes() == after[key].tobytes()
        check(f"{what}: {key}", same != (key == name))


def small_model():
    """F32 and BF16 matrices of one llama layer, and a norm; two shards with an index."""
    prefix = "model.layers.0."
    tensors = {prefix + "mlp.gate_proj.weight": ("F32", RANDOM.standard_normal((24, 16)).astype(np.float32)),
               prefix + "mlp.up_proj.weight": ("F32", RANDOM.standard_normal((24, 16)).astype(np.float32)),
               prefix + "mlp.down_proj.weight": ("F32", RANDOM.standard_normal((16, 24)).astype(np.float32)),
               prefix + "self_attn.o_proj.weight": ("BF16", to_bf16(RANDOM.standard_normal((16, 16)))),
               "model.norm.weight": ("F32", np.ones(16, dtype=np.float32))}
    folder = path("small")
    os.makedirs(folder)
    shards = {"model-00001-of-00002.safetensors": list(tensors)[:2], "model-00002-of-00002.safetensors": list(tensors)[2:]}
    for file, names in shards.items():
        write_safetensors(os.path.join(folder, file), {name: tensors[name] for name in names}, {"format": "pt"})
    index = {"metadata": {"total_size": 1}, "weight_map": {name: file for file, names in shards.items() for name in names}}
    json.dump(index, open(os.path.join(folder, "model.safetensors.index.json"), "w"))
    json.dump({"model_type": "llama", "hidden_size": 16}, open(os.path.join(folder, "config.json"), "w"))
    open(os.path.join(folder, "tokenizer.json"), "w").write("{}")
    return folder, prefix


def test_deletions():
    folder, prefix = small_model()
    before = read_folder(folder)
    up, down, gate = prefix + "mlp.up_proj.weight", prefix + "mlp.down_proj.weight", prefix + "mlp.gate_proj.weight"
    v = RANDOM.standard_normal(16)
    unit = v / np.linalg.norm(v)
    report = edit("delete", folder, "--tensor", up, "--direction", npy("v.npy", v), "-o", path("right"), "--save-patch", path("right.safetensors"))
    w = before[up].astype(np.float64)
    wanted = w - np.outer(w @ unit, unit)
    after = read_folder(path("right"))
    close("right", after[up], wanted)
    only_differs("right", before, after, up)
    for name in ("config.json", "tokenizer.json", "model.safetensors.index.json"):
        check("side file " + name, open(os.path.join(folder, name)).read() == open(path("right/" + name)).read())
    row = report["matrices"][0]
    norm = np.linalg.norm(w)
    close("share", row["suppressed"]["share"], (np.linalg.norm(w @ unit) / norm) ** 2)
    close("share of a random direction", row["suppressed"]["share_null"], 1 / 16)
    check("nothing is left", row["suppressed"]["norm_after"] < 1e-5 * norm)
    close("norm before", row["suppressed"]["norm_before"], np.linalg.norm(w @ unit))
    close("change", row["change"], np.linalg.norm(after[up].astype(np.float64) - w) / norm)
    check("rank", row["rank"] == 1)
    # 256 random directions estimate |W' - W| / |W|: a ratio of two averages over 256 draws.
    check("collateral", 0.8 < row["collateral"]["change"] / row["change"] < 1.2)
    check("encoding error of float32", row["encoding_error"] < 1e-6 and abs(row["arrived"] - 1) < 1e-5)

    # A random direction holds 1/in of norm^2, whatever the spectrum: 1,000 draws.
    skewed = w * np.linspace(0.1, 3, 16)
    draws = RANDOM.standard_normal((16, 1000))
    draws /= np.linalg.norm(draws, axis=0)
    shares = np.linalg.norm(skewed @ draws, axis=0) ** 2 / np.linalg.norm(skewed) ** 2
    check("null of the share", abs(shares.mean() - row["suppressed"]["share_null"]) < 4 * shares.std() / np.sqrt(1000), shares.mean())

    # Left, half of it; the default order of words and the model behind --direction.
    report = edit("delete", "--tensor", down, "--side", "left", "--alpha", "0.5", "--direction", path("v.npy"), folder, "-o", path("left"))
    w = before[down].astype(np.float64)
    close("left", read_folder(path("left"))[down], w - 0.5 * np.outer(unit, unit @ w))
    close("left null", report["matrices"][0]["suppressed"]["share_null"], 1 / 16)

    # A feature: the gate's row, in the gate, and as an output of down_proj.
    edit("delete", folder, "--tensor", gate, "--direction", "feature", "5", "-o", path("feature"))
    g = before[gate][5].astype(np.float64) / np.linalg.norm(before[gate][5])
    w = before[gate].astype(np.float64)
    close("feature", read_folder(path("feature"))[gate], w - np.outer(w @ g, g))
    edit("delete", folder, "--tensor", down, "--side", "left", "--direction", "feature", "5", "-o", path("feature_left"))
    w = before[down].astype(np.float64)
    close("feature left", read_folder(path("feature_left"))[down], w - np.outer(g, g @ w))

    # A singular vector; vectors of float32 are good to about 1e-6 of the gap.
    report = edit("delete", folder, "--tensor", up, "--direction", "singular", "1", "-o", path("singular"))
    u, s, vt = np.linalg.svd(before[up].astype(np.float64), full_matrices=False)
    left = [i for i in range(16) if i != 1]
    close("singular", read_folder(path("singular"))[up], (u[:, left] * s[left]) @ vt[left], 1e-4)
    check("singular value", f"{s[1]:.4g}"[:4] in report["matrices"][0]["direction"])

    # Undone: to rounding.
    edit("apply", path("right"), "--patch", path("right.safetensors"), "--alpha", -1, "-o", path("undone"))
    close("undone", read_folder(path("undone"))[up], before[up], 3e-7)
    only_differs("undone", {k: v for k, v in before.items() if k != up}, {k: v for k, v in read_folder(path("undone")).items() if k != up}, None)
    edit("apply", folder, "--patch", path("right.safetensors"), "-o", path("again"))
    check("applied as it was made", read_folder(path("again"))[up].tobytes() == after[up].tobytes())
    # A patch of other weights is refused; --force applies it.
    text = edit("apply", path("singular"), "--patch", path("right.safetensors"), "-o", path("foreign"), code=78)
    check("E-PATCH-BASE", "E-PATCH-BASE" in text and not os.path.exists(path("foreign")))
    edit("apply", path("singular"), "--patch", path("right.safetensors"), "--force", "-o", path("foreign"))
    # Several at once: what writes to the residual stream.
    report = edit("delete", folder, "--tensors", ".*(o_proj|down_proj).weight", "--direction", path("v.npy"), "--side", "left", "-o", path("several"))
    several = read_folder(path("several"))
    check("several", len(report["matrices"]) == 2)
    w = before[prefix + "self_attn.o_proj.weight"].astype(np.float64)
    check("BF16 as numpy rounds it", np.array_equal(several[prefix + "self_attn.o_proj.weight"], from_bf16(to_bf16((w - np.outer(unit, unit @ w)).astype(np.float32)))))
    metadata = read_safetensors(path("right.safetensors"))[1]
    check("patch metadata", metadata["format"] == "vindex-patch/1" and len(metadata["base_model_digest"]) == 64)
    patch = read_safetensors(path("right.safetensors"))[0]
    check("patch names", sorted(patch) == [up + ".a", up + ".b"] and patch[up + ".a"].shape == (1, 16) and patch[up + ".b"].shape == (24, 1))


def test_insertions():
    folder, down = path("small"), "model.layers.0.mlp.down_proj.weight"
    w = read_folder(folder)[down].astype(np.float64)
    k, d = RANDOM.standard_normal(24), RANDOM.standard_normal(16)
    report = edit("insert", folder, "--tensor", down, "--key", npy("k.npy", k.astype(np.float32)), "--value", npy("d.npy", d), "-o", path("inserted"))
    k = k.astype(np.float32).astype(np.float64)
    close("insert", read_folder(path("inserted"))[down], w + np.outer(d, k) / (k @ k))
    check("the key answers", report["matrices"][0]["keys"]["miss"] < 1e-5)
    keys, values = RANDOM.standard_normal((24, 3)), RANDOM.standard_normal((16, 3))
    samples = RANDOM.standard_normal((200, 24)) @ np.diag(np.linspace(0.2, 3, 24))
    covariance = samples.T @ samples / 200
    for name, c, more in (("plain", np.eye(24), []), ("covariance", covariance, ["--covariance", npy("c.npy", covariance)])):
        inverse = np.linalg.inv(c)
        delta = values @ np.linalg.inv(keys.T @ inverse @ keys + 1e-3 * np.eye(3)) @ keys.T @ inverse
        probe = RANDOM.standard_normal((50, 24)).astype(np.float32)
        report = edit("memit", folder, "--tensor", down, "--keys", npy("keys.npy", keys), "--values", npy("values.npy", values), "--ridge", "1e-3",
                      "--probe", npy("probe.npy", probe), "-o", path("memit_" + name), *more)
        after = read_folder(path("memit_" + name))[down].astype(np.float64)
        close("memit " + name, after, w + delta)
        row = report["matrices"][0]
        check("memit rank", row["rank"] == 3)
        close("memit change", row["change"], np.linalg.norm(delta) / np.linalg.norm(w), 1e-5)
        wanted = np.linalg.norm(delta @ keys - values) / np.linalg.norm(values)
        check("memit miss", abs(row["keys"]["miss"] - wanted) < 1e-6, f"{row['keys']['miss']} {wanted}")
        close("memit probe", row["collateral_probe"]["change"], np.linalg.norm(delta @ probe.T) / np.linalg.norm(w @ probe.T), 1e-5)
    # Two keys that are one: no solution without a ridge, and it is said.
    twice = np.stack([k, k], axis=1)
    text = edit("memit", folder, "--tensor", down, "--keys", npy("twice.npy", twice), "--values", npy("two.npy", values[:, :2]), "--ridge", "0", "-o", path("none"), code=78)
    check("E-EDIT-SINGULAR", "E-EDIT-SINGULAR" in text and not os.path.exists(path("none")))


def test_transposed_stack():
    """gpt-oss keeps experts as [experts, in, out]: directions are those of out x in all the same."""
    folder, name = path("oss"), "model.layers.0.mlp.experts.down_proj"
    os.makedirs(folder)
    stack = RANDOM.standard_normal((4, 12, 8)).astype(np.float32)  # in 12, out 8
    gate_up = RANDOM.standard_normal((4, 8, 24)).astype(np.float32)
    write_safetensors(os.path.join(folder, "model.safetensors"),
                      {name: ("BF16", to_bf16(stack)), "model.layers.0.mlp.experts.gate_up_proj": ("BF16", to_bf16(gate_up))})
    json.dump({"model_type": "gpt_oss", "num_local_experts": 4, "hidden_size": 8, "intermediate_size": 12}, open(os.path.join(folder, "config.json"), "w"))
    stack = from_bf16(to_bf16(stack)).reshape(stack.shape)
    v = RANDOM.standard_normal(12)
    unit = v / np.linalg.norm(v)
    check("E-SLICE", "E-SLICE" in edit("delete", folder, "--tensor", name, "--direction", npy("v12.npy", v), "-o", path("x"), code=64))
    edit("delete", folder, "--tensor", name, "--slice", 2, "--direction", path("v12.npy"), "-o", path("oss_edited"), "--save-patch", path("oss.safetensors"))
    after = read_folder(path("oss_edited"))[name]
    w = stack[2].astype(np.float64).T  # out x in
    wanted = (w - np.outer(w @ unit, unit)).T
    check("transposed", np.array_equal(after[2], from_bf16(to_bf16(wanted.astype(np.float32)))))
    check("other experts", all(after[e].tobytes() == stack[e].tobytes() for e in (0, 1, 3)))
    check("patch of a slice", sorted(read_safetensors(path("oss.safetensors"))[0]) == [name + "#2.a", name + "#2.b"])
    # The feature's row in the fused stack: gate and up alternate.
    gate = from_bf16(to_bf16(gate_up)).reshape(gate_up.shape)[1][:, 2 * 7].astype(np.float64)
    gate /= np.linalg.norm(gate)
    edit("delete", folder, "--tensor", name, "--slice", 1, "--side", "left", "--direction", "feature", 7, "-o", path("oss_feature"))
    w = stack[1].astype(np.float64).T
    check("feature of a fused stack", np.array_equal(read_folder(path("oss_feature"))[name][1], from_bf16(to_bf16((w - np.outer(gate, gate @ w)).T.astype(np.float32)))))
    # The adapter of a stack, in PEFT's layout of parameters.
    edit("delete", folder, "--tensor", name, "--slice", "all", "--direction", path("v12.npy"), "--as", "lora", "-o", path("oss_lora"))
    config = json.load(open(path("oss_lora/adapter_config.json")))
    factors = read_safetensors(path("oss_lora/adapter_model.safetensors"))[0]
    a = factors["base_model.model.model.layers.0.mlp.experts.lora_A.weight"].reshape(4, -1, 12).astype(np.float64)
    b = factors["base_model.model.model.layers.0.mlp.experts.lora_B.weight"].reshape(8, -1, 4).astype(np.float64)
    check("target_parameters", config["target_parameters"] == [name] and config["r"] == config["lora_alpha"] == 1)
    for e in range(4):
        w = stack[e].astype(np.float64).T
        close(f"stacked factors {e}", b[:, :, e] @ a[e], -np.outer(w @ unit, unit))


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


def dequantised(paths):
    out = {}
    for file in paths:
        for tensor in gguf.GGUFReader(file).tensors:
            values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            out[tensor.name] = np.asarray(values, dtype=np.float32).reshape(tuple(int(n) for n in reversed(tensor.shape)))
    return out


def raw(paths):
    return {tensor.name: (int(tensor.tensor_type), tensor.data.copy()) for file in paths for tensor in gguf.GGUFReader(file).tensors}


def test_gguf():
    base = os.path.join(DATA, "moe", "kjv-moe-7.6M-BF16.gguf")
    split = sorted(glob.glob(os.path.join(DATA, "gguf", "split", "kjv-moe-Q8_0-*.gguf")))
    q4 = os.path.join(DATA, "gguf", "full", "kjv-moe-Q4_K_M.gguf")
    if not all(os.path.exists(file) for file in [base, q4, *split]) or not split:
        print("left out: shared data not found")
        return
    stack = "blk.1.ffn_down_exps.weight"
    v = RANDOM.standard_normal(256)
    unit = v / np.linalg.norm(v)
    direction = npy("v256.npy", v)
    for label, model, files, out in (("BF16", base, [base], path("edited.gguf")), ("Q8_0", split[0], split, path("edited_q8"))):
        report = edit("delete", model, "--tensor", stack, "--slice", 3, "--side", "left", "--direction", direction, "-o", out)
        written = [out] if out.endswith(".gguf") else sorted(glob.glob(os.path.join(out, "*.gguf")))
        check(label + " files", [os.path.basename(f) for f in written] == ([os.path.basename(f) for f in files] if len(files) > 1 else ["edited.gguf"]))
        before, after = dequantised(files), dequantised(written)
        w = before[stack][3].astype(np.float64)
        wanted = w - np.outer(unit, unit @ w)
        step = np.abs(wanted).max() * (1 / 100 if label == "Q8_0" else 1 / 200)
        check(label + " weights", np.abs(after[stack][3] - wanted).max() <= step)
        row = report["matrices"][0]
        close(label + " encoding error", row["encoding_error"], np.linalg.norm(after[stack][3] - wanted) / np.linalg.norm(w), 1e-4)
        close(label + " change", row["change"], np.linalg.norm(after[stack][3].astype(np.float64) - w) / np.linalg.norm(w), 1e-6)
        old, new = raw(files), raw(written)
        per_expert = old[stack][1].size // 8
        flat_old, flat_new = old[stack][1].ravel(), new[stack][1].ravel()
        check(label + " other experts", np.array_equal(np.delete(flat_old, slice(3 * per_expert, 4 * per_expert)), np.delete(flat_new, slice(3 * per_expert, 4 * per_expert))))
        check(label + " other tensors", all(np.array_equal(old[n][1], new[n][1]) for n in old if n != stack) and old.keys() == new.keys())
    # What has no encoder is refused with advice, and can be an adapter.
    text = edit("delete", q4, "--tensor", "blk.1.attn_output.weight", "--direction", direction, "-o", path("q4.gguf"), code=78)
    check("E-ENCODE-TYPE", "E-ENCODE-TYPE" in text and "--as lora" in text and not os.path.exists(path("q4.gguf")))
    edit("delete", q4, "--tensors", r"blk\.1\.(attn_output|ffn_down_exps)\.weight|token_embd\.weight", "--direction", direction, "--as", "lora", "-o", path("adapter.gguf"))
    reader = gguf.GGUFReader(path("adapter.gguf"))
    text = {name: bytes(reader.fields[name].parts[-1]).decode() for name in ("general.type", "general.architecture", "adapter.type")}
    check("adapter keys", text == {"general.type": "adapter", "general.architecture": "deepseek2", "adapter.type": "lora"})
    alpha = float(reader.fields["adapter.lora.alpha"].parts[-1][0])
    factors = dequantised([path("adapter.gguf")])
    weights = dequantised([q4])
    check("adapter tensors", len(factors) == 6 and factors[stack + ".lora_a"].shape == (8, 1, 256) and factors[stack + ".lora_b"].shape == (8, 256, 1))
    for name in ("blk.1.attn_output.weight", stack, "token_embd.weight"):
        a, b = factors[name + ".lora_a"].astype(np.float64), factors[name + ".lora_b"].astype(np.float64)
        delta = alpha / b.shape[-1] * (a @ b.T if name.startswith("token_embd") else b @ a)
        w = weights[name].astype(np.float64)
        close("adapter of " + name, delta, -np.einsum("...i,i,j->...j" if w.ndim == 2 else "eoi,i,j->eoj", w, unit, unit), 1e-5)
    # An adapter applied is the edit, whatever model it was made from: factors are added.
    edit("apply", base, "--patch", path("adapter.gguf"), "-o", path("merged.gguf"))
    merged, old = dequantised([path("merged.gguf")]), dequantised([base])
    a, b = factors[stack + ".lora_a"].astype(np.float64), factors[stack + ".lora_b"].astype(np.float64)
    check("merged", np.array_equal(merged[stack], from_bf16(to_bf16((old[stack].astype(np.float64) + b @ a).astype(np.float32)))))
    # Below the step of Q8_0 nothing arrives, and that is said.
    done = subprocess.run([VINDEX, "edit", "delete", split[0], "--tensor", "blk.1.attn_output.weight", "--direction", direction, "--alpha", "1e-4", "-o", path("tiny"), "--json"],
                          capture_output=True, text=True, check=False)
    check("W-EDIT-LOST", "W-EDIT-LOST" in done.stderr and json.loads(done.stdout)["matrices"][0]["lost"], done.stderr)


def test_hostile():
    folder, up = path("small"), "model.layers.0.mlp.up_proj.weight"
    good = path("right.safetensors")

    def refused(what, code, identity, *arguments):
        text = edit(*arguments, "-o", path("refused"), code=code)
        check(what, identity in text and text.count("\n") == 1, text)
        check(what + " leaves nothing", not os.path.exists(path("refused")))

    delete = ("delete", folder, "--tensor", up, "--direction")
    refused("zero vector", 65, "E-EDIT-DIRECTION", *delete, npy("zero.npy", np.zeros(16)))
    refused("not finite", 65, "E-EDIT-DIRECTION", *delete, npy("nan.npy", np.full(16, np.nan)))
    refused("wrong length", 65, "--side left fits", *delete, npy("long.npy", np.ones(24)))
    refused("no npy", 65, "E-NPY", *delete, os.path.join(folder, "config.json"))
    refused("no file", 66, "E-", *delete, path("absent.npy"))
    refused("objects", 65, "E-NPY", *delete, npy("object.npy", np.array([{}] * 16)))
    refused("feature beyond", 64, "E-EDIT-FEATURE", *delete, "feature", 24)
    refused("singular beyond", 64, "E-EDIT-DIRECTION", *delete, "singular", 16)
    refused("word", 64, "E-EDIT-DIRECTION", *delete, "feature", "x")
    refused("name", 64, "E-TENSOR", "delete", folder, "--tensor", up + "x", "--direction", path("v.npy"))
    refused("norm", 64, "E-TENSOR", "delete", folder, "--tensor", "model.norm.weight", "--direction", path("v.npy"))
    refused("slice of a matrix", 64, "E-SLICE", "delete", folder, "--tensor", up, "--slice", 0, "--direction", path("v.npy"))
    refused("keys and values", 65, "E-EDIT-SHAPE", "memit", folder, "--tensor", "model.layers.0.mlp.down_proj.weight", "--keys", path("keys.npy"), "--values", path("two.npy"))
    refused("covariance", 65, "not symmetric", "memit", folder, "--tensor", "model.layers.0.mlp.down_proj.weight", "--keys", path("keys.npy"), "--values", path("values.npy"),
            "--covariance", npy("lopsided.npy", np.triu(np.ones((24, 24)))))
    refused("covariance singular", 78, "E-EDIT-SINGULAR", "memit", folder, "--tensor", "model.layers.0.mlp.down_proj.weight", "--keys", path("keys.npy"), "--values",
            path("values.npy"), "--covariance", npy("singular.npy", np.ones((24, 24))))
    a, b = np.ones((1, 16), np.float32), np.ones((24, 1), np.float32)
    own = {"format": "vindex-patch/1"}
    for what, tensors, metadata, identity, code in (
            ("half a pair", {up + ".a": ("F32", a)}, own, "E-PATCH-FORMAT", 65),
            ("ranks", {up + ".a": ("F32", np.ones((2, 16), np.float32)), up + ".b": ("F32", b)}, own, "E-PATCH-FORMAT", 65),
            ("not finite", {up + ".a": ("F32", a * np.inf), up + ".b": ("F32", b)}, own, "E-PATCH-FORMAT", 65),
            ("integers", {up + ".a": ("I32", a.astype(np.int32)), up + ".b": ("F32", b)}, own, "E-PATCH-FORMAT", 65),
            ("shape", {up + ".a": ("F32", np.ones((1, 15), np.float32)), up + ".b": ("F32", b)}, own, "E-PATCH-SHAPE", 78),
            ("version", {up + ".a": ("F32", a), up + ".b": ("F32", b)}, {"format": "vindex-patch/2"}, "E-PATCH-FORMAT", 65),
            ("no patch", {up + ".a": ("F32", a), up + ".b": ("F32", b)}, None, "E-PATCH-FORMAT", 65),
            ("digests", {up + ".a": ("F32", a), up + ".b": ("F32", b)}, {**own, "digests": "{"}, "E-JSON", 65),
            ("nothing", {}, own, "E-PATCH-FORMAT", 65)):
        write_safetensors(path("hostile.safetensors"), tensors, metadata)
        refused("patch: " + what, code, identity, "apply", folder, "--patch", path("hostile.safetensors"))
    with open(path("cut.safetensors"), "wb") as cut:
        cut.write(open(good, "rb").read()[:-5])
    refused("patch: cut off", 65, "E-ST", "apply", folder, "--patch", path("cut.safetensors"))
    refused("patch: absent", 66, "E-", "apply", folder, "--patch", path("absent.safetensors"))
    # Outputs: over no input, of the model's kind, and not what is there.
    check("over the model", "E-OUTPUT" in edit(*delete, path("v.npy"), "-o", folder, code=73))
    check("over the patch", "E-OUTPUT" in edit("apply", folder, "--patch", good, "-o", path("refused"), "--save-patch", good, "--replace", code=73))
    check("kind", "E-OUTPUT-KIND" in edit(*delete, path("v.npy"), "-o", path("refused.gguf"), code=64))
    shutil.copy(os.path.join(folder, "model-00001-of-00002.safetensors"), path("one.safetensors"))
    shutil.copy(os.path.join(folder, "config.json"), path("one.config.json"))
    single = ("delete", path("one.safetensors"), "--tensor", up, "--direction", path("v.npy"))
    edit(*single, "-o", path("one_edited.safetensors"))
    os.makedirs(path("alone"))
    shutil.copy(path("one.safetensors"), path("alone/model.safetensors"))
    edit("delete", path("alone"), *single[2:], "-o", path("alone_edited.safetensors"))
    check("one file of a folder", open(path("alone_edited.safetensors"), "rb").read() == open(path("one_edited.safetensors"), "rb").read())
    check("one file", read_safetensors(path("one_edited.safetensors"))[0][up].tobytes() == read_folder(path("right"))[up].tobytes())
    check("there already", "E-OUTPUT-EXISTS" in edit(*single, "-o", path("one_edited.safetensors"), code=73))
    edit(*single, "-o", path("one_edited.safetensors"), "--replace")
    check("over the source", "E-OUTPUT-SOURCE" in edit(*single, "-o", path("one.safetensors"), "--replace", code=73))


def test_kill():
    """A process that is killed leaves nothing under the final names, or all of it."""
    base = os.path.join(DATA, "moe", "kjv-moe-7.6M-BF16.gguf")
    if not os.path.exists(base):
        return
    out, patch = path("killed.gguf"), path("killed.safetensors")
    command = [VINDEX, "edit", "delete", base, "--tensors", r"blk\..*_exps\.weight", "--direction", path("v256.npy"), "-q", "-o"]
    subprocess.run([*command, path("whole.gguf"), "--save-patch", path("whole.safetensors")], check=True)
    whole, outcomes = open(path("whole.gguf"), "rb").read(), set()
    for attempt, (number, delay) in enumerate([(signal.SIGKILL, 0.02), (signal.SIGTERM, 0.05), (signal.SIGKILL, 0.2), (signal.SIGINT, 0.4), (signal.SIGKILL, 0.8), (signal.SIGTERM, 1.0)]):
        process = subprocess.Popen([*command, out, "--save-patch", patch], stderr=subprocess.PIPE, text=True)
        time.sleep(delay)
        process.send_signal(number)
        text = process.communicate()[1]
        outcomes.add(process.returncode)
        check(f"kill {attempt}: the model", not os.path.exists(out) or open(out, "rb").read() == whole)
        check(f"kill {attempt}: the patch", not os.path.exists(patch) or os.path.exists(out))
        check(f"kill {attempt}: the exit", process.returncode in (0, 75, -number), f"{process.returncode} {text}")
        if process.returncode == 75:
            check(f"kill {attempt}: nothing", "E-STOPPED" in text and not os.path.exists(out) and not os.path.exists(patch), text)
        for name in (out, patch):
            if os.path.exists(name):
                os.remove(name)
    print("ends of processes that were killed:", sorted(outcomes))


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    os.makedirs(FOLDER)
    test_deletions()
    test_insertions()
    test_transposed_stack()
    test_blocks_of_8_bits()
    test_gguf()
    test_kill()
    test_hostile()
    print("failures:", len(FAILURES))
    return 1 if FAILURES else 0


sys.exit(main())
