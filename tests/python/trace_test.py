"""What `vindex trace` writes beside transformers in float32 on the same weights: small random models of every family that it
follows, as safetensors (config.json in both forms that transformers has written) and as GGUF, then the trained models of the shared
data where they are there, quantised ones against weights that gguf decodes.

Usage: trace_test.py VINDEX CAPTURE DATA FOLDER [FAMILY|encoded|trained ...]. It prints the largest errors, which docs/commands/trace.md has."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
import numpy as np
import torch
import transformers
from safetensors.numpy import load_file, save_file

import trace_cost
import trace_encoded
import trace_gguf
import trace_models
from test_script import fresh_folder
from trace_compare import CLOSE, KINDS, Choice, error, row_error
from trace_reference import reference

VINDEX, CAPTURE, DATA, FOLDER = sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4])
ONLY = sys.argv[5:]
sys.path.insert(0, os.path.dirname(os.path.abspath(CAPTURE)))
spec = importlib.util.spec_from_file_location("capture", CAPTURE)
capture = importlib.util.module_from_spec(spec)
spec.loader.exec_module(capture)
transformers.utils.logging.disable_progress_bar()
checks = 0
failures = []
# The same weights in another container.
SAME = 1e-5


def check(condition, *what):
    global checks
    checks += 1
    if not condition:
        print("FAILED:", *what, flush=True)
        failures.append(what)


def trace(model, prompts, *options):
    """The arrays of a dump by name."""
    out, ids = FOLDER / "dump", FOLDER / "ids.jsonl"
    shutil.rmtree(out, ignore_errors=True)
    ids.write_text("".join(json.dumps({"ids": prompt}) + "\n" for prompt in prompts))
    ran = subprocess.run([VINDEX, "trace", model, "--ids", ids, "-o", out, "--keep", KINDS, *options], capture_output=True, text=True)
    if ran.returncode != 0:
        check(False, model, "ended with", ran.returncode, ran.stderr[-2000:])
        return {}
    return {path.stem: np.load(path) for path in out.glob("*.npy")}


def choice(model):
    """The rule of a model of transformers."""
    return Choice(capture.text_config(model).to_dict(), {name: values.numpy() for name, values in model.state_dict().items()})


def compare(label, got, want, choose, tolerance):
    """Checks a dump against a reference; the largest errors of its kinds."""
    if not got:
        return {}
    check(set(got) == set(want), label, "arrays", sorted(set(got) ^ set(want)))
    found = {}
    for name in sorted(set(got) & set(want)):
        kind, _, layer = name.partition(".")
        check(got[name].shape == want[name].shape, label, name, got[name].shape, want[name].shape)
        if got[name].shape != want[name].shape:
            continue
        if kind in ("token_ids", "prompt"):
            check(np.array_equal(got[name], want[name]), label, name)
            continue
        off = (row_error if kind in ("hidden", "mlp") else error)(got[name], want[name])
        found[kind] = max(found.get(kind, 0.0), off)
        check(off <= tolerance, label, name, "differs by", off)
        if kind == "router_logits":
            (taken, _), (wanted, margin) = choose(int(layer), got[name]), choose(int(layer), want[name])
            other = (taken != wanted).any(axis=1)
            check((margin[other] < 1e-5).all(), label, name, "other experts of tokens", np.flatnonzero(other & (margin >= 1e-5)))
            found["chosen"] = found.get("chosen", 0) + len(wanted)
            found["other"] = found.get("other", 0) + int(other.sum())
    print(f"{label:36}" + "".join(f" {kind} {found[kind]:.1e}" for kind in ("logits", "hidden", "mlp", "router_logits") if kind in found)
          + (f" experts {found['other']} of {found['chosen']} other" if "chosen" in found else ""), flush=True)
    return found


def check_family(name, make, config):
    folder = FOLDER / "model"
    shutil.rmtree(folder, ignore_errors=True)
    model = trace_models.made(make, config)
    model.save_pretrained(folder)
    prompts = trace_models.prompts(name)
    want, choose = reference(capture, model, prompts), choice(model)
    check(want["logits"].std() > 0.1, name, "logits hardly differ")
    if name == "kimi_k2":
        trace_models.rename_type(folder, "kimi_k2", "DeepseekV3ForCausalLM")
    got = trace(folder, prompts)
    compare(name, got, want, choose, CLOSE)
    if name in trace_models.IN_GGUF and got:
        for split in (False, True) if name.startswith(("deepseek", "kimi")) else (False,):
            path = FOLDER / "model.gguf"
            trace_gguf.write(folder, load_file(folder / "model.safetensors"), path, split)
            compare(name + (" GGUF, split kv_b" if split else " GGUF"), trace(path, prompts), got, choose, SAME)
    older = trace_models.older_form(json.loads((folder / "config.json").read_text()))
    (folder / "config.json").write_text(json.dumps(older))
    again = trace(folder, prompts)
    check(set(again) == set(got) and all(np.array_equal(again[kind], got[kind]) for kind in again), name, "config.json in its older form")


def check_encoded():
    """Weights that published checkpoints do not store as floats."""
    folder = FOLDER / "encoded"
    for name, (make, config) in trace_models.encoded().items():
        shutil.rmtree(folder, ignore_errors=True)
        model = trace_models.made(make, config)
        (trace_encoded.save_gpt_oss if name == "gpt_oss" else trace_encoded.save_deepseek)(model, folder)
        prompts = trace_models.prompts()
        compare(name + (", MXFP4" if name == "gpt_oss" else ", FP8 blocks"), trace(folder, prompts), reference(capture, model, prompts),
                choice(model), CLOSE)


def byte_prompts():
    texts = ["In the beginning God created the heaven and the earth.", "And", "The LORD is my shepherd; I shall not want. He maketh me to lie down in "
             "green pastures: he leadeth me beside the still waters.", "Vanity of vanities, saith the Preacher"]
    return [list(text.encode()) for text in texts]


def check_real(label, traced, model, prompts):
    model = capture.load_model(model, "f32", "cpu", False)
    want, choose = reference(capture, model, prompts), choice(model)
    got = trace(traced, prompts)
    compare(label, got, want, choose, CLOSE)
    return got, choose


def decoded_mixture(shards):
    """transformers has no deepseek2 of GGUF: its model is given what gguf decodes."""
    folder = FOLDER / "decoded"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    config = json.loads((DATA / "moe" / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "dtype": "float32", "torch_dtype": "float32"}))
    tensors = trace_gguf.deepseek_tensors(trace_gguf.dequantised(shards), config["num_hidden_layers"], config["num_attention_heads"])
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def check_quantised(label, path, shards):
    check_real(label, path, decoded_mixture(shards), byte_prompts())


def check_cost(path):
    """Losses of the trained mixture and of its quantised form, and how far apart their predictions are."""
    prompts = [*byte_prompts(), [65]]  # the last predicts no token
    exact = capture.load_model(DATA / "moe", "f32", "cpu", False)
    coarse = capture.load_model(decoded_mixture([path]), "f32", "cpu", False)
    loss, against = trace_cost.by_vindex(VINDEX, FOLDER, DATA / "moe", path, prompts)
    divergence, same = trace_cost.by_torch(exact, coarse, prompts)
    wanted = {"loss": trace_cost.by_transformers(exact, prompts), "other loss": trace_cost.by_transformers(coarse, prompts)}
    wanted["difference"] = wanted["other loss"] - wanted["loss"]
    wanted["KL"] = divergence
    got = dict(zip(wanted, (loss["loss"], against["loss"], against["difference"], against["kl"]), strict=True))
    for name, value in wanted.items():
        check(abs(got[name] - value) <= trace_cost.CLOSE, path.name, name, got[name], "is not", value)
    # The divergence itself is small: held to a hundredth of it.
    check(abs(got["KL"] - divergence) <= 0.01 * divergence and divergence > 10 * trace_cost.CLOSE, path.name, "KL", got["KL"], divergence)
    tokens = sum(len(ids) - 1 for ids in prompts)
    check(loss["tokens"] == tokens and against["tokens"] == tokens, "tokens", loss["tokens"], against["tokens"], tokens)
    check(abs(against["same_first_choice"] - same) < 1.5 / tokens, path.name, "first choices", against["same_first_choice"], same)
    figures = "".join(f" {name} {got[name]:.6f} ({abs(got[name] - value):.1e} off)" for name, value in wanted.items())
    print(f"cost of {path.name:28}{figures} same {against['same_first_choice']:.4f} ({same:.4f})", flush=True)


def check_trained():
    if not (DATA / "moe").exists():
        print("not there:", DATA)
        return
    got, choose = check_real("trained mixture", DATA / "moe", DATA / "moe", byte_prompts())
    compare("trained mixture, GGUF BF16", trace(next((DATA / "moe").glob("*.gguf")), byte_prompts()), got, choose, CLOSE)
    stories = [[1, 403, 407, 261, 378], [1], list(range(3, 120))]
    for path in (DATA / "stories260k" / "stories260K.gguf", DATA / "gguf" / "full" / "stories260K-Q4_K_M.gguf"):
        check_real(path.name, path, path, stories)
    quantised = DATA / "gguf" / "full" / "kjv-moe-Q4_K_M.gguf"
    check_quantised(quantised.name, quantised, [quantised])
    shards = sorted((DATA / "gguf" / "split").glob("kjv-moe-Q8_0-*.gguf"))
    check_quantised("kjv-moe-Q8_0, five shards", shards[0], shards)
    check_cost(quantised)


def main():
    fresh_folder(FOLDER)
    torch.set_num_threads(1)
    for name, (make, config) in trace_models.families().items():
        if not ONLY or name in ONLY:
            check_family(name, make, config)
    if not ONLY or "encoded" in ONLY:
        check_encoded()
    if not ONLY or "trained" in ONLY:
        check_trained()
    print(checks, "checks with transformers", transformers.__version__, "-", len(failures), "failed")
    return 1 if failures else 0


sys.exit(main())
