"""What `vindex trace` computes of the models of tests/data/trace, as safetensors or as GGUF, beside what transformers computed of them;
that a single weight changed anywhere is noticed, and that no family lacks a model.

Usage: trace_golden_test.py VINDEX GOLDEN FOLDER safetensors|gguf [MODEL ...]; GOLDEN is tests/data/trace. It prints the largest errors."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

import trace_golden
from test_script import call, fresh_folder
from trace_compare import CLOSE, KINDS, Choice, error, losses, row_error

VINDEX, GOLDEN, FOLDER, CONTAINER, ONLY = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4], sys.argv[5:]
# Nats a token, of the mean.
SAME_LOSS = 1e-5
# Of which every tensor is changed: biases everywhere, and a mixture of every kind of part.
CHANGED = ("llama_biases", "qwen2_moe_mixed")
checks = 0
failures = []
largest = {}


def check(condition, *what):
    global checks
    checks += 1
    if not condition:
        print("FAILED:", *what, flush=True)
        failures.append(what)


def trace(model, golden, threads=1):
    """(arrays of a dump by name, mean loss); ends the script where the program fails."""
    out = FOLDER / "dump"
    shutil.rmtree(out, ignore_errors=True)
    ran = subprocess.run([VINDEX, "-q", "trace", model, "--ids", golden.prompts_file, "-o", out, "--keep", KINDS, "--loss", "--json",
                          "--backend", "cpu", "--threads", str(threads)], capture_output=True, text=True)
    if ran.returncode != 0:
        sys.exit(f"{golden.name}: trace ended with {ran.returncode}: {ran.stderr[-2000:]}")
    return {path.stem: np.load(path) for path in out.glob("*.npy")}, json.loads(ran.stdout)["loss"]["loss"]


def differences(golden, arrays, loss):
    """(name, difference, what is allowed) of every array of the reference; arrays that one side alone has are infinitely apart."""
    rows = trace_golden.rows_kept(golden.prompts)
    choose = Choice(golden.config.get("text_config", golden.config), golden.tensors)
    found = [("loss", abs(loss - golden.loss), SAME_LOSS)]
    for name in sorted(set(arrays) - set(golden.reference) - {"token_ids", "prompt"}):
        found.append((name, np.inf, 0.0))
    for name, want in golden.reference.items():
        kind, _, layer = name.partition(".")
        source = {"experts": f"router_logits.{layer}", "losses": "logits"}.get(kind, name)
        if source not in arrays:
            found.append((name, np.inf, 0.0))
        elif kind == "experts":
            other = (choose(int(layer), arrays[source])[0] != want).any(axis=1)
            found.append((name, int(other.sum()), 0))
        elif kind == "losses":
            found.append((name, error(losses(arrays[source], golden.prompts), want), CLOSE))
        else:
            measure = row_error if kind in ("hidden", "mlp") else error
            found.append((name, measure(arrays[name][rows], want), CLOSE))
    return found


def compare(label, golden, model):
    kinds = {}
    for name, off, allowed in differences(golden, *trace(model, golden)):
        check(off <= allowed, label, name, "differs by", off)
        kind = name.partition(".")[0]
        kinds[kind] = max(kinds.get(kind, 0), off)
        largest[kind] = max(largest.get(kind, 0), off)
    print(f"{label:36}" + "".join(f" {kind} {off:.1e}" for kind, off in kinds.items()), flush=True)


def check_model(golden):
    folder = FOLDER / "model"
    shutil.rmtree(folder, ignore_errors=True)
    trace_golden.write_model(folder, golden.config, golden.tensors)
    if CONTAINER == "safetensors":
        compare(golden.name, golden, folder)
    elif golden.in_gguf:
        import trace_gguf
        for split in (False, True) if golden.name.startswith(("deepseek", "kimi")) else (False,):
            path = FOLDER / "model.gguf"
            trace_gguf.write(folder, golden.tensors, path, split)
            compare(golden.name + (", split kv_b" if split else ""), golden, path)


def check_threads(golden):
    """The same bits with one thread and two."""
    folder = FOLDER / "model"
    trace_golden.write_model(folder, golden.config, golden.tensors)
    (one, loss_one), (two, loss_two) = (trace(folder, golden, threads) for threads in (1, 2))
    check(set(one) == set(two) and all(one[name].tobytes() == two[name].tobytes() for name in one) and loss_one == loss_two,
          golden.name, "other bits with two threads")


def used(golden, name, shape):
    """Number of a value that counts for some token: of the embedding, one in the row of the token that starts the second prompt."""
    row = shape[0] // 2
    if "embed_tokens" in name:
        row = golden.prompts[1][0]
    return row * (int(np.prod(shape)) // shape[0])


def check_changes(golden):
    """A weight of any tensor that is off by an eighth of its tensor's deviation is beyond what is allowed."""
    folder = FOLDER / "model"
    for name, values in golden.tensors.items():
        changed = values.copy().reshape(-1)
        changed[used(golden, name, values.shape)] += values.std() / 8
        trace_golden.write_model(folder, golden.config, {**golden.tensors, name: trace_golden.rounded(changed).reshape(values.shape)})
        off = differences(golden, *trace(folder, golden))
        check(any(difference > allowed for _, difference, allowed in off), golden.name, name, "is changed, and nothing is said")


def check_stored_output(golden):
    """A stored lm_head counts where the configuration says that it is tied to the embedding, as in transformers; a warning says so."""
    folder = FOLDER / "model"
    trace_golden.write_model(folder, {**golden.config, "tie_word_embeddings": True}, golden.tensors)
    compare(golden.name + ", said to be tied", golden, folder)
    said = call(VINDEX, "trace", folder, "--ids", golden.prompts_file, "--loss", "--backend", "cpu").stderr
    check("warning W-TIED: lm_head.weight" in said and "differs" in said, "nothing is said of the stored lm_head:", said)


def check_all_families(model_types):
    """No family that the program knows, by what it says of one that it does not, is without a model."""
    golden = trace_golden.Golden(GOLDEN / "llama.json")
    trace_golden.write_model(FOLDER / "model", {**golden.config, "model_type": "unheard_of"}, golden.tensors)
    said = call(VINDEX, "-q", "trace", FOLDER / "model", "--ids", golden.prompts_file, "--loss", code=78).stderr
    known = said.partition("known are ")[2].split()
    check(len(known) > 1 and set(known) == model_types, "families without a model:", sorted(set(known) ^ model_types))


def main():
    fresh_folder(FOLDER)
    models = {path.stem: path for path in sorted(GOLDEN.glob("*.json")) if not ONLY or path.stem in ONLY}
    check(models, "no models in", GOLDEN)
    for path in models.values():
        check_model(trace_golden.Golden(path))
    if CONTAINER == "safetensors":
        for name in CHANGED:
            if name in models:
                check_changes(trace_golden.Golden(models[name]))
        if "llama" in models:
            check_stored_output(trace_golden.Golden(models["llama"]))
        if "deepseek_v3" in models:
            check_threads(trace_golden.Golden(models["deepseek_v3"]))
        if not ONLY:
            check_all_families({json.loads(path.read_text())["config"]["model_type"] for path in models.values()})
    print("largest:" + "".join(f" {kind} {off:.1e}" for kind, off in largest.items()))
    print(checks, "checks of", len(models), "models -", len(failures), "failed")
    return 1 if failures else 0


sys.exit(main())
