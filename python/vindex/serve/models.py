"""What lies below --models: its list, and what the program says of one model's headers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vindex.serve.confine import MAX_ENTRIES, OutsideError, resolve
from vindex.serve.jobs.processes import environment
from vindex.serve.problems import Problem, error_of_exit, not_found, redact
from vindex.serve.settings import Settings

MAX_DEPTH = 8
INSPECT_SECONDS = 60
INSPECTIONS_AT_ONCE = 4
KEPT_ANSWERS = 8
_LATER_SPLIT = re.compile(r"-(?!00001)\d{5}-of-\d{5}\.(gguf|safetensors)\Z")


@dataclass(frozen=True)
class Entry:
    """One model, or one folder of dumped activations.

    Attributes:
        id: relative name.
        kind: "folder" (Hugging Face layout), "safetensors", "gguf" or "dump" (.npy files).
        files, bytes: of it; for a split GGUF those of its first part.
    """

    id: str
    kind: str
    files: int
    bytes: int


class Models:
    """Models of one folder; answers of the program are kept while the files stay the same."""

    def __init__(self, settings: Settings, program: str) -> None:
        self._root = settings.models
        self._program = program
        self._slots = threading.BoundedSemaphore(INSPECTIONS_AT_ONCE)
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[Any, ...], dict[str, Any]] = OrderedDict()

    def all(self) -> list[Entry]:
        """Every model, by name."""
        return sorted(self._walk(self._root, ""), key=lambda entry: entry.id)

    def inspect(self, identifier: str, tensors: bool = False) -> dict[str, Any]:
        """`vindex inspect --json` of a model.

        Raises:
            Problem: 404 where there is none, 422 with the program's error where it is malformed.
        """
        try:
            path = resolve(self._root, identifier)
        except OutsideError:
            raise not_found("model") from None
        key = (identifier, tensors, _identity(path))
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        with self._slots:
            found = self._run(identifier, tensors)
        with self._lock:
            self._kept[key] = found
            while len(self._kept) > KEPT_ANSWERS:
                self._kept.popitem(last=False)
        return found

    def _run(self, identifier: str, tensors: bool) -> dict[str, Any]:
        options = ["--json", *(["--tensors"] if tensors else [])]
        try:
            result = subprocess.run(
                [self._program, "inspect", *options, "--", identifier],
                cwd=self._root,
                env=environment(self._root),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=INSPECT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Problem(504, "E-SERVE-SLOW", "the model's headers took too long") from None
        code = result.returncode if result.returncode >= 0 else 128 - result.returncode
        error = error_of_exit(code, result.stderr.decode("utf-8", "replace"))
        if error is None:
            answer: dict[str, Any] = json.loads(result.stdout)
            return answer
        if code in (66, 77):
            raise not_found("model")
        raise Problem(422 if code < 128 else 502, error[0], redact(error[1], {self._root: ""}))

    def _walk(self, folder: Path, name: str, depth: int = 0) -> Iterator[Entry]:
        try:
            with os.scandir(folder) as entries:
                found = sorted(entries, key=lambda entry: entry.name)[:MAX_ENTRIES]
        except OSError:
            return
        files: dict[str, int] = {}
        for entry in found:
            if entry.name.startswith("."):
                continue
            identifier = f"{name}/{entry.name}" if name else entry.name
            try:
                if entry.is_symlink():
                    resolve(self._root, identifier)
                if entry.is_dir():
                    # A link to a folder can lead back up; what is there is listed where it lies.
                    if not entry.is_symlink() and depth < MAX_DEPTH:
                        yield from self._walk(Path(entry.path), identifier, depth + 1)
                elif entry.is_file():
                    files[entry.name] = entry.stat().st_size
            except (OSError, OutsideError):
                continue
        yield from _entries(name, files)


def _entries(name: str, files: dict[str, int]) -> Iterator[Entry]:
    """Models among the files of one folder."""
    prefix = f"{name}/" if name else ""
    weights = [file for file in files if file.endswith(".safetensors")]
    whole = name and {"config.json", "model.safetensors.index.json"} & files.keys()
    if weights and whole:
        yield Entry(name, "folder", len(weights), sum(files[file] for file in weights))
        weights = []
    for file in weights + [file for file in files if file.endswith(".gguf")]:
        if not _LATER_SPLIT.search(file):
            yield Entry(prefix + file, file.rpartition(".")[2], 1, files[file])
    arrays = [file for file in files if file.endswith(".npy")]
    if arrays and name:
        yield Entry(name, "dump", len(arrays), sum(files[file] for file in arrays))


def _identity(path: Path) -> tuple[tuple[Any, ...], ...]:
    """What changes when a model does: names, sizes and times of its files."""
    files = sorted(path.iterdir()) if path.is_dir() else sorted(path.parent.glob("*"))
    result = []
    for file in files[:MAX_ENTRIES]:
        try:
            found = file.stat()
        except OSError:
            continue
        result.append((file.name, found.st_ino, found.st_size, found.st_mtime_ns))
    return tuple(result)
