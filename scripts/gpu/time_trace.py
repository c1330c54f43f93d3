#!/usr/bin/env python3
"""One timing of `vindex trace` on a device, and a comparison with the host: time_trace.py PROGRAM FOLDER [options].

FOLDER gets a random BF16 model of Llama's shape (2.2 GB at the defaults), prompts and dumps, and is emptied at the end. The logits
of a short prompt must agree with those of `--backend cpu` to 1e-3 of their standard deviation; then all prompts run, twice, and the
faster run is reported: the time of the whole process, which reads the weights from the page cache. Requires numpy alone.
Ends with 1 where the logits differ, with the program's code where it fails.
"""
import argparse
import json
import pathlib
import shutil
import struct
import subprocess
import sys
import time

import numpy as np

TOLERANCE = 1e-3


def shapes_of(options):
    """Names and shapes of the tensors, with the columns that a product sums over; None: a norm's weights, all 1."""
    hidden, keys, neurons = options.hidden, options.hidden // 4, options.hidden * 7 // 2
    shapes = {"model.embed_tokens.weight": (options.vocabulary, hidden), "lm_head.weight": (options.vocabulary, hidden),
              "model.norm.weight": (hidden,)}
    for layer in range(options.layers):
        of = f"model.layers.{layer}."
        shapes |= {of + "input_layernorm.weight": (hidden,), of + "post_attention_layernorm.weight": (hidden,),
                   of + "self_attn.q_proj.weight": (hidden, hidden), of + "self_attn.k_proj.weight": (keys, hidden),
                   of + "self_attn.v_proj.weight": (keys, hidden), of + "self_attn.o_proj.weight": (hidden, hidden),
                   of + "mlp.gate_proj.weight": (neurons, hidden), of + "mlp.up_proj.weight": (neurons, hidden),
                   of + "mlp.down_proj.weight": (hidden, neurons)}
    return shapes


def bfloat16(values):
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def write_model(folder, options):
    """Weights are cut from one block of normal numbers, each tensor from a place of its own."""
    folder.mkdir(parents=True)
    shapes = shapes_of(options)
    noise = np.random.default_rng(1).standard_normal(1 << 22, dtype=np.float32)
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in shapes.items():
        size = 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for number, shape in enumerate(shapes.values()):
            if len(shape) == 1:
                file.write(bfloat16(np.ones(shape)).tobytes())
                continue
            block = bfloat16(np.roll(noise, 7919 * number) / np.sqrt(shape[1]))
            left = int(np.prod(shape))
            while left > 0:
                file.write(block[:left].tobytes())
                left -= len(block)
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": options.hidden,
        "intermediate_size": options.hidden * 7 // 2, "num_hidden_layers": options.layers,
        "num_attention_heads": options.hidden // 128, "num_key_value_heads": options.hidden // 512, "head_dim": 128,
        "vocab_size": options.vocabulary, "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 1e6,
        "hidden_act": "silu", "tie_word_embeddings": False, "torch_dtype": "bfloat16"}))
    return at


def write_prompts(path, count, length, vocabulary):
    with open(path, "w", encoding="utf-8") as file:
        for prompt in range(count):
            file.write(json.dumps({"ids": [(7 + 31 * prompt + 101 * at) % vocabulary for at in range(length)]}) + "\n")


def trace(program, folder, prompts, backend, *keep):
    """The dump and the seconds of a run."""
    dump = folder / "dump"
    shutil.rmtree(dump, ignore_errors=True)
    start = time.perf_counter()
    subprocess.run([program, "trace", folder / "model", "--ids", folder / prompts, "-o", dump, "--backend", backend,
                    "--progress", "none", *keep], check=True)
    return dump, time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--hidden", type=int, default=4096, help="a multiple of 512")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--vocabulary", type=int, default=32000)
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--length", type=int, default=1024)
    options = parser.parse_args()
    folder = options.folder
    size = write_model(folder / "model", options)
    write_prompts(folder / "short.jsonl", 2, 24, options.vocabulary)
    write_prompts(folder / "long.jsonl", options.prompts, options.length, options.vocabulary)
    try:
        logits = {}
        for backend in ("cpu", options.backend):
            dump, _ = trace(options.program, folder, "short.jsonl", backend, "--keep", "logits")
            logits[backend] = np.load(dump / "logits.npy").astype(np.float64)
        apart = float(np.abs(logits["cpu"] - logits[options.backend]).max() / logits["cpu"].std())
        print(f"logits of {options.backend} and cpu: at most {apart:.2g} standard deviations apart, {TOLERANCE:g} allowed")
        keep = ("--keep", "hidden", "--layers", str(options.layers - 1))
        seconds = min(trace(options.program, folder, "long.jsonl", options.backend, *keep)[1] for _ in range(2))
    except subprocess.CalledProcessError as error:
        return error.returncode
    finally:
        shutil.rmtree(folder)
    tokens = options.prompts * options.length
    matrices = sum(int(np.prod(shape)) for name, shape in shapes_of(options).items() if "layers" in name and len(shape) == 2)
    print(json.dumps({"seconds": round(seconds, 3), "tokens": tokens, "model_bytes": size,
                      "tokens_per_second": round(tokens / seconds, 1),
                      "product_tflops": round(2e-12 * tokens * matrices / seconds, 3), "logits_apart": apart}))
    return 0 if apart <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
