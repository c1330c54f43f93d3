"""Results files: `vindex.open` and what it returns."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from vindex import _tables
from vindex._hdf5 import File
from vindex._spectra import Spectra, Wanted
from vindex._text import html_table, nearest, printable
from vindex.errors import Error

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from typing_extensions import Self

# The table of each kind of file that has what was computed, one row per item.
_MAIN = {
    "results": "matrix",
    "compare": "pair",
    "experts": "group",
    "cka": "layer",
    "activations": "layer",
    "routing": "layer",
    "trace": "layer",
}
_T = TypeVar("_T")


class _Lazy(Mapping[str, _T]):
    """Names that are known, values that are read when they are asked for, once."""

    def __init__(self, names: list[str], read: Callable[[str], _T], where: str) -> None:
        self._names, self._read, self._where = names, functools.cache(read), where

    def __getitem__(self, name: str) -> _T:
        if name not in self._names:
            raise Error(
                64,
                "E-TABLE",
                f"{self._where} has no table {name!r}; it has {', '.join(self._names)}",
            )
        return self._read(name)

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self._names else default

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<tables: {', '.join(self._names)}>"


class Results:
    """A results file of `vindex measure`, or of compare, experts, cka, activations or routing.

    What is asked for is read then, and once. The file stays as it was when it was opened, also
    where a run publishes a newer one meanwhile. A context manager; `close()` may be left to it or
    to the end of the object.

    A value that is not defined is NaN, integers included. A `layer`, `expert` or `slice` of -1 says
    that there is none.

    Attributes:
        path: the file.
        kind: "results", "compare", "experts", "cka", "activations", "routing" or "trace".
        schema_version: "1.3".
        attributes: the attributes of the file: `model`, `mode`, `backend`, `matrices_total`, ...
        tables: every table by its name, as pandas: {"matrix": ..., "layer": ..., "tensor": ...}.
        datasets: the same as xarray, with the arrays that fit into no pandas table.
    """

    def __init__(self, path: str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> None:
        self._file = File(path)
        file = self._file
        self.path = Path(os.fsdecode(path))
        self.kind = file.schema.removeprefix("vindex-")
        self.schema_version = str(file.attributes["schema_version"])
        self.attributes: dict[str, Any] = file.attributes
        self._stored: dict[str, Spectra] = {}
        names = _tables.table_names(file)
        self.tables: Mapping[str, pd.DataFrame] = _Lazy(
            names, lambda name: _tables.read_frame(file, name), file.label
        )
        self.datasets: Mapping[str, xr.Dataset] = _Lazy(
            names, lambda name: _tables.read_dataset(file, name), file.label
        )

    def close(self) -> None:
        """Close the file; what was read stays usable. May be called again."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path,)

    @property
    def status(self) -> str:
        """Whether every row was tried: "complete" or "partial"."""
        return str(self.attributes["status"])

    @functools.cached_property
    def run(self) -> dict[str, Any]:
        """How the file came to be: `command settings inputs environment config`, parsed JSON."""
        return _tables.read_run(self._file)

    @property
    def rows(self) -> pd.DataFrame:
        """The main table of a file of any kind: matrices, pairs, groups or layers."""
        return self.tables[_MAIN[self.kind]]

    @property
    def matrix(self) -> pd.DataFrame:
        """One row per selected matrix, measured or not.

        Every metric of docs/measuring/metrics.md beside its null, `var_at_k` as `var_at_1` ...
        `var_at_256`; `block`, `role` and `status` are categories. Indexed by the number of the row
        in the file.
        """
        return self._of_measure("matrix")

    @property
    def layer(self) -> pd.DataFrame:
        """One row per (layer, block, role): medians, quartiles and extremes over its matrices."""
        return self.tables["layer"]

    @property
    def tensor(self) -> pd.DataFrame:
        """One row per tensor of the model, of any rank, measured or not."""
        return self._of_measure("tensor")

    @property
    def product(self) -> pd.DataFrame:
        """Products of factors, as `--heads` and `--lora` measure them; columns of `matrix`."""
        return self._of_measure("product")

    @property
    def imatrix(self) -> pd.DataFrame:
        """Matrices weighted by activations, as `--imatrix` measures them; columns of `matrix`."""
        return self._of_measure("imatrix")

    @functools.cached_property
    def dataset(self) -> xr.Dataset:
        """The main table as xarray: what identifies a row are coordinates, `k` is a dimension.

        Of a file of `vindex cka` also its matrices.
        """
        main = self.datasets[_MAIN[self.kind]]
        arrays = _tables.read_arrays(self._file)
        return main.merge(arrays) if arrays.sizes else main

    def spectrum(
        self, tensor: str, slice: int | None = None, *, table: str = "matrix"
    ) -> npt.NDArray[np.float64]:
        """Read the singular values of one matrix, descending, in the units of the weights.

        Args:
            tensor: its logical name, as in `matrix.tensor`.
            slice: which one of a stacked tensor; may be left out where the file has one alone.
            table: "matrix", "product" or "imatrix".

        Returns:
            Shape [p], p = min(rows, cols); of a file measured with `--mode fast` the largest 64.

        Raises:
            Error: E-TENSOR, E-SLICE (64) where there is no such row; E-NO-SPECTRUM (64) where the
                file holds no spectrum of it, with the reason.
        """
        frame = self._of_measure(table)
        found = np.flatnonzero((frame["tensor"] == tensor).to_numpy())
        if found.size == 0:
            close = nearest(tensor, frame["tensor"].unique())
            raise Error(64, "E-TENSOR", f"{self._file.label}: no tensor {tensor!r}{close}")
        if slice is not None:
            found = found[frame["slice"].to_numpy()[found] == slice]
        if found.size != 1:
            slices = sorted(frame.loc[frame["tensor"] == tensor, "slice"].tolist())
            wanted = "it has several" if slice is None else f"it has none of number {slice}"
            raise Error(
                64, "E-SLICE", f"{printable(tensor)} is a stack of slices and {wanted}: "
                f"{slices[0]} to {slices[-1]}",
            )  # fmt: skip
        return self._spectra(table).one(int(found[0]))

    def spectra(
        self,
        *,
        block: str | list[str] | None = None,
        role: str | list[str] | None = None,
        layer: int | list[int] | range | None = None,
        table: str = "matrix",
    ) -> npt.NDArray[np.float64]:
        """Read the singular values of every matrix of a selection, in the order of `matrix`.

        Args:
            block: a block ("routed_expert") or several; None: all.
            role: a role ("down_proj") or several; None: all.
            layer: a layer, several, or a range; None: all.
            table: "matrix", "product" or "imatrix".

        Returns:
            Shape [n, p], each row descending; NaN in the rows of matrices that were not measured.

        Raises:
            Error: E-SPECTRA-SHAPE (64) where lengths differ: they are named; E-SELECTION (64) where
                nothing is selected; E-NO-SPECTRUM (64) where the file holds none of them.
        """
        wanted = Wanted(block=block, role=role, layer=layer)
        return self._spectra(table).many(wanted)

    def export(
        self,
        path: str | bytes | os.PathLike[str] | os.PathLike[bytes],
        *,
        format: str | None = None,
        table: str | None = None,
        spectra: bool = False,
        force: bool = False,
    ) -> None:
        """Write a table as a Parquet or Arrow file (`pip install 'vindex-spectra[arrow]'`).

        Args:
            path: the file to write; it appears when it is complete.
            format: "parquet" or "arrow"; None: by the ending of `path`.
            table: which table; None: the main one.
            spectra: also the column `sigma`, the singular values of each row as a list.
            force: replace a file that is there (never a results file).

        Raises:
            Error: as `vindex export`.
        """
        from vindex import export

        name = format or export.format_of_name(os.fsdecode(path))
        export.write(self, path, name, table=table, spectra=spectra, force=force)

    def __repr__(self) -> str:
        return f"<vindex.Results {printable(str(self.path))!r}: {self._summary()}>"

    def _repr_html_(self) -> str:
        counts = self.rows.groupby(["block", "role", "status"], observed=True).size()
        rows = [(*key, count) for key, count in counts.items()]  # type: ignore[misc]
        return html_table(
            ("block", "role", "status", "rows"), rows, f"{self.path}: {self._summary()}"
        )

    def _summary(self) -> str:
        at = self.attributes
        said = [f"vindex {'measure' if self.kind == 'results' else self.kind}", self.status]
        said.append(
            f"{at.get('matrices_measured', '?')} of {at.get('matrices_total', '?')} measured"
        )
        if at.get("matrices_failed"):
            said.append(f"{at['matrices_failed']} failed")
        models = [printable(str(at[key])) for key in ("model", "model_b") if at.get(key)]
        said.append("model " + " and ".join(models))
        said += [f"{key} {at[key]}" for key in ("mode", "backend", "sample") if at.get(key)]
        return ", ".join(said)

    def _of_measure(self, table: str) -> pd.DataFrame:
        if self.kind != "results":
            raise self._file.error(
                "E-RESULTS-KIND",
                f"a file of `vindex {self.kind}`, which has no table {table}: `rows` and `tables` "
                "have what it holds",
            )
        return self.tables[table]

    def _spectra(self, table: str) -> Spectra:
        if table not in self._stored:
            self._stored[table] = Spectra(self._file, table, self._of_measure(table))
        return self._stored[table]


def open(path: str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> Results:
    """Open a results file; no more of it is read than its attributes.

    Raises:
        Error: E-RESULTS-MISSING (66); E-RESULTS-HDF5, E-RESULTS-SCHEMA, E-RESULTS-VERSION,
            E-RESULTS-DATA (65) where it is no results file, of a newer major version, or
            damaged.
    """
    return Results(path)
