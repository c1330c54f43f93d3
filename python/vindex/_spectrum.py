"""What works within the process, by libvindex.

One matrix measured, noise of a shape, decoded weights: typed objects around the native module.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from vindex._masked import without_mask
from vindex._text import html_table, nearest
from vindex.errors import Error

if TYPE_CHECKING:
    from vindex import _native
else:
    try:
        from vindex import _native
    except ImportError as failure:
        raise Error(
            78,
            "E-NATIVE",
            f"this copy of the package has no native module ({failure}): install it as a wheel",
        ) from failure


def _by_number(name: str) -> tuple[str, int]:
    """Order of names in which `var_at_2` precedes `var_at_16`."""
    number = re.search(r"\d+", name)
    return name[: number.start()] if number else name, int(number[0]) if number else 0


# The k of `var_at_k`, in the order of the arrays of that name.
K = np.array([1, 2, 4, 8, 16, 32, 64, 128, 256])


class _Figures:
    """Numbers by the names of their columns, as attributes and as a table."""

    rows: int
    cols: int
    figures: Mapping[str, float]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "figures":
            raise AttributeError(name)
        figures = self.figures
        if name in figures:
            return figures[name]
        at = [re.sub(r"(?<=at)_k(?=_|$)", f"_{k}", name) for k in K]
        if at[0] != name and all(one in figures for one in at):
            return np.array([figures[one] for one in at])
        raise AttributeError(
            f"{type(self).__name__} has no figure {name!r}{nearest(name, figures)}"
        )

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.figures})

    def _repr_html_(self) -> str:
        nulls = {name for name in self.figures if name.endswith("_null")}
        rows = [
            (name, f"{value:.6g}", f"{self.figures[null]:.6g}" if null in nulls else "")
            for name, value in sorted(self.figures.items(), key=lambda item: _by_number(item[0]))
            if name not in nulls and (null := f"{name}_null") is not None
        ]
        return html_table(("", "value", "noise of that shape"), rows, repr(self).strip("<>"))


@dataclass(frozen=True, repr=False, eq=False)
class Spectrum(_Figures):
    """The spectrum of one matrix.

    Every metric of docs/measuring/metrics.md and its null is an attribute by the name of its
    column: `spectrum.stable_rank`, `spectrum.stable_rank_null`, `spectrum.var_at_64`; `var_at_k`
    and its null are arrays over k = 1, 2, 4, ..., 256. NaN: not defined; `reason` says why.

    Attributes:
        rows: rows of the matrix (outputs).
        cols: its columns (inputs).
        sigma: singular values, descending, in the units of the weights: shape [min(rows, cols)],
            with mode "fast" the largest 64.
        sigma_error: largest error of any of them, in the same units.
        method: the route, as in a results file.
        escalated: a stricter route replaced the first one.
        status: "measured", "not_finite", "not_converged", ...
        reason: why it was not measured, or why values are NaN.
        backend: "cpu" or "cuda".
        figures: the metrics and nulls by name.
    """

    rows: int
    cols: int
    sigma: npt.NDArray[np.float64]
    sigma_error: float
    method: str
    escalated: bool
    status: str
    reason: str
    backend: str
    figures: Mapping[str, float] = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Everything but `sigma` as one flat dict: a row of a pandas table."""
        named = (
            "rows",
            "cols",
            "sigma_error",
            "method",
            "escalated",
            "status",
            "reason",
            "backend",
        )
        return {**{name: getattr(self, name) for name in named}, **self.figures}

    def __repr__(self) -> str:
        return (
            f"<vindex.Spectrum of {self.rows} x {self.cols}: {self.status}"
            f"{', ' + self.reason if self.reason else ''}, {len(self.sigma)} singular values, "
            f"{self.method}>"
        )


@dataclass(frozen=True, repr=False, eq=False)
class Null(_Figures):
    """What iid Gaussian noise of a shape gives.

    Means by the names of the metrics (`null.stable_rank`) or of their null columns
    (`null.stable_rank_null`).

    Attributes:
        rows: rows of the matrix.
        cols: its columns; the order of the two does not matter.
        figures: the nulls by name.
    """

    rows: int
    cols: int
    figures: Mapping[str, float]

    def to_dict(self) -> dict[str, float]:
        """The nulls by name."""
        return dict(self.figures)

    def __repr__(self) -> str:
        return f"<vindex.Null of {self.rows} x {self.cols}>"


def spectrum(
    array: Any,
    *,
    mode: Literal["fast", "default", "strict"] = "default",
    backend: Literal["auto", "cpu", "cuda"] = "auto",
) -> Spectrum:
    """Measure one matrix, as `vindex measure` does a tensor of these weights.

    Takes one core and releases the GIL: several matrices are for several threads.

    Args:
        array: shape [rows, cols]: numpy (ml_dtypes' bfloat16 too) or any DLPack tensor in the
            memory of the CPU, F64, F32, F16 or BF16. C-contiguous F32 is not copied. A masked
            array with masked elements is refused.
        mode: what is promised: docs/measuring/metrics.md.
        backend: what computes.

    Raises:
        Error: E-ARRAY, E-SHAPE, E-BACKEND (64), E-DEVICE (70), ... A matrix that cannot be
            measured is no error: its `status` says so.
    """
    array = without_mask(array)
    found = _native.spectrum(array, mode=mode, backend=backend)
    rows, cols = _shape(array)
    return Spectrum(
        rows,
        cols,
        found["sigma"],
        found["sigma_error"],
        found["method"],
        found["escalated"],
        found["status"],
        found["reason"],
        found["backend"],
        found["figures"],
    )


def null(rows: int, cols: int) -> Null:
    """Compute what iid Gaussian noise of `rows` x `cols` gives for every metric that has a null.

    Raises:
        Error: E-SHAPE (64) where a side is below 1.
    """
    return Null(rows, cols, _native.null(rows, cols))


def decode(
    model: str | bytes | os.PathLike[str] | os.PathLike[bytes],
    tensor: str,
    slice: int | None = None,
) -> npt.NDArray[np.float32]:
    """Decode a tensor: exactly the weights that are measured and that `vindex decode` writes.

    Args:
        model: folder, file or address of a model.
        tensor: logical name.
        slice: which one of a stacked tensor; None: all of them.

    Returns:
        Shape [rows, cols], or [slices, rows, cols]; [cols, rows] for the few formats that store
        inputs first.

    Raises:
        Error: E-TENSOR, E-SLICE (64), and as the program for models that cannot be read.
    """
    return _native.decode(model, tensor, slice)


def _shape(array: Any) -> tuple[int, int]:
    shape = getattr(array, "shape", None)
    sides = tuple(memoryview(array).shape or ()) if shape is None else tuple(shape)
    return int(sides[0]), int(sides[1])
