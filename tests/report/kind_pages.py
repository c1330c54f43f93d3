"""Pages of files of compare, experts, cka and routing in a browser: cells, lines and nulls are those that h5py reads, nothing overlaps, all
is reached by keyboard, any mix of files makes one page. Usage: kind_pages.py VINDEX FOLDER."""

import json
import os
import struct
import sys

import h5py
import numpy as np

import browser as chrome
import page_kinds
from page_layout import require_every_width, require_keyboard, require_layout
from test_script import call, fresh_folder

VINDEX, FOLDER = sys.argv[1:3]


def path_of(name):
    return os.path.join(FOLDER, name)


def dump(name, arrays, prompt):
    os.makedirs(path_of(name))
    arrays = {**arrays, "token_ids": np.arange(len(prompt)) * 7 % 101, "prompt": prompt.astype(np.int32)}
    for array, values in arrays.items():
        np.save(path_of(f"{name}/{array}.npy"), values)


def chain(rows, layers, width, seed, turn):
    """Layers of which each is the one before and something new, much of it at `turn`."""
    random = np.random.default_rng(seed)
    x = np.random.default_rng(99).standard_normal((rows, 12)) @ random.standard_normal((12, width))
    out = {}
    for layer in range(layers):
        x = x + (3 if layer == turn else 0.3) * np.linalg.norm(x) / np.sqrt(x.size) * random.standard_normal(x.shape)
        out[f"hidden.{layer}"] = x.astype(np.float32)
    return out


def write_unfinished_experts():
    """Experts of which one has a weight that is no number, and a layer of nothing else."""
    random, header, data = np.random.default_rng(5), {}, b""
    os.makedirs(path_of("unfinished"))
    for layer in range(3):
        for expert in range(4):
            weights = random.standard_normal((20, 16)).astype("<f4")
            weights[0, 0] = np.nan if layer == 2 or (layer, expert) == (1, 2) else weights[0, 0]
            header[f"model.layers.{layer}.mlp.experts.{expert}.up_proj.weight"] = {
                "dtype": "F32", "shape": [20, 16], "data_offsets": [len(data), len(data) + weights.nbytes]}
            data += weights.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path_of("unfinished/model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def make_files():
    prompt = np.repeat(np.arange(24), [5, 9, 5, 14, 8, 8, 5, 9, 8, 5, 14, 14] * 2)
    dump("a", chain(len(prompt), 12, 48, 1, 6), prompt)
    constant = {"hidden.15": np.full((len(prompt), 40), 1.5, np.float32)}  # has no CKA
    dump("b", {**chain(len(prompt), 15, 40, 2, 9), **constant}, prompt)
    random, logits = np.random.default_rng(3), {}
    for layer in range(1, 5):
        values = random.standard_normal((600, 16)).astype(np.float32)
        values[:, 3] += 1.2
        values[:, 11] -= 30 if layer == 2 else 0  # an expert that nobody chooses
        logits[f"router_logits.{layer}"] = values
    for layer in range(5):
        logits[f"mlp.{layer}"] = (random.standard_normal((600, 40)) * random.standard_normal((600, 40))).astype(np.float32)
    logits["logits"] = (4 * random.standard_normal((600, 60))).astype(np.float32)
    dump("r", logits, np.repeat(np.arange(20), 30))
    call(VINDEX, "synth", "kimi-k2-mini", "-o", path_of("mini"), "-q")
    call(VINDEX, "synth", "kimi-k2-mini-q8_0", "-o", path_of("mini-q8"), "-q")
    call(VINDEX, "synth", "layer:5x48x40:bf16", "-o", path_of("one"), "-q")
    call(VINDEX, "synth", "layer:4x48x40:bf16", "-o", path_of("other"), "--seed", "2", "-q")
    call(VINDEX, "compare", path_of("mini"), path_of("mini-q8"), "-o", path_of("pairs.h5"), "--delta", "--k", "8", "-q")
    call(VINDEX, "compare", path_of("one"), path_of("other"), "-o", path_of("unpaired.h5"), "-q")
    call(VINDEX, "experts", path_of("mini"), "-o", path_of("experts.h5"), "--k", "4", "-q")
    call(VINDEX, "cka", path_of("a"), path_of("b"), "-o", path_of("cka.h5"), "--permutations", "30", "--backend", "cpu", "-q")
    call(VINDEX, "routing", path_of("r"), "-o", path_of("routing.h5"), "--top-k", "2", "--scoring", "softmax", "-q")
    call(VINDEX, "activations", path_of("r"), "-o", path_of("activations.h5"), "-q")
    call(VINDEX, "measure", path_of("one"), "-o", path_of("one.h5"), "-q")
    write_unfinished_experts()
    call(VINDEX, "experts", path_of("unfinished"), "-o", path_of("unfinished.h5"), "-q")
    call(VINDEX, "compare", path_of("unfinished"), path_of("unfinished"), "-o", path_of("equal.h5"), "--delta", "-q")
    return {"unfinished.h5": "experts", "equal.h5": "compare", "pairs.h5": "compare", "unpaired.h5": "compare", "experts.h5": "experts", "cka.h5": "cka", "routing.h5": "routing",
            "activations.h5": "activations"}


def wide_experts(count):
    """A file of more experts than a grid has cells a side, of which two are alike."""
    call(VINDEX, "synth", f"layer:{count}x16x12:bf16", "-o", path_of("wide"), "-q")
    call(VINDEX, "experts", path_of("wide"), "-o", path_of("wide.h5"), "-q")
    return path_of("wide.h5")


def require_wide(started, path):
    """Every cell is the pair of its block that is farthest from the null."""
    out = path_of("wide.html")
    call(VINDEX, "report", path, "-o", out, "-q")
    with h5py.File(path) as file:
        values, null = file["group/cosine"][0].astype(float), float(file["group/cosine_null"][0])
    np.fill_diagonal(values, np.nan)
    side = len(values)
    step = -(-side // 72)
    with chrome.opened(started, out) as watched:
        watched.draw_all()
        marks = page_kinds.marks_of(watched, "experts-similarity", "Every two experts", "cell_mark")
        assert len(marks) == (-(-side // step)) ** 2, (len(marks), side, step)
        for mark in marks:
            block = values[mark["y"]:mark["y"] + step, mark["x"]:mark["x"] + step]
            farthest = np.nanmax(np.abs(block - null))
            assert abs(abs(mark["value"] - null) - farthest) <= 2e-4 * farthest + 1e-9, (mark, farthest)
            assert abs(values[mark["i"], mark["j"]] - mark["value"]) <= 2e-4 * abs(mark["value"]) + 1e-9, mark
        # Experts of noise: nearly all cells are within what it gives the farthest of four.
        noise = sum(mark["state"] == "noise" for mark in marks)
        assert 0.85 * len(marks) < noise < len(marks), f"{noise} of {len(marks)} cells are called noise"
        require_every_width(watched, "wide")


def main():
    fresh_folder(FOLDER)
    chrome.chromium()
    files = make_files()
    with chrome.browser() as started:
        for name, kind in files.items():
            out = path_of(name[:-3] + ".html")
            call(VINDEX, "report", path_of(name), "-o", out, "-q")
            with chrome.opened(started, out) as watched:
                watched.draw_all()
                chrome.require_ids(watched.page, [kind])
                print(name, "cells:", page_kinds.REQUIRE[kind](watched, path_of(name)))
        require_wide(started, wide_experts(100))
        mixed, kinds = path_of("mixed.html"), sorted(set(files.values()))
        call(VINDEX, "report", path_of("one.h5"), *map(path_of, files), "-o", mixed, "-q")
        chrome.require_no_address(mixed)
        for width in (1280, 390):
            for dark in (False, True):
                with chrome.opened(started, mixed, width=width, dark=dark) as watched:
                    watched.draw_all()
                    chrome.require_ids(watched.page, kinds)
                    chrome.require_policy(watched.page)
                    require_layout(watched, f"mixed at {width}, {'dark' if dark else 'light'}")
                    if width == 1280 and not dark:
                        print("charts by keyboard:", require_keyboard(watched, "mixed"))
                        require_every_width(watched, "mixed")


main()
