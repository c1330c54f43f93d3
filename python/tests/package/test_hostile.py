"""Results files that are damaged or that claim what they do not hold: an answer or one error of the
program's kind, in little time and memory; never a crash."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from package_files import call, forget_peak, peak_mib

import vindex
from vindex._hdf5 import File

TEXT = h5py.string_dtype("utf-8")
NAMES = [
    "matrix/tensor", "matrix/layer", "matrix/status", "matrix/var_at_k", "matrix/k",
    "matrix/matrix", "matrix/rank_90", "tensor/entry", "spectra/p12/sigma", "spectra/p12/matrix",
    "layer/group", "run/inputs",
]  # fmt: skip


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small")
    call("synth", "layer:3x16x12:bf16", "-o", folder / "model", "-q")
    call("measure", folder / "model", "-o", folder / "out.h5", "-q")
    return folder / "out.h5"


def damages(shape: tuple[int, ...], dtype: Any) -> Iterator[tuple[tuple[int, ...], Any, Any]]:
    """Shape, type and chunks of what takes a dataset's place."""
    is_text = h5py.check_string_dtype(dtype) is not None
    rest = shape[1:]
    yield shape, np.int32 if is_text else np.float64 if dtype.kind == "i" else np.int64, None
    yield shape, TEXT, None
    yield shape, np.dtype([("a", "i4")]), None
    yield () if shape else (3,), dtype, None
    yield (*shape, 2), dtype, None
    yield (0, *rest), dtype, None
    yield (shape[0] + 7 if shape else 7, *rest), dtype, None
    yield (2**36, *rest), dtype, (1024, *rest)
    yield (2**26, *rest), dtype, (2**26 // max(1, int(np.prod(rest))), *rest)


def everything_of(path: Path) -> None:
    """Asks for all that a file has."""
    with vindex.open(path) as results:
        for name in results.tables:
            for ask in (results.tables.__getitem__, results.datasets.__getitem__):
                attempt(lambda ask=ask, name=name: ask(name))
        attempt(lambda: results.run)
        attempt(lambda: results.spectra())
        attempt(lambda: results.spectrum(results.matrix["tensor"][0]))
        attempt(results._repr_html_)


def attempt(action: Any) -> None:
    error = None
    try:
        action()
    except vindex.Error as caught:
        error = caught
    if error is not None:
        assert error.code in (64, 65), error
        assert error.code == 65 or error.id in ("E-TENSOR", "E-NO-SPECTRUM", "E-SPECTRA-SHAPE")
        assert "\n" not in str(error)


@pytest.mark.parametrize("name", NAMES)
def test_a_dataset_that_is_none(small: Path, tmp_path: Path, name: str) -> None:
    with h5py.File(small) as file:
        planned = list(damages(file[name].shape, file[name].dtype))
    forget_peak()
    before = peak_mib()
    for number, (shape, dtype, chunks) in enumerate(planned):
        path = tmp_path / f"{number}.h5"
        shutil.copy(small, path)
        with h5py.File(path, "r+") as file:
            del file[name]
            try:
                file.create_dataset(name, shape=shape, dtype=dtype, chunks=chunks)
            except (ValueError, TypeError, OSError):
                continue
        start = time.process_time()
        everything_of(path)
        assert time.process_time() - start < 4
    assert peak_mib() - before < 200


def test_ways_out_of_the_file(small: Path, tmp_path: Path) -> None:
    for link in (h5py.SoftLink("/matrix/rows"), h5py.ExternalLink("/etc/passwd", "/x")):
        path = tmp_path / f"{type(link).__name__}.h5"
        shutil.copy(small, path)
        with h5py.File(path, "r+") as file:
            del file["matrix/cols"]
            file["matrix/cols"] = link
        with pytest.raises(vindex.Error) as caught:
            vindex.open(path).matrix  # noqa: B018
        assert caught.value.id == "E-RESULTS-LINK"


def test_a_virtual_dataset(small: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.h5"
    shutil.copy(small, path)
    with h5py.File(path, "r+") as file:
        layout = h5py.VirtualLayout(shape=file["matrix/cols"].shape, dtype="i8")
        layout[:] = h5py.VirtualSource(tmp_path / "elsewhere.h5", "x", shape=layout.shape)
        del file["matrix/cols"]
        file.create_virtual_dataset("matrix/cols", layout)
    with pytest.raises(vindex.Error) as caught:
        vindex.open(path).matrix  # noqa: B018
    assert caught.value.id == "E-RESULTS-LAYOUT"


def test_texts_that_were_changed(small: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.h5"
    shutil.copy(small, path)
    with h5py.File(path, "r+") as file:
        file["matrix/role"][0] = "q_proj"
    with pytest.raises(vindex.Error) as caught:
        vindex.open(path).matrix  # noqa: B018
    assert caught.value.id == "E-RESULTS-DATA"


def test_numbers_that_were_changed(small: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.h5"
    shutil.copy(small, path)
    with h5py.File(path, "r+") as file:
        file["matrix/gini_null"][0] = 0.0
    with vindex.open(path) as results, pytest.raises(vindex.Error) as caught:
        results.matrix  # noqa: B018
    assert caught.value.id == "E-RESULTS-DATA"
    with h5py.File(path, "r+") as file:
        del file["matrix/gini_null"].attrs["sha256"]
    assert vindex.open(path).matrix["gini_null"][0] == 0.0


def test_a_lost_chunk_of_a_file_without_digests(small: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.h5"
    shutil.copy(small, path)
    with h5py.File(path, "r+") as file:
        shape = file["matrix/gini_null"].shape
        del file["matrix/gini_null"]
        file.create_dataset("matrix/gini_null", shape=shape, dtype="f8", chunks=shape)
        file["matrix/gini_null"].dims[0].attach_scale(file["matrix/matrix"])
    with pytest.raises(vindex.Error) as caught:
        vindex.open(path).matrix  # noqa: B018
    assert caught.value.id == "E-RESULTS-DATA"


def contents_of(path: Path) -> str:
    """The digest of every value and attribute that the package gives."""
    digest = hashlib.sha256()
    with vindex.open(path) as results:
        for name in results.tables:
            digest.update(results.tables[name].to_csv().encode())
            for key, one in sorted(results.datasets[name].variables.items()):
                said = [key, one.dims, sorted(one.attrs.items())]
                values = one.values.tolist() if one.dtype == object else one.values.tobytes()
                digest.update(repr([*said, values]).encode())
        for tensor in results.matrix["tensor"]:
            digest.update(results.spectrum(tensor, slice=None).tobytes())
    return digest.hexdigest()


def test_one_changed_byte_is_the_same_values_or_an_error(small: Path, tmp_path: Path) -> None:
    """Where no checksum of the format reaches: nodes of indices of chunks, heaps of text."""
    wanted = contents_of(small)
    original = small.read_bytes()
    places = []
    for signature, length in ((b"TREE", 72), (b"GCOL", 96)):
        begin = original.index(signature)
        places += range(begin, begin + length, 11)
    places += range(1, len(original), len(original) // 6)
    path = tmp_path / "out.h5"
    for number, place in enumerate(places):
        damaged = bytearray(original)
        damaged[place] ^= (0x01, 0x80, 0x10, 0xFF)[number % 4]
        path.write_bytes(damaged)
        code = 65
        try:
            found = contents_of(path)
        except vindex.Error as error:
            found, code = wanted, error.code
        assert (found, code) == (wanted, 65), place


@pytest.mark.parametrize("chunks", [None, (16384,)])
def test_many_names_in_one_place(small: Path, tmp_path: Path, chunks: tuple[int] | None) -> None:
    """A list of names that all refer to the same bytes: 64 GiB of text in a file of 2 MiB."""
    path = tmp_path / "out.h5"
    shutil.copy(small, path)
    count = 65536
    with h5py.File(path, "r+") as file:
        for name in ("matrix", "tensor"):
            del file[f"matrix/{name}"]
        file["matrix/matrix"] = np.arange(count)
        file["matrix/matrix"].make_scale("matrix")
        names = file.create_dataset("matrix/tensor", (count,), TEXT, chunks=chunks)
        names[0] = "x" * (1 << 20)
        names.dims[0].attach_scale(file["matrix/matrix"])
        names[1:] = b""
        file.flush()
        if chunks is None:
            pieces = [(names.id.get_offset(), count)]
        else:
            pieces = [
                (names.id.get_chunk_info(i).byte_offset, chunks[0])
                for i in range(names.id.get_num_chunks())
            ]
    with open(path, "r+b") as raw:
        raw.seek(pieces[0][0])
        place = raw.read(16)
        for offset, length in pieces:
            raw.seek(offset)
            raw.write(place * length)
    forget_peak()
    before = peak_mib()
    with pytest.raises(vindex.Error, match="longer texts than the file holds") as caught:
        File(path).texts("matrix/tensor")
    assert caught.value.id == "E-RESULTS-DATA"
    assert peak_mib() - before < 200


def test_a_damaged_chunk(small: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.h5"
    shutil.copy(small, path)
    with h5py.File(path) as file:
        at = file["matrix/stable_rank"].id.get_chunk_info(0).byte_offset
    with open(path, "r+b") as raw:
        raw.seek(at)
        raw.write(b"\xff" * 8)
    with pytest.raises(vindex.Error) as caught:
        vindex.open(path).matrix  # noqa: B018
    assert caught.value.id == "E-RESULTS-DATA"


def test_spectra_of_rows_that_are_not_there(small: Path, tmp_path: Path) -> None:
    for number, rows in enumerate(([0, 1, 99], [0, 0, 1], [-1, 0, 1])):
        path = tmp_path / f"{number}.h5"
        shutil.copy(small, path)
        with h5py.File(path, "r+") as file:
            file["spectra/p12/matrix"][:] = rows
            del file["spectra/p12/matrix"].attrs["sha256"]
        with pytest.raises(vindex.Error) as caught:
            vindex.open(path).spectra()
        assert caught.value.id == "E-RESULTS-SCHEMA"


def test_run_that_is_no_json(small: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.h5"
    shutil.copy(small, path)
    with h5py.File(path, "r+") as file:
        del file["run/config"]
        file["run"].create_dataset("config", data="[" * 100_000, dtype=TEXT)
    with pytest.raises(vindex.Error) as caught:
        vindex.open(path).run  # noqa: B018
    assert caught.value.id == "E-RESULTS-SCHEMA"


def test_bytes_changed_at_random(small: Path, tmp_path: Path) -> None:
    whole = bytearray(small.read_bytes())
    random = np.random.default_rng(3)
    path = tmp_path / "out.h5"
    for _ in range(25):
        damaged = bytearray(whole)
        for at in random.integers(0, len(whole), 4):
            damaged[at] ^= int(random.integers(1, 256))
        path.write_bytes(damaged)
        attempt(lambda: everything_of(path))
