"""The experts of one layer: sorted by a metric, or their similarity."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vindex.errors import Error
from vindex.plot import _style
from vindex.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def experts(
    results: Results,
    layer: int,
    role: str = "down_proj",
    metric: str = "var_at_64",
    *,
    block: str = "routed_expert",
    threshold: float = 3.5,
    ax: Axes | None = None,
) -> Axes:
    """Draw the experts of one layer, sorted by a metric, the outlying ones named.

    Of a file of `vindex experts`: the cosine between every two of them, in standard deviations of
    noise.

    Args:
        results: a file of `vindex measure` or of `vindex experts`.
        layer: the layer.
        role: which matrix of each expert.
        metric: a column of `results.matrix` that has a null.
        block: the block that the experts are of.
        threshold: an expert is outlying whose distance from the median is more than this many
            times 1.4826 times the median distance (the standard deviation of normal values).
        ax: axes to draw into; None: new ones.

    Returns:
        The axes. Experts that were not measured have a place and no mark.
    """
    if results.kind == "experts":
        return _cosines(results, layer, role, ax)
    frame = _style.chosen(results, block, role, layer)
    null = _style.with_null(frame, metric)
    frame = frame.sort_values(metric, kind="stable")  # NaN last
    values = frame[metric].to_numpy(dtype=np.float64)
    measured = np.isfinite(values)
    if not measured.any():
        raise Error(64, "E-SELECTION", f"no expert of layer {layer} was measured")
    ax = _style.axes(ax)
    place = np.arange(len(values))
    ax.plot(
        place, values, ls="", ms=5, label=f"layer {layer} {role}, one mark per expert",
        **_style.look(0),
    )  # fmt: skip
    ax.plot(
        place, frame[null].to_numpy(dtype=np.float64), ls="--", lw=1.5, color=_style.GREY,
        gid="null", label="noise of that shape",
    )  # fmt: skip
    middle = float(np.median(values[measured]))
    spread = 1.4826 * float(np.median(np.abs(values[measured] - middle)))
    far = (
        measured & (np.abs(values - middle) > threshold * spread)
        if spread > 0
        else ~measured & False
    )
    numbers = frame["expert"].to_numpy()
    if far.any():
        ax.plot(
            place[far], values[far], ls="", marker="o", ms=10, mfc="none", mec=_style.COLOURS[1],
            gid="outlying", label=f"outlying: {int(far.sum())}",
        )  # fmt: skip
    for at in np.flatnonzero(far):
        is_right = place[at] > len(values) / 2
        ax.annotate(
            str(numbers[at]), (place[at], values[at]), fontsize="small", va="center",
            ha="right" if is_right else "left", textcoords="offset points",
            xytext=(-8 if is_right else 8, 0),
        )  # fmt: skip
    missing = int((~measured).sum())
    ax.set_xlabel("experts, sorted" + (f" ({missing} not measured)" if missing else ""))
    ax.set_ylabel(_style.pretty(metric))
    _style.one_legend(ax)
    return ax


def _cosines(results: Results, layer: int, role: str, ax: Axes | None) -> Axes:
    data = results.dataset
    row = np.flatnonzero((data["layer"].values == layer) & (data["role"].values == role))
    if row.size != 1 or not np.isfinite(float(data["cosine_null_sd"][row[0]])):
        raise Error(64, "E-SELECTION", f"the file has no {role} of layer {layer} with cosines")
    group = data.isel(group=int(row[0]))
    count = int(group["experts"])
    cosine = group["cosine"].values[:count, :count].astype(np.float64)
    z = (cosine - float(group["cosine_null"])) / float(group["cosine_null_sd"])
    np.fill_diagonal(z, np.nan)
    widest = max(3.0, float(np.nanmax(np.abs(z)))) if count > 1 else 3.0
    ax = _style.axes(ax, (5.4, 4.6))
    image = ax.imshow(z, cmap="PuOr", vmin=-widest, vmax=widest, interpolation="nearest")
    ax.set_facecolor("#cccccc")  # an expert beside itself, or one that was not counted
    bar = ax.figure.colorbar(image, ax=ax, label="cosine, in standard deviations of noise")
    for edge in (-3, 3):  # what noise hardly ever exceeds
        bar.ax.axhline(edge, color="black", lw=1, ls="--", gid="null")
    ax.set_xlabel("expert")
    ax.set_ylabel("expert")
    ax.set_title(f"layer {layer} {role}", fontsize="small").set_parse_math(False)
    return ax
