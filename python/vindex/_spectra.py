"""Stored spectra of a table: which row has which, and reading them in bounded pieces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from vindex._hdf5 import File
from vindex._text import nearest, printable
from vindex.errors import Error

_PIECE_BYTES = 64 << 20


@dataclass(frozen=True)
class Wanted:
    """A selection of rows; None: all."""

    block: Any = None
    role: Any = None
    layer: Any = None


class Spectra:
    """The spectra of a table's rows. `length[row]` is 0 where none is stored."""

    def __init__(self, file: File, table: str, frame: pd.DataFrame) -> None:
        self._file, self._frame = file, frame
        parent = "spectra" if table == "matrix" else f"{table}/spectra"
        count = len(frame)
        self.groups: list[str] = []
        self.group = np.full(count, -1, dtype=np.int64)  # of a row, -1: none
        self.place = np.zeros(count, dtype=np.int64)  # within its group
        self.length = np.zeros(count, dtype=np.int64)
        for name in file.groups(parent):
            self._add(f"{parent}/{name}")

    def _add(self, group: str) -> None:
        file = self._file
        rows = file.rows(f"{group}/matrix")
        shape = file.dataset(f"{group}/sigma").shape
        if rows.ndim != 1 or len(shape) != 2 or shape[0] != len(rows):
            raise file.error("E-RESULTS-SCHEMA", f"{group}: sigma and matrix do not fit together")
        inside = (rows >= 0) & (rows < len(self.group))
        if not inside.all() or len(np.unique(rows)) != len(rows) or (self.group[rows] >= 0).any():
            raise file.error("E-RESULTS-SCHEMA", f"{group}: rows that its table does not have once")
        self.group[rows] = len(self.groups)
        self.place[rows] = np.arange(len(rows))
        self.length[rows] = shape[1]
        self.groups.append(group)

    def one(self, row: int) -> npt.NDArray[np.float64]:
        """Singular values of `row`, shape [p]."""
        if self.group[row] < 0:
            raise Error(64, "E-NO-SPECTRUM", f"{self._who(row)}: {self._why_not(row)}")
        found: npt.NDArray[np.float64] = self._read(
            self.groups[self.group[row]], int(self.place[row]), 1
        )[0]
        return found

    def many(self, wanted: Wanted) -> npt.NDArray[np.float64]:
        """Shape [n, p], in the table's order."""
        rows = self.select(wanted)
        stored = rows[self.group[rows] >= 0]
        if stored.size == 0:
            raise Error(64, "E-NO-SPECTRUM", f"{self._who(rows[0])}: {self._why_not(rows[0])}")
        lengths = Counter(self.length[stored].tolist())
        if len(lengths) > 1:
            said = ", ".join(f"{count} of length {p}" for p, count in sorted(lengths.items()))
            roles = ", ".join(str(role) for role in self._frame["role"].iloc[stored].unique())
            raise Error(
                64,
                "E-SPECTRA-SHAPE",
                f"{self._file.label}: the selected matrices have spectra of different lengths "
                f"({said}); select fewer roles (here {printable(roles)}) or layers",
            )
        out = np.full((len(rows), next(iter(lengths))), np.nan)
        position = np.full(len(self.group), -1, dtype=np.int64)
        position[rows] = np.arange(len(rows))
        for found, values in self.pieces(stored):
            out[position[found]] = values
        return out

    def select(self, wanted: Wanted) -> npt.NDArray[np.int64]:
        """Numbers of the selected rows, ascending."""
        keep = np.ones(len(self._frame), dtype=bool)
        for name in ("block", "role", "layer"):
            value = getattr(wanted, name)
            if value is None:
                continue
            is_one = isinstance(value, str) or not isinstance(value, Iterable)
            values = [value] if is_one else list(value)
            column = self._frame[name]
            if name != "layer":
                for text in set(values) - set(column.unique()):
                    raise Error(
                        64,
                        "E-SELECTION",
                        f"{self._file.label} has no {name} {text!r}"
                        f"{nearest(str(text), column.unique())}",
                    )
            keep &= column.isin(values).to_numpy()
        if not keep.any():
            raise Error(64, "E-SELECTION", f"{self._file.label}: no row is of that selection")
        return np.flatnonzero(keep)

    def pieces(
        self, rows: npt.NDArray[np.int64]
    ) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]]:
        """Read the spectra of `rows` that are stored, some at a time: row numbers and [n, p]."""
        for number, name in enumerate(self.groups):
            here = rows[self.group[rows] == number]
            here = here[np.argsort(self.place[here], kind="stable")]
            if here.size == 0:
                continue
            step = max(1, _PIECE_BYTES // (8 * max(1, int(self.length[here[0]]))))
            places = self.place[here]
            first = 0
            while first < len(here):
                last = int(np.searchsorted(places, places[first] + step))
                start = int(places[first])
                block = self._read(name, start, int(places[last - 1]) - start + 1)
                yield here[first:last], block[places[first:last] - start]
                first = last

    def _read(self, group: str, first: int, count: int) -> npt.NDArray[np.float64]:
        values = self._file.rows(f"{group}/sigma", first, count)
        return np.ascontiguousarray(values, dtype=np.float64)

    def _who(self, row: int) -> str:
        return f"{self._file.label}: {printable(str(self._frame['tensor'].iloc[row]))}"

    def _why_not(self, row: int) -> str:
        status = str(self._frame["status"].iloc[row])
        if status != "measured":
            reason = str(self._frame["reason"].iloc[row])
            return f"not measured ({status}{': ' if reason else ''}{printable(reason)})"
        return "no spectrum is stored; it was measured with --no-spectra"
