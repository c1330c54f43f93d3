"""Results of a model with 69,120 matrices: time and memory of reading and exporting them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from package_files import call

ROWS = 69_120
LENGTH = 512


def tiled(source: h5py.Group, target: h5py.Group, count: int) -> None:
    """The datasets of `source` with `count` rows: its own, repeated; scales attached as there."""
    old = len(source["matrix"])
    for name, data in source.items():
        if not isinstance(data, h5py.Dataset):
            continue
        along = data.shape[0] == old and name != "k"
        values = data[:]
        if name == "matrix":
            values = np.arange(count)
        elif name == "tensor":
            names = [f"model.layers.{i // 1152}.experts.{i}.weight" for i in range(count)]
            values = np.array(names, dtype=object)
        elif along:
            values = np.resize(values, (count, *values.shape[1:]))
        kind = h5py.string_dtype() if data.dtype.kind == "O" else data.dtype
        filters = {} if data.dtype.kind == "O" else {"compression": 1, "shuffle": True}
        new = target.create_dataset(name, data=values, dtype=kind, **filters)
        for key in ("flag_values", "flag_meanings", "_FillValue", "coordinates", "units"):
            if key in data.attrs:
                new.attrs[key] = data.attrs[key]
    for name in ("matrix", "k"):
        target[name].make_scale(name)
    for name, data in target.items():
        if name not in ("matrix", "k"):
            data.dims[0].attach_scale(target["matrix"])
            if data.ndim == 2:
                data.dims[1].attach_scale(target["k"])


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("large")
    call("synth", "layer:3x16x12:bf16", "-o", folder / "model", "-q")
    call("measure", folder / "model", "-o", folder / "small.h5", "-q")
    with h5py.File(folder / "small.h5") as small, h5py.File(folder / "large.h5", "w") as file:
        for key, value in small.attrs.items():
            if key != "attributes_sha256":
                file.attrs[key] = value
        tiled(small["matrix"], file.create_group("matrix"), ROWS)
        small.copy("run", file)
        group = file.create_group(f"spectra/p{LENGTH}")
        group["matrix"] = np.arange(ROWS)
        sigma = group.create_dataset("sigma", (ROWS, LENGTH), "f8", chunks=(128, LENGTH))
        random = np.random.default_rng(1)
        for first in range(0, ROWS, 8192):
            block = random.random((min(8192, ROWS - first), LENGTH))
            sigma[first : first + 8192] = np.sort(block)[:, ::-1]
    return folder / "large.h5"


def measured(code: str, *arguments: object) -> dict[str, float]:
    """Runs `code` in a process of its own.

    Gives seconds of the processor, and by how many MiB its memory grew over what it had once
    everything was loaded.
    """
    frame = (
        f"import json, sys, time; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from package_files import forget_peak, peak_mib\n"
        "import vindex, numpy, pandas, pyarrow.parquet\nvindex.open\n"
        "forget_peak()\nbefore = peak_mib()\n"
        "start = time.process_time()\n"
        f"{code}\n"
        "seconds = time.process_time() - start\n"
        "print(json.dumps({'seconds': seconds, 'mib': peak_mib() - before}))\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", frame, *map(str, arguments)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    answer: dict[str, float] = json.loads(found.stdout.splitlines()[-1])
    print(code.splitlines()[0], answer)
    return answer


def test_a_table_of_all_rows(large: Path) -> None:
    found = measured(
        "frame = vindex.open(sys.argv[1]).matrix\n"
        f"assert len(frame) == {ROWS} and frame.tensor.is_unique\n"
        "frame.groupby(['layer', 'role'], observed=True).var_at_64.median()",
        large,
    )
    assert found["seconds"] < 5
    assert found["mib"] < 400


def test_one_spectrum_of_many(large: Path) -> None:
    found = measured(
        "results = vindex.open(sys.argv[1])\n"
        "for row in range(0, 60000, 6000):\n"
        "    sigma = results.spectrum(results.matrix.tensor.iloc[row])\n"
        f"    assert sigma.shape == ({LENGTH},) and (numpy.diff(sigma) <= 0).all()",
        large,
    )
    assert found["mib"] < 400


def test_an_export_with_spectra_stays_bounded(large: Path, tmp_path: Path) -> None:
    """The singular values alone are 270 MiB."""
    for format in ("parquet", "arrow"):
        found = measured(
            "vindex.open(sys.argv[1]).export(sys.argv[2], spectra=True)",
            large, tmp_path / f"out.{format}",
        )  # fmt: skip
        assert found["mib"] < 400
    groups = measured(
        "file = pyarrow.parquet.ParquetFile(sys.argv[1])\n"
        f"assert file.metadata.num_rows == {ROWS} and file.num_row_groups > 3",
        tmp_path / "out.parquet",
    )
    assert groups["mib"] < 200
