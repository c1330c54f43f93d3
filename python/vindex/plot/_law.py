"""The Marchenko-Pastur law: density, quantiles, and the edge of outliers.

Definitions: docs/measuring/metrics.md.
Lengths p <= n, g = p / n; x stands for l / (scale^2 n), l = s^2.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def support(g: float) -> tuple[float, float]:
    """Lower and upper end of the law."""
    return (1 - math.sqrt(g)) ** 2, (1 + math.sqrt(g)) ** 2


def density(x: Floats, g: float) -> Floats:
    """Density at `x`, 0 outside the support."""
    low, high = support(g)
    inside = (x > low) & (x < high)
    safe = np.where(inside, x, 1.0)
    root = np.sqrt(np.clip((high - safe) * (safe - low), 0.0, None))
    return np.where(inside, root / (2 * math.pi * g * safe), 0.0)


def quantiles(shares: Floats, g: float) -> Floats:
    """Where the given shares of the law lie below.

    The law is integrated over an angle that makes its ends smooth, so that the error is below 1e-6
    for square matrices too.
    """
    low, high = support(g)
    angle = np.linspace(0.0, math.pi, 4097)
    x = (low + high) / 2 - (high - low) / 2 * np.cos(angle)
    with np.errstate(divide="ignore", invalid="ignore"):
        weight = ((high - low) / 2 * np.sin(angle)) ** 2 / (2 * math.pi * g * x)
    weight[0] = 0.0 if low > 0 else (high - low) / (math.pi * g) / 2
    steps = (weight[1:] + weight[:-1]) / 2 * np.diff(angle)
    total = np.concatenate([[0.0], np.cumsum(steps)])
    return np.interp(shares, total / total[-1], x)


def scale_of(sigma: Floats, n: int) -> float:
    """Noise scale of the bulk, by the median of all p values: `mp_scale`."""
    middle = quantiles(np.array([0.5]), len(sigma) / n)[0]
    return math.sqrt(float(np.median(sigma**2)) / (n * float(middle)))


def outlier_edge(p: int, n: int) -> float:
    """Above which s / scale a value is an outlier: the Tracy-Widom edge of `mp_outliers`."""
    root_n, root_p = math.sqrt(n - 1), math.sqrt(p)
    middle = (root_n + root_p) ** 2
    spread = (root_n + root_p) * (1 / root_n + 1 / root_p) ** (1 / 3) if n > 1 else 0.0
    return math.sqrt(middle + 2.0234 * spread)
