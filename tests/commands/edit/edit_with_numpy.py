"""Holds `vindex edit` against numpy: every command, both sides, stacks and transposed storage, undo, patches, GGUF by the package `gguf`.

Usage: edit_with_numpy.py VINDEX DATA FOLDER. Parts that need DATA are left out without it."""

import glob
import json
import os
import subprocess
import sys


import gguf
import numpy as np

from edit_cases import DATA, FAILURES, FOLDER, RANDOM, VINDEX, check, close, edit, npy, only_differs, path, read_folder
from edit_blocks import test_blocks_of_8_bits, test_groups_of_4_bits
from edit_refusals import test_hostile
from model_files import finish_gguf, from_bf16, gguf_tensors, gguf_values, read_safetensors, to_bf16, write_safetensors
from test_script import fresh_folder


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
    # Over isotropic inputs the expected squares are Frobenius norms, whatever the spectrum.
    close("collateral", row["collateral"]["change"], row["change"], 1e-12)
    check("no collateral of what was not given", row["collateral_covariance"] is None and row["collateral_probe"] is None)
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
    # A patch of other weights is refused; --accept-findings applies it.
    text = edit("apply", path("singular"), "--patch", path("right.safetensors"), "-o", path("foreign"), code=78)
    check("E-PATCH-BASE", "E-PATCH-BASE" in text and not os.path.exists(path("foreign")))
    edit("apply", path("singular"), "--patch", path("right.safetensors"), "--accept-findings", "-o", path("foreign"))
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
        change, output = np.square(delta @ probe.T).sum(axis=0), np.square(w @ probe.T).sum(axis=0)
        close("memit probe", row["collateral_probe"]["change"], np.sqrt(change.sum() / output.sum()), 1e-5)
        without = np.sqrt((change.sum() - change) / (output.sum() - output))
        close("memit probe's error", row["collateral_probe"]["standard_error"], np.sqrt(49 / 50 * np.square(without - without.mean()).sum()), 1e-4)
        if more:
            close("memit covariance", row["collateral_covariance"]["change"], np.sqrt(np.trace(delta @ c @ delta.T) / np.trace(w @ c @ w.T)), 1e-5)
    # More keys than inputs: the least squares of all of them, of no more rank than a side.
    keys, values = RANDOM.standard_normal((24, 60)), RANDOM.standard_normal((16, 60))
    delta = values @ np.linalg.inv(keys.T @ np.linalg.inv(covariance) @ keys + 1e-2 * np.eye(60)) @ keys.T @ np.linalg.inv(covariance)
    report = edit("memit", folder, "--tensor", down, "--keys", npy("many.npy", keys), "--values", npy("wanted.npy", values), "--ridge", "1e-2", "--covariance", path("c.npy"),
                  "-o", path("memit_many"), "--save-patch", path("many.safetensors"))
    close("memit of many keys", read_folder(path("memit_many"))[down], w + delta)
    check("factors of many keys", read_safetensors(path("many.safetensors"))[0][down + ".a"].shape == (16, 24) and report["matrices"][0]["rank"] == 16)
    # An ill-conditioned covariance is told as such, a harmless one as harmless.
    turn = np.linalg.qr(RANDOM.standard_normal((24, 24)))[0]
    for largest, said in ((9.0, False), (1e12, True)):
        spectrum = np.geomspace(1, largest, 24)
        skewed = (turn * spectrum) @ turn.T
        report = edit("memit", folder, "--tensor", down, "--keys", path("keys.npy"), "--values", path("values.npy"), "--covariance", npy("skewed.npy", (skewed + skewed.T) / 2))
        told = report["matrices"][0]["condition"]["covariance"]
        check("condition of a covariance", 0.3 * largest < told < 24 * largest, f"{told:.2e} of {largest:.0e}")
        check("W-EDIT-CONDITION", ("W-EDIT-CONDITION" in [warning["id"] for warning in report["warnings"]]) == said)
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


def dequantised(paths):
    return {name: gguf_values(tensor) for name, tensor in gguf_tensors(*paths).items()}


def raw(paths):
    return {name: (int(tensor.tensor_type), tensor.data.copy()) for name, tensor in gguf_tensors(*paths).items()}


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
    edit("delete", q4, "--tensors", r"blk\.1\.(attn_output|ffn_down_exps)\.weight|token_embd\.weight", "--direction", direction, "--side", "right", "--as", "lora", "-o", path("adapter.gguf"))
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
    # llama.cpp refuses an adapter of another architecture, and what acts on some tokens is no sum.
    def adapter_file(architecture, tensor, add=lambda writer: None):
        writer = gguf.GGUFWriter(path("small_adapter.gguf"), architecture)
        writer.add_type("adapter")
        writer.add_string("adapter.type", "lora")
        add(writer)
        a, b = RANDOM.standard_normal((2, 256)).astype(np.float32), RANDOM.standard_normal((256, 2)).astype(np.float32)
        writer.add_tensor(tensor + ".lora_a", a)
        writer.add_tensor(tensor + ".lora_b", b)
        finish_gguf(writer)
        return ("apply", base, "--patch", path("small_adapter.gguf"), "-o", path("small_merged.gguf"))

    output = "blk.1.attn_output.weight"
    edit(*adapter_file("deepseek2", output))
    check("E-ADAPTER-ARCHITECTURE", "E-ADAPTER-ARCHITECTURE" in edit(*adapter_file("llama", output), "--force", code=78))
    tokens = edit(*adapter_file("deepseek2", output, lambda w: w.add_array("adapter.alora.invocation_tokens", [1, 2])), "--force", code=78)
    check("E-ADAPTER-VARIANT", "E-ADAPTER-VARIANT" in tokens and "adapter.alora.invocation_tokens" in tokens, tokens)
    check("alpha as text", "E-LORA-CONFIG" in edit(*adapter_file("deepseek2", output, lambda w: w.add_string("adapter.lora.alpha", "8")), "--force", code=78))
    check("E-PATCH-TENSOR", "E-PATCH-TENSOR" in edit(*adapter_file("deepseek2", "blk.9.attn_output.weight"), "--force", code=65))
    # Below the step of Q8_0 nothing arrives, and that is said.
    done = subprocess.run([VINDEX, "edit", "delete", split[0], "--tensor", "blk.1.attn_output.weight", "--side", "right", "--direction", direction, "--alpha", "1e-4", "-o", path("tiny"), "--json"],
                          capture_output=True, text=True, check=False)
    check("W-EDIT-LOST", "W-EDIT-LOST" in done.stderr and json.loads(done.stdout)["matrices"][0]["lost"], done.stderr)


def main():
    fresh_folder(FOLDER)
    test_deletions()
    test_insertions()
    test_transposed_stack()
    test_blocks_of_8_bits()
    test_groups_of_4_bits()
    test_gguf()
    test_hostile()
    print("failures:", len(FAILURES))
    return 1 if FAILURES else 0


sys.exit(main())
