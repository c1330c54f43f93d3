"""Reads organs, splits and a recipe's model that vindex wrote with the package `gguf`, and compares every tensor's bytes.

Usage: organ_with_gguf.py VINDEX MODEL FOLDER. Exit 77 (skipped) where the model is missing."""

import json
import os
import sys


import gguf
import numpy as np

from model_files import gguf_tensors
from test_script import call, fresh_folder, need

VINDEX, MODEL, FOLDER = sys.argv[1:4]
need(MODEL)


def run(*words):
    call(VINDEX, "-q", "organ", *words)


def main():
    fresh_folder(FOLDER)
    organs, shards, chimera = (os.path.join(FOLDER, name) for name in ("organs", "s.gguf", "chimera.gguf"))
    run("extract", MODEL, "-o", organs)
    wanted = gguf_tensors(MODEL)
    with open(os.path.join(organs, "manifest.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    assert [tensor["name"] for tensor in manifest["tensors"]] == list(wanted)
    for entry in manifest["tensors"]:
        reader = gguf.GGUFReader(os.path.join(organs, entry["file"]))
        (organ,) = reader.tensors
        original = wanted[entry["name"]]
        assert organ.name == original.name and organ.tensor_type == original.tensor_type
        assert list(organ.shape) == list(original.shape) and organ.data_offset == entry["offset"]
        assert np.array_equal(organ.data, original.data), entry["name"]
        assert bytes(reader.fields["organ.tensor.sha256"].parts[-1]).decode() == entry["sha256"]
    run("assemble", organs, "-o", shards, "--shards", "500kB")
    found = {}
    for name in sorted(os.listdir(FOLDER)):
        if name.startswith("s-"):
            found.update(gguf_tensors(os.path.join(FOLDER, name)))
    assert list(found) == list(wanted)
    assert all(np.array_equal(found[name].data, wanted[name].data) for name in wanted)
    recipe = os.path.join(FOLDER, "recipe.json")
    with open(recipe, "w", encoding="utf-8") as file:
        json.dump({"schema": "organ-recipe/1", "donors": {"a": os.path.abspath(MODEL)}, "host": "a",
                   "layers": [["a", "0-1"], ["a", "1"]]}, file)
    run("assemble", recipe, "-o", chimera)
    stacked = gguf.GGUFReader(chimera)
    (architecture,) = [bytes(stacked.fields["general.architecture"].parts[-1]).decode()]
    assert stacked.fields[f"{architecture}.block_count"].parts[-1][0] == 3
    made = {tensor.name: tensor for tensor in stacked.tensors}
    for name, tensor in made.items():
        origin = name.replace("blk.2.", "blk.1.")
        assert np.array_equal(tensor.data, wanted[origin].data), name
    print(f"{len(wanted)} organs, {len(found)} tensors of shards, {len(made)} of the stack read back")


if __name__ == "__main__":
    main()
