"""Owns what scripts share that make dumps and models by numpy and hold the program's statistics of them against numpy's.

A script that imports this is called with the program, the shared data and a folder: SCRIPT VINDEX SHARED_DATA WORK_FOLDER."""

import json
import os
import shutil
import sys

import h5py
import numpy as np

from model_files import write_safetensors
from test_script import call

VINDEX, SHARED, WORK = sys.argv[1:4]
RNG = np.random.default_rng(13)
os.makedirs(WORK, exist_ok=True)


def run(*arguments, code=0):
    return call(VINDEX, *arguments, code=code)


def near(what, ours, theirs, relative=1e-9, absolute=0.0):
    ours, theirs = np.asarray(ours, float), np.asarray(theirs, float)
    if ours.shape != theirs.shape or not np.allclose(ours, theirs, rtol=relative, atol=absolute,
                                                     equal_nan=True):
        sys.exit(f"{what}: {ours} is not {theirs}")


def fresh(name):
    path = os.path.join(WORK, name)
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    return path


def write_dump(name, arrays):
    path = fresh(name)
    for key, values in arrays.items():
        np.save(os.path.join(path, key + ".npy"), values)
    return path


def write_model(name, config, tensors):
    """A folder with config.json and one safetensors file of float32."""
    path = fresh(name)
    with open(os.path.join(path, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    write_safetensors(os.path.join(path, "model.safetensors"), tensors)
    return path


def entropy(p):
    p = p[p > 0]
    return float(-(p * np.log(p)).sum())


def same_bits(left, right):
    with h5py.File(left) as a, h5py.File(right) as b:
        for name in a["layer"]:
            np.testing.assert_array_equal(a["layer"][name][:], b["layer"][name][:])


def read_layers(path):
    run("validate", path)
    with h5py.File(path) as file:
        return {name: file["layer"][name][:] for name in file["layer"]}


def streamed(command, arrays, budget, *flags):
    """A dump that a small budget cannot hold is read in slabs: the same bits."""
    dump = write_dump("long", arrays)
    outs = [os.path.join(WORK, f"{command}-{one}.h5") for one in (budget, "300000000")]
    for one, out in zip((budget, "300000000"), outs):
        run(command, dump, "-o", out, "--ram-budget", one, "--threads", "1", "--restart", "-q", *flags)
    same_bits(*outs)
    run(command, dump, "-o", outs[-1], "--ram-budget", "9000000", "--restart", "-q", *flags, code=78)
    shutil.rmtree(dump)
