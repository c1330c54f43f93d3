"""Statistics by layer: of one model, and of several at relative depth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vindex._text import printable
from vindex.errors import Error
from vindex.plot import _style
from vindex.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def layers(
    results: Results,
    metric: str = "var_at_64",
    *,
    block: str | Sequence[str] | None = None,
    role: str | Sequence[str] | None = None,
    ratio: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw a metric by layer beside what noise gives.

    For every role a line is the median over its matrices, the area around it reaches from the lower
    to the upper quartile, and a dashed line is what noise of their shape gives.

    Args:
        results: a file of `vindex measure`.
        metric: a column of `results.matrix` that has a null.
        block: blocks to draw; None: the routed experts, or everything where there are none.
        role: roles to draw; None: all.
        ratio: draw the metric over its null instead; the null is then the line at 1.
        ax: axes to draw into; None: new ones.

    Returns:
        The axes. Where a layer has no measured matrix, lines have a gap.
    """
    frame = _style.chosen(results, _style.default_block(results, block), role)
    null = _style.with_null(frame, metric)
    ax = _style.axes(ax)
    drawn = list(_style.lines(frame, metric, null, ratio))
    if not drawn:
        raise Error(64, "E-SELECTION", "nothing of that selection was measured")
    for number, line in enumerate(drawn):
        look = _style.look(number)
        ax.fill_between(line.layers, line.q25, line.q75, color=look["color"], alpha=0.18, lw=0)
        ax.plot(line.layers, line.median, label=line.label, ms=4, lw=1.4, **look)
    _nulls(ax, [(line.layers, line.null) for line in drawn], ratio)
    ax.set_xlabel("layer")
    ax.set_ylabel(f"{_style.pretty(metric)}{' / noise' if ratio else ''}")
    _style.whole_numbers(ax)
    _style.one_legend(ax)
    return ax


def _nulls(ax: Axes, pairs: Sequence[tuple[Any, Any]], ratio: bool) -> None:
    """Each null once, in the colours of the lines of the same shape: they often coincide."""
    seen: set[bytes] = set()
    is_one = len({noise.tobytes() for _, noise in pairs}) == 1
    for number, (where, noise) in enumerate(pairs):
        key = noise.tobytes()
        if np.isnan(noise).all() or (ratio and seen) or key in seen:
            continue
        colour = _style.GREY if ratio or is_one else _style.look(number)["color"]
        label = "noise of that shape" if not seen else None
        seen.add(key)
        ax.plot(where, noise, ls="--", lw=1.3, color=colour, label=label, gid="null")


def compare(
    *results: Results,
    metric: str | None = None,
    block: str | Sequence[str] | None = None,
    role: str | Sequence[str] | None = None,
    labels: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw models side by side at relative depth (0: first layer, 1: last), each with its null.

    Of a file of `vindex compare`: the similarity of two models by layer, with what noise gives.

    Args:
        *results: files of `vindex measure`, one per model; or a single file of `vindex compare`.
        metric: a column with a null; by default `var_at_64`, or `cosine` of a comparison.
        block: blocks that the medians are over; None: the routed experts, or everything.
        role: roles that the medians are over; None: all.
        labels: names of the models; None: as the files name them.
        ax: axes to draw into; None: new ones.
    """
    if not results:
        raise TypeError("compare() takes at least one results file")
    if len(results) == 1 and results[0].kind == "compare":
        return _pairs(results[0], metric or "cosine", block, role, ax)
    metric = metric or "var_at_64"
    names = labels or [printable(str(found.attributes.get("model", ""))) for found in results]
    if len(names) != len(results):
        raise TypeError(f"{len(results)} results and {len(names)} labels")
    frames = [_style.chosen(r, _style.default_block(r, block), role) for r in results]
    nulls = [_style.with_null(frame, metric) for frame in frames]
    ax = _style.axes(ax)
    marked = False
    for number, (found, frame, null) in enumerate(zip(results, frames, nulls, strict=True)):
        pooled = frame.assign(block="", role="")
        for line in _style.lines(pooled, metric, null):
            depth = line.layers / max(1, _layer_count(found) - 1)
            look = _style.look(number)
            ax.fill_between(depth, line.q25, line.q75, color=look["color"], alpha=0.15, lw=0)
            ax.plot(depth, line.median, label=names[number], ms=4, lw=1.4, **look)
            ax.plot(
                depth, line.null, ls="--", lw=1.2, color=look["color"], gid="null",
                label=None if marked else "noise of that shape",
            )  # fmt: skip
            marked = True
    ax.set_xlabel("relative depth")
    ax.set_ylabel(_style.pretty(metric))
    _style.one_legend(ax)
    return ax


def _layer_count(results: Results) -> int:
    """Layers of the model; where the file does not say, up to the last one measured."""
    config = results.run.get("config")
    count = config.get("layers") if isinstance(config, dict) else None
    last = int(results.matrix["layer"].max()) + 1
    return max(count, last) if isinstance(count, int) else last


def _pairs(
    results: Results,
    metric: str,
    block: str | Sequence[str] | None,
    role: str | Sequence[str] | None,
    ax: Axes | None,
) -> Axes:
    frame = results.rows
    keep = (frame["layer"] >= 0) & (frame["status"] == "measured")
    for name, value in (("block", block), ("role", role)):
        if value is not None:
            keep &= frame[name].isin([value] if isinstance(value, str) else list(value))
    frame = frame[keep].copy()
    if frame.empty:
        raise Error(64, "E-SELECTION", "no pair of that selection was measured")
    null, spread = f"{metric}_null", f"{metric}_null_sd"
    if null not in frame and spread in frame:
        frame[null] = 0.0  # of a cosine, whose null has a standard deviation alone
    _style.with_null(frame, metric)
    ax = _style.axes(ax)
    frame["status"] = "measured"
    drawn = list(_style.lines(frame, metric, null))
    for number, line in enumerate(drawn):
        look = _style.look(number)
        ax.fill_between(line.layers, line.q25, line.q75, color=look["color"], alpha=0.15, lw=0)
        ax.plot(line.layers, line.median, label=line.label, ms=4, lw=1.2, **look)
    by_layer = frame.groupby("layer")
    noise = by_layer[null].median()
    everywhere = np.arange(noise.index.min(), noise.index.max() + 1)
    middle = np.asarray(noise.reindex(everywhere), dtype=np.float64)
    ax.plot(everywhere, middle, ls="--", lw=1.3, color=_style.GREY, gid="null", label="noise")
    if spread in frame:
        width = np.asarray(by_layer[spread].max().reindex(everywhere), dtype=np.float64)
        ax.fill_between(
            everywhere, middle - 2 * width, middle + 2 * width, color=_style.GREY, alpha=0.25,
            lw=0, label="noise, 2 standard deviations", gid="null band",
        )  # fmt: skip
    ax.set_xlabel("layer")
    ax.set_ylabel(metric)
    _style.whole_numbers(ax)
    _style.one_legend(ax)
    return ax
