"""Processes of runs: what they see of the environment, and how one is told to end."""

from __future__ import annotations

import os
import signal

from vindex.serve import supervise

_KEPT = ("PATH", "HOME", "LANG", "LC_", "TZ", "LD_LIBRARY_PATH", "OPENBLAS_", "OMP_", "CUDA_",
         "NVIDIA_", "VINDEX_", "PYTHONPATH")  # fmt: skip


def environment() -> dict[str, str]:
    """What runs of the program see: nothing with a credential."""
    return {name: text for name, text in os.environ.items() if name.startswith(_KEPT)}


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
