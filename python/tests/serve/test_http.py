"""What every request passes: names, origins, token, sizes, times; and how errors look."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from serving import Server, assert_problem, raw
from starlette.datastructures import Headers

from vindex.serve import guard
from vindex.serve.problems import Problem
from vindex.serve.settings import MAX_CONNECTIONS

JSON = {"Content-Type": "application/json"}


def test_health_and_figures(server: Server) -> None:
    answer = server.client.get("/health")
    assert answer.json()["status"] == "ok"
    assert set(answer.json()["jobs"]) == {
        "queued", "running", "done", "failed", "cancelled", "lost"
    }  # fmt: skip
    text = server.client.get("/metrics").text
    assert 'vindex_serve_jobs{state="queued"}' in text
    assert re.search(r'vindex_serve_requests_total\{.*route="/health",status="200"\} \d', text)


def test_headers_of_every_answer(server: Server) -> None:
    for path in ("/", "/health", "/nosuch", "/v1/jobs"):
        headers = server.client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert "access-control-allow-origin" not in headers
        assert "server" not in headers


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1", "localhost.evil:80", ""]
)
def test_other_hosts_are_refused(server: Server, host: str) -> None:
    for path in ("/", "/health", "/v1/jobs"):
        assert_problem(server.client.get(path, headers={"Host": host}), 421, "E-SERVE-HOST")


def test_own_hosts_are_served(server: Server, own_server: Callable[..., Server]) -> None:
    port = server.url.rsplit(":", 1)[1]
    for name in ("localhost", "LOCALHOST", "127.0.0.1", "[::1]"):
        assert server.client.get("/health", headers={"Host": f"{name}:{port}"}).status_code == 200
    other = own_server("--allow-host", "lab.example")
    for host in ("lab.example", "lab.example:443"):
        assert other.client.get("/health", headers={"Host": host}).status_code == 200


def test_two_hosts_are_refused(server: Server) -> None:
    host = server.url.removeprefix("http://").encode()
    answer = raw(server, b"GET /health HTTP/1.1\r\nHost: " + host + b"\r\nHost: evil\r\n\r\n")
    assert answer.split(b" ")[1] in (b"400", b"421")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
    ids=str,
)
def test_writes_of_other_pages_are_refused(server: Server, headers: dict[str, str]) -> None:
    body = {"verb": "inspect", "model": "kimi"}
    answer = server.client.post("/v1/jobs", json=body, headers=headers)
    assert_problem(answer, 403, "E-SERVE-ORIGIN")
    answer = server.client.delete(f"/v1/jobs/{'0' * 20}", headers=headers)
    assert_problem(answer, 403, "E-SERVE-ORIGIN")


def test_writes_of_the_own_page_pass(server: Server) -> None:
    headers = {"Origin": server.url, "Sec-Fetch-Site": "same-origin"}
    body = {"verb": "inspect", "model": "kimi"}
    assert server.client.post("/v1/jobs", json=body, headers=headers).status_code == 202


def test_bodies_that_are_refused(server: Server) -> None:
    def post(content: Any, **headers: str) -> httpx.Response:
        return server.client.post("/v1/jobs", content=content, headers={**JSON, **headers})

    large = b'{"verb": "' + b"x" * 1_000_000 + b'"}'
    assert_problem(post(large), 413, "E-SERVE-SIZE")
    assert_problem(post(iter([large[:600_000], large[600_000:]])), 413, "E-SERVE-SIZE")
    assert_problem(post(b"{}", **{"Content-Encoding": "gzip"}), 415, "E-SERVE-ENCODING")
    assert_problem(
        server.client.post("/v1/jobs", content=b"{}", headers={"Content-Type": "text/plain"}),
        415,
        "E-SERVE-TYPE",
    )
    deep = b'{"verb":' + b"[" * 20 + b"]" * 20 + b"}"
    endless = b"[" * 400_000
    for text in (b"", b"{", b'{"a":NaN}', b'{"a":1,"a":2}', b"\xff", deep, endless):
        assert_problem(post(text), 400, "E-JSON-SYNTAX")
    assert server.client.get("/health").status_code == 200


def test_heads_that_are_refused(server: Server) -> None:
    host = server.url.removeprefix("http://").encode()
    start = b"GET / HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\nX: " + b"x" * 40_000
    long = raw(server, start + b"\r\n\r\n")
    assert long.split(b" ")[1] in (b"400", b"431")
    assert b"application/problem+json" in long
    for request in (b"\x16\x03\x01\x02", b"GET\r\n\r\n"):
        assert raw(server, request + b"\r\n\r\n").startswith(b"HTTP/1.1 400 ")


def test_slow_heads_are_ended(server: Server) -> None:
    """A client that never finishes its headers holds nothing for long."""
    answer = raw(server, b"GET / HTTP/1.1\r\nHost: x\r\n", seconds=200)
    assert answer.startswith(b"HTTP/1.1 408 ")


def test_too_many_connections_are_503(own_server: Callable[..., Server]) -> None:
    server = own_server()
    server.client.close()
    host, port = server.url.removeprefix("http://").split(":")
    with ExitStack() as stack:
        for _ in range(MAX_CONNECTIONS):
            stack.enter_context(socket.create_connection((host, int(port)), timeout=20))
        answer = raw(server, b"")
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"application/problem+json" in answer
        assert b"E-SERVE-BUSY" in answer
    server.client = httpx.Client(base_url=server.url, trust_env=False)
    deadline = time.monotonic() + 120
    while server.client.get("/health").status_code != 200:
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.parametrize(("listen", "name"), [("0.0.0.0:0", "127.0.0.1"), ("[::1]:0", "[::1]")])
def test_other_addresses(
    own_server: Callable[..., Server], tmp_path: Path, listen: str, name: str
) -> None:
    """The address that a client has reached is a name of the server, another one is not."""
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text("correct-horse-battery")
    server = own_server(
        "--listen", listen, "--token-file", str(token), token="correct-horse-battery"
    )
    port = server.url.rsplit(":", 1)[1]
    with httpx.Client(headers=server.headers, trust_env=False) as own:
        address = f"http://{name}:{port}/v1/jobs"
        assert own.get(address).status_code == 200
        assert_problem(own.get(address, headers={"Host": f"192.0.2.7:{port}"}), 421, "E-SERVE-HOST")
        assert_problem(
            own.get(address, headers={"Host": f"evil.example:{port}"}), 421, "E-SERVE-HOST"
        )


def test_slow_bodies_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.05)

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(0.02)
        return {"type": "http.request", "body": b"x", "more_body": True}

    with pytest.raises(Problem) as caught:
        asyncio.run(guard._body(receive, Headers({})))
    assert (caught.value.status, caught.value.id) == (408, "E-SERVE-SLOW")


@pytest.mark.parametrize(
    ("number", "status"),
    [("1e999", 422), ("-1e999", 422), ("1e308", 422), ("1.5", 422), ("1" * 400, 422),
     ("1" * 5000, 400), ("NaN", 400), ("Infinity", 400), ("0x10", 400)],
)  # fmt: skip
def test_numbers_that_are_none(server: Server, number: str, status: int) -> None:
    for name in ("vectors", "threads", "layers", "worker", "backend", "no-spectra", "ram-budget"):
        body = f'{{"verb": "measure", "model": "kimi", "options": {{"{name}": {number}}}}}'
        answer = server.client.post("/v1/jobs", content=body, headers=JSON)
        if name == "layers" and status == 422 and number.isdigit():
            server.client.delete(answer.headers["location"])  # a text, which a number may stand for
            continue
        assert answer.status_code == status, (name, answer.text)
    for query in (f"limit={number}", f"cursor={number}"):
        assert server.client.get(f"/v1/jobs?{query}").status_code == 422


def test_unknown_routes_and_methods(server: Server) -> None:
    assert_problem(server.client.get("/nosuch"), 404, "E-SERVE-ROUTE")
    answer = server.client.put("/v1/jobs", json={})
    assert_problem(answer, 405, "E-SERVE-METHOD")
    assert "GET" in answer.headers["allow"]
    assert_problem(server.client.get("/v1/jobs", params={"limit": 0}), 422, "E-USAGE")


@pytest.mark.parametrize(
    "path",
    ["../secret", "..%2fsecret", "%2e%2e/secret", "/etc/passwd", "%2Fetc%2Fpasswd", "kimi/../kimi",
     "link", "kimi/truth.json%00", "nosuch", ".", "%5c..%5c"],
)  # fmt: skip
def test_models_outside_are_missing(server: Server, path: str) -> None:
    """One answer for what is not there and for what may not be seen."""
    link = server.models / "link"
    link.symlink_to("/etc")
    # Client libraries take dots out of addresses.
    host = server.url.removeprefix("http://")
    head = f"GET /v1/models/{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    answer = raw(server, head.encode())
    assert answer.startswith(b"HTTP/1.1 404 "), answer
    assert b'"no such model", "id": "E-FILE-MISSING"' in answer
    body = {"verb": "measure", "model": path}
    refused = server.client.post("/v1/jobs", json=body)
    link.unlink()
    assert_problem(refused, 404, "E-FILE-MISSING")
    assert refused.json()["detail"] == "no such model or file"


def test_a_token_is_needed_where_there_is_one(
    own_server: Callable[..., Server], tmp_path: Path
) -> None:
    text = "correct-horse-battery"
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text(f"{text}\n")
    server = own_server("--token-file", str(token), token=text)
    assert server.client.get("/v1/jobs").status_code == 200
    bare = httpx.Client(base_url=server.url, trust_env=False)
    for path in ("/health", "/metrics", "/", "/openapi.json"):
        assert bare.get(path).status_code == 200, path
    assert bare.get("/session").json() == {"token_needed": True, "signed_in": False}
    for given in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {text}"},
                  {"Authorization": f"Bearer {text}x"}, {"Cookie": f"vindex_session={text}"},
                  {"Authorization": "Bearer \xff".encode("latin-1")}):  # fmt: skip
        for path in ("/v1/jobs", "/v1/models", "/v1/nosuch"):
            answer = bare.get(path, headers=given)
            assert_problem(answer, 401, "E-SERVE-TOKEN")
            assert answer.headers["www-authenticate"] == "Bearer"
        assert bare.post("/session", headers=given).status_code == 401
    answer = bare.post("/session", headers={"Authorization": f"Bearer {text}"})
    assert answer.status_code == 204
    assert "HttpOnly" in answer.headers["set-cookie"]
    assert "samesite=strict" in answer.headers["set-cookie"].lower()
    assert text not in answer.headers["set-cookie"]
    # httpx has the cookie now, as a browser would.
    assert bare.get("/v1/jobs").status_code == 200
    assert bare.get("/session").json() == {"token_needed": True, "signed_in": True}
    bare.delete("/session")
    assert bare.get("/v1/jobs").status_code == 401
    bare.close()
    assert text not in server.log.read_text()


def test_curl(server: Server, measured: str, tmp_path: Path) -> None:
    """The examples of the pages, with the client that they use."""
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("no curl")

    def run(*words: str) -> str:
        command = [curl, "--silent", "--show-error", "--fail-with-body", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    asked = json.dumps({"verb": "inspect", "model": "kimi", "options": {"json": True}})
    job = json.loads(
        run(f"{server.url}/v1/jobs", "-H", "Content-Type: application/json", "-d", asked)
    )
    events = run("--no-buffer", f"{server.url}/v1/jobs/{job['id']}/events")
    assert "event: end" in events
    printed = json.loads(run(f"{server.url}/v1/results/{job['id']}/file"))
    assert printed["schema"] == "vindex-inspect/1"
    file = tmp_path / "part.h5"
    run("--range", "0-7", "-o", str(file), f"{server.url}/v1/results/{measured}/file")
    assert file.read_bytes() == b"\x89HDF\r\n\x1a\n"
    run("--continue-at", "-", "-o", str(file), f"{server.url}/v1/results/{measured}/file")
    whole = server.client.get(f"/v1/results/{measured}/file").content
    assert file.read_bytes() == whole
