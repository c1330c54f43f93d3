"""What the tests of the package share: the program, and small models to measure."""

from __future__ import annotations

import json
import struct
import subprocess
from pathlib import Path

import numpy as np

from vindex import _program

HOSTILE = ["<script>alert(1)</script>", "a\x1b[31m\n'\"&", "../../etc/passwd", "=cmd|' /C calc'!A0"]


def call(*words: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Runs the program itself."""
    found = subprocess.run(
        [_program.path(), *map(str, words)], capture_output=True, text=True, check=False
    )
    assert found.returncode == code, (words, found.returncode, found.stderr)
    return found


def forget_peak() -> None:
    """Lets peak_mib() count from here: the kernel's own counter, that of this process alone."""
    Path("/proc/self/clear_refs").write_text("5")


def peak_mib() -> float:
    """Largest resident memory since forget_peak()."""
    (line,) = [
        line for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line
    ]
    return int(line.split()[1]) / 1024


def write_safetensors(path: Path, tensors: dict[str, np.ndarray]) -> None:
    """Float32 arrays as a .safetensors file."""
    header, at = {}, 0
    for name, array in tensors.items():
        end = at + 4 * array.size
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    body = b"".join(array.astype("<f4").tobytes() for array in tensors.values())
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def write_dump(folder: Path) -> None:
    """Activations of three layers for 12 prompts of 8 tokens, as activations.md has them."""
    folder.mkdir()
    random = np.random.default_rng(7)
    tokens = 96
    hidden = random.normal(size=(tokens, 20))
    np.save(folder / "token_ids.npy", random.integers(0, 50, tokens))
    np.save(folder / "prompt.npy", np.repeat(np.arange(12), 8))
    for layer in range(3):
        hidden = hidden + 0.5 * random.normal(size=hidden.shape)
        np.save(folder / f"hidden.{layer}.npy", hidden.astype(np.float32))
        np.save(folder / f"mlp.{layer}.npy", np.maximum(hidden, 0).astype(np.float32))
        np.save(folder / f"router_logits.{layer}.npy", hidden[:, :8].astype(np.float32))
