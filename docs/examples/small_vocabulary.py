"""Writes a small model with a vocabulary of words, for the examples of lookup.md: small_vocabulary.py FOLDER."""

import json
import os
import random
import struct
import sys

WORDS = ["the", "of", "New", "Paris", "London", "York", "Rome", "river", "city", "train"]
HIDDEN, NEURONS, LAYERS = 64, 128, 2


def bf16(source, rows, cols):
    scale = cols ** -0.5
    values = (source.gauss(0, scale) for _ in range(rows * cols))
    return b"".join(struct.pack("<f", value)[2:] for value in values)


def main(folder):
    numbers = random.Random(5)
    shapes = {"model.embed_tokens.weight": (len(WORDS), HIDDEN), "lm_head.weight": (len(WORDS), HIDDEN)}
    for layer in range(LAYERS):
        at = f"model.layers.{layer}.mlp."
        shapes |= {at + "gate_proj.weight": (NEURONS, HIDDEN), at + "up_proj.weight": (NEURONS, HIDDEN), at + "down_proj.weight": (HIDDEN, NEURONS)}
    header, data = {}, b""
    for name, shape in shapes.items():
        raw = bf16(numbers, *shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump({"model_type": "llama", "hidden_size": HIDDEN, "num_hidden_layers": LAYERS}, file)
    vocabulary = {f"\u0120{word}": number for number, word in enumerate(WORDS)}
    with open(os.path.join(folder, "tokenizer.json"), "w") as file:
        json.dump({"model": {"type": "BPE", "vocab": vocabulary, "merges": []}, "pre_tokenizer": {"type": "ByteLevel"}}, file)


main(sys.argv[1])
