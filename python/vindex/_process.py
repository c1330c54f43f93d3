"""One run of the program.

Its progress, warnings and errors are taken from its standard error while it works; it is stopped
when the caller is interrupted or killed.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

from vindex._program import path
from vindex.errors import Error, VindexWarning

LOGGER = logging.getLogger("vindex")
_ERROR = re.compile(r"vindex: (E-[A-Z0-9-]+): (.*)")
_WARNING = re.compile(r"warning (W-[A-Z0-9-]+): (.*)")

# Runs in the child before the program takes its place: where this process is killed, the program is
# asked to stop (it then publishes what it has) instead of running on unseen. A function between
# fork and exec (preexec_fn) would do the same and is not safe beside other threads.
_DIE_WITH_PARENT = (
    "import ctypes,os,signal,sys\n"
    "ctypes.CDLL(None).prctl(1, signal.SIGTERM)\n"
    "os.getppid() == int(sys.argv[1]) or sys.exit(75)\n"
    "os.execv(sys.argv[2], sys.argv[2:])\n"
)

Progress = Callable[[dict[str, Any]], None]


@dataclass
class Ended:
    """How a run ended: exit code, what it printed, its last error line."""

    code: int
    stdout: bytes
    error: Error | None
    messages: list[str] = field(default_factory=list)


def run_program(words: Sequence[str], progress: Progress | None) -> Ended:
    """Run the program with `words` and wait for its end, whatever its exit code is.

    JSON lines of progress go to `progress`, warnings to the module `warnings`, other lines to the
    log "vindex".

    A KeyboardInterrupt sends the program one SIGINT and is raised again once it has ended: what was
    finished is published by then. Another one meanwhile ends it at once. Any other exception (a
    warning turned into an error, a failing callback) stops the program in the same way.
    """
    with tempfile.TemporaryFile() as output:
        with _started(words, output) as process:
            ended = Ended(0, b"", None)
            for line in _lines(process):
                _handle(line, ended, progress)
            ended.code = process.wait()
        output.seek(0)
        ended.stdout = output.read()
    if ended.code < 0:
        name = signal.Signals(-ended.code).name
        ended.code = 128 - ended.code
        ended.error = Error(ended.code, "E-KILLED", f"the program was ended by {name}")
    elif ended.code != 0:
        ended.error = ended.error or Error(
            ended.code, "", f"the program ended with {ended.code} and gave no reason"
        )
    return ended


@contextlib.contextmanager
def _started(words: Sequence[str], output: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """The program in a session of its own: Ctrl-C in a terminal reaches it through us, once."""
    program = path()
    command = [program, *words]
    if sys.platform == "linux" and sys.executable:
        helper = [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid())]
        command = [*helper, os.path.abspath(program), *words]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield process
    except BaseException:
        _stop(process)
        raise
    finally:
        assert process.stderr is not None
        process.stderr.close()


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ask once and wait until the program has published and ended.

    A second Ctrl-C asks again, which ends it at once.
    """
    process.send_signal(signal.SIGINT)
    while not _has_ended(process):
        process.send_signal(signal.SIGINT)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Wait for the end; False where the caller was interrupted instead."""
    try:
        for line in _lines(process):  # a full pipe would keep it from ending
            LOGGER.info("%s", line)
        process.wait()
    except KeyboardInterrupt:
        return False
    return True


def _lines(process: subprocess.Popen[bytes]) -> Iterator[str]:
    assert process.stderr is not None
    for raw in process.stderr:
        yield raw.decode("utf-8", "backslashreplace").rstrip("\n")


def _handle(line: str, ended: Ended, progress: Progress | None) -> None:
    if line.startswith('{"event":'):
        with contextlib.suppress(ValueError):
            event = json.loads(line)
            if progress is not None and isinstance(event, dict):
                progress(event)
            return
    if found := _ERROR.fullmatch(line):
        # Its exit code is known once it has ended.
        ended.error = Error(0, found[1], found[2])
    elif found := _WARNING.fullmatch(line):
        warnings.warn(VindexWarning(found[1], found[2]), stacklevel=5)
    elif line:
        ended.messages.append(line)
        LOGGER.info("%s", line)
