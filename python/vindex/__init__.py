"""vindex: singular-value spectra of every weight matrix of a language model.

    import vindex

    results = vindex.measure("MODEL", "spectra.h5")
    results.matrix[["tensor", "var_at_64", "var_at_64_null"]]
    vindex.plot.layers(results)

Members are loaded when they are first used, so that the console command starts at once.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vindex import export, plot
    from vindex._run import Completed, measure, run
    from vindex._spectrum import Null, Spectrum, decode, null, spectrum
    from vindex.errors import Error, VindexWarning
    from vindex.results import Results, open

_MEMBERS = {
    "open": "vindex.results",
    "Results": "vindex.results",
    "measure": "vindex._run",
    "run": "vindex._run",
    "Completed": "vindex._run",
    "spectrum": "vindex._spectrum",
    "Spectrum": "vindex._spectrum",
    "null": "vindex._spectrum",
    "Null": "vindex._spectrum",
    "decode": "vindex._spectrum",
    "Error": "vindex.errors",
    "VindexWarning": "vindex.errors",
}
_MODULES = ("plot", "export")

__all__ = [
    "Completed",
    "Error",
    "Null",
    "Results",
    "Spectrum",
    "VindexWarning",
    "decode",
    "export",
    "measure",
    "null",
    "open",
    "plot",
    "run",
    "spectrum",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"vindex.{name}")
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("vindex-spectra")
        except PackageNotFoundError:
            raise AttributeError("vindex is not installed: it runs from its sources") from None
    if name not in _MEMBERS:
        raise AttributeError(f"module 'vindex' has no attribute {name!r}")
    value = getattr(importlib.import_module(_MEMBERS[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
