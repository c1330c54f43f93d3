"""The null beside a spectrum: singular values of noise of the same shape and bulk."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_POINTS = 4097


def noise_spectrum(rows: int, cols: int, scale: float, count: int) -> NDArray[np.float64]:
    """The `count` largest singular values, descending, that noise is expected to have.

    Noise is a `rows x cols` matrix of independent entries with standard deviation `scale`. The
    values are quantiles of the Marchenko-Pastur law at (i - 1/2) / min(rows, cols), i from the
    top; NaN where `scale` is.
    """
    small, large = sorted((rows, cols))
    ratio = small / large
    # x = sigma^2 / (large scale^2) on [(1 - sqrt r)^2, (1 + sqrt r)^2]; the substitution
    # x = 1 + r - 2 sqrt(r) cos t takes the square roots at both ends out of the density.
    t = np.linspace(0.0, np.pi, _POINTS)
    x = 1.0 + ratio - 2.0 * np.sqrt(ratio) * np.cos(t)
    with np.errstate(invalid="ignore", divide="ignore"):
        density = np.where(x > 0, np.sin(t) ** 2 / x, 0.0)
    if ratio == 1.0:
        density[0] = 1.0
    law = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    quantiles = 1.0 - (np.arange(count) + 0.5) / small
    sigma = np.sqrt(np.interp(quantiles, law / law[-1], x) * large) * scale
    return np.asarray(sigma, dtype=np.float64)
