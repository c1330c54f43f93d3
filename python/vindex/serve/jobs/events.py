"""Server-sent events of one job, from the standard error that its run writes.

    event: state      data: the job, at the beginning and whenever its state changes
    event: progress   data: {"done", "total", "failed", "eta_seconds", ...}
    event: message    data: {"text": ...}, any other line
    event: end        data: the job; the last event

The id of an event is the place in standard error behind its line, so a client that comes back with
`Last-Event-ID` goes on exactly there, also with another server.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from vindex.serve.jobs.queue import Jobs
from vindex.serve.jobs.records import FINISHED, Job

POLL_SECONDS = 0.25
HEARTBEAT_SECONDS = 15.0
_PIECE = 1 << 18
_MAX_LINE = 16_384


def _event(kind: str, data: Any, id: int | None = None) -> bytes:
    text = json.dumps(data, ensure_ascii=False)
    head = f"id: {id}\n" if id is not None else ""
    return f"{head}event: {kind}\ndata: {text}\n\n".encode("utf-8", "replace")


def _piece(job: Job, start: int) -> bytes:
    try:
        descriptor = os.open(job.folder / "stderr", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.pread(descriptor, _PIECE, start)
    finally:
        os.close(descriptor)


def line_event(line: bytes, readable: Callable[[str], str], end: int) -> bytes | None:
    """The event of one line of standard error, or None for an empty one."""
    text = line.decode("utf-8", "replace").strip()
    if text.startswith("{"):
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if isinstance(found, dict) and found.get("event") == "progress":
            del found["event"]
            return _event("progress", found, end)
    return _event("message", {"text": readable(text)[:_MAX_LINE]}, end) if text else None


def _lines(piece: bytes, start: int, finished: bool) -> Iterator[tuple[bytes, int]]:
    """Whole lines of a piece with the place behind each.

    Of an ended run also the last, broken one; a line longer than a piece comes in parts.
    """
    at = 0
    while (newline := piece.find(b"\n", at)) >= 0:
        yield piece[at:newline], start + newline + 1
        at = newline + 1
    if at < len(piece) and (finished or (at == 0 and len(piece) == _PIECE)):
        yield piece[at:], start + len(piece)


async def stream(
    jobs: Jobs, job: Job, after: int | None, stopping: Callable[[], bool]
) -> AsyncIterator[bytes]:
    """Events of a job from place `after` (its beginning without one) to its end."""
    at = after or 0
    shown: tuple[str, bool] | None = None
    silent = 0.0
    while not stopping():
        # Before the lines: what was written until the end is then read behind it.
        finished = job.now.state in FINISHED
        state = (job.now.state, job.now.cancel)
        if state != shown and not finished:
            shown, silent = state, 0.0
            yield _event("state", jobs.describe(job))
        sent = False
        while piece := _piece(job, at):
            before = at
            for line, end in _lines(piece, at, finished):
                event = line_event(line, lambda text: jobs.readable(text, job), end)
                at = end
                if event is not None:
                    sent = True
                    yield event
            if at == before:
                break
        if finished:
            yield _event("end", jobs.describe(job), at)
            return
        silent = 0.0 if sent else silent + POLL_SECONDS
        if silent >= HEARTBEAT_SECONDS:
            silent = 0.0
            yield b": still here\n\n"
        await asyncio.sleep(POLL_SECONDS)
