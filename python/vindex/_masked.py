"""Masked arrays of numpy, whose masks neither DLPack nor numpy's own functions carry on."""

from __future__ import annotations

from typing import Any

import numpy as np

from vindex.errors import Error


def without_mask(array: Any) -> Any:
    """`array` itself, or the numbers of a masked array that masks none of them.

    Raises:
        Error: E-ARRAY (64) where elements are masked: what stands in their place has no meaning.
    """
    if not isinstance(array, np.ma.MaskedArray):
        return array
    masked = int(np.count_nonzero(np.ma.getmaskarray(array)))
    if masked:
        raise Error(
            64,
            "E-ARRAY",
            f"a masked array, {masked} of {array.size} elements masked: a matrix has no missing "
            "elements; give them values first, with array.filled(0) for instance",
        )
    return np.ma.getdata(array)
