#!/usr/bin/env python3
"""Kills a server at random moments and counts what became of its jobs.

    python tests/serve/kill_walk.py [KILLS] [SEED]

Between two kills a client queues jobs, each with a key of its own, until its connection breaks; a
request that was not answered is asked again, with its key, at the next server. At the end every job
that was answered must be there and done, every key must have given one job, and every results file
must be complete. Prints the counts as JSON and ends with 1 where one of these fails.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
from serving import Server, synthesize

# Short commands and one that takes about a second, so that kills meet every state of a job.
ASKED: list[tuple[str, dict[str, Any]]] = [
    ("inspect", {}),
    ("plan", {"json": True}),
    ("measure", {}),
    ("measure", {"null": "signflip=25"}),
]


def walk(models: Path, work: Path, kills: int, seed: int = 1) -> dict[str, Any]:
    """Counts of one walk."""
    draws = random.Random(seed)
    server = Server(models, work, "--jobs", "2")
    answered: dict[str, str] = {}
    open_keys: dict[str, tuple[str, dict[str, Any]]] = {}
    counts: Counter[str] = Counter(kills=0, refused_full=0, asked_again=0, two_jobs_of_a_key=0)

    def ask(key: str, command: str, options: dict[str, Any]) -> bool:
        try:
            answer = server.post(command, "model", key=key, **options)
        except (httpx.TransportError, RuntimeError):
            return False
        if answer.status_code == 429:
            counts["refused_full"] += 1
            open_keys.pop(key, None)
            return True
        assert answer.status_code == 202, answer.text
        id = answer.json()["id"]
        counts["two_jobs_of_a_key"] += answered.get(key, id) != id
        answered[key] = id
        open_keys.pop(key, None)
        return True

    def load() -> None:
        for key, (command, options) in list(open_keys.items()):
            counts["asked_again"] += 1
            if not ask(key, command, options):
                return
        for old in draws.sample(sorted(answered), min(2, len(answered))):
            if not ask(old, *asked_with[old]):
                return
        for _ in range(draws.randint(1, 4)):
            key = f"key-{len(asked_with)}"
            asked_with[key] = open_keys[key] = draws.choice(ASKED)
            if not ask(key, *asked_with[key]):
                return
            time.sleep(draws.uniform(0, 0.1))

    asked_with: dict[str, tuple[str, dict[str, Any]]] = {}
    for _ in range(kills):
        client = threading.Thread(target=load)
        client.start()
        time.sleep(draws.uniform(0, 0.5))
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        client.join()
        server.client.close()
        counts["kills"] += 1
        server.start()
    load()
    deadline = time.monotonic() + 600
    health = {"queued": 1}
    while health["queued"] + health.get("running", 0) and time.monotonic() < deadline:
        time.sleep(0.5)
        health = server.client.get("/health").json()["jobs"]
    jobs = {id: server.client.get(f"/v1/jobs/{id}") for id in answered.values()}
    counts["answered"] = len(jobs)
    counts["missing"] = sum(answer.status_code != 200 for answer in jobs.values())
    states = Counter(answer.json().get("state", "missing") for answer in jobs.values())
    counts["started_again"] = sum(answer.json().get("attempt", 0) > 1 for answer in jobs.values())
    for id, answer in jobs.items():
        if answer.status_code == 200 and answer.json()["verb"] == "measure":
            found = server.client.get(f"/v1/results/{id}").json()
            counts["incomplete_files"] += (found["attributes"] or {}).get("status") != "complete"
    total = sum(server.client.get("/health").json()["jobs"].values())
    # A request without an answer may have made a job; one with an answer makes exactly one.
    counts["jobs_in_all"] = total
    counts["surplus"] = total - len(set(answered.values())) - len(open_keys)
    server.stop()
    return {**counts, "states": dict(states)}


def failed(counts: dict[str, Any]) -> bool:
    """Whether a walk lost anything."""
    lost = sum(count for state, count in counts["states"].items() if state != "done")
    broken = ("missing", "two_jobs_of_a_key", "incomplete_files")
    return bool(lost or any(counts.get(name) for name in broken) or counts["surplus"] > 0)


def main() -> int:
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    with tempfile.TemporaryDirectory() as folder:
        (models := Path(folder, "models")).mkdir()
        synthesize("kimi-k2-mini", models / "model")
        counts = walk(models, Path(folder, "work"), kills, seed)
    print(json.dumps(counts))
    return 1 if failed(counts) else 0


if __name__ == "__main__":
    sys.exit(main())
