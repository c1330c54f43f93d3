"""`vindex experts` on small models made here: planted copies, permuted experts, odd ones, nothing to do.
Usage: experts_cases.py VINDEX FOLDER."""

import os
import sys

import h5py
import numpy as np

from model_files import write_safetensors
from test_script import call, fresh_folder

VINDEX, FOLDER = sys.argv[1:3]
fresh_folder(FOLDER)
RANDOM = np.random.default_rng(5)
ROWS, COLS = 48, 40


def write(name, tensors):
    return write_safetensors(os.path.join(FOLDER, name + ".safetensors"), tensors)


def model(experts, layer=0, role="up_proj"):
    return {f"model.layers.{layer}.mlp.experts.{i}.{role}.weight": one for i, one in enumerate(experts) if one is not None}


def run(arguments, exit_code=0):
    result = call(VINDEX, *arguments, code=exit_code)
    return result.stdout + result.stderr


def experts(path, name, *more, exit_code=0):
    out = os.path.join(FOLDER, name + ".h5")
    run(["experts", path, "-o", out, "--restart", "--progress", "none", *more], exit_code)
    run(["validate", out])
    return content(out)


def content(path):
    with h5py.File(path, "r") as file:
        assert file.attrs["schema_name"] in (b"vindex-experts", "vindex-experts")
        return {name: dataset[()] for name, dataset in file["group"].items()}


def noise(count):
    return [RANDOM.normal(size=(ROWS, COLS)).astype(np.float32) for _ in range(count)]


def planted_copies_and_permutation():
    base = noise(6)
    base[4] = (-3 * base[1]).astype(np.float32)
    base[5] = (2 * base[0] + 0.5 * base[5]).astype(np.float32)
    found = experts(write("planted", model(base)), "planted", "--k", "3")
    cosine = found["cosine"][0]
    assert np.array_equal(cosine, cosine.T) and np.all(np.diag(cosine) == 1)
    assert abs(cosine[1, 4] + 1) < 1e-6 and found["cosine_max_expert"][0] == 0 and found["cosine_max_other"][0] == 5
    assert abs(found["overlap_right"][0][1, 4] - 1) < 1e-5 and abs(found["overlap_left"][0][1, 4] - 1) < 1e-5
    assert abs(found["overlap_right_mean"][0] - 3 / COLS) < 0.15 and found["overlap_right_null"][0] == 3 / COLS
    assert abs(cosine[2, 3]) < 5 * found["cosine_null_sd"][0]
    order = [3, 5, 0, 1, 2, 4]
    permuted = experts(write("permuted", model([base[i] for i in order])), "permuted", "--k", "3")
    for name in ("cosine", "cosine_centred", "overlap_right", "overlap_left"):
        assert np.allclose(permuted[name][0], found[name][0][np.ix_(order, order)], atol=2e-6), name
    assert np.allclose(permuted["norm"][0], found["norm"][0][order], rtol=1e-12)
    assert np.allclose(permuted["expert_axis_spectrum"][0], found["expert_axis_spectrum"][0], rtol=1e-6,
                       atol=1e-6 * found["expert_axis_spectrum"][0][0])


def nulls_have_deviations():
    base = noise(24)
    found = experts(write("nulls", model(base)), "nulls", "--k", "3")
    pairs, weights = 24 * 23 / 2, ROWS * COLS
    one = lambda name: found[name][0]
    assert np.isclose(one("cosine_mean_null_sd"), np.sqrt(1 / (pairs * weights)), rtol=1e-12)
    assert np.isclose(one("overlap_right_null_sd"), (1 - 3 / COLS) * np.sqrt(2 / ((COLS - 1) * (COLS + 2))), rtol=1e-12)
    assert np.isclose(one("overlap_left_mean_null_sd"), one("overlap_left_null_sd") / np.sqrt(pairs), rtol=1e-12)
    # Of noise, every number lies within a few of its own deviations; of one pair's the means would do so always.
    for value, null, deviation in (("cosine_mean", "cosine_null", "cosine_mean_null_sd"),
                                   ("cosine_max", "cosine_max_null", "cosine_max_null_sd"),
                                   ("cosine_centred_max", "cosine_centred_max_null", "cosine_centred_max_null_sd"),
                                   ("overlap_right_mean", "overlap_right_null", "overlap_right_mean_null_sd"),
                                   ("overlap_left_mean", "overlap_left_null", "overlap_left_mean_null_sd")):
        assert abs(one(value) - one(null)) < 5 * one(deviation), (value, one(value), one(null), one(deviation))
    # The centred mean is fixed but for unequal norms; cosines are known to 1e-7.
    assert abs(one("cosine_centred_mean") - one("cosine_centred_mean_null")) < 5 * one("cosine_centred_mean_null_sd") + 1e-7


def subspaces_that_are_not_there():
    base = noise(6)
    base[1][:] = 0.25
    base[2] = (RANDOM.normal(size=(ROWS, 2)) @ RANDOM.normal(size=(2, COLS))).astype(np.float32)
    base[3] = np.eye(ROWS, COLS, dtype=np.float32)
    path = write("low", model(base))
    found = experts(path, "low", "--k", "4")
    reason = found["reason"][0].decode()
    for text in ("expert 1: no definite top 4: 1 singular value distinct from zero", "expert 3: no definite top 4: values 4 and 5",
                 "expert 2: no definite top 4: 2 singular values distinct from zero"):
        assert text in reason, reason
    for side in ("overlap_right", "overlap_left"):
        lost = np.isnan(found[side][0])
        assert np.array_equal(lost.all(axis=0), [False, True, True, True, False, False]), found[side][0]
        assert not np.isnan(found[side + "_mean"][0])
    wide = experts(path, "wide", "--k", str(COLS + 1))  # more directions than there are
    assert f"no top {COLS + 1}: the short side of an expert is {COLS}" in wide["reason"][0].decode()
    for side in ("right", "left"):
        for name in ("", "_mean", "_null", "_null_sd", "_mean_null_sd"):
            assert np.all(np.isnan(wide[f"overlap_{side}{name}"])), (side, name)
    assert not np.isnan(wide["cosine_mean"][0])


def odd_experts_leave_the_others_alone():
    base = noise(7)
    wanted = experts(write("whole", model([base[i] for i in (0, 1, 4)])), "whole")
    base[2] = base[2][:, :-8]
    base[3] = None
    base[5][3, 4] = np.inf
    base[6][:] = 0
    found = experts(write("odd", model(base)), "odd")
    kept = [0, 1, 4]
    reason = found["reason"][0].decode()
    for text in ("expert 2: it is 48x32, the others 48x40", "expert 3: the model has no such matrix",
                 "expert 5: weights that are not finite", "expert 6: all zeros"):
        assert text in reason, reason
    assert found["experts"][0] == 7 and found["experts_counted"][0] == 4  # zeros are weights
    assert np.allclose(found["cosine"][0][np.ix_(kept, kept)], wanted["cosine"][0], atol=1e-6)
    for lost in (2, 3, 5, 6):
        assert np.all(np.isnan(found["cosine"][0][lost])) and np.all(np.isnan(found["cosine"][0][:, lost])), lost
    assert found["status"][0] == 0 and np.isnan(found["norm"][0][5]) and found["norm"][0][6] == 0


def layers_of_different_counts():
    tensors = {**model(noise(5), 0), **model(noise(3), 1), **model(noise(3), 1, "down_proj")}
    found = experts(write("counts", tensors), "counts")
    assert found["cosine"].shape == (3, 5, 5) and list(found["layer"]) == [0, 1, 1]
    assert np.all(np.isnan(found["cosine"][1][3:])) and not np.any(np.isnan(found["cosine"][1][:3, :3]))
    assert found["tensor"][0] == b"model.layers.0.mlp.experts.*.up_proj.weight"
    one = experts(os.path.join(FOLDER, "counts.safetensors"), "one", "--layers", "1", "--roles", "down_proj")
    assert len(one["layer"]) == 1


def nothing_to_do():
    dense = write("dense", {"model.layers.0.mlp.up_proj.weight": noise(1)[0]})
    out = os.path.join(FOLDER, "nothing.h5")
    assert "no routed experts" in run(["experts", dense, "-o", out], 66)
    path = write("two", model(noise(2)))
    assert "E-SELECTION" in run(["experts", path, "-o", out, "--layers", "7"], 64)
    assert not os.path.exists(out)
    one = experts(write("single", model(noise(1))), "single")
    assert one["reason"][0] == b"fewer than two experts" and np.isnan(one["cosine_mean"][0])
    text = run(["experts", path, "-o", out])
    assert "reading alone" in text and "products alone" in text, text


for case in (planted_copies_and_permutation, nulls_have_deviations, subspaces_that_are_not_there, odd_experts_leave_the_others_alone, layers_of_different_counts,
             nothing_to_do):
    case()
    print(case.__name__)
