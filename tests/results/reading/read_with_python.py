"""Reads sample results files with h5py and xarray alone, as a researcher would.

Usage: read_with_python.py WRITE_SAMPLE FOLDER."""

import os
import shutil
import subprocess
import sys

import h5py
import h5netcdf  # noqa: F401
import numpy as np
import xarray as xr

WRITE_SAMPLE, FOLDER = sys.argv[1:3]
os.makedirs(FOLDER, exist_ok=True)
ALLOWED = {"shuffle", "gzip", "fletcher32"}


def sample(mode):
    path = os.path.join(FOLDER, f"{mode}.h5")
    if os.path.exists(path):
        os.remove(path)
    subprocess.run([WRITE_SAMPLE, path, mode], check=True)
    return path


def check_filters(name, dataset):
    if not isinstance(dataset, h5py.Dataset):
        return
    plist = dataset.id.get_create_plist()
    filters = {plist.get_filter(i)[0] for i in range(plist.get_nfilters())}
    assert filters <= {h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE,
                       h5py.h5z.FILTER_FLETCHER32}, name
    assert not dataset.is_virtual and dataset.external is None, name


def mp_median(g):
    """Median of the Marchenko-Pastur law, by a sum over the angle in which it has no singularity."""
    angle = (np.arange(200000) + 0.5) * np.pi / 200000
    x = 1 + g - 2 * np.sqrt(g) * np.cos(angle)
    cumulative = np.cumsum(np.sin(angle) ** 2 / x)
    return np.interp(0.5, cumulative / cumulative[-1], x)


def theta_of(sigma, n, norm_squared):
    """Angle, values above the edge, values above the threshold of Gavish and Donoho."""
    beta = len(sigma) / n
    unit = np.median(sigma) / np.sqrt(mp_median(beta))
    z = sigma[sigma > (1 + np.sqrt(beta)) * unit] / unit
    shrunk = np.sqrt((z**2 - beta - 1) ** 2 - 4 * beta) / z * unit
    threshold = np.sqrt(2 * (beta + 1) + 8 * beta / (beta + 1 + np.sqrt(beta**2 + 14 * beta + 1)))
    theta = np.degrees(np.arcsin(min(1.0, np.sqrt((shrunk**2).sum() / norm_squared))))
    return theta, len(z), int((sigma > threshold * unit).sum())


def check_theta(f):
    matrix = f["matrix"]
    if f.attrs["mode"] == "fast":
        assert np.all(np.isnan(matrix["theta"][:])) and np.all(matrix["rank_gd"][:] == -1)
        return
    for name, group in f["spectra"].items():
        for sigma, row in zip(group["sigma"][:], group["matrix"][:]):
            n = max(matrix["rows"][row], matrix["cols"][row])
            theta, edge, gd = theta_of(sigma, n, matrix["frobenius_norm"][row] ** 2)
            assert abs(matrix["theta"][row] - theta) < 1e-3, (name, row)
            assert abs(matrix["signal"][row] - np.sin(np.radians(theta))) < 1e-4
            assert (matrix["rank_edge"][row], matrix["rank_gd"][row]) == (edge, gd)
            assert 0 < matrix["theta_null"][row] < 10


def check_h5py(path):
    with h5py.File(path, "r") as f:
        assert f.attrs["Conventions"] == "CF-1.11"
        assert f.attrs["schema_name"] == "vindex-results"
        assert f.attrs["schema_version"] == "1.5"
        assert f.attrs["status"] == "complete"
        matrix = f["matrix"]
        n = int(f.attrs["matrices_total"])
        assert n == matrix["matrix"].shape[0] == 14
        assert list(matrix["k"][:]) == [1, 2, 4, 8, 16, 32, 64, 128, 256]
        assert matrix["var_at_k"].dims[0][0] == matrix["matrix"]
        assert matrix["var_at_k"].dims[1][0] == matrix["k"]
        status = matrix["status"]
        assert status.dtype == np.int8
        assert list(status.attrs["flag_values"]) == [0, 1, 2, 3, 4, 5]
        assert status.attrs["flag_meanings"].split()[0] == "measured"
        assert h5py.check_string_dtype(matrix["tensor"].dtype).encoding == "utf-8"
        assert matrix["tensor"].asstr()[0] == "model.layers.0.mlp.gate.weight"
        assert matrix["rank_90"].dtype == np.int32
        for name, dataset in matrix.items():
            assert "long_name" in dataset.attrs, name
        f.visititems(check_filters)
        spectra = f["spectra"]
        seen = 0
        for name, group in spectra.items():
            sigma, rows = group["sigma"], group["matrix"][:]
            assert sigma.shape[0] == len(rows)
            assert np.all(np.diff(sigma[:], axis=1) <= 0)
            p = np.minimum(matrix["rows"][:], matrix["cols"][:])[rows]
            assert name == f"p{p[0]}" + ("_top64" if f.attrs["mode"] == "fast" else "")
            seen += len(rows)
        assert seen == n
        check_theta(f)
        # What the file says of itself follows from what it holds.
        if f.attrs["mode"] == "default":
            sigma = spectra["p80/sigma"][:]
            rows = spectra["p80/matrix"][:]
            share = (sigma[:, :64] ** 2).sum(1) / (sigma**2).sum(1)
            assert np.allclose(matrix["var_at_k"][:, 6][rows], share, atol=1e-12)
            assert f["vectors/p80_n96/right"].shape == (6, 4, 96)
            assert f["vectors/p80_n96_tall/right"].shape == (6, 4, 80)


def check_xarray(path):
    matrix = xr.open_dataset(path, engine="h5netcdf", group="/matrix")
    assert dict(matrix.sizes) == {"matrix": 14, "k": 9}
    assert matrix.var_at_k.dims == ("matrix", "k")
    experts = matrix.where(matrix.block == "routed_expert", drop=True)
    assert experts.sizes["matrix"] == 12
    assert float(matrix.var_at_k.sel(k=64).max()) <= 1.0
    tensor = xr.open_dataset(path, engine="h5netcdf", group="/tensor")
    assert dict(tensor.sizes) == {"entry": 15}
    assert "tensor" in matrix.coords and "role" in tensor.coords
    assert np.isfinite(tensor["std"].values[:14]).all() and np.isnan(tensor["std"].values[14])
    layer = xr.open_dataset(path, engine="h5netcdf", group="/layer")
    assert dict(layer.sizes) == {"group": 6}
    assert (layer.var_at_64_q25 <= layer.var_at_64_q75).all()
    name = "p80_top64" if "fast" in path else "p80"
    spectra = xr.open_dataset(path, engine="h5netcdf", group=f"/spectra/{name}")
    assert spectra.sigma.dims == ("matrix", "i")
    return layer


for mode in ("default", "fast"):
    file = sample(mode)
    check_h5py(file)
    check_xarray(file)
if shutil.which("h5dump"):
    dump = subprocess.run(["h5dump", "-H", file], capture_output=True, text=True, check=False)
    assert dump.returncode == 0 and "var_at_k_lower" in dump.stdout
else:
    print("not read with h5dump: Debian's hdf5-tools are not here")
print("read with h5py", h5py.__version__, "and xarray", xr.__version__)
