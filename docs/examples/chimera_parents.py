#!/usr/bin/env python3
"""Writes the synthetic parents of docs/organs/chimera.md: small GGUF models that are not trained.

base   a llama of 4 blocks
math   base with a rank-2 change of its feed-forward matrices, as a fine-tune makes one
other  a llama of the same shapes that shares nothing with base
qwen   a qwen2 of the same shapes
"""

import argparse
import pathlib
import struct

import numpy

BLOCKS, WIDTH, HIDDEN, TOKENS = 4, 96, 256, 128
STRING, U32, F32, ARRAY = 8, 4, 6, 9
ALIGNMENT = 32


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def key(name, value):
    if isinstance(value, str):
        return text(name) + struct.pack("<I", STRING) + text(value)
    if isinstance(value, float):
        return text(name) + struct.pack("<If", F32, value)
    if isinstance(value, list):
        head = struct.pack("<IIQ", ARRAY, STRING, len(value))
        return text(name) + head + b"".join(text(one) for one in value)
    return text(name) + struct.pack("<II", U32, value)


def write_gguf(path, keys, tensors):
    """`tensors`: name to float32 array, outermost dimension first."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    head += b"".join(key(name, value) for name, value in keys.items())
    data = b""
    for name, values in tensors.items():
        head += text(name) + struct.pack("<I", values.ndim)
        head += b"".join(struct.pack("<Q", side) for side in reversed(values.shape))
        head += struct.pack("<IQ", 0, len(data))
        data += values.astype("<f4").tobytes()
        data += bytes(-len(data) % ALIGNMENT)
    path.write_bytes(head + bytes(-len(head) % ALIGNMENT) + data)


def keys_of(architecture, name):
    a = architecture
    return {
        "general.architecture": a,
        "general.name": name,
        "general.file_type": 0,
        f"{a}.block_count": BLOCKS,
        f"{a}.embedding_length": WIDTH,
        f"{a}.feed_forward_length": HIDDEN,
        f"{a}.context_length": 2048,
        f"{a}.attention.head_count": 4,
        f"{a}.attention.head_count_kv": 2,
        f"{a}.attention.layer_norm_rms_epsilon": 1e-5,
        f"{a}.rope.freq_base": 10000.0,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": [f"token {i}" for i in range(TOKENS)],
    }


def weights(seed):
    """Noise and a decaying spectrum above it."""
    random = numpy.random.Generator(numpy.random.PCG64(seed))

    def matrix(rows, cols):
        left, right = random.normal(size=(rows, 12)), random.normal(size=(12, cols))
        strength = 2.0 / numpy.arange(1, 13)
        return (random.normal(size=(rows, cols)) + (left * strength) @ right) * 0.05

    tensors = {"token_embd.weight": matrix(TOKENS, WIDTH)}
    for block in range(BLOCKS):
        prefix = f"blk.{block}."
        shapes = {"attn_q": (WIDTH, WIDTH), "attn_k": (WIDTH // 2, WIDTH), "attn_v": (WIDTH // 2, WIDTH),
                  "attn_output": (WIDTH, WIDTH), "ffn_gate": (HIDDEN, WIDTH), "ffn_up": (HIDDEN, WIDTH),
                  "ffn_down": (WIDTH, HIDDEN)}
        tensors[prefix + "attn_norm.weight"] = numpy.ones(WIDTH)
        for name, shape in shapes.items():
            tensors[f"{prefix}{name}.weight"] = matrix(*shape)
        tensors[prefix + "ffn_norm.weight"] = numpy.ones(WIDTH)
    tensors["output_norm.weight"] = numpy.ones(WIDTH)
    tensors["output.weight"] = matrix(TOKENS, WIDTH)
    return tensors


def fine_tuned(tensors, seed):
    random = numpy.random.Generator(numpy.random.PCG64(seed))
    changed = dict(tensors)
    for name, values in tensors.items():
        if ".ffn_" in name and values.ndim == 2:
            left, right = random.normal(size=(values.shape[0], 2)), random.normal(size=(2, values.shape[1]))
            changed[name] = values + 0.03 * left @ right
    return changed


def with_biases(tensors):
    """qwen2 has biases of queries, keys and values."""
    out = {}
    for name, values in tensors.items():
        out[name] = values
        if name.endswith(("attn_q.weight", "attn_k.weight", "attn_v.weight")):
            out[name.replace("weight", "bias")] = numpy.full(values.shape[0], 0.01)
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    base = weights(1)
    models = {"base": ("llama", base), "math": ("llama", fine_tuned(base, 2)), "other": ("llama", weights(3)),
              "qwen": ("qwen2", with_biases(weights(4)))}
    for name, (architecture, tensors) in models.items():
        write_gguf(folder / f"{name}.gguf", keys_of(architecture, name), tensors)


if __name__ == "__main__":
    main()
