"""What the plots share.

Axes, colours and marks that do not depend on colour vision, and the groups of rows that a line is
drawn of.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from vindex._text import nearest
from vindex.errors import Error
from vindex.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, which stay apart for every kind of colour vision; marks differ too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKS = ("o", "s", "^", "D", "v", "P", "X")
GREY = "#555555"


def axes(ax: Axes | None, size: tuple[float, float] = (7.0, 4.2)) -> Axes:
    """`ax`, or new axes.

    Raises:
        Error: E-EXTRA (78) without matplotlib, naming what installs it.
    """
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise Error(
            78, "E-EXTRA", "plots need matplotlib: pip install 'vindex-spectra[plot]'"
        ) from None
    return plt.subplots(figsize=size, layout="constrained")[1]


def look(number: int) -> dict[str, Any]:
    """Colour and mark of the line of that number."""
    return {"color": COLOURS[number % len(COLOURS)], "marker": MARKS[number % len(MARKS)]}


def whole_numbers(ax: Axes) -> None:
    """Put marks of the x axis at layers alone."""
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True))


def one_legend(ax: Axes) -> None:
    entries = len(ax.get_legend_handles_labels()[1])
    columns = 2 if entries > 5 else 1
    legend = ax.legend(fontsize="small", framealpha=0.8, edgecolor="none", ncols=columns)
    for text in legend.get_texts():
        text.set_parse_math(False)  # names from models are data


def with_null(frame: pd.DataFrame, metric: str) -> str:
    """The column of `metric`'s null.

    Raises:
        Error: E-METRIC (64) for a metric that there is not, or that has no null: it would stand
            without anything to compare it with.
    """
    null = f"{metric}_null"
    pairs = [name for name in frame.columns if f"{name}_null" in frame.columns]
    if metric not in frame.columns or null not in frame.columns:
        why = "has no null to be drawn beside it" if metric in frame.columns else "is unknown"
        raise Error(
            64,
            "E-METRIC",
            f"metric {metric!r} {why}{nearest(metric, pairs)}; there are {', '.join(pairs)}",
        )
    return null


def chosen(
    results: Results, block: Any = None, role: Any = None, layer: int | None = None
) -> pd.DataFrame:
    """Rows of layers of that block, role and layer, measured or not.

    Raises:
        Error: E-SELECTION (64) where there are none.
    """
    frame = results.matrix
    keep = frame["layer"] >= 0 if layer is None else frame["layer"] == layer
    for name, value in (("block", block), ("role", role)):
        if value is not None:
            values = [value] if isinstance(value, str) else list(value)
            keep &= frame[name].isin(values)
    if not keep.any():
        known = ", ".join(map(str, frame["role"].unique()))
        raise Error(64, "E-SELECTION", f"no matrix is of that selection; roles: {known}")
    rows: pd.DataFrame = frame[keep]
    return rows


def default_block(results: Results, block: Any) -> Any:
    """The routed experts where a model has them and nothing was asked for."""
    if block is None and "routed_expert" in set(results.matrix["block"]):
        return "routed_expert"
    return block


@dataclass(frozen=True)
class Line:
    """A statistic of a group of matrices by layer, with gaps where nothing was measured."""

    label: str
    layers: npt.NDArray[np.int64]
    median: npt.NDArray[np.float64]
    q25: npt.NDArray[np.float64]
    q75: npt.NDArray[np.float64]
    null: npt.NDArray[np.float64]  # NaN where the group's shapes differ


def lines(frame: pd.DataFrame, metric: str, null: str, ratio: bool = False) -> Iterator[Line]:
    """One line for each (block, role) of `frame`: all layers from its first to its last."""
    measured = frame["status"] == "measured"
    for (block, role), rows in frame[measured].groupby(["block", "role"], observed=True):
        everywhere = np.arange(rows["layer"].min(), rows["layer"].max() + 1)
        values = rows[metric] / rows[null] if ratio else rows[metric]
        by_layer = values.groupby(rows["layer"])
        noise = rows.groupby("layer")[null].agg(_only)
        if ratio:
            noise = noise.where(noise.isna(), 1.0)
        yield Line(
            f"{block} {role}",
            everywhere,
            _along(by_layer.median(), everywhere),
            _along(by_layer.quantile(0.25), everywhere),
            _along(by_layer.quantile(0.75), everywhere),
            _along(noise, everywhere),
        )


def _along(values: Any, layers: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    return np.asarray(values.reindex(layers), dtype=np.float64)


def _only(values: Iterable[float]) -> float:
    found = np.unique(np.asarray(list(values), dtype=np.float64))
    return float(found[0]) if found.size == 1 else float("nan")


def pretty(metric: str) -> str:
    """`var_at_64` as the pages spell it: var@64."""
    return metric.replace("var_at_", "var@")
