#!/usr/bin/env python3
"""A model of 100 GB under a budget of 2 GiB: hundred_gigabytes.py PROGRAM FOLDER. Planned whole, forty matrices measured; the program's own peak
of resident memory is printed. The shards are sparse files, so that they take no disk; one matrix holds noise."""

import json
import os
import random
import struct
import sys

from test_script import call, fresh_folder

PROGRAM, FOLDER = map(os.path.abspath, sys.argv[1:3])
LAYERS, EXPERTS, ROWS, COLS = 20, 171, 7168, 2048
MEASURED = 40  # experts of layer 0
BYTES = ROWS * COLS * 2  # bfloat16
BUDGET, ALLOWANCE = 2 << 30, 256 << 20  # of the contract: beside the budget
fresh_folder(FOLDER)


def write_shard(folder, layer):
    """One layer; expert 0 of the first is noise, all others are zero."""
    name = f"model-{layer + 1:05}-of-{LAYERS:05}.safetensors"
    header = {f"model.layers.{layer}.mlp.experts.{expert}.down_proj.weight":
              {"dtype": "BF16", "shape": [ROWS, COLS], "data_offsets": [expert * BYTES, (expert + 1) * BYTES]}
              for expert in range(EXPERTS)}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        if layer == 0:
            draw = random.Random(1)
            # Halves of bfloat16 numbers between 0.5 and 2 of either sign.
            pairs = bytearray(BYTES)
            pairs[0::2] = draw.randbytes(BYTES // 2)
            pairs[1::2] = draw.randbytes(BYTES // 2).translate(bytes(0xBF if byte & 1 else 0x3F for byte in range(256)))
            file.write(pairs)
        file.truncate(8 + len(text) + EXPERTS * BYTES)


def peak_bytes(*command):
    """Runs the program with its output in a file; the largest resident set that it had."""
    with open(os.path.join(FOLDER, "log"), "w+b") as log:
        process = os.posix_spawn(PROGRAM, [PROGRAM, *command], os.environ,
                                 file_actions=[(os.POSIX_SPAWN_DUP2, log.fileno(), 1), (os.POSIX_SPAWN_DUP2, log.fileno(), 2)])
        _, status, usage = os.wait4(process, 0)
        log.seek(0)
        if status != 0:
            sys.exit(f"{command} ended with {os.waitstatus_to_exitcode(status)}\n{log.read().decode()}")
    return usage.ru_maxrss * 1024


model, out = os.path.join(FOLDER, "model"), os.path.join(FOLDER, "out.h5")
os.mkdir(model)
for number in range(LAYERS):
    write_shard(model, number)
budget = ["--ram-budget", str(BUDGET), "--backend", "cpu"]
plan = json.loads(call(PROGRAM, "plan", model, "--json", *budget).stdout)
if plan["matrices"] != LAYERS * EXPERTS or plan["read_bytes"] != LAYERS * EXPERTS * BYTES or plan["ram_bytes"] > BUDGET:
    sys.exit(f"the plan: {plan}")
experts = "|".join(map(str, range(MEASURED)))
peak = peak_bytes("measure", model, "-o", out, "--tensors", rf"model\.layers\.0\..*experts\.({experts})\..*",
                  "--progress", "none", *budget)
print(f"{plan['read_bytes'] / 1e9:.1f} GB planned, {MEASURED * BYTES / 1e9:.1f} GB read under {BUDGET >> 20} MiB: "
      f"{peak >> 20} MiB resident at most")
if peak > BUDGET + ALLOWANCE:
    sys.exit("more than the budget")
status = json.loads(call(PROGRAM, "status", out, "--json").stdout)
if (status["done"], status["failed"]) != (MEASURED, 0):
    sys.exit(f"the run: {status}")
