"""The folder of a job: what is in it, written so that neither a kill nor a full disk loses a job.

request.json   what was asked, written once before the job is answered
state.json     where it stands, replaced as a whole
exit           empty; `supervise` renames it to exit-N-CODE
go             empty; renamed to `cancel` when a client cancels the job. Like the renaming of
               `exit`, this needs no room on a full disk
lock, process-N.json, stdout, stderr   of `supervise`
models         a link to --models, so that the program is given relative names
out            what the program writes; tmp: its temporary files
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from vindex._durable import sync_folder
from vindex.serve.jobs.commands import OUT
from vindex.serve.jobs.requests import Request

QUEUED, RUNNING, DONE = "queued", "running", "done"
FAILED, CANCELLED, LOST = "failed", "cancelled", "lost"
STATES = (QUEUED, RUNNING, DONE, FAILED, CANCELLED, LOST)
FINISHED = (DONE, FAILED, CANCELLED, LOST)
_EXIT = re.compile(r"exit-(\d+)-(\d+)")


@dataclass
class State:
    """What changes of a job. Times are seconds since 1970; `attempt` counts starts.

    `stderr_from` is the size of stderr when the current attempt began.
    """

    state: str = QUEUED
    attempt: int = 0
    losses: int = 0
    queued: float = 0.0
    started: float | None = None
    finished: float | None = None
    cancel: bool = False
    exit_code: int | None = None
    error_id: str | None = None
    error_text: str | None = None
    progress: dict[str, Any] | None = None
    stderr_from: int = 0


@dataclass
class Job:
    """One job. `key` and `body` are digests, of the idempotency key and of what was asked."""

    id: str
    folder: Path
    request: Request
    created: float
    key: str | None = None
    body: str = ""
    now: State = field(default_factory=State)
    saved: bool = True

    @property
    def out(self) -> Path:
        """The folder of its outputs."""
        return self.folder / OUT


def new_id() -> str:
    """Twenty hexadecimal digits that order by time."""
    return f"{time.time_ns() // 1_000_000:012x}{os.urandom(4).hex()}"


def write_json(path: Path, value: Any) -> None:
    """Replaces a file as a whole; durable when it returns. Raises OSError, the old one intact."""
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(value, file, ensure_ascii=False)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    sync_folder(path.parent)


def create(jobs: Path, job: Job) -> None:
    """Makes a job's folder, whole or not at all. Raises OSError."""
    temporary = jobs / f".new-{job.id}"
    try:
        temporary.mkdir(mode=0o700)
        (temporary / OUT).mkdir()
        (temporary / "tmp").mkdir()
        for name in ("exit", "go", "lock", "stdout", "stderr"):
            (temporary / name).touch(mode=0o600)
        asked = {**asdict(job.request), "created": job.created, "key": job.key, "body": job.body}
        write_json(temporary / "request.json", asked)
        write_json(temporary / "state.json", asdict(job.now))
        os.rename(temporary, job.folder)
        sync_folder(jobs)
    except OSError:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(job.folder, ignore_errors=True)
        raise


def mark_cancelled(job: Job, cancelled: bool) -> None:
    """Keeps that a job shall end, or that it shall not any more."""
    job.now.cancel = cancelled
    names = ("go", "cancel") if cancelled else ("cancel", "go")
    with suppress(OSError):
        os.rename(job.folder / names[0], job.folder / names[1])
        sync_folder(job.folder)


def save(job: Job) -> bool:
    """Writes state.json; False where it could not be, and then it is tried again later."""
    try:
        write_json(job.folder / "state.json", asdict(job.now))
        job.saved = True
    except OSError:
        job.saved = False
    return job.saved


def load(folder: Path) -> Job:
    """A job from its folder. Raises OSError, ValueError, KeyError or TypeError where damaged."""
    asked = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    state = State(**json.loads((folder / "state.json").read_text(encoding="utf-8")))
    state.cancel = state.cancel or (folder / "cancel").exists()
    request = Request(
        verb=asked["verb"],
        model=asked["model"],
        options=dict(asked["options"]),
        arguments=tuple(asked["arguments"]),
        output=asked["output"],
        by_python=bool(asked["by_python"]),
    )
    return Job(
        folder.name, folder, request, float(asked["created"]), asked["key"], asked["body"], state
    )


def exit_code(job: Job) -> int | None:
    """Exit code of the current attempt, if it has ended and was kept."""
    for name in os.listdir(job.folder):
        found = _EXIT.fullmatch(name)
        if found is not None and int(found[1]) == job.now.attempt:
            return int(found[2])
    return None


def process(job: Job) -> dict[str, dict[str, int]] | None:
    """What `supervise` wrote of the current attempt's processes, or None before it has begun."""
    try:
        text = (job.folder / f"process-{job.now.attempt}.json").read_text(encoding="utf-8")
        found: dict[str, dict[str, int]] = json.loads(text)
    except (OSError, ValueError):
        return None
    return found


@contextmanager
def held(job: Job) -> Iterator[bool]:
    """Holds the job's lock if nobody does: True means that no process of it lives or can begin."""
    descriptor = os.open(job.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


def tail(job: Job, size: int = 65_536) -> str:
    """The end of the current attempt's standard error."""
    try:
        with open(job.folder / "stderr", "rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(job.now.stderr_from, end - size))
            return file.read(size).decode("utf-8", "replace")
    except OSError:
        return ""


def last_progress(text: str) -> dict[str, Any] | None:
    """The last line of progress in a standard error."""
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            with suppress(ValueError):
                found = json.loads(line)
                if isinstance(found, dict) and found.pop("event", None) == "progress":
                    return found
    return None
