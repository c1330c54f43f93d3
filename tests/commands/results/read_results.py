"""Measures a real model and opens the results with one public reader, as a researcher would.

Usage: read_results.py h5py|xarray PROGRAM MODEL.gguf FOLDER. Exit 77 (skipped) where a package or the model is
missing. Expected values are computed here from the decoded weights, not taken from the file."""

import importlib
import os
import sys

import numpy as np

from test_script import call, fresh_folder, need

READER, PROGRAM, MODEL, FOLDER = sys.argv[1:5]
TENSOR, EXPERT = "blk.2.ffn_down_exps.weight", 5


need(MODEL)


def reference():
    """Singular values of one expert, by LAPACK from the weights that `vindex decode` writes."""
    path = os.path.join(FOLDER, "expert.f32")
    call(PROGRAM, "decode", MODEL, "--tensor", TENSOR, "--slice", str(EXPERT), "-o", path)
    weights = np.fromfile(path, "<f4").reshape(256, 256).astype(float)
    return weights, np.linalg.svd(weights, compute_uv=False)


def check(values, sigma, share_64, norm):
    weights, expected = values
    assert np.allclose(sigma, expected, rtol=0, atol=3e-6 * expected[0])
    assert np.allclose(sigma[:64], expected[:64], rtol=1e-5)
    energy = np.sum(weights**2)
    assert abs(share_64 - np.sum(expected[:64] ** 2) / energy) < 1e-6
    assert abs(norm - np.sqrt(energy)) < 1e-9 * norm


def with_h5py(path):
    import h5py

    with h5py.File(path, "r") as f:
        assert f.attrs["schema_name"] == "vindex-results" and f.attrs["status"] == "complete"
        matrix = f["matrix"]
        assert f.attrs["matrices_total"] == f.attrs["matrices_measured"] == len(matrix["tensor"]) == 137
        names, experts = matrix["tensor"].asstr()[:], matrix["expert"][:]
        row = int(np.flatnonzero((names == TENSOR) & (experts == EXPERT))[0])
        assert matrix["block"].asstr()[row] == "routed_expert"
        assert (matrix["layer"][row], matrix["rows"][row], matrix["cols"][row]) == (2, 256, 256)
        spectra = f["spectra/p256"]
        place = int(np.flatnonzero(spectra["matrix"][:] == row)[0])
        at_64 = list(matrix["k"][:]).index(64)
        check(reference(), spectra["sigma"][place], matrix["var_at_k"][row, at_64],
              matrix["frobenius_norm"][row])
        assert np.all(np.diff(matrix["layer"][:]) >= 0)
        assert f["run/config"].asstr()[()].startswith("{")


def with_xarray(path):
    import xarray as xr

    matrix = xr.open_dataset(path, engine="h5netcdf", group="/matrix")
    assert dict(matrix.sizes) == {"matrix": 137, "k": 9}
    assert list(matrix.k.values) == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    chosen = matrix.where((matrix.tensor == TENSOR) & (matrix.expert == EXPERT), drop=True)
    assert chosen.sizes["matrix"] == 1
    one = chosen.isel(matrix=0)
    spectra = xr.open_dataset(path, engine="h5netcdf", group="/spectra/p256")
    # `matrix` is the coordinate that joins a spectrum to its row.
    sigma = spectra.sigma.sel(matrix=int(one.matrix))
    check(reference(), sigma.values, float(one.var_at_k.sel(k=64)), float(one.frobenius_norm))
    experts = matrix.where(matrix.block == "routed_expert", drop=True)
    assert experts.sizes["matrix"] == 3 * 3 * 8
    excess = (experts.var_at_k - experts.var_at_k_null).sel(k=64)
    assert (excess > 0.05).all()  # every trained expert is above noise of its shape
    medians = excess.groupby(experts.role).median()
    assert set(medians.role.values) == {"gate_proj", "up_proj", "down_proj"}
    layer = xr.open_dataset(path, engine="h5netcdf", group="/layer")
    down = layer.where((layer.layer == 3) & (layer.role == "down_proj") & (layer.block == "routed_expert"),
                       drop=True)
    values = experts.where((experts.layer == 3) & (experts.role == "down_proj"), drop=True)
    share = values.var_at_k.sel(k=64).values
    assert int(down["count"][0]) == 8
    assert np.isclose(float(down.var_at_64_median[0]), np.median(share), rtol=1e-12)
    assert np.isclose(float(down.var_at_64_q25[0]), np.quantile(share, 0.25), rtol=1e-12)
    assert int(down.var_at_64_argmax[0]) == int(values.expert.values[np.argmax(share)])


fresh_folder(FOLDER)
results = os.path.join(FOLDER, "real.h5")
call(PROGRAM, "measure", MODEL, "-o", results, "--progress", "none", "-q")
{"h5py": with_h5py, "xarray": with_xarray}[READER](results)
print("read with", READER, importlib.import_module(READER).__version__)
