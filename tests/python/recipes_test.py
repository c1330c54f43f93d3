"""Runs every recipe of docs/files/results-file.md against files that the program writes, and checks what came out.

Usage: recipes_test.py h5netcdf|netcdf4 PROGRAM PAGE FOLDER. Exit 77 (skipped) where a package is missing; without duckdb or
pyarrow, and with an xarray older than 2024.9, the blocks that need them are left out, and the last line says so. The command
`vindex` of the page is the one of the Python package, in front of the program."""

import importlib
import os
import re
import subprocess
import sys
import warnings

ENGINE, PROGRAM, PAGE, FOLDER = sys.argv[1], *map(os.path.abspath, sys.argv[2:5])
for package in ["numpy", "h5py", "pandas", "xarray", {"netcdf4": "netCDF4"}.get(ENGINE, ENGINE)]:
    try:
        importlib.import_module(package)
    except ImportError as missing:
        print("skipped:", missing)
        sys.exit(77)

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
import xarray as xr  # noqa: E402

from test_script import call, fresh_folder
warnings.simplefilter("ignore")
XARRAY = tuple(int(part) for part in xr.__version__.split(".")[:2])
try:
    import duckdb  # noqa: F401

    DUCKDB = True
except ImportError:
    DUCKDB = False
try:
    import pyarrow  # noqa: F401

    PYARROW = True
except ImportError:
    PYARROW = False


def blocks():
    with open(PAGE, encoding="utf-8") as page:
        section = page.read().split("\n## Read it\n")[1].split("\n## ")[0]
    found = re.findall(r"^```(\w+)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    found = [block for block in found if block[0] != "cpp"]  # tests/results/reading/query_test.cpp has what it does
    assert len(found) >= 10, len(found)
    assert {kind for kind, _ in found} == {"python", "sh"}
    return found


def console_command(folder):
    """A folder with the command `vindex` as the Python package installs it."""
    os.makedirs(folder)
    package = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python")
    with open(os.path.join(folder, "vindex"), "w", encoding="utf-8") as script:
        script.write(f'#!/bin/sh\nPYTHONPATH="{package}" VINDEX_PROGRAM="{PROGRAM}" exec "{sys.executable}" -m vindex "$@"\n')
    os.chmod(script.name, 0o755)
    return os.path.abspath(folder)


def run_page(names):
    """Every block in one namespace, the other engine put in; returns what was left out."""
    left_out = []
    path = console_command("bin") + os.pathsep + os.environ["PATH"]
    for kind, text in blocks():
        if not PYARROW and ("parquet" in text or ".arrow" in text):
            left_out.append("pyarrow")
        elif kind == "sh":
            subprocess.run(["bash", "-euc", text], check=True, env={**os.environ, "PATH": path})
        elif "duckdb" in text and not DUCKDB:
            left_out.append("duckdb")
        elif 'groupby(["layer", "role"]).median()' in text and XARRAY < (2024, 9):
            left_out.append("groupby of several names")
        else:
            exec(compile(text.replace('engine="h5netcdf"', f'engine="{ENGINE}"'), PAGE, "exec"), names)  # noqa: S102
    return left_out


def check(names, count):
    matrix, table = names["matrix"], names["table"]
    for name in ["layer", "expert", "block", "role", "tensor"]:
        assert name in matrix.coords and name in matrix.stable_rank.coords, name
    assert dict(matrix.sizes) == {"matrix": count, "k": 9}
    assert set(names["status"]) == set(matrix.status.values) == {"measured"}
    # One row per matrix, whatever else there is.
    assert len(table) == len(names["plain"]) == count and table.index.name == "matrix"
    assert {"var_at_1", "var_at_64", "var_at_256", "var_at_64_null", "layer", "tensor"} <= set(table.columns)
    assert np.allclose(table["var_at_64"], names["var64"]) and np.allclose(table["var_at_64_null"], names["null"])
    assert np.allclose(table["stable_rank"], names["plain"]["stable_rank"], equal_nan=True)
    assert list(table["tensor"]) == list(names["plain"]["tensor"])
    medians = (table["var_at_64"] / table["var_at_64_null"]).groupby([table.layer, table.role]).median()
    if "by_role" in names:
        for (layer, role), value in medians.items():
            assert np.isclose(names["by_role"].sel(layer=layer, role=role), value), (layer, role)
        assert int(names["by_role"].notnull().sum()) == len(medians)
    joined = names["joined"]
    assert len(joined) == count and joined["std"].notna().all() and (joined["name"] == joined["tensor"]).all()
    spectra, largest = names["spectra"], names["largest"]
    norms = table.loc[spectra.matrix.values, "spectral_norm"]
    assert np.allclose(spectra.sigma.sel(i=1), norms)
    assert list(spectra.tensor.values) == list(table.loc[spectra.matrix.values, "tensor"])
    assert np.allclose(largest.values, norms.groupby(table.loc[spectra.matrix.values, "layer"]).max())
    tensor = xr.open_dataset("OUT.h5", engine=ENGINE, group="/tensor")
    assert "tensor" not in tensor.sizes and "name" in tensor.coords
    merged = xr.merge([matrix[["stable_rank"]], tensor[["count"]]], compat="override")
    assert dict(merged.sizes) == {"matrix": count, "entry": tensor.sizes["entry"]}
    layers = names["layers"]
    assert {"layer", "block", "role"} <= set(layers.var_at_64_median.coords)
    if "medians" in names:
        experts = table[table.block == "routed_expert"]
        wanted = (experts["var_at_64"] / experts["var_at_64_null"]).groupby(experts.layer).median()
        assert list(names["medians"]["layer"]) == list(wanted.index) and len(wanted) > 0
        assert np.allclose(names["medians"]["ratio"], wanted)
    if PYARROW:
        typed = names["typed"]
        assert len(typed) == count and len(typed["sigma"][0]) > 0
        assert np.allclose(typed["var_at_64"], table["var_at_64"]) and list(typed["role"]) == list(table["role"])
        assert len(names["typed_layers"]) == names["layers"].sizes["group"]
        assert names["settings"]["mode"] == "default"
        if DUCKDB:
            wanted = table.groupby("role")["nuclear_norm"].mean()
            found = names["roles"].set_index("role")["nuclear_norm"]
            assert len(found) == len(wanted) and np.allclose(found, wanted[found.index])
    assert len(names["both"]) == 2 and np.allclose(names["both"]["alpha"], names["both"]["alpha_theirs"])


def main():
    fresh_folder(FOLDER)
    os.chdir(FOLDER)
    call(PROGRAM, "synth", "kimi-k2-mini", "-o", "mini", "-q")
    # With the columns that another null and singular vectors add.
    call(PROGRAM, "measure", "mini", "-o", "OUT.h5", "--null", "signflip", "--vectors", "2", "--backend", "cpu", "--progress", "none")
    call(PROGRAM, "export", "OUT.h5", "--format", "csv", "-o", "rows.csv")
    rows = pd.read_csv("rows.csv")
    chosen = rows[rows.role == "down_proj"].head(2)
    # What WeightWatcher's analyze() returns, as far as the recipe needs it.
    details = pd.DataFrame({"longname": chosen.tensor.str.replace(r"\.weight$", "", regex=True), "alpha": chosen.pl_alpha})
    names = {"details": details}
    left_out = run_page(names)
    check(names, len(rows))
    print(f"{len(blocks())} blocks with {ENGINE}, xarray {xr.__version__}, pandas {pd.__version__}; left out: {left_out or 'none'}")


main()
