"""What the routes of one server share."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request

from vindex.serve.jobs.commands import Command
from vindex.serve.jobs.inputs import Inputs
from vindex.serve.jobs.queue import Jobs
from vindex.serve.metrics import Metrics
from vindex.serve.models import Models
from vindex.serve.problems import Problem
from vindex.serve.results.tables import Tables
from vindex.serve.settings import MAX_JSON_DEPTH, Settings

KEPT_ANSWER_BYTES = 64 << 20


class Answers:
    """Encoded answers about results files, the latest used; keys name the file's identity."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[Any, bytes] = OrderedDict()
        self._bytes = 0

    def get(self, key: Any) -> bytes | None:
        """An answer that was kept."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def keep(self, key: Any, answer: bytes) -> None:
        """Keeps an answer unless it would push out most others."""
        with self._lock:
            if key in self._kept or len(answer) > KEPT_ANSWER_BYTES // 4:
                return
            self._kept[key] = answer
            self._bytes += len(answer)
            while self._bytes > KEPT_ANSWER_BYTES:
                self._bytes -= len(self._kept.popitem(last=False)[1])


@dataclass
class Context:
    """One server. `stopping` ends streams, so that a stop need not wait for clients."""

    settings: Settings
    version: str
    commands: Mapping[str, Command]
    jobs: Jobs
    models: Models
    inputs: Inputs
    tables: Tables
    metrics: Metrics
    answers: Answers = field(default_factory=Answers)
    streams: int = 0
    stopping: bool = False


def _depth(value: Any) -> int:
    """Levels of a JSON value, without recursion."""
    deepest, pending = 0, [(value, 1)]
    while pending:
        item, level = pending.pop()
        if isinstance(item, (dict, list)):
            deepest = max(deepest, level)
            values = item.values() if isinstance(item, dict) else item
            pending += [(inner, level + 1) for inner in values]
    return deepest


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a member stands twice")
    return result


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


async def json_body(request: Request) -> Any:
    """The JSON body of a request. Raises Problem: 415, 400."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Problem(415, "E-SERVE-TYPE", "the body is application/json")
    try:
        text = (await request.body()).decode("utf-8")
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
    except (ValueError, RecursionError):
        raise Problem(400, "E-JSON-SYNTAX", "the body is no JSON") from None
    if _depth(value) > MAX_JSON_DEPTH:
        raise Problem(400, "E-JSON-SYNTAX", f"nested deeper than {MAX_JSON_DEPTH}")
    return value
