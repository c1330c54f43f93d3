"""A process of vindex-serve and what its tests do with it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from vindex import _program

FINISHED = ("done", "failed", "cancelled", "lost")


class Server:
    """One process of vindex-serve and a client of it."""

    def __init__(
        self,
        models: Path,
        work: Path,
        *flags: str,
        token: str | None = None,
        program: str | None = None,
    ) -> None:
        self.models, self.work, self.flags = models, work, flags
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.environment = {**os.environ, **({"VINDEX_PROGRAM": program} if program else {})}
        self.log = work.parent / f"{work.name}.log"
        self.start()

    def start(self) -> None:
        listen = [] if "--listen" in self.flags else ["--listen", "127.0.0.1:0"]
        command = [
            sys.executable, "-m", "vindex.serve", "--models", str(self.models),
            "--work", str(self.work), *listen, *self.flags,
        ]  # fmt: skip
        # The last address is the one of this start.
        before = self.log.stat().st_size if self.log.exists() else 0
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stderr=log, env=self.environment)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            said = self.log.read_bytes()[before:].decode()
            if "http://" in said:
                self.url = said[said.index("http://") :].split()[0].rstrip("/")
                self.url = self.url.replace("//0.0.0.0:", "//127.0.0.1:")
                self.client = httpx.Client(
                    base_url=self.url, headers=self.headers, timeout=60, trust_env=False
                )
                with suppress(httpx.TransportError):
                    self.client.get("/health")
                    return
            assert self.process.poll() is None, said
            time.sleep(0.02)
        raise AssertionError("the server does not listen")

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        self.client.close()
        return self.process.wait(timeout=60)

    def post(
        self, command: str, model: str | None = None, key: str | None = None, **options: Any
    ) -> httpx.Response:
        body: dict[str, Any] = {"verb": command, "options": options}
        if model is not None:
            body["model"] = model
        headers = {"Idempotency-Key": key} if key else {}
        return self.client.post("/v1/jobs", json=body, headers=headers)

    def queue(self, command: str, model: str | None = None, **options: Any) -> str:
        answer = self.post(command, model, **options)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    def job(self, id: str) -> dict[str, Any]:
        answer = self.client.get(f"/v1/jobs/{id}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def wait(
        self, id: str, until: Callable[[dict[str, Any]], bool] | None = None, seconds: float = 120
    ) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            job = self.job(id)
            if until(job) if until else job["state"] in FINISHED:
                return job
            time.sleep(0.05)
        raise AssertionError(f"not reached: {self.job(id)}")

    def run(self, command: str, model: str | None = None, **options: Any) -> dict[str, Any]:
        """Queues a job, waits, and asserts that it is done."""
        job = self.wait(self.queue(command, model, **options))
        assert job["state"] == "done", job
        return job


def synthesize(spec: str, folder: Path, seed: int = 1) -> None:
    subprocess.run(
        [_program.path(), "synth", spec, "--seed", str(seed), "-o", str(folder), "-q"], check=True
    )


def assert_problem(answer: httpx.Response, status: int, id: str) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert set(body) == {"type", "title", "status", "detail", "id"}
    assert (body["status"], body["id"]) == (status, id)
    assert "/tmp" not in answer.text
    assert "Traceback" not in answer.text


def raw(server: Server, request: bytes, seconds: float = 20) -> bytes:
    """What the server answers to bytes that no client library would send."""
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=seconds) as connection:
        connection.sendall(request)
        result = b""
        while piece := connection.recv(65536):
            result += piece
    return result


# Some minutes of work on two cores, that a stop ends at once.
LONG = {"null": "signflip=1000"}


def events_of(
    client: httpx.Client, id: str, last: str | None = None
) -> Iterator[tuple[str, str | None, Any]]:
    """(kind, id, data) of every event of a job until the stream ends."""
    headers = {"Last-Event-ID": last} if last else {}
    with client.stream("GET", f"/v1/jobs/{id}/events", headers=headers, timeout=60) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        fields: dict[str, str] = {}
        for line in answer.iter_lines():
            if line:
                name, _, text = line.partition(": ")
                fields[name] = text
            elif fields:
                if "event" in fields:
                    yield fields["event"], fields.get("id"), json.loads(fields["data"])
                fields = {}


def program_of(server: Server, id: str) -> int:
    """Process id of a job's program."""
    folder = server.work / "jobs" / id
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for path in folder.glob("process-*.json"):
            found = json.loads(path.read_text())
            if "program" in found:
                return int(found["program"]["pid"])
        time.sleep(0.02)
    raise AssertionError("no program has begun")


def busy(server: Server) -> str:
    """A job that runs, and will for long."""
    id = server.queue("measure", "slow", **LONG)
    server.wait(id, lambda job: job["state"] == "running")
    program_of(server, id)
    return id
