"""Errors as a client sees them: application/problem+json with an error id of the program.

`detail` never holds a path of the machine: what comes from the program passes `redact`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from starlette.responses import Response

MEDIA_TYPE = "application/problem+json"
# "vindex: E-FILE-MISSING: text", the program's one line of a refusal.
ERROR_LINE = re.compile(r"^vindex(?: [a-z. -]+)?: (E-[A-Z0-9-]+): (.*)$")
# What a code of the program means where it could not say it, as on a full disk.
EXIT_IDS: dict[int, tuple[str, str]] = {
    64: ("E-USAGE", "the command line was refused"),
    65: ("E-MALFORMED", "malformed input"),
    66: ("E-FILE-MISSING", "missing input"),
    69: ("E-REMOTE", "a remote address did not answer"),
    70: ("E-INTERNAL", "internal error or failure of a device"),
    73: ("E-CREATE", "the output cannot be created"),
    74: ("E-IO", "input or output failed, or the disk is full"),
    75: ("E-STOPPED", "stopped early; what is finished was published"),
    77: ("E-PERMISSION", "no permission"),
    78: ("E-CONFIG", "bad configuration"),
}


class Problem(Exception):  # noqa: N818 - the name of RFC 9457
    """A refusal or failure of one request.

    Attributes:
        status: of the answer.
        id: stable, "E-...".
        detail: one line for people.
        headers: of the answer, beside its type.
    """

    def __init__(
        self, status: int, id: str, detail: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(status, id, detail)
        self.status = status
        self.id = id
        self.detail = detail
        self.headers = dict(headers or {})

    def body(self) -> dict[str, Any]:
        """What the client is told."""
        return {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            "id": self.id,
        }

    def response(self) -> Response:
        """The answer."""
        headers = {"Cache-Control": "no-store", **self.headers}
        content = json.dumps(self.body(), ensure_ascii=False)
        return Response(content, self.status, headers, MEDIA_TYPE)


def not_found(what: str) -> Problem:
    """The one answer for what is missing and for what may not be seen."""
    return Problem(404, "E-FILE-MISSING", f"no such {what}")


def redact(text: str, folders: Mapping[Path, str]) -> str:
    """A text of the program without the folders of the machine, by their names for a client."""
    for folder, name in sorted(folders.items(), key=lambda item: -len(str(item[0]))):
        text = text.replace(f"{folder}/", f"{name}/" if name else "").replace(str(folder), name)
    return text


def last_error(text: str) -> tuple[str, str] | None:
    """Error id and sentence of the last line of a standard error that is one."""
    for line in reversed(text.splitlines()):
        found = ERROR_LINE.match(line)
        if found is not None:
            return found[1], found[2]
    return None


def error_of_exit(code: int, text: str) -> tuple[str, str] | None:
    """What to say of a run that ended with `code` (128 + N: killed by signal N), or None for 0."""
    if code == 0:
        return None
    said = last_error(text)
    if code > 128:
        return "E-SERVE-KILLED", f"the program was ended by signal {code - 128}"
    return said or EXIT_IDS.get(code) or ("E-SERVE-EXIT", f"the program ended with {code}")
