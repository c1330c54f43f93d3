"""Reads what `vindex organ graft` wrote with the package `gguf`, and holds every tensor against host and donor as that package reads
them; then `vindex organ diff` against numpy.

Usage: graft_with_gguf.py VINDEX DATA FOLDER. Exit 77 (skipped) where data is missing."""

import glob
import json
import os
import sys

import gguf
import numpy as np

from model_files import gguf_tensors, gguf_values
from test_script import call, need

VINDEX, DATA, FOLDER = sys.argv[1:4]
HOST = os.path.join(DATA, "gguf", "full", "kjv-moe-Q4_K_M.gguf")
DONOR = sorted(glob.glob(os.path.join(DATA, "gguf", "split", "kjv-moe-Q8_0-*.gguf")))
need(HOST, *DONOR[:1] or [""])
os.makedirs(FOLDER, exist_ok=True)


host, donor = gguf_tensors(HOST), gguf_tensors(*DONOR)
for name, more in {"one": [], "split": ["--shards", "2MB"]}.items():
    for old in glob.glob(os.path.join(FOLDER, name + "*")):
        os.remove(old)
    out = os.path.join(FOLDER, name + ".gguf")
    call(VINDEX, "-q", "organ", "graft", "--source", DONOR[0], "--target", HOST, "-o", out, "--type", "organ", "--layers", "1-2", *more)
    files = sorted(glob.glob(os.path.join(FOLDER, name + "*.gguf")))
    assert (len(files) > 1) == bool(more), files
    grafted = gguf_tensors(*files)
    assert list(grafted) == list(host), "the host's tensors in the host's order"
    taken = 0
    for tensor in grafted.values():
        block = tensor.name.split(".")[1] if tensor.name.startswith("blk.") else ""
        organ = block in ("1", "2") and ("ffn_" in tensor.name or "exp_probs" in tensor.name) and "norm" not in tensor.name
        source = (donor if organ else host)[tensor.name]
        assert tensor.tensor_type == source.tensor_type and list(tensor.shape) == list(source.shape), tensor.name
        assert np.array_equal(np.asarray(tensor.data).view(np.uint8), np.asarray(source.data).view(np.uint8)), tensor.name
        taken += organ
    assert taken == 16, taken
    fields = gguf.GGUFReader(files[0]).fields
    original = gguf.GGUFReader(HOST).fields
    changed = {"general.name", "general.file_type"}
    for key, field in original.items():
        if not key.startswith(("GGUF.", "quantize.imatrix.")) and key not in changed:
            assert field.types == fields[key].types and field.contents() == fields[key].contents(), key
    assert fields["general.base_model.count"].contents() == 2
    assert "merge" in fields["general.tags"].contents()
    assert ("split.count" in fields) == bool(more)

report = json.loads(call(VINDEX, "organ", "diff", HOST, os.path.join(FOLDER, "one.gguf"), "--json").stdout)
different = [t for t in report["tensors"] if t["state"] == "different"]
assert len(different) == 12, len(different)
for one in different:
    a, b = (gguf_values(side[one["name"]]).astype(np.float64).ravel() for side in (host, donor))
    cosine = a @ b / (np.linalg.norm(a) * np.linalg.norm(b))
    error = np.linalg.norm(b - a) / np.linalg.norm(a)
    assert abs(one["cosine"] - cosine) < 1e-10 and abs(one["relative_error"] / error - 1) < 1e-9, one
print("16 tensors of 70 are the donor's, 12 differ; cosine and relative error as numpy has them")
