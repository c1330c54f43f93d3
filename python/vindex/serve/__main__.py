"""`vindex-serve`: listens, until a signal says stop. Jobs go on without it."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import signal
import socket
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from vindex.errors import Error
from vindex.serve import app
from vindex.serve.context import Context
from vindex.serve.problems import Problem
from vindex.serve.settings import (
    HEADER_SECONDS,
    IDLE_SECONDS,
    MAX_CONNECTIONS,
    MAX_HEADER_BYTES,
    Settings,
    from_arguments,
)

STOP_SECONDS = 10


class _Protocol(H11Protocol):
    """uvicorn's, with limits on connections and on the time that a client takes for its headers.

    Its own limit of connections answers with plain text.
    """

    _headers: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            self._refuse(Problem(503, "E-SERVE-BUSY", "too many clients", {"Retry-After": "5"}))
            return
        self._headers = self.loop.call_later(HEADER_SECONDS, self._slow)

    def connection_lost(self, exc: Exception | None) -> None:
        self._settle()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._headers is None and self.conn.their_state is h11.IDLE:
            self._headers = self.loop.call_later(HEADER_SECONDS, self._slow)
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._settle()

    def _settle(self) -> None:
        if self._headers is not None:
            self._headers.cancel()
            self._headers = None

    def _slow(self) -> None:
        self._headers = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self._refuse(Problem(408, "E-SERVE-SLOW", "the headers took too long"))

    def send_400_response(self, msg: str) -> None:
        self._refuse(Problem(400, "E-SERVE-HTTP", "no HTTP request that is accepted"))

    def _refuse(self, problem: Problem) -> None:
        answer = problem.response()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            headers = [*answer.raw_headers, (b"connection", b"close")]
            response = h11.Response(status_code=answer.status_code, headers=headers)
            for event in (response, h11.Data(data=bytes(answer.body)), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


class _Server(uvicorn.Server):
    """uvicorn's, which ends streams of events as soon as it shall stop."""

    def __init__(self, config: uvicorn.Config, served: Context) -> None:
        super().__init__(config)
        self._served = served

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._served.stopping = True
        super().handle_exit(sig, frame)


def _listen(settings: Settings) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        result = socket.socket(family, kind, protocol)
        result.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        result.bind(address)
        result.listen(1024)
    except OSError as error:
        text = f"--listen {settings.host}:{settings.port}: {error.strerror}"
        raise Error(73, "E-SERVE-LISTEN", text) from None
    return result


def _only_one(settings: Settings) -> int:
    """Holds --work for this process alone."""
    descriptor = os.open(settings.work / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise Error(
            73, "E-SERVE-WORK", f"--work {settings.work}: another vindex-serve uses it"
        ) from None
    return descriptor


def serve(settings: Settings) -> int:
    """Serves until SIGTERM or SIGINT. Raises Error where it cannot begin."""
    # uvicorn raises a signal again when it has stopped: a stop that was asked for is no failure.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    _only_one(settings)
    listening = _listen(settings)
    settings = Settings(**{**vars(settings), "port": listening.getsockname()[1]})
    served = app.context(settings)
    options: dict[str, Any] = {
        "http": _Protocol,
        "ws": "none",
        "loop": "asyncio",
        "lifespan": "on",
        "access_log": False,
        "log_config": None,
        "server_header": False,
        "date_header": True,
        "proxy_headers": False,
        "h11_max_incomplete_event_size": MAX_HEADER_BYTES,
        "timeout_keep_alive": IDLE_SECONDS,
        "timeout_graceful_shutdown": STOP_SECONDS,
    }
    server = _Server(uvicorn.Config(app.build(served), **options), served)
    shown = f"[{settings.host}]" if ":" in settings.host else settings.host
    print(f"vindex-serve: http://{shown}:{settings.port}/", file=sys.stderr, flush=True)
    server.run(sockets=[listening])
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Returns its exit code, of those of the program."""
    logging.basicConfig(
        level=logging.WARNING, stream=sys.stderr, format="vindex-serve: %(levelname)s %(message)s"
    )
    try:
        return serve(from_arguments(arguments))
    except Error as error:
        print(f"vindex-serve: {error.id}: {error.text}", file=sys.stderr)
        return error.code


if __name__ == "__main__":
    sys.exit(main())
