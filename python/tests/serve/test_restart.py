"""Servers that are killed, stopped and started again: jobs go on, nothing is lost."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import kill_walk
import pytest
from serving import Server, busy, program_of, synthesize

from vindex import _program
from vindex.serve.jobs.supervise import start_time


def alive(pid: int) -> bool:
    return start_time(pid) >= 0


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_run_goes_on_and_is_adopted(
    own_server: Callable[..., Server], how: signal.Signals
) -> None:
    server = own_server()
    id = busy(server)
    waiting = server.queue("inspect", "kimi")
    program = program_of(server, id)
    code = server.stop(how)
    assert code == (0 if how is signal.SIGTERM else -9)
    assert alive(program)
    server.start()
    job = server.job(id)
    assert (job["state"], job["attempt"]) == ("running", 1)
    assert server.job(waiting)["state"] == "queued"
    assert program_of(server, id) == program
    # It is ours again: it can be followed and cancelled.
    server.client.delete(f"/v1/jobs/{id}")
    assert server.wait(id)["state"] == "cancelled"
    assert not alive(program)
    assert server.wait(waiting)["state"] == "done"


def test_a_run_that_ends_meanwhile_is_known(own_server: Callable[..., Server]) -> None:
    server = own_server()
    id = server.queue("measure", "slow")
    bad = server.queue("decode", "kimi", tensor="nosuch")
    server.wait(id, lambda job: job["state"] != "queued")
    server.stop(signal.SIGKILL)
    folder = server.work / "jobs" / id
    deadline = time.monotonic() + 120
    while not list(folder.glob("exit-1-*")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    server.start()
    job = server.wait(id)
    assert (job["state"], job["exit_code"], job["attempt"]) == ("done", 0, 1)
    assert server.wait(bad)["state"] == "failed"


def test_events_go_on_with_the_next_server(own_server: Callable[..., Server]) -> None:
    server = own_server()
    id = busy(server)
    with server.client.stream("GET", f"/v1/jobs/{id}/events") as answer:
        lines = answer.iter_lines()
        last = next(line for line in lines if line.startswith("id: ")).removeprefix("id: ")
    server.stop(signal.SIGKILL)
    server.start()
    headers = {"Last-Event-ID": last}
    with server.client.stream("GET", f"/v1/jobs/{id}/events", headers=headers) as answer:
        lines = answer.iter_lines()
        assert next(lines) == "event: state"
        later = next(line for line in lines if line.startswith("id: ")).removeprefix("id: ")
        assert int(later) > int(last)


def test_a_measurement_whose_supervisor_is_killed_resumes(
    own_server: Callable[..., Server], tmp_path: Path
) -> None:
    models = tmp_path / "several"
    synthesize("layer:40x512x512:bf16", models / "model")
    server = own_server(models=models)
    id = server.queue("measure", "model", null="signflip=25", threads=1)
    server.wait(id, lambda job: bool(job["progress"] and job["progress"]["done"] >= 2))
    program = program_of(server, id)
    found = json.loads((server.work / "jobs" / id / "process-1.json").read_text())
    os.kill(found["supervisor"]["pid"], signal.SIGKILL)
    job = server.wait(id)
    assert (job["state"], job["attempt"]) == ("done", 2)
    assert job["progress"]["done_before"] >= 2
    assert not alive(program)


def test_a_measurement_that_somebody_else_stops_resumes(own_server: Callable[..., Server]) -> None:
    """A machine that is shut down tells every process to end, the server and the run."""
    server = own_server()
    id = server.queue("measure", "slow", null="signflip=5")
    program = program_of(server, id)
    server.stop(signal.SIGKILL)
    os.kill(program, signal.SIGTERM)
    server.start()
    job = server.wait(id)
    assert (job["state"], job["attempt"]) == ("done", 2)


@pytest.mark.parametrize("how", ["TERM", "INT"])
def test_a_measurement_that_is_stopped_before_it_looks_at_signals_resumes(
    own_server: Callable[..., Server], tmp_path: Path, how: str
) -> None:
    """Its process is ended by the signal itself then, and says no exit code of its own."""
    script, begun = tmp_path / "vindex", tmp_path / "begun"
    script.write_text(
        f'#!/bin/sh\ncase "$*" in *measure*) mkdir {begun} 2>/dev/null && kill -{how} $$ ;; esac\n'
        f'exec {_program.path()} "$@"\n',
        encoding="utf-8",
    )
    script.chmod(0o755)
    server = own_server(program=str(script))
    job = server.wait(server.queue("measure", "kimi"))
    assert (job["state"], job["attempt"]) == ("done", 2)
    assert begun.exists()


def test_another_run_whose_supervisor_is_killed_is_lost(own_server: Callable[..., Server]) -> None:
    server = own_server()
    id = server.queue("bench", sections=["spectra"], shapes=["512x512"], samples=10000,
                      **{"case-seconds": 300})  # fmt: skip
    server.wait(id, lambda job: job["state"] == "running")
    program = program_of(server, id)
    found = json.loads((server.work / "jobs" / id / "process-1.json").read_text())
    server.stop(signal.SIGKILL)
    os.kill(found["supervisor"]["pid"], signal.SIGKILL)
    server.start()
    job = server.wait(id)
    assert (job["state"], job["error"]["id"]) == ("lost", "E-SERVE-LOST")
    deadline = time.monotonic() + 120
    while alive(program) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not alive(program)
    assert server.run("inspect", "kimi")["state"] == "done"


def test_a_number_that_another_process_has_is_let_alone(own_server: Callable[..., Server]) -> None:
    """After a restart of the machine, numbers of processes mean somebody else."""
    server = own_server()
    id = busy(server)
    server.stop(signal.SIGKILL)
    folder = server.work / "jobs" / id
    found = json.loads((folder / "process-1.json").read_text())
    for role in ("program", "supervisor"):
        os.kill(found[role]["pid"], signal.SIGKILL)
    deadline = time.monotonic() + 120
    while alive(found["program"]["pid"]) or alive(found["supervisor"]["pid"]):
        assert time.monotonic() < deadline
    for path in folder.glob("exit-*"):
        path.rename(folder / "exit")
    innocent = os.getpid()
    other = {role: {"pid": innocent, "start": 1} for role in ("program", "supervisor")}
    (folder / "process-1.json").write_text(json.dumps(other))
    state = json.loads((folder / "state.json").read_text())
    (folder / "state.json").write_text(json.dumps({**state, "cancel": True}))
    server.start()
    job = server.wait(id)
    assert job["state"] == "cancelled"


def test_what_was_never_answered_is_removed(own_server: Callable[..., Server]) -> None:
    server = own_server()
    done = server.run("inspect", "kimi")["id"]
    server.stop()
    jobs = server.work / "jobs"
    (jobs / ".new-0123").mkdir()
    (jobs / "damaged").mkdir()
    (jobs / "damaged" / "request.json").write_text("{")
    server.start()
    assert not (jobs / ".new-0123").exists()
    assert [job["id"] for job in server.client.get("/v1/jobs").json()["jobs"]] == [done]
    assert "damaged" in server.log.read_text()


def test_no_job_is_lost_in_a_walk_of_kills(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    synthesize("kimi-k2-mini", tmp_path / "models" / "model")
    counts = kill_walk.walk(tmp_path / "models", tmp_path / "work", kills=8, seed=3)
    assert not kill_walk.failed(counts), counts
    assert counts["kills"] == 8
    assert counts["answered"] > 8
