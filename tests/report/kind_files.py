"""Owns small files of compare, experts, cka, routing and activations for the tests of their pages."""

import json
import os
import struct

import numpy as np

from test_script import call


class Maker:
    """Makes files with the program `vindex` in `folder`."""

    def __init__(self, vindex, folder):
        self.vindex, self.folder = vindex, folder

    def path_of(self, name):
        return os.path.join(self.folder, name)

    def run(self, *arguments):
        call(self.vindex, *arguments, "-q")

    def dump(self, name, arrays, prompt):
        os.makedirs(self.path_of(name))
        arrays = {**arrays, "token_ids": np.arange(len(prompt)) * 7 % 101, "prompt": prompt.astype(np.int32)}
        for array, values in arrays.items():
            np.save(self.path_of(f"{name}/{array}.npy"), values)

    @staticmethod
    def chain(rows, layers, width, seed, turn):
        """Layers of which each is the one before and something new, much of it at `turn`."""
        random = np.random.default_rng(seed)
        x = np.random.default_rng(99).standard_normal((rows, 12)) @ random.standard_normal((12, width))
        out = {}
        for layer in range(layers):
            x = x + (3 if layer == turn else 0.3) * np.linalg.norm(x) / np.sqrt(x.size) * random.standard_normal(x.shape)
            out[f"hidden.{layer}"] = x.astype(np.float32)
        return out

    def write_unfinished_experts(self):
        """Experts of which one has a weight that is no number, and a layer of nothing else."""
        random, header, data = np.random.default_rng(5), {}, b""
        os.makedirs(self.path_of("unfinished"))
        for layer in range(3):
            for expert in range(4):
                weights = random.standard_normal((20, 16)).astype("<f4")
                weights[0, 0] = np.nan if layer == 2 or (layer, expert) == (1, 2) else weights[0, 0]
                header[f"model.layers.{layer}.mlp.experts.{expert}.up_proj.weight"] = {
                    "dtype": "F32", "shape": [20, 16], "data_offsets": [len(data), len(data) + weights.nbytes]}
                data += weights.tobytes()
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(self.path_of("unfinished/model.safetensors"), "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + data)

    def make_files(self):
        """{name: kind} of what is made; one.h5 is of `vindex measure`."""
        prompt = np.repeat(np.arange(24), [5, 9, 5, 14, 8, 8, 5, 9, 8, 5, 14, 14] * 2)
        self.dump("a", self.chain(len(prompt), 12, 48, 1, 6), prompt)
        constant = {"hidden.15": np.full((len(prompt), 40), 1.5, np.float32)}  # has no CKA
        self.dump("b", {**self.chain(len(prompt), 15, 40, 2, 9), **constant}, prompt)
        random, logits = np.random.default_rng(3), {}
        for layer in range(1, 5):
            values = random.standard_normal((600, 16)).astype(np.float32)
            values[:, 3] += 1.2
            values[:, 11] -= 30 if layer == 2 else 0  # an expert that nobody chooses
            logits[f"router_logits.{layer}"] = values
        for layer in range(5):
            logits[f"mlp.{layer}"] = (random.standard_normal((600, 40)) * random.standard_normal((600, 40))).astype(np.float32)
        logits["logits"] = (4 * random.standard_normal((600, 60))).astype(np.float32)
        self.dump("r", logits, np.repeat(np.arange(20), 30))
        self.run("synth", "kimi-k2-mini", "-o", self.path_of("mini"))
        self.run("synth", "kimi-k2-mini-q8_0", "-o", self.path_of("mini-q8"))
        self.run("synth", "layer:5x48x40:bf16", "-o", self.path_of("one"))
        self.run("synth", "layer:4x48x40:bf16", "-o", self.path_of("other"), "--seed", "2")
        self.run("compare", self.path_of("mini"), self.path_of("mini-q8"), "-o", self.path_of("pairs.h5"), "--delta", "--k", "8")
        self.run("compare", self.path_of("one"), self.path_of("other"), "-o", self.path_of("unpaired.h5"))
        self.run("experts", self.path_of("mini"), "-o", self.path_of("experts.h5"), "--k", "4")
        self.run("cka", self.path_of("a"), self.path_of("b"), "-o", self.path_of("cka.h5"), "--permutations", "30", "--backend", "cpu")
        self.run("routing", self.path_of("r"), "-o", self.path_of("routing.h5"), "--top-k", "2", "--scoring", "softmax")
        self.run("activations", self.path_of("r"), "-o", self.path_of("activations.h5"))
        self.run("measure", self.path_of("one"), "-o", self.path_of("one.h5"))
        self.write_unfinished_experts()
        self.run("experts", self.path_of("unfinished"), "-o", self.path_of("unfinished.h5"))
        self.run("compare", self.path_of("unfinished"), self.path_of("unfinished"), "-o", self.path_of("equal.h5"), "--delta")
        return {"unfinished.h5": "experts", "equal.h5": "compare", "pairs.h5": "compare", "unpaired.h5": "compare", "experts.h5": "experts",
            "cka.h5": "cka", "routing.h5": "routing",
                "activations.h5": "activations"}
