"""Outputs of jobs as files: their list, and one of them whole or in part (RFC 9110, 14)."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from vindex.serve.confine import OutsideError, open_beneath
from vindex.serve.jobs.records import Job
from vindex.serve.problems import Problem, not_found

PIECE = 1 << 20
MAX_FILES = 10_000
# What a job printed; it stands beside `out`, under a name that no output has.
STDOUT = "stdout"
TYPES = {
    "h5": "application/x-hdf5", "html": "text/html; charset=utf-8",
    "json": "application/json", "csv": "text/csv; charset=utf-8",
    "md": "text/plain; charset=utf-8", "parquet": "application/vnd.apache.parquet",
    "arrow": "application/vnd.apache.arrow.file",
}  # fmt: skip
# Reports hold names of models, which anyone may have chosen: they run without an origin, so they
# can neither read nor ask anything of this server. Their charts compile expressions.
SANDBOX = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; img-src data: blob:; "
    "font-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline' 'unsafe-eval'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


def media_type(name: str) -> str:
    """Type of an output by its name."""
    if name == STDOUT:
        return "text/plain; charset=utf-8"
    return TYPES.get(name.rpartition(".")[2], "application/octet-stream")


def outputs(job: Job) -> list[dict[str, Any]]:
    """Name, size and type of every output, the main one first; parts of a run are none."""
    found = []
    for folder, folders, names in os.walk(job.out):
        folders[:] = sorted(name for name in folders if not name.endswith((".parts", ".copies")))
        for name in names:
            path = os.path.join(folder, name)
            if name.startswith(".") or os.path.islink(path):
                continue
            try:
                size = os.stat(path).st_size
            except OSError:
                continue
            found.append((os.path.relpath(path, job.out), size))
        if len(found) > MAX_FILES:
            break
    try:
        size = (job.folder / STDOUT).stat().st_size
    except OSError:
        size = 0
    if size:
        found.append((STDOUT, size))
    found.sort(key=lambda item: (item[0] != job.request.output, item[0] == STDOUT, item[0]))
    return [
        {"name": name, "bytes": size, "media_type": media_type(name)}
        for name, size in found[:MAX_FILES]
    ]


def open_output(job: Job, name: str | None) -> tuple[int, str]:
    """A descriptor and the name of an output. Raises Problem (404).

    Without a name: of the main one, or of what the job printed.
    """
    if name is None:
        name = job.request.output or STDOUT
    try:
        if name == STDOUT:
            return open_beneath(job.folder, STDOUT), STDOUT
        return open_beneath(job.out, name), name
    except OutsideError:
        raise not_found("output") from None


def parse_range(text: str, size: int) -> tuple[int, int] | None:
    """First byte and the one behind the last of a Range header.

    None where it asks for several or in other units, which a server may answer whole. Raises
    ValueError where it asks for nothing that is there.
    """
    found = _RANGE.fullmatch(text.replace(" ", ""))
    if found is None or found[1] + found[2] == "":
        return None
    if not found[1]:
        first, last = max(0, size - int(found[2])), size
    else:
        first, last = int(found[1]), min(size, int(found[2] or size) + 1)
        if found[2] and int(found[2]) < first:
            return None
    if first >= last:
        raise ValueError("nothing there")
    return first, last


async def _pieces(descriptor: int, first: int, last: int) -> AsyncIterator[bytes]:
    try:
        while first < last:
            size = min(PIECE, last - first)
            piece = await run_in_threadpool(os.pread, descriptor, size, first)
            if not piece:
                return
            first += len(piece)
            yield piece
    finally:
        os.close(descriptor)


class _FileResponse(StreamingResponse):
    """Closes its file also where nobody has begun to read it."""

    def __init__(self, descriptor: int, first: int, last: int, **options: Any) -> None:
        super().__init__(_pieces(descriptor, first, last), **options)
        self._descriptor, self._begun = descriptor, False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] == "HEAD":
            os.close(self._descriptor)
            self.body_iterator = _nothing()
        await super().__call__(scope, receive, send)


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""


def respond(request: Request, descriptor: int, name: str) -> Response:
    """The answer for an open file, which is closed behind it. Raises Problem (416)."""
    found = os.fstat(descriptor)
    size, tag = found.st_size, f'"{found.st_ino:x}-{found.st_size:x}-{found.st_mtime_ns:x}"'
    headers = {
        "ETag": tag,
        "Accept-Ranges": "bytes",
        "Cache-Control": "private, no-cache",
        "Content-Security-Policy": SANDBOX,
    }
    shown = media_type(name).partition(";")[0] in ("text/html", "text/plain", "application/json")
    if not shown:
        plain = re.sub(r"[^A-Za-z0-9._-]", "_", name.rpartition("/")[2])
        headers["Content-Disposition"] = f'attachment; filename="{plain}"'
    asked = {item.strip().removeprefix("W/") for item in _header(request, "if-none-match")}
    if tag in asked or "*" in asked:
        os.close(descriptor)
        return Response(None, 304, headers)
    span = None
    wanted, condition = request.headers.get("range"), request.headers.get("if-range")
    if wanted is not None and condition in (None, tag):
        try:
            span = parse_range(wanted, size)
        except ValueError:
            os.close(descriptor)
            raise Problem(
                416, "E-SERVE-RANGE", "no such bytes", {"Content-Range": f"bytes */{size}"}
            ) from None
    first, last = span or (0, size)
    headers["Content-Length"] = str(last - first)
    if span is not None:
        headers["Content-Range"] = f"bytes {first}-{last - 1}/{size}"
    return _FileResponse(
        descriptor, first, last,
        status_code=206 if span else 200, headers=headers, media_type=media_type(name),
    )  # fmt: skip


def _header(request: Request, name: str) -> list[str]:
    return request.headers.get(name, "").split(",")
