#!/usr/bin/env python3
"""Writes the golden blocks beside this file: weights.f32 (blocks of 32 float32) and, for each type, what the quantiser of the
Python package `gguf` (0.19.0, MIT) makes of them. Usage: make.py (with gguf and numpy installed)."""
import pathlib

import gguf
import numpy as np

folder = pathlib.Path(__file__).parent
rng = np.random.default_rng(1)
blocks = []


def add(values):
    blocks.append(np.resize(np.asarray(values, dtype=np.float32), 32))


for scale in (1.0, 0.02, 1e-3, 1e-6, 3e-8, 1e-12, 1e-30, 1e4, 4e4):
    for _ in range(3):
        add(rng.standard_normal(32) * scale)
for _ in range(4):
    add(rng.uniform(0.5, 0.6, 32))  # one side only
    add(-rng.uniform(0.0, 1.0, 32))
    add(rng.standard_t(1.5, 32))  # few large weights
add(np.zeros(32))
add(np.full(32, 0.3))
add(np.full(32, -0.3))
add(np.eye(1, 32, 7))
add(-np.eye(1, 32, 7))
# Ties: codes that lie half way between two, of every type.
for largest in (8, 16, 15, 31, 127):
    half_steps = np.arange(32) * 0.5
    add(np.where(np.arange(32) == 3, largest, half_steps - 8))
    add(np.where(np.arange(32) == 3, -largest, half_steps - 8))
    add(np.where(np.arange(32) % 2 == 0, largest, -largest))  # the first of largest magnitude decides
    add(np.where(np.arange(32) % 2 == 0, -largest, largest))
# Scales on the edges of F16: subnormal, half of the least one, the largest.
for scale in (2.0**-14, 2.0**-24, 2.0**-25, 1.5 * 2.0**-25, 2.0**-26, 65504.0):
    add(np.linspace(-8, 7.5, 32) * scale)
    add(np.linspace(-7.5, 8, 32) * scale)
weights = np.stack(blocks)
weights.tofile(folder / "weights.f32")
for name in ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"):
    kind = gguf.GGMLQuantizationType[name]
    gguf.quants.quantize(weights, kind).tofile(folder / f"{name.lower()}.bin")
print(len(blocks), "blocks")
