"""Reads sample files of experts, cka, activations, routing and trace with h5py (and xarray, where it is there), as a researcher
would, and runs the recipes of the page that documents them.

Usage: read_cells_with_python.py WRITE_SAMPLE FOLDER PAGE."""

import os
import re
import subprocess
import sys

import h5py
import numpy as np
try:
    import xarray as xr
    import h5netcdf  # noqa: F401
except ImportError:
    xr = None

WRITE_SAMPLE, FOLDER, PAGE = sys.argv[1:4]
os.makedirs(FOLDER, exist_ok=True)
VERSIONS = {"cka": "1.2", "experts": "1.2", "routing": "1.1"}
# The array that stands for its kind, its shape, its scales.
ARRAYS = {
    "experts": ("group/cosine", (4, 4, 4), ["group/group", "group/expert", "group/expert_other"]),
    "cka": ("cka", (4, 4), ["layers_a", "layers_b"]),
    "activations": ("layer/sparsity", (4, 3), ["layer/entry", "layer/threshold"]),
    "routing": ("layer/coactivation_lift", (4, 4, 4), ["layer/entry", "layer/expert", "layer/expert_other"]),
    "trace": ("layer/gram", (4, 4, 4), ["layer/entry", "layer/prompt", "layer/prompt_other"]),
}


def sample(kind):
    path = os.path.join(FOLDER, f"{kind}.h5")
    if os.path.exists(path):
        os.remove(path)
    subprocess.run([WRITE_SAMPLE, path, kind], check=True)
    return path


def check_dataset(name, dataset):
    if not isinstance(dataset, h5py.Dataset) or name.startswith(("run/", "resume/")):
        return
    assert dataset.attrs["long_name"], name
    if dataset.is_scale:
        return
    for i in range(dataset.ndim):
        assert len(dataset.dims[i]) == 1, f"{name}: dimension {i} has no scale"
        assert dataset.dims[i][0].shape[0] == dataset.shape[i], name
    plist = dataset.id.get_create_plist()
    filters = {plist.get_filter(i)[0] for i in range(plist.get_nfilters())}
    if dataset.ndim > 1:
        assert dataset.chunks is not None
        assert filters == {h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32}, name


def documented(kind, page):
    """Names in the tables below the heading of `kind`."""
    section = page.split(f"\n## `vindex-{kind}`")[1].split("\n## ")[0]
    lines = re.findall(r"^\| `.*$", section, re.M)
    return {name.split("/")[-1] for line in lines for names in re.findall(r"`([^`]*)`", line) for name in names.split()}


def check(kind, page):
    path = sample(kind)
    with h5py.File(path, "r") as f:
        assert f.attrs["schema_name"] == f"vindex-{kind}" and f.attrs["schema_version"] == VERSIONS.get(kind, "1.0")
        assert f.attrs["tokens"] == 64 and f.attrs["fraction"] == 0.1 and f.attrs["rule"] == "softmax, top 2"
        f.visititems(check_dataset)
        name, shape, scales = ARRAYS[kind]
        assert f[name].shape == shape
        assert [f[name].dims[i][0] for i in range(len(shape))] == [f[scale] for scale in scales]
        if kind == "cka":
            assert np.allclose(f["cka"][:], 1 - 0.1 * np.abs(np.subtract.outer(range(4), range(4))))
            assert f.attrs["stages"] == 1 and f["matched/depth"].shape == (21,)
        # Every dataset is on the page.
        names = documented(kind, page)
        if kind == "trace":  # whose rows are those of two other kinds too
            names |= documented("activations", page) | documented("routing", page)
        group = f["group" if kind == "experts" else "layer"]
        missing = (set(group) | {name for name in f if isinstance(f[name], h5py.Dataset)}) - names
        assert not missing, f"{kind}: not documented: {sorted(missing)}"
    if xr is not None:
        group = {"experts": "/group", "cka": "/"}.get(kind, "/layer")
        data = xr.open_dataset(path, engine="h5netcdf", group=group)
        assert data[ARRAYS[kind][0].split("/")[-1]].dims == tuple(s.split("/")[-1] for s in scales)
    return path


with open(PAGE, encoding="utf-8") as file:
    text = file.read()
for kind in ARRAYS:
    check(kind, text)
os.chdir(FOLDER)
space = {}
blocks = re.findall(r"```python\n(.*?)```", text, re.S)
assert len(blocks) >= 4
for block in blocks:
    if "xarray" not in block or xr is not None:
        exec(compile(block, PAGE, "exec"), space)
print("read with h5py", h5py.__version__, "and", len(blocks), "recipes run")
