"""Columns of results files, read once per state of a file and kept.

h5py lets one thread at a time into HDF5. So a table is read whole, once for everyone who asks for
it meanwhile, and every question is then answered from Arrow columns in memory.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np
import pyarrow as pa

from vindex._hdf5 import require_written
from vindex.serve.confine import OutsideError, open_beneath
from vindex.serve.jobs.inputs import result_name
from vindex.serve.jobs.records import Job
from vindex.serve.problems import Problem, not_found
from vindex.serve.results.marchenko_pastur import noise_spectrum

KEPT_BYTES = 512 << 20
# Columns with a second dimension of at most this many are columns of lists (var_at_k has 9).
MAX_LIST = 512
DEFAULT_LIST = 32
_FIRST = ("tensor", "tensor_a", "tensor_b", "slice", "layer", "block", "role", "expert", "rows",
          "cols", "encoding", "encoding_a", "encoding_b", "status", "reason")  # fmt: skip
Identity = tuple[int, int, int, int]
Rows = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Column:
    """One column: numbers, or texts as places in a list of them.

    Attributes:
        values: `[row]` or `[row, k]`.
        names: the texts, or None for numbers.
    """

    values: np.ndarray[Any, np.dtype[Any]]
    names: tuple[str, ...] | None

    def cells(self, rows: Rows) -> list[Any]:
        """Values of some rows as Python has them; NaN stays NaN."""
        part = self.values[rows].tolist()
        return part if self.names is None else [self.names[place] for place in part]

    def arrow(self, rows: Rows) -> pa.Array:
        """Values of some rows as Arrow has them."""
        part = self.values[rows]
        if self.names is not None:
            return pa.DictionaryArray.from_arrays(pa.array(part), pa.array(self.names, pa.string()))
        if part.ndim == 2:
            return pa.FixedSizeListArray.from_arrays(pa.array(part.ravel()), part.shape[1])
        return pa.array(part)

    def among(self, wanted: Sequence[str]) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which rows have one of some texts."""
        known = self.names or ()
        places = [known.index(text) for text in wanted if text in known]
        return np.isin(self.values, places)


@dataclass(frozen=True)
class Table:
    """One table of a results file.

    Attributes:
        name: of its group.
        identity: device, inode, size and time of the file that it was read from.
        status: "complete" or "partial", of the file.
        count: rows.
        columns: by name, all of `count` rows.
        defaults: names that are shown where nobody says which.
    """

    name: str
    identity: Identity
    status: str
    count: int
    columns: dict[str, Column]
    defaults: tuple[str, ...]

    @property
    def nbytes(self) -> int:
        """Memory of all columns, about."""
        return sum(column.values.nbytes for column in self.columns.values())


def open_result(job: Job) -> int:
    """A descriptor of a job's results file. Raises Problem (404)."""
    name = result_name(job)
    try:
        if name is None:
            raise OutsideError
        return open_beneath(job.out, name)
    except OutsideError:
        raise Problem(404, "E-RESULTS-MISSING", "no results file there (yet)") from None


def identity_of(descriptor: int) -> Identity:
    """What changes whenever a file is published anew."""
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def identity_now(job: Job) -> Identity:
    """Identity of a job's results file as it is now. Raises Problem (404)."""
    descriptor = open_result(job)
    try:
        return identity_of(descriptor)
    finally:
        os.close(descriptor)


def _open(descriptor: int) -> h5py.File:
    try:
        # By number: the file that was checked, not what may have its name by now.
        return h5py.File(f"/proc/self/fd/{descriptor}", "r", locking=False)
    except OSError:
        raise Problem(422, "E-RESULTS-OPEN", "the results file cannot be read") from None


def table_names(file: h5py.File) -> list[str]:
    """Groups with a row number of their own name, the main one first."""
    names = [name for name in file if isinstance(file[name], h5py.Group) and name in file[name]]
    return sorted(names, key=lambda name: (name != "matrix", name))


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _plain(value: Any) -> Any:
    """An attribute as JSON has it."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bytes):
        return _text(value)
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value.tolist() if isinstance(value, np.ndarray) else value


def _order(name: str) -> tuple[int, str, str]:
    """What a row is first, then statistics by name, each before its null."""
    place = _FIRST.index(name) if name in _FIRST else len(_FIRST)
    statistic, null, _ = name.partition("_null")
    return place, statistic if null else name, name


def _numbers(data: h5py.Dataset, rows: slice = slice(None)) -> Any:
    """Rows of a dataset that were compared with its digest. Raises Problem (422)."""
    try:
        values = data[rows]
        require_written(data, rows.start or 0, values)
    except (OSError, ValueError):
        raise Problem(422, "E-RESULTS-DATA", f"{data.name}: the results file is damaged") from None
    return values


def _column(data: h5py.Dataset) -> Column:
    values = _numbers(data)
    if values.dtype == object:
        names, codes = np.unique([_text(value) for value in values], return_inverse=True)
        return Column(codes.astype(np.int32), tuple(names.tolist()))
    meanings = data.attrs.get("flag_meanings")
    if meanings is not None:
        return Column(values.astype(np.int32), tuple(_text(meanings).split()))
    return Column(values, None)


def _read(descriptor: int, name: str | None) -> Table:
    identity = identity_of(descriptor)
    with _open(descriptor) as file:
        names = table_names(file)
        if not names or (name is not None and name not in names):
            raise Problem(404, "E-RESULTS-DATA", f"no such table; there are: {', '.join(names)}")
        group = file[name or names[0]]
        count = group[name or names[0]].shape[0]
        columns: dict[str, Column] = {}
        defaults = []
        for column, data in sorted(group.items(), key=lambda item: _order(item[0])):
            wide = data.shape[1] if data.ndim == 2 else 1
            if data.ndim not in (1, 2) or data.shape[0] != count or wide > MAX_LIST:
                continue
            # A scale of another dimension (k, expert) that happens to be as long as the rows.
            if data.is_scale and column != (name or names[0]):
                continue
            columns[column] = _column(data)
            if wide <= DEFAULT_LIST:
                defaults.append(column)
        status = _text(file.attrs.get("status", ""))
    return Table(name or names[0], identity, status, count, columns, tuple(defaults))


class Tables:
    """Tables of results files, the latest used within `KEPT_BYTES`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[Identity, str | None], Table] = OrderedDict()
        self._reading: dict[tuple[Identity, str | None], threading.Lock] = {}

    def get(self, job: Job, name: str | None = None) -> Table:
        """A table of a job's results file; `name` None is the main one. Raises Problem."""
        descriptor = open_result(job)
        try:
            key = (identity_of(descriptor), name)
            with self._lock:
                if key in self._kept:
                    self._kept.move_to_end(key)
                    return self._kept[key]
                turn = self._reading.setdefault(key, threading.Lock())
            with turn:
                with self._lock:
                    if key in self._kept:
                        return self._kept[key]
                table = _read(descriptor, name)
                with self._lock:
                    self._keep(key, table)
                return table
        finally:
            os.close(descriptor)

    def _keep(self, key: tuple[Identity, str | None], table: Table) -> None:
        self._kept[key] = table
        self._reading.pop(key, None)
        while len(self._kept) > 1 and sum(t.nbytes for t in self._kept.values()) > KEPT_BYTES:
            self._kept.popitem(last=False)


def summary(job: Job) -> dict[str, Any]:
    """Attributes, tables with their columns, and lengths of spectra of a results file."""
    descriptor = open_result(job)
    try:
        with _open(descriptor) as file:
            attributes = {
                name: _plain(value)
                for name, value in file.attrs.items()
                if name not in ("history", "attributes_sha256")
            }
            tables = {
                name: {
                    "rows": int(file[name][name].shape[0]),
                    "columns": {
                        column: _text(data.attrs.get("long_name", ""))
                        for column, data in file[name].items()
                        if data.ndim in (1, 2) and data.shape[0] == file[name][name].shape[0]
                    },
                }
                for name in table_names(file)
            }
            return {
                "attributes": attributes,
                "tables": tables,
                "spectra": sorted(file["spectra"]) if "spectra" in file else [],
            }
    finally:
        os.close(descriptor)


def spectrum(job: Job, table: Table, tensor: str, slice_: int | None) -> dict[str, Any]:
    """Singular values of one matrix, descending, beside those of noise of its shape and bulk.

    Raises:
        Problem: 404 where there is no such matrix or the file has no spectrum of it, 422 where
            the tensor has several slices and none is named.
    """
    columns = table.columns
    if not {"tensor", "slice", "rows", "cols", "mp_scale"} <= set(columns):
        raise Problem(404, "E-RESULTS-KIND", "a results file without spectra")
    mask = columns["tensor"].among([tensor])
    if slice_ is not None:
        mask &= columns["slice"].values == slice_
    rows = np.flatnonzero(mask)
    if len(rows) == 0:
        raise not_found("matrix")
    if len(rows) > 1:
        raise Problem(422, "E-SLICE", f"{len(rows)} slices: name one by slice=")
    row = int(rows[0])
    descriptor = open_result(job)
    try:
        if identity_of(descriptor) != table.identity:
            raise Problem(409, "E-SERVE-CHANGED", "the file was published anew; ask again")
        with _open(descriptor) as file:
            for group in file["spectra"].values() if "spectra" in file else []:
                at = np.flatnonzero(_numbers(group["matrix"]) == row)
                if len(at):
                    sigma = _numbers(group["sigma"], slice(int(at[0]), int(at[0]) + 1))[0]
                    break
            else:
                raise not_found("spectrum of that matrix")
    finally:
        os.close(descriptor)

    def cell(name: str) -> Any:
        return columns[name].values[row].item()

    null = noise_spectrum(cell("rows"), cell("cols"), cell("mp_scale"), len(sigma))
    return {
        "tensor": tensor,
        "slice": cell("slice"),
        "rows": cell("rows"),
        "cols": cell("cols"),
        "scale_null": cell("mp_scale"),
        "sigma": sigma,
        "sigma_null": null,
    }


def numbers(text: str) -> list[tuple[int, int]]:
    """Ranges of `0,1,15-20`; -1 stands alone. Raises ValueError."""
    result = []
    for part in text.split(","):
        first, dash, last = part.partition("-") if not part.startswith("-") else (part, "", "")
        result.append((int(first), int(last if dash else first)))
    return result


def filtered(table: Table, layer: str | None, role: Sequence[str], block: Sequence[str]) -> Rows:
    """Row numbers that pass every filter. Raises Problem (422)."""
    mask = np.ones(table.count, dtype=bool)
    for name, wanted in (("role", role), ("block", block)):
        if wanted:
            mask &= _known(table, name).among(wanted)
    if layer is not None:
        values = _known(table, "layer").values
        try:
            ranges = numbers(layer)
        except ValueError:
            raise Problem(422, "E-SELECTION", "layer: numbers, as 0,1,15-20") from None
        mask &= np.any([(values >= low) & (values <= high) for low, high in ranges], axis=0)
    return np.flatnonzero(mask)


def _known(table: Table, name: str) -> Column:
    if name not in table.columns:
        raise Problem(422, "E-COLUMN", f"this table has no column `{name}`")
    return table.columns[name]


def chosen(table: Table, columns: Sequence[str]) -> list[str]:
    """Columns to show: those named, each statistic with its null, or the defaults.

    Raises Problem (422) for a column that is not there.
    """
    if not columns:
        return list(table.defaults)
    result: dict[str, None] = {}
    there = table.columns
    for name in columns:
        if name not in there:
            raise Problem(422, "E-COLUMN", f"no column `{name[:100]}`")
        result[name] = None
        result |= dict.fromkeys(n for n in (f"{name}_null", f"{name}_null_sd") if n in there)
    return list(result)
