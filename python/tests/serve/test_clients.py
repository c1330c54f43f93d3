"""Many clients at once, and a server that stops while they are there."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
from serving import Server, busy, events_of

CLIENTS = 32


def test_clients_at_once(own_server: Callable[..., Server]) -> None:
    """Each reads, queues, follows and fetches; every answer is whole and its own."""
    server = own_server("--jobs", "2")
    measured = server.run("measure", "kimi")["id"]
    whole = server.client.get(f"/v1/results/{measured}/file").content
    counts: Counter[str] = Counter()
    begin = threading.Barrier(CLIENTS)

    def client(number: int) -> None:
        with httpx.Client(base_url=server.url, timeout=120, trust_env=False) as own:
            begin.wait()
            for step in range(6):
                layer = (number + step) % 4
                answer = own.get(f"/v1/results/{measured}/matrix", params={"layer": layer})
                assert {row["layer"] for row in answer.json()["rows"]} == {layer}
                first = 1000 * number + step
                span = {"Range": f"bytes={first}-{first + 99}"}
                part = own.get(f"/v1/results/{measured}/file", headers=span)
                assert part.content == whole[first : first + 100]
                assert own.get("/v1/models/kimi").json()["layers"] == 4
                assert own.get("/v1/jobs").status_code == 200
                counts["reads"] += 4
            body = {"verb": "inspect", "model": "kimi", "options": {"json": True}}
            answer = own.post("/v1/jobs", json=body)
            assert answer.status_code == 202
            events = list(events_of(own, answer.json()["id"]))
            assert events[-1][0] == "end"
            assert events[-1][2]["state"] == "done"
            counts["jobs"] += 1

    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(client, range(CLIENTS)))
    assert counts["jobs"] == CLIENTS
    assert counts["reads"] == CLIENTS * 24
    assert server.client.get("/health").json()["jobs"]["done"] == CLIENTS + 1
    assert "Traceback" not in server.log.read_text()


def test_a_stop_ends_streams_and_lets_jobs_go_on(own_server: Callable[..., Server]) -> None:
    server = own_server()
    id = busy(server)
    seen: list[str] = []

    def follow() -> None:
        with httpx.Client(base_url=server.url, timeout=60, trust_env=False) as own:
            seen.extend(kind for kind, _, _ in events_of(own, id))

    followers = [threading.Thread(target=follow) for _ in range(4)]
    for follower in followers:
        follower.start()
    deadline = time.monotonic() + 120
    while "event_streams 4.0" not in server.client.get("/metrics").text:
        assert time.monotonic() < deadline
    begin = time.monotonic()
    assert server.stop(signal.SIGTERM) == 0
    for follower in followers:
        follower.join()
    assert time.monotonic() - begin < 100
    assert "end" not in seen
    server.start()
    assert server.job(id)["state"] == "running"
    assert server.job(id)["attempt"] == 1
