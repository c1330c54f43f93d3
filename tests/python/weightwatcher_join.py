"""Joins the export `weightwatcher` with what WeightWatcher itself says of the same small model, column by column.

Usage: weightwatcher_join.py PROGRAM FOLDER          against the recorded table beside this file
       weightwatcher_join.py --record                writes that table, where the package weightwatcher is installed

Recorded with WeightWatcher 0.7.7 (PyPI), numpy 2.4.6, scipy 1.17.1, scikit-learn 1.9.1, without CUDA (with CUDA it reads
weights as float16), on the weights that model() makes from integers, so that they are the same bits everywhere.
Exit 77 (skipped) where pandas is missing."""

import os
import subprocess
import sys


import numpy as np
import pandas as pd

from model_files import write_safetensors
from test_script import fresh_folder

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "weightwatcher-0.7.7.csv")


def uniform(rows, cols, seed):
    """Sums of four uniform numbers from splitmix64: near normal, and exact in float32."""
    with np.errstate(over="ignore"):
        index = np.arange(rows * cols * 4, dtype=np.uint64) + np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15)
        index = (index + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        index = (index ^ (index >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        index = (index ^ (index >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        index ^= index >> np.uint64(31)
    parts = (index >> np.uint64(48)).astype(np.int64) - 32768
    return (parts.reshape(rows, cols, 4).sum(axis=2) / 65536.0).astype(np.float32)


def spiked(rows, cols, seed, strength):
    left, right = uniform(rows, 1, seed + 1), uniform(1, cols, seed + 2)
    return (uniform(rows, cols, seed) + np.float32(strength) * left * right).astype(np.float32)


def model():
    scale = (np.float32(1) / np.arange(1, 49, dtype=np.float32))[None, :]
    return {"model.layers.0.self_attn.q_proj.weight": uniform(64, 48, 1),
            "model.layers.0.self_attn.k_proj.weight": uniform(16, 64, 2),  # below 20 eigenvalues: another estimator
            "model.layers.0.self_attn.v_proj.weight": uniform(9, 40, 3),
            "model.layers.0.self_attn.o_proj.weight": uniform(40, 40, 4),
            "model.layers.0.mlp.gate_proj.weight": spiked(96, 48, 5, 1.5),
            "model.layers.0.mlp.up_proj.weight": (uniform(96, 48, 8) * scale).astype(np.float32),
            "model.layers.0.mlp.down_proj.weight": spiked(48, 96, 9, 0.5),
            "model.layers.1.mlp.down_proj.weight": uniform(20, 30, 12)}


def record():
    import weightwatcher

    # This package's networks are torch's; a dictionary of arrays stands for a state dictionary.
    details = weightwatcher.WeightWatcher().analyze(model=model(), mp_fit=True, randomize=True, detX=True, svd_method="accurate")
    details.to_csv(TABLE, index=False)


# Relative, of what theirs computes in float64 from the same weights. The entropy has 1e-10 added to every share.
TOLERANCES = {"entropy": 1e-7, "rand_distance": None, "max_rand_eval": None, "ww_softrank": None, "ww_maxdist": None}
# Ours has none of it: the sign-flipped spectrum is not stored.
NOT_OURS = {"num_traps", "rand_W_scale", "rand_bulk_max", "rand_bulk_min", "rand_mp_softrank", "rand_num_spikes", "rand_sigma_mp"}
# `name` is the role, theirs of a state dictionary the whole name; ours are numbered by row, theirs from 1 in file order.
IDENTITY = ["layer_id", "name", "longname"]


def compare(ours, theirs):
    wanted = [column for column in theirs.columns if column not in NOT_OURS]
    assert list(ours.columns) == wanted, (list(ours.columns), wanted)
    both = ours.merge(theirs, on="longname", suffixes=("", "_theirs"), validate="one_to_one")
    assert len(both) == len(theirs) == 8, (len(both), sorted(ours.longname), sorted(theirs.longname))
    for column in wanted:
        if column in IDENTITY:
            continue
        mine, other = both[column], both[column + "_theirs"]
        if not pd.api.types.is_numeric_dtype(other) or other.dtype == bool:
            assert (mine.fillna("").astype(str) == other.fillna("").astype(str)).all(), (column, mine, other)
            continue
        tolerance = TOLERANCES.get(column, 1e-9)
        if tolerance is None:  # their permutation, our sign flip: two draws of near the same
            assert mine.notna().all(), column
            continue
        off = np.abs(mine.astype(float) - other.astype(float))
        bound = tolerance * np.maximum(np.abs(other.astype(float)), 1e-3)
        assert (off <= bound).all(), (column, mine.tolist(), other.tolist())
        print(f"{column}: within {float((off / np.maximum(np.abs(other.astype(float)), 1e-300)).max()):.1e}")
    assert both.rand_distance.between(0, 1).all(), both.rand_distance
    of_noise = both.longname.str.endswith(("q_proj", "o_proj"))
    assert ((both.max_rand_eval / both.max_rand_eval_theirs)[of_noise] - 1).abs().max() < 0.35


def main():
    program, folder = sys.argv[1:3]
    fresh_folder(folder)
    path, results = os.path.join(folder, "model.safetensors"), os.path.join(folder, "out.h5")
    write_safetensors(path, model())

    def run(*arguments):
        done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    run("measure", path, "-o", results, "--mode", "strict", "--null", "signflip", "--backend", "cpu", "--progress", "none")
    run("export", results, "--format", "weightwatcher", "-o", results + ".csv")
    compare(pd.read_csv(results + ".csv"), pd.read_csv(TABLE))


if sys.argv[1:] == ["--record"]:
    record()
else:
    main()
