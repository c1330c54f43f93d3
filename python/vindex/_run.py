"""`vindex.measure` and `vindex.run`: commands of the program, called from Python."""

from __future__ import annotations

import contextlib
import html
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from vindex._flags import argument_list, option_names
from vindex._process import Ended, Progress, run_program
from vindex._progress import Bar
from vindex.errors import Error
from vindex.results import Results
from vindex.results import open as open_results

_TAKEN = {
    "output": "it is the second argument",
    "progress": "it is True, False or a function",
    "json": "the results are what is returned",
    "dry_run": 'it writes no results; call vindex.run("measure", ...)',
    "worker": 'a share of the rows is no results file; call vindex.run("measure", ...)',
    "claim": 'a share of the rows is no results file; call vindex.run("measure", ...)',
}


@dataclass(frozen=True)
class Completed:
    """A command that has ended well.

    Attributes:
        command: the command.
        stdout: what it printed.
        messages: what it said beside: human-readable lines.
    """

    command: str
    stdout: bytes
    messages: list[str]

    @property
    def text(self) -> str:
        """What it printed, as text."""
        return self.stdout.decode("utf-8", "backslashreplace")

    def json(self) -> Any:
        """What it printed as one JSON document: of a command called with `json=True`."""
        return json.loads(self.stdout)

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.text)}</pre>"


def measure(
    model: str | bytes | os.PathLike[str] | os.PathLike[bytes],
    out: str | bytes | os.PathLike[str] | os.PathLike[bytes],
    *,
    progress: bool | Callable[[dict[str, Any]], None] = True,
    **flags: Any,
) -> Results:
    """Measure every selected matrix of a model, as `vindex measure` does, and open the results.

    The same call again resumes. Ctrl-C (or the notebook's stop button) stops the run as SIGINT
    stops the program: what is finished is published in `out` before KeyboardInterrupt is raised.

    Args:
        model: folder, file or address of a model.
        out: the results file to write.
        progress: True draws a bar (tqdm; terminal or notebook), False none; a function is called
            with each progress event: `done`, `failed`, `total`, `bytes_done`, `bytes_total`,
            `elapsed_seconds`, `eta_seconds`, `tensor`.
        **flags: options of `vindex measure` by name, with underscores: `layers="1-60"`,
            `blocks=["routed_expert", "router"]`, `mode="strict"`, `ram_budget="8GiB"`,
            `no_spectra=True`.

    Returns:
        The results file, opened.

    Raises:
        TypeError: a flag that there is not (the nearest one is named), or a value of a wrong kind.
        Error: with the program's exit code and error id. E-ROWS says that some rows could not be
            measured: the others are in `out`, for `vindex.open`.
    """
    for name, why in _TAKEN.items():
        if name in flags:
            raise TypeError(f"measure() takes no flag {name!r}: {why}")
    _run("measure", (model,), {**flags, "output": out}, progress)
    return open_results(out)


def run(
    command: str,
    *arguments: Any,
    progress: bool | Callable[[dict[str, Any]], None] = True,
    **flags: Any,
) -> Completed:
    """Run any command of the program.

    `vindex.run("compare", a, b, output="pairs.h5")`, `vindex.run("organ.verify", file)`,
    `vindex.run("inspect", model, json=True).json()`.

    Args:
        command: the command, as `vindex --help` lists it; a command of a group as "organ.extract".
        *arguments: its arguments in their order: paths, texts, numbers.
        progress: as in `measure`, for commands that tell it.
        **flags: its options by name, with underscores.

    Raises:
        TypeError: as `measure`.
        Error: with the program's exit code and error id.
    """
    ended = _run(command, arguments, flags, progress)
    return Completed(command, ended.stdout, ended.messages)


def _run(
    command: str,
    positionals: tuple[Any, ...],
    flags: dict[str, Any],
    progress: bool | Progress,
) -> Ended:
    if "progress" in option_names(command):
        flags = {**flags, "progress": "json" if progress else "none"}
    words = argument_list(command, positionals, flags)
    with _listener(command, progress) as listener:
        ended = run_program(words, listener)
    if ended.error is not None:
        raise Error(ended.code, ended.error.id, ended.error.text)
    return ended


@contextlib.contextmanager
def _listener(command: str, progress: bool | Progress) -> Iterator[Progress | None]:
    if callable(progress):
        yield progress
    elif progress:
        bar = Bar(command.replace(".", " "))
        try:
            yield bar
        finally:
            bar.close()
    else:
        yield None
