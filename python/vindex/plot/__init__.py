"""Plots with matplotlib (`pip install 'vindex-spectra[plot]'`), the null drawn in every one.

Every function returns the axes that it drew into, takes `ax=` to draw into others, and changes
nothing of matplotlib's settings. Colours and marks differ for every kind of colour vision.
"""

from __future__ import annotations

from vindex.plot._experts import experts
from vindex.plot._layers import compare, layers
from vindex.plot._spectra import spectrum

__all__ = ["compare", "experts", "layers", "spectrum"]
