"""Where the program is, and which commands and options it has."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from vindex.errors import Error


def path() -> str:
    """Find the program: $VINDEX_PROGRAM, else the packaged one, else `vindex` on the PATH.

    Raises:
        Error: E-PROGRAM (66) where there is none.
    """
    named = os.environ.get("VINDEX_PROGRAM")
    if named:
        found = shutil.which(named)
        if found is None:
            raise Error(66, "E-PROGRAM", f"VINDEX_PROGRAM names {named}, which cannot be run")
        return found
    packaged = Path(__file__).parent / "bin" / "vindex"
    if os.access(packaged, os.X_OK):
        return str(packaged)
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        candidate = shutil.which("vindex", path=folder) if folder else None
        # This package installs a script of that name, which would call itself without end.
        if candidate is not None and not _is_script(candidate):
            return candidate
    raise Error(
        66,
        "E-PROGRAM",
        "the program vindex was not found: install the package as a wheel, or set VINDEX_PROGRAM",
    )


def _is_script(candidate: str) -> bool:
    with open(candidate, "rb") as file:
        return file.read(2) == b"#!"


def commands() -> dict[str, Any]:
    """Every command of the program by name ("measure", "organ.extract").

    As `vindex commands --json` prints them: `description`, `positionals`, `options`.
    """
    program = path()
    return _described(program, os.stat(program).st_mtime_ns)


@functools.lru_cache(maxsize=4)
def _described(program: str, _modified: int) -> dict[str, Any]:
    result = subprocess.run(
        [program, "commands", "--json"], capture_output=True, text=True, check=False
    )
    try:
        found: dict[str, Any] = json.loads(result.stdout)["commands"]
    except (ValueError, KeyError, TypeError):
        raise Error(
            78, "E-PROGRAM", f"{program} does not describe its commands: it is another version"
        ) from None
    return found
