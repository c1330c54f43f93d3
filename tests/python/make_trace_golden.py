"""Makes tests/data/trace: what transformers computes, in float32, of the models of trace_models.py with the weights of trace_golden.py.

Usage: make_trace_golden.py CAPTURE FOLDER [MODEL ...], by the interpreter of scripts/python_env.sh --models, with tests/support on the
PYTHONPATH; CAPTURE is scripts/capture.py, FOLDER tests/data/trace. The same versions on the same machine give the same bytes."""

import importlib.util
import json
import os
import sys
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
import numpy as np
import torch
import transformers
from safetensors import safe_open

import trace_golden
import trace_models
from trace_compare import Choice, losses
from trace_reference import reference

CAPTURE, FOLDER, ONLY = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
sys.path.insert(0, os.path.dirname(os.path.abspath(CAPTURE)))
spec = importlib.util.spec_from_file_location("capture", CAPTURE)
capture = importlib.util.module_from_spec(spec)
spec.loader.exec_module(capture)
# Experts are held as they are: no decision may be closer than two orders of summation move scores.
MARGIN = 2e-5


def laws_of(model, folder):
    """Name -> law, of the tensors as they are stored."""
    model.save_pretrained(folder)
    with safe_open(folder / "model.safetensors", "np") as file:
        shapes = {name: file.get_slice(name).get_shape() for name in sorted(file.keys())}
    laws = {}
    for name, shape in shapes.items():
        mean, deviation = trace_models.law(model, name, shape)
        laws[name] = f"{'x'.join(map(str, shape))} {mean:g} {deviation:.4g}"
    return laws


def computed(make, config, laws, seed, prompts, folder):
    """(arrays, choice) by transformers of the weights of a seed."""
    tensors = {name: trace_golden.values_of(name, law, seed) for name, law in laws.items()}
    trace_golden.write_model(folder, config, tensors)
    model, said = make.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    assert not any(said.values()), said
    arrays = reference(capture, model.eval(), prompts)
    return arrays, Choice(capture.text_config(model).to_dict(), tensors)


def stored(arrays, choose, prompts):
    """(arrays of the file, smallest margin of a choice of experts)."""
    rows = trace_golden.rows_kept(prompts)
    kept, closest = {}, np.inf
    for name, values in arrays.items():
        kind, _, layer = name.partition(".")
        if kind not in ("token_ids", "prompt"):
            kept[name] = ("F32", values[rows])
        if kind == "router_logits":
            experts, margin = choose(int(layer), values)
            kept[f"experts.{layer}"] = ("U8", experts)
            closest = min(closest, margin.min())
    kept["losses"] = ("F32", losses(arrays["logits"], prompts))
    return kept, closest


def make_one(name, make, config, prompts, prompts_name):
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        laws = laws_of(make(config), folder)
        written = {**json.loads((folder / "config.json").read_text()), "dtype": "bfloat16"}
        for seed in range(1, 100):
            arrays, choose = computed(make, written, laws, seed, prompts, folder)
            kept, closest = stored(arrays, choose, prompts)
            if closest >= MARGIN:
                break
        assert closest >= MARGIN and arrays["logits"].std() > 0.1, name
    if name == "kimi_k2":
        written["model_type"], written["architectures"] = "kimi_k2", ["DeepseekV3ForCausalLM"]
    described = {"prompts": prompts_name, "seed": seed, "gguf": name in trace_models.IN_GGUF, "loss": float(losses(arrays["logits"], prompts).mean()),
                 "config": written, "tensors": laws}
    (FOLDER / f"{name}.json").write_text(json.dumps(described, indent=1) + "\n")
    trace_golden.write_safetensors(FOLDER / f"{name}.safetensors", kept)
    print(f"{name:28} seed {seed}, loss {described['loss']:.4f}, closest choice {closest:.1e}", flush=True)


def main():
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    for name, (make, config) in trace_models.families().items():
        prompts = trace_models.prompts(name)
        prompts_name = "prompts-long.jsonl" if name.endswith("_long") else "prompts.jsonl"
        (FOLDER / prompts_name).write_text("".join(json.dumps({"ids": ids}) + "\n" for ids in prompts))
        if not ONLY or name in ONLY:
            make_one(name, make, config, prompts, prompts_name)


main()
