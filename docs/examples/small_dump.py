#!/usr/bin/env python3
"""Writes a small dump of activations with known answers, for the examples of docs/commands/activations.md and docs/commands/routing.md:

    python3 docs/examples/small_dump.py FOLDER

Layer 0 is noise: what `vindex activations` and `vindex routing` find there is what their nulls say. Layer 1 has planted
structure: three of ten neurons act on any token, along 20 directions; expert 3 is preferred, and experts 0 and 1 are
chosen together. Needs numpy alone; its old generator gives the same numbers in every version."""

import sys
from pathlib import Path

import numpy as np

PROMPTS, TOKENS, NEURONS, EXPERTS, VOCABULARY = 4, 150, 256, 8, 64
ROWS = PROMPTS * TOKENS


def main(folder):
    random = np.random.RandomState(1)
    folder.mkdir(parents=True)

    def save(name, values, kind=np.float32):
        np.save(folder / f"{name}.npy", values.astype(kind))

    save("mlp.0", random.randn(ROWS, NEURONS) * random.randn(ROWS, NEURONS))
    active = random.rand(ROWS, NEURONS) < 0.3
    save("mlp.1", random.randn(ROWS, 20) @ random.randn(20, NEURONS) * active)
    save("router_logits.0", random.randn(ROWS, EXPERTS))
    logits = random.randn(ROWS, EXPERTS)
    logits[:, 3] += 0.5                                         # a preferred expert
    logits[:, 1] = 0.8 * logits[:, 0] + 0.6 * logits[:, 1]      # two that go together
    save("router_logits.1", logits)
    save("logits", random.randn(ROWS, VOCABULARY))
    save("token_ids", random.randint(0, VOCABULARY, ROWS), np.int64)
    save("prompt", np.repeat(np.arange(PROMPTS), TOKENS), np.int64)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
