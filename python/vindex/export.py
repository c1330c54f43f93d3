"""Tables of results files as Parquet or Arrow files, written by row groups with pyarrow.

The same columns as `vindex export --format csv`, with types: `block`, `role` and `status` are
dictionaries, a value that is not defined is null. The file's metadata has what the results file
says of itself: `vindex.attributes` and `vindex.run`, as JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import stat
import sys
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from vindex._durable import sync_folder
from vindex._text import printable
from vindex.errors import Error

if TYPE_CHECKING:
    from vindex.results import Results

FORMATS = ("parquet", "arrow")
# Of one row group, so that spectra of any number of rows take little memory.
_GROUP_BYTES = 32 << 20
_GROUP_ROWS = 65536
_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"


def format_of_name(name: str) -> str:
    """The format that the ending of a file's name says."""
    ending = os.path.splitext(name)[1].lower().lstrip(".")
    found = {"parquet": "parquet", "arrow": "arrow", "feather": "arrow"}.get(ending)
    if found is None:
        raise Error(64, "E-EXPORT-FORMAT", f"{printable(name)} ends neither in .parquet nor .arrow")
    return found


def write(
    results: Results,
    target: str | bytes | os.PathLike[str] | os.PathLike[bytes],
    format: str,
    *,
    table: str | None = None,
    spectra: bool = False,
    force: bool = False,
) -> None:
    """Write a table of `results` to `target` ("-": standard output).

    Args:
        results: an open results file of any kind.
        target: the file; it is there when it is complete, or not at all.
        format: "parquet" or "arrow" (the Arrow IPC file format, Feather 2).
        table: which table; None: the main one.
        spectra: also a column `sigma`: the singular values of each row, null where none is stored.
        force: replace a file that is there; a results file (HDF5) never.

    Raises:
        Error: E-EXTRA (78) without pyarrow; E-EXPORT-TABLE, E-EXPORT-FORMAT, E-EXPORT-TARGET (64);
            E-OUTPUT-EXISTS, E-OUT-PATH, ... (73); E-OUT-WRITE (74).
    """
    if format not in FORMATS:
        raise Error(64, "E-EXPORT-FORMAT", f"export format {format!r} is unknown here")
    arrow = _pyarrow()
    path = os.fsdecode(target)
    if path != "-":
        _require_free(path, str(results.path), force)
    frame = results.rows if table is None else _table(results, table)
    stored = None
    if spectra:
        if results.kind != "results" or table in ("layer", "tensor"):
            raise Error(64, "E-EXPORT-TABLE", "spectra are of the tables matrix, product, imatrix")
        stored = results._spectra(table or "matrix")
    schema, step = _schema(arrow, results, frame, stored)
    with _sink(path) as file, _writer(arrow, format, file, schema) as writer:
        for first in range(0, max(1, len(frame)), step):
            rows = np.arange(first, min(first + step, len(frame)))
            writer.write_batch(_batch(arrow, schema, frame, rows, stored))


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise Error(
            78, "E-EXTRA", "parquet and arrow need pyarrow: pip install 'vindex-spectra[arrow]'"
        ) from None
    return pyarrow


def _table(results: Results, table: str) -> pd.DataFrame:
    if table not in results.tables:
        raise Error(
            64, "E-EXPORT-TABLE",
            f"{printable(str(results.path))} has no rows of the table {printable(table)}; it has "
            f"{', '.join(results.tables)}",
        )  # fmt: skip
    return results.tables[table]


def _schema(arrow: Any, results: Results, frame: pd.DataFrame, stored: Any) -> tuple[Any, int]:
    """The columns with their types, and how many rows make a group."""
    fields = [arrow.field(str(frame.index.name), arrow.int64(), nullable=False)]
    integers = frame.attrs.get("integers", {})  # with a missing value: float64 in pandas
    for name, column in frame.items():
        declared = integers.get(name)
        kind = _type(arrow, column) if declared is None else arrow.from_numpy_dtype(declared)
        fields.append(arrow.field(str(name), kind))
    row_bytes = 16 * len(fields)
    if stored is not None:
        fields.append(arrow.field("sigma", arrow.list_(arrow.float64())))
        row_bytes += 8 * int(stored.length.max(initial=0))
    said = {
        "vindex.schema_name": str(results.attributes["schema_name"]),
        "vindex.schema_version": results.schema_version,
        "vindex.attributes": json.dumps(results.attributes, default=str),
        "vindex.run": json.dumps(results.run),
    }
    step = max(1, min(_GROUP_ROWS, _GROUP_BYTES // row_bytes))
    return arrow.schema(fields, metadata=said), step


def _type(arrow: Any, column: pd.Series[Any]) -> Any:
    if isinstance(column.dtype, pd.CategoricalDtype):
        return arrow.dictionary(arrow.int32(), arrow.string())
    if column.dtype.kind in "if":
        return arrow.from_numpy_dtype(column.dtype)
    return arrow.string()


def _batch(
    arrow: Any, schema: Any, frame: pd.DataFrame, rows: npt.NDArray[np.int64], stored: Any
) -> Any:
    arrays = [arrow.array(rows, arrow.int64())]
    part = frame.iloc[rows[0] : rows[-1] + 1] if rows.size else frame.iloc[:0]
    for name, column in part.items():
        kind = schema.field(str(name)).type
        if isinstance(column.dtype, pd.CategoricalDtype):
            # Every group has all names, so that the dictionary is one for the whole file.
            names = arrow.array(column.cat.categories.astype(str).tolist(), arrow.string())
            codes = arrow.array(column.cat.codes.to_numpy(dtype=np.int32), arrow.int32())
            arrays.append(arrow.DictionaryArray.from_arrays(codes, names))
        elif column.dtype.kind in "if":
            arrays.append(arrow.array(column.to_numpy(), from_pandas=True).cast(kind))
        else:
            arrays.append(arrow.array(column.astype(object).tolist(), arrow.string()))
    if stored is not None:
        arrays.append(_lists(arrow, rows, stored))
    return arrow.record_batch(arrays, schema=schema)


def _lists(arrow: Any, rows: npt.NDArray[np.int64], stored: Any) -> Any:
    """The spectra of `rows` as lists, in their order."""
    has = stored.group[rows] >= 0
    lengths = np.where(has, stored.length[rows], 0)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    values = np.empty(int(offsets[-1]))
    for found, block in stored.pieces(rows[has]):
        starts = offsets[found - rows[0]]
        for start, line in zip(starts.tolist(), block, strict=True):
            values[start : start + len(line)] = line
    return arrow.ListArray.from_arrays(
        arrow.array(offsets, arrow.int32()), arrow.array(values), mask=arrow.array(~has)
    )


@contextlib.contextmanager
def _writer(arrow: Any, format: str, file: IO[bytes], schema: Any) -> Iterator[Any]:
    if format == "parquet":
        import pyarrow.parquet as parquet

        with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
            yield writer
    else:
        options = arrow.ipc.IpcWriteOptions(compression="zstd")
        with arrow.ipc.new_file(file, schema, options=options) as writer:
            yield writer


def _require_free(path: str, source: str, force: bool) -> None:
    """As the program does for its exports, with its error ids."""
    label = printable(path)
    if not path or path.endswith("/") or "\0" in path:
        raise Error(73, "E-OUT-PATH", f"'{label}' names no file")
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise Error(73, "E-OUT-PATH", f"folder {printable(folder)} does not exist")
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return
    except OSError as failure:
        raise _output_error(failure, label) from None
    if os.path.samestat(status, os.stat(source)):
        raise Error(73, "E-OUT-INPUT", f"{label} is the file to be exported")
    if not stat.S_ISREG(status.st_mode):
        raise Error(
            73,
            "E-OUTPUT-NOT-A-FILE",
            f"{label}: exists and is no regular file; choose another name",
        )
    if not force:
        raise Error(73, "E-OUTPUT-EXISTS", f"{label} exists; --force replaces it")
    with open(path, "rb") as there:
        if there.read(len(_HDF5_SIGNATURE)) == _HDF5_SIGNATURE:
            raise Error(
                73, "E-OUTPUT-RESULTS",
                f"{label}: a results file (HDF5) is never replaced, not with --force either; "
                "choose another name",
            )  # fmt: skip


@contextlib.contextmanager
def _sink(path: str) -> Iterator[IO[bytes]]:
    """A file that is renamed to its name when everything is on disk; or standard output."""
    if path == "-":
        if sys.stdout.isatty():
            raise Error(64, "E-EXPORT-TARGET", "binary data does not go to a terminal")
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    folder, name = os.path.split(os.path.realpath(path))
    temporary = ""
    try:
        temporary = os.path.join(folder, f".{name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, os.path.join(folder, name))
        temporary = ""
        sync_folder(folder)
    except OSError as failure:
        raise _output_error(failure, printable(path)) from failure
    finally:
        if temporary:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def _output_error(failure: OSError, label: str) -> Error:
    reason = os.strerror(failure.errno) if failure.errno else str(failure)
    is_access = isinstance(failure, PermissionError)
    return Error(77 if is_access else 74, "E-OUT-WRITE", f"cannot write {label}: {reason}")
