"""A spectrum on the law of noise of its shape and scale."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from vindex._masked import without_mask
from vindex._text import printable
from vindex.errors import Error
from vindex.plot import _law, _style
from vindex.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from vindex._spectrum import Spectrum


@dataclass(frozen=True)
class _Shown:
    sigma: npt.NDArray[np.float64]  # the largest of p, descending
    p: int
    n: int
    scale: float  # of the noise drawn beside it
    scale_is_of_bulk: bool  # by the median; otherwise by the Frobenius norm
    title: str

    @property
    def is_whole(self) -> bool:
        return len(self.sigma) == self.p


def spectrum(
    source: Results | Spectrum | npt.ArrayLike,
    tensor: str | None = None,
    slice: int | None = None,
    *,
    rows: int | None = None,
    cols: int | None = None,
    kind: Literal["density", "values"] = "density",
    ax: Axes | None = None,
) -> Axes:
    """Draw the singular values of one matrix on the Marchenko-Pastur law of its shape and scale.

    Args:
        source: a results file (with `tensor`), a `vindex.Spectrum`, or singular values [p] (with
            `rows` and `cols`).
        tensor: logical name of the matrix in the file.
        slice: which one of a stacked tensor.
        rows: rows of the matrix that singular values are of.
        cols: its columns.
        kind: "density": the density of the squared values, scaled so that noise has the law's;
            "values": the values by their number, both axes logarithmic.
        ax: axes to draw into; None: new ones.

    Returns:
        The axes. Values above the edge of noise (`mp_outliers`) are marked.

    Raises:
        Error: E-NO-SPECTRUM (64) where the file has none, or where a density is asked for and it
            has only the largest values (`--mode fast`).
    """
    shown = _taken(source, tensor, slice, rows, cols)
    if kind not in ("density", "values"):
        raise TypeError(f"kind is 'density' or 'values', not {kind!r}")
    if kind == "density" and not shown.is_whole:
        raise Error(
            64, "E-NO-SPECTRUM",
            f"only the largest {len(shown.sigma)} of {shown.p} singular values are there, which "
            "have no density; kind='values' shows them",
        )  # fmt: skip
    ax = _style.axes(ax)
    (_density if kind == "density" else _values)(ax, shown)
    ax.set_title(shown.title, fontsize="small").set_parse_math(False)  # a name is data
    _style.one_legend(ax)
    return ax


def _taken(
    source: Any,
    tensor: str | None,
    slice: int | None,
    rows: int | None,
    cols: int | None,
) -> _Shown:
    if isinstance(source, Results):
        if tensor is None:
            raise TypeError("spectrum() of a results file takes the name of a tensor")
        sigma = source.spectrum(tensor, slice)
        frame = source.matrix
        found = frame[frame["tensor"] == tensor]
        row = (found if slice is None else found[found["slice"] == slice]).iloc[0]
        shape, figures = (int(row["rows"]), int(row["cols"])), row
        length, title = min(shape), printable(tensor) + ("" if slice is None else f" #{slice}")
    elif hasattr(source, "sigma") and hasattr(source, "figures"):
        sigma, figures = source.sigma, source.figures
        shape = (source.rows, source.cols)
        length, title = min(shape), f"{shape[0]} x {shape[1]}"
    else:
        if rows is None or cols is None:
            raise TypeError("spectrum() of singular values takes rows and cols of their matrix")
        sigma = np.sort(np.asarray(without_mask(source), dtype=np.float64))[::-1]
        figures, shape = {}, (rows, cols)
        length, title = min(shape), f"{rows} x {cols}"
        if sigma.ndim != 1 or not 0 < len(sigma) <= length:
            raise TypeError(f"a {rows} x {cols} matrix has {length} singular values")
    sigma = np.asarray(sigma, dtype=np.float64)
    if not sigma.size or not np.isfinite(sigma).all() or sigma[0] <= 0:
        raise Error(64, "E-NO-SPECTRUM", f"{title}: no singular value above 0 to draw")
    n = max(shape)
    scale = float(figures.get("mp_scale", math.nan))
    if not scale > 0 and len(sigma) == length:
        scale = _law.scale_of(sigma, n)
    is_of_bulk = scale > 0
    if not is_of_bulk:
        norm = float(figures.get("frobenius_norm", math.sqrt(float(np.sum(sigma**2)))))
        scale = norm / math.sqrt(length * n)
    return _Shown(sigma, length, n, scale, is_of_bulk, title)


def _outliers(shown: _Shown) -> npt.NDArray[np.bool_]:
    return np.asarray(shown.sigma > shown.scale * _law.outlier_edge(shown.p, shown.n))


def _density(ax: Axes, shown: _Shown) -> None:
    g = shown.p / shown.n
    low, high = _law.support(g)
    x = (shown.sigma / shown.scale) ** 2 / shown.n
    bins = min(80, max(10, round(2 * shown.p**0.5)))
    is_wide = bool(x[0] > 3 * high)  # outliers far away: a logarithmic axis
    first = max(0.0, low - 0.1 * (high - low))
    if is_wide:
        first = min(max(first, 1e-2 * high), max(float(x[-1]), 1e-3 * high)) * 0.9
        edges = np.geomspace(first, 1.1 * high, bins + 1)
    else:
        edges = np.linspace(first, high + 0.1 * (high - low), bins + 1)
    counts, _ = np.histogram(x, edges)
    ax.stairs(
        counts / (shown.p * np.diff(edges)), edges, fill=True, alpha=0.45,
        color=_style.COLOURS[0], label="singular values, squared",
    )  # fmt: skip
    curve = (low + high) / 2 - (high - low) / 2 * np.cos(np.linspace(0, math.pi, 400)[1:-1])
    noise = _law.density(curve, g)
    ax.plot(
        curve, noise, ls="--", lw=1.5, color=_style.COLOURS[1], gid="null",
        label="noise: Marchenko-Pastur",
    )  # fmt: skip
    # The law of a square matrix has no upper bound at 0: the data decides how high the picture is.
    top = max(
        float(np.quantile(noise, 0.9)) * 1.5, float(np.max(counts / np.diff(edges))) / shown.p
    )
    ax.set_ylim(0, 1.1 * top)
    out = x[_outliers(shown)]
    if out.size:
        ax.plot(
            out, np.full(out.size, 0.03 * top), ls="", marker="v", ms=6, clip_on=False,
            color=_style.COLOURS[6], gid="outliers", label=f"above the edge of noise: {out.size}",
        )  # fmt: skip
    if is_wide:
        ax.set_xscale("log")
        ax.set_xlim(first, float(x[0]) * 1.3)
    ax.set_xlabel("squared singular value / (noise scale$^2$ n)")
    ax.set_ylabel("density")


def _values(ax: Axes, shown: _Shown) -> None:
    number = np.arange(1, shown.p + 1)
    shares = 1 - (number - 0.5) / shown.p
    noise = shown.scale * np.sqrt(shown.n * _law.quantiles(shares, shown.p / shown.n))
    ax.plot(
        number[: len(shown.sigma)], shown.sigma, lw=1.5, color=_style.COLOURS[0],
        label="singular values" + ("" if shown.is_whole else f", the largest {len(shown.sigma)}"),
    )  # fmt: skip
    of = "bulk's scale" if shown.scale_is_of_bulk else "Frobenius norm"
    ax.plot(
        number, noise, ls="--", lw=1.5, color=_style.COLOURS[1], gid="null",
        label=f"noise of that shape and {of}",
    )  # fmt: skip
    out = np.flatnonzero(_outliers(shown)) if shown.scale_is_of_bulk else np.zeros(0, dtype=int)
    if out.size:
        ax.plot(
            number[out], shown.sigma[out], ls="", marker="v", ms=5, color=_style.COLOURS[6],
            gid="outliers", label=f"above the edge of noise: {out.size}",
        )  # fmt: skip
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("number of the singular value")
    ax.set_ylabel("singular value")
