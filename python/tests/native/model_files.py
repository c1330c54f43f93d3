"""Weights and models made of them, for the tests of the native module."""

from __future__ import annotations

import json
import pathlib
import struct
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

NAMES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16"}
TYPES = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16]
TENSOR = "model.layers.0.mlp.down_proj.weight"


def weights(rows: int, cols: int, seed: int = 0) -> npt.NDArray[np.float32]:
    """Noise on a decaying spectrum, as trained weights have one."""
    rng = np.random.default_rng(seed)
    rank = min(rows, cols, 8)
    left = rng.standard_normal((rows, rank)) * 2.0 ** -np.arange(rank)
    low = left @ rng.standard_normal((rank, cols)) / np.sqrt(cols)
    return (low + rng.standard_normal((rows, cols)) / np.sqrt(cols)).astype(np.float32)


def save(path: pathlib.Path, tensors: dict[str, npt.NDArray[Any]]) -> pathlib.Path:
    """A .safetensors file."""
    header: dict[str, Any] = {}
    data = b""
    for name, array in tensors.items():
        raw = np.ascontiguousarray(array).tobytes()
        header[name] = {
            "dtype": NAMES[array.dtype.name],
            "shape": array.shape,
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path
