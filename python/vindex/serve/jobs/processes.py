"""Processes of runs: what they see of this machine, and how one is told to end."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from vindex.serve.jobs import supervise

_KEPT = ("PATH", "HOME", "LANG", "LC_", "TZ", "LD_LIBRARY_PATH", "OPENBLAS_", "OMP_", "CUDA_",
         "NVIDIA_", "VINDEX_", "PYTHONPATH")  # fmt: skip


def environment(*beneath: Path) -> dict[str, str]:
    """What runs of the program see: nothing with a credential, and no file but beneath folders.

    The program itself holds to them (VINDEX_BENEATH, core/files/reading_bounds.hpp), for every file
    that it opens: what an index, a shard, a recipe or a link leads to nobody else can check.
    """
    kept = {name: text for name, text in os.environ.items() if name.startswith(_KEPT)}
    return {**kept, "VINDEX_BENEATH": "\n".join(map(str, beneath))}


def terminate(pid: int, start: int) -> bool:
    """SIGTERM to a process of that number and start time; False where it is there no more."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if supervise.start_time(pid) != start:
            return False
        signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
