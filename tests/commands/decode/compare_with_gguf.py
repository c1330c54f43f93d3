"""Decodes random blocks of every GGUF type with vindex and with the package `gguf`, and compares the bits.

Usage: compare_with_gguf.py VINDEX FOLDER."""

import os
import sys

import gguf
import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from model_files import finish_gguf
from test_script import call

VINDEX, FOLDER = sys.argv[1:3]
# Half floats of every block are kept finite and small: NaNs on both sides would say nothing.
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2],
          "Q5_K": [0, 2], "Q6_K": [208], "IQ1_S": [0], "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0], "IQ3_XXS": [0], "IQ3_S": [0],
          "IQ4_NL": [0], "IQ4_XS": [0], "TQ1_0": [52], "TQ2_0": [64], "Q1_0": [0], "Q2_0": [0]}
ROWS, BLOCKS = 16, 16


def random_blocks(random, name, block_bytes):
    blocks = random.integers(0, 256, (ROWS, BLOCKS, block_bytes), dtype=np.uint8)
    for offset in HALVES.get(name, []):
        scale = (random.standard_normal((ROWS, BLOCKS)) * 0.01).astype("<f2")
        blocks[:, :, offset:offset + 2] = scale[..., None].view(np.uint8)
    if name == "MXFP4":
        blocks[:, :, 0] %= 255  # 255 is NaN
    return blocks.reshape(ROWS, BLOCKS * block_bytes)


def main():
    os.makedirs(FOLDER, exist_ok=True)
    random = np.random.default_rng(7)
    path = os.path.join(FOLDER, "random.gguf")
    writer = gguf.GGUFWriter(path, "llama")
    wanted = {}
    for kind in GGMLQuantizationType:
        _, block_bytes = GGML_QUANT_SIZES[kind]
        if kind.name in ("Q8_1", "Q8_K") or kind.name[0] == "I" and kind.name[1].isdigit() or kind.name.startswith("F"):
            continue
        data = random_blocks(random, kind.name, block_bytes)
        try:
            values = gguf.quants.dequantize(data, kind)
        except NotImplementedError:
            continue
        name = f"blk.0.{kind.name}.weight"
        writer.add_tensor(name, data, raw_dtype=kind)
        wanted[name] = np.ascontiguousarray(values, dtype=np.float32)
    finish_gguf(writer)

    failures = 0
    for name, values in sorted(wanted.items()):
        out = os.path.join(FOLDER, "out.f32")
        call(VINDEX, "decode", path, "--tensor", name, "-o", out, "--force")
        got = np.fromfile(out, dtype="<f4").reshape(values.shape)
        same = (got.view(np.uint32) == values.view(np.uint32)) | (np.isnan(got) & np.isnan(values))
        failures += not same.all()
        print(f"{name}: {int((~same).sum())} of {values.size} differ")
    print(f"{len(wanted)} types compared")
    return 0 if failures == 0 and len(wanted) >= 20 else 1


sys.exit(main())
