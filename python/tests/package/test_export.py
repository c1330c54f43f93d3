"""Parquet and Arrow files beside the results file; the console command."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as parquet
import pytest
from package_files import HOSTILE, call

import vindex
from vindex import _program, export


def console(
    *words: str | Path, code: int = 0, **options: object
) -> subprocess.CompletedProcess[bytes]:
    found = subprocess.run(
        [sys.executable, "-m", "vindex", *map(str, words)], capture_output=True, check=False,
        **options,  # type: ignore[call-overload]
    )  # fmt: skip
    assert found.returncode == code, found.stderr
    return found


@pytest.mark.parametrize("format", ["parquet", "arrow"])
@pytest.mark.parametrize(
    ("name", "table"),
    [("mini", None), ("mini", "tensor"), ("heads", "product"), ("pairs", None), ("experts", None),
     ("sample", "layer"), ("pairs", "unpaired")],
)  # fmt: skip
def test_a_file_has_the_table(
    files: Path, tmp_path: Path, format: str, name: str, table: str | None
) -> None:
    target = tmp_path / f"out.{format}"
    words = ["export", files / f"{name}.h5", "--format", format, "-o", target]
    console(*words, *(["--table", table] if table else []))
    read = parquet.read_table if format == "parquet" else feather.read_table
    found = read(target)
    results = vindex.open(files / f"{name}.h5")
    frame = results.rows if table is None else results.tables[table]
    assert found.column_names == [frame.index.name, *frame.columns]
    assert found.num_rows == len(frame)
    for column in frame.columns:
        values = found[column].to_pandas()
        if pd.api.types.is_numeric_dtype(frame[column]):
            assert np.array_equal(
                values.astype(float), frame[column].astype(float), equal_nan=True
            ), column
        else:
            assert list(values.astype(str)) == list(frame[column].astype(str)), column
    metadata = found.schema.metadata
    assert json.loads(metadata[b"vindex.run"]) == results.run
    assert json.loads(metadata[b"vindex.attributes"]) == results.attributes
    assert metadata[b"vindex.schema_version"].decode() == results.schema_version


def test_types_and_missing_values(hostile: Path, tmp_path: Path) -> None:
    vindex.open(hostile).export(tmp_path / "out.parquet", spectra=True)
    found = parquet.read_table(tmp_path / "out.parquet")
    schema = found.schema
    for name in ("block", "role", "status"):
        assert pa.types.is_dictionary(schema.field(name).type)
    assert schema.field("rank_90").type == pa.int32()
    assert schema.field("layer").type == pa.int32()
    assert schema.field("stable_rank").type == pa.float64()
    assert schema.field("sigma").type == pa.list_(pa.float64())
    row = {one["tensor"]: one for one in found.to_pylist()}
    assert row["broken"]["rank_90"] is None
    assert row["broken"]["stable_rank"] is None
    assert row["broken"]["sigma"] is None
    assert len(row[HOSTILE[0]]["sigma"]) == 5
    assert row[HOSTILE[0]]["layer"] == -1


def test_spectra_in_several_groups(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "_GROUP_ROWS", 17)
    for format in ("parquet", "arrow"):
        for name in ("mini", "partial", "fast"):
            results = vindex.open(files / f"{name}.h5")
            target = tmp_path / f"{name}.{format}"
            results.export(target, spectra=True)
            read = parquet.read_table if format == "parquet" else feather.read_table
            found = read(target)
            assert found["block"].num_chunks > 5 or format == "parquet"
            frame = results.matrix
            for row, sigma in enumerate(found["sigma"].to_pylist()):
                if frame["status"].iloc[row] != "measured":
                    assert sigma is None
                else:
                    assert np.array_equal(sigma, results.spectrum(frame["tensor"].iloc[row]))
    assert parquet.ParquetFile(tmp_path / "mini.parquet").num_row_groups == 11


def test_duckdb_reads_it(files: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.parquet"
    vindex.open(files / "partial.h5").export(target)
    found = duckdb.sql(
        f"""SELECT layer, median(var_at_64 / var_at_64_null) AS ratio FROM '{target}'
        WHERE block = 'routed_expert' AND status = 'measured' GROUP BY layer ORDER BY layer"""
    ).df()
    frame = vindex.open(files / "partial.h5").matrix
    chosen = frame[(frame["block"] == "routed_expert") & (frame["status"] == "measured")]
    wanted = (chosen["var_at_64"] / chosen["var_at_64_null"]).groupby(chosen["layer"]).median()
    assert list(found["layer"]) == list(wanted.index)
    assert np.allclose(found["ratio"], wanted)


@pytest.mark.parametrize(
    ("words", "code", "id"),
    [
        (["mini.h5", "-o", "there"], 73, "E-OUTPUT-EXISTS"),
        (["mini.h5", "-o", "mini.h5", "--force"], 73, "E-OUT-INPUT"),
        (["mini.h5", "-o", "fast.h5", "--force"], 73, "E-OUTPUT-RESULTS"),
        (["mini.h5", "-o", "no/out"], 73, "E-OUT-PATH"),
        (["mini.h5", "-o", "mini"], 73, "E-OUTPUT-NOT-A-FILE"),
        (["nothing.h5", "-o", "out"], 66, "E-RESULTS-MISSING"),
        (["there", "-o", "out"], 65, "E-RESULTS-HDF5"),
        (["mini.h5", "-o", "out", "--table", "product"], 64, "E-EXPORT-TABLE"),
        (["pairs.h5", "-o", "out", "--spectra"], 64, "E-EXPORT-TABLE"),
        (["mini.h5", "-o", "out", "--activations", "x"], 64, "E-USAGE"),
        (["mini.h5"], 64, "E-USAGE"),
    ],
)
def test_refusals(files: Path, words: list[str], code: int, id: str) -> None:
    (files / "there").write_text("text")
    before = (files / "fast.h5").read_bytes()
    found = console("export", *words, "--format", "parquet", code=code, cwd=files)
    assert found.stderr.startswith(f"vindex: {id}: ".encode())
    assert found.stderr.count(b"\n") == 1
    assert found.stdout == b""
    assert (files / "fast.h5").read_bytes() == before
    assert (files / "there").read_text() == "text"
    assert not (files / "out").exists()
    assert list(files.glob(".*tmp")) == []


def test_force_replaces_and_keeps_rights_of_the_user(files: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.parquet"
    target.write_text("text")
    previous = os.umask(0o027)
    try:
        vindex.open(files / "mini.h5").export(target, force=True)
    finally:
        os.umask(previous)
    assert parquet.read_table(target).num_rows == 181
    assert target.stat().st_mode & 0o777 == 0o640


def test_a_full_disk_leaves_nothing(files: Path, tmp_path: Path) -> None:
    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    target = tmp_path / "out.parquet"
    words = ("export", files / "mini.h5", "--format", "parquet", "--spectra", "-o", target)
    found = console(*words, code=74, preexec_fn=limited)
    assert found.stderr.startswith(b"vindex: E-OUT-WRITE: "), found.stderr
    assert list(tmp_path.iterdir()) == []


def test_standard_output(files: Path) -> None:
    for format in ("parquet", "arrow"):
        found = console("export", files / "mini.h5", "--format", format, "-o", "-")
        buffer = pa.BufferReader(found.stdout)
        table = parquet.read_table(buffer) if format == "parquet" else feather.read_table(buffer)
        assert table.num_rows == 181


def test_a_sample_is_said_to_be_one(files: Path, tmp_path: Path) -> None:
    words = ["export", files / "sample.h5", "--format", "arrow", "-o"]
    assert b"note: " in console(*words, tmp_path / "a").stderr
    assert console(*words, tmp_path / "b", "-q").stderr == b""


def test_without_pyarrow_it_says_what_installs_it(files: Path, tmp_path: Path) -> None:
    (tmp_path / "pyarrow.py").write_text("raise ImportError('absent')")
    found = console(
        "export", files / "mini.h5", "--format", "parquet", "-o", tmp_path / "x", code=78,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"},
    )  # fmt: skip
    assert b"pip install 'vindex-spectra[arrow]'" in found.stderr


def test_the_program_names_the_package(files: Path, tmp_path: Path) -> None:
    for format in ("parquet", "arrow"):
        found = call("export", files / "mini.h5", "--format", format, "-o", tmp_path / "x", code=64)
        assert "E-EXPORT-PYTHON" in found.stderr
        assert "vindex-spectra[arrow]" in found.stderr
    assert list(tmp_path.iterdir()) == []


def test_every_other_command_is_the_program(files: Path, tmp_path: Path) -> None:
    ours = console("show", files / "mini.h5")
    assert ours.stdout.decode() == call("show", files / "mini.h5").stdout
    console("show", files / "nothing.h5", code=66)
    console("export", files / "mini.h5", "--format", "csv", "-o", tmp_path / "out.csv")
    assert len(pd.read_csv(tmp_path / "out.csv")) == 181
    help_text = console("export", "--format", "parquet", "--help").stdout.decode()
    assert help_text == call("export", "--help").stdout
    assert console("--version").stdout.decode() == call("--version").stdout
    console(code=64)


def test_the_command_starts_at_once() -> None:
    """No module that takes long to load is loaded on the way to the program."""
    code = "import sys, vindex.__main__, vindex._program; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    heavy = {"numpy", "pandas", "h5py", "xarray", "pyarrow", "matplotlib", "tqdm"}
    assert heavy.isdisjoint(loaded.stdout.split())


def test_the_script_does_not_call_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "vindex"
    script.write_text("#!/usr/bin/env python3\n")
    script.chmod(0o755)
    program = Path(_program.path())
    monkeypatch.delenv("VINDEX_PROGRAM")
    monkeypatch.setattr(_program, "__file__", str(tmp_path / "nothing.py"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(vindex.Error, match="was not found"):
        _program.path()
    monkeypatch.setenv("PATH", f"{tmp_path}:{program.parent}")
    assert Path(_program.path()) == program
