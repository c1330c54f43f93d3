"""Types of the module that calls libvindex within the process (python/src/module.cpp)."""

from os import PathLike
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

class Spectrum(TypedDict):
    """What a measurement of one matrix gives: the members of the C++ struct of that name.

    ``sigma``: singular values, descending, float64, ``[min(rows, cols)]``, with mode ``fast``
    64 at most; ``sigma_error``: the largest error of any of them, in their units; NaN: not
    measured. ``status``: ``measured``, ``not_finite``, ... with its ``reason``. ``figures``:
    every metric of docs/measuring/metrics.md and its null by the names of their columns; NaN: not
    defined.
    """

    sigma: npt.NDArray[np.float64]
    sigma_error: float
    method: str
    escalated: bool
    status: str
    reason: str
    backend: str
    figures: dict[str, float]

def spectrum(
    array: Any,
    *,
    mode: str = "default",
    escalate: bool = True,
    backend: str = "auto",
) -> Spectrum:
    """Measure a matrix ``[rows, cols]`` as ``vindex measure`` measures one of these weights.

    ``array``: numpy (ml_dtypes' bfloat16 too), DLPack or the buffer protocol, in the CPU's
    memory, F64, F32, F16 or BF16, any strides. C-contiguous F32 is used where it lies, and may
    not change meanwhile; everything else is converted, F64 by rounding to the nearest float32,
    as a tensor of a model is. Takes one core and releases the interpreter's lock: matrices may
    be measured on several threads. Ctrl-C ends it within two seconds.
    Raises ``vindex.Error``.
    """

def null(rows: int, cols: int) -> dict[str, float]:
    """Means over iid Gaussian noise of ``rows x cols``; the order of the sides does not matter."""

def decode(
    model: str | bytes | PathLike[str] | PathLike[bytes],
    tensor: str,
    slice: int | None = None,
) -> npt.NDArray[np.float32]:
    """Weights of ``tensor``, exactly those that ``vindex decode`` writes, ``[rows, cols]``.

    In the order in which they are stored: ``[cols, rows]`` for the few formats that store inputs
    first. Of a stack without ``slice``: ``[slices, rows, cols]``. Raises ``vindex.Error``.
    """

def version() -> str:
    """Version of libvindex."""
