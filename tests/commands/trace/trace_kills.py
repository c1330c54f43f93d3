#!/usr/bin/env python3
"""Kills `vindex trace` at any moment, stops it by a signal, and lets it go on: the dump is that of a run left alone, bit for bit.

Usage: trace_kills.py VINDEX FOLDER."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np

from model_files import write_safetensors
from test_script import call, fresh_folder

VINDEX, FOLDER = sys.argv[1:3]
HIDDEN, NEURONS, HEADS, LAYERS, EXPERTS, VOCABULARY = 128, 256, 4, 5, 6, 300


def write_model(folder):
    """A mixtral of noise."""
    rng = np.random.default_rng(5)

    def noise(*shape):
        return rng.standard_normal(shape, dtype=np.float32) / np.sqrt(shape[-1], dtype=np.float32)

    ones = np.ones(HIDDEN, np.float32)
    tensors = {"model.embed_tokens.weight": noise(VOCABULARY, HIDDEN), "model.norm.weight": ones,
               "lm_head.weight": noise(VOCABULARY, HIDDEN)}
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        tensors |= {prefix + "input_layernorm.weight": ones, prefix + "post_attention_layernorm.weight": ones}
        tensors |= {prefix + f"self_attn.{one}_proj.weight": noise(HIDDEN, HIDDEN) for one in "qkvo"}
        tensors[prefix + "block_sparse_moe.gate.weight"] = noise(EXPERTS, HIDDEN)
        for expert in range(EXPERTS):
            own = prefix + f"block_sparse_moe.experts.{expert}."
            tensors |= {own + "w1.weight": noise(NEURONS, HIDDEN), own + "w3.weight": noise(NEURONS, HIDDEN),
                        own + "w2.weight": noise(HIDDEN, NEURONS)}
    os.makedirs(folder)
    config = {"model_type": "mixtral", "hidden_size": HIDDEN, "intermediate_size": NEURONS, "num_attention_heads": HEADS,
              "num_key_value_heads": HEADS, "vocab_size": VOCABULARY, "num_hidden_layers": LAYERS, "hidden_act": "silu",
              "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False, "num_local_experts": EXPERTS,
              "num_experts_per_tok": 2, "max_position_embeddings": 4096}
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    write_safetensors(os.path.join(folder, "model.safetensors"), tensors)
    return folder


def write_prompts(path, lengths):
    chance = random.Random(2)
    with open(path, "w", encoding="utf-8") as file:
        for length in lengths:
            file.write(json.dumps({"ids": [chance.randrange(VOCABULARY) for _ in range(length)]}) + "\n")
    return path


def content(folder):
    found = {}
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as file:
            found[name] = file.read()
    return found


def check(condition, *what):
    if not condition:
        sys.exit(" ".join(map(str, what)))


def trace(output, *more):
    return [VINDEX, "trace", MODEL, "--ids", PROMPTS, "-o", output, "--threads", "2", "--keep",
            "hidden,router_logits,logits", *more]


def interrupted(command, seconds, number):
    """How the command ended that got a signal after some seconds, and how long that took."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(number)
        begun = time.monotonic()
        said = process.communicate()[1]
        return process.returncode, time.monotonic() - begun, said


fresh_folder(FOLDER)
MODEL = write_model(os.path.join(FOLDER, "model"))
PROMPTS = write_prompts(os.path.join(FOLDER, "ids.jsonl"), [700, 3, 1200, 64, 1, 900, 333] * 3)
whole = os.path.join(FOLDER, "whole")
start = time.monotonic()
call(*trace(whole))
alone = time.monotonic() - start
wanted = content(whole)
chance = random.Random(int(os.environ.get("VINDEX_SEED", "11")))

for form, budget in {"memory": "1GiB", "files": "90MiB"}.items():
    output = os.path.join(FOLDER, form)
    kills = 0
    while kills < 12 and not os.path.exists(output):
        code, _, said = interrupted(trace(output, "--ram-budget", budget), chance.uniform(0.05, 0.4) * alone, signal.SIGKILL)
        check(code in (0, -signal.SIGKILL), form, "ended with", code, said)
        check(code == 0 or not os.path.exists(output) or content(output) == wanted, form, "left a part of a dump")
        kills += code != 0
    if not os.path.exists(output):
        call(*trace(output, "--ram-budget", budget))
    check(content(output) == wanted, form, "another dump after", kills, "kills")
    check(not os.path.exists(output + ".parts") or kills > 0, form, "parts are left")
    print(f"{form}: {kills} kills")

for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
    output = os.path.join(FOLDER, f"stopped-{number}")
    code, took, said = interrupted(trace(output), 0.5 * alone, number)
    check(code in (0, 75), "a signal ended it with", code, said)
    check(took < 10.0, "a stop took", took, "seconds")
    check(code == 0 or ("layers are kept" in said and not os.path.exists(output)), said)
    if code == 75:
        call(*trace(output))
    check(content(output) == wanted and not os.path.exists(output + ".parts"), "another dump after a stop")
    print(f"signal {number}: ended with {code} within {took:.2f} s")
