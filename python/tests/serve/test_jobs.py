"""Jobs: commands of every kind, progress, ends, cancelling, the queue, keys."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from serving import Server, assert_problem, busy, events_of, program_of, synthesize


def test_commands_of_every_kind(server: Server, measured: str) -> None:
    """One job of each command that the small models allow; outputs lie in the jobs' folders."""
    run = server.run
    outputs = {}
    for command, model, options in [
        ("inspect", "kimi", {"json": True}),
        ("plan", "kimi", {"json": True}),
        ("show", measured, {"json": True}),
        ("status", measured, {"json": True}),
        ("validate", measured, {}),
        ("export", measured, {"format": "csv"}),
        ("compare", "kimi", {"b": "deeper/other"}),
        ("experts", "kimi", {}),
        ("decode", "kimi", {"tensor": "lm_head.weight"}),
        ("organ.extract", "kimi", {}),
        ("organ.diff", "kimi", {"b": "deeper/other", "json": True}),
        ("organ.measure", "kimi", {"report": True}),
        ("synth", None, {"spec": "layer:2x32x64:bf16", "seed": 3}),
        ("edit.delete", "kimi",
         {"tensor": "model.layers.0.mlp.down_proj.weight", "direction": ["singular 0"],
          "save-patch": True}),
    ]:  # fmt: skip
        job = run(command, model, **options)
        assert job["exit_code"] == 0
        outputs[command] = server.client.get(f"/v1/results/{job['id']}").json()
        assert outputs[command]["files"], command
    assert outputs["export"]["files"][0]["name"] == "export.csv"
    assert outputs["compare"]["attributes"]["schema_name"] == "vindex-compare"
    names = {file["name"] for file in outputs["edit.delete"]["files"]}
    assert "patch.safetensors" in names
    assert any(name.startswith("edited/") for name in names)
    # Outputs are inputs of other jobs.
    made = outputs["synth"]["id"]
    assert run("measure", f"job:{made}")["state"] == "done"
    patch = f"job:{outputs['edit.delete']['id']}/patch.safetensors"
    assert run("edit.apply", "kimi", patch=patch, alpha=-1, force=True)["state"] == "done"


def test_workers_and_merge(server: Server) -> None:
    parts = [server.run("measure", "kimi", worker=f"{i}/2")["id"] for i in range(2)]
    merged = server.run("merge", parts[0], parts=parts[1:])
    found = server.client.get(f"/v1/results/{merged['id']}").json()
    assert found["attributes"]["status"] == "complete"
    assert found["attributes"]["matrices_measured"] == 181


def test_events_of_a_job(server: Server) -> None:
    id = server.queue("measure", "kimi", null="signflip=20")
    events = list(events_of(server.client, id))
    kinds = [kind for kind, _, _ in events]
    assert kinds[-1] == "end"
    assert "state" in kinds
    assert "progress" in kinds
    assert events[-1][2]["state"] == "done"
    progress = [data for kind, _, data in events if kind == "progress"]
    assert progress[-1]["done"] == progress[-1]["total"] == 181
    for _, _, data in events:
        assert "/tmp" not in json.dumps(data)
    # A client that was cut off goes on where it was.
    middle = next(place for kind, place, _ in events if kind == "progress")
    later = list(events_of(server.client, id, middle))
    assert later[-1][0] == "end"
    assert len(later) < len(events)
    # One that has seen the end is told not to come back.
    last = events[-1][1]
    assert last is not None
    answer = server.client.get(f"/v1/jobs/{id}/events", headers={"Last-Event-ID": last})
    assert answer.status_code == 204


def test_a_client_that_goes_away_is_noticed(own_server: Callable[..., Server]) -> None:
    server = own_server()
    id = busy(server)
    with server.client.stream("GET", f"/v1/jobs/{id}/events") as answer:
        lines = answer.iter_lines()
        assert next(lines) == "event: state"
        assert "vindex_serve_event_streams 1.0" in server.client.get("/metrics").text
    deadline = time.monotonic() + 120
    while "vindex_serve_event_streams 0.0" not in server.client.get("/metrics").text:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_cancel_publishes_what_is_finished_and_resume_goes_on(
    own_server: Callable[..., Server], tmp_path: Path
) -> None:
    models = tmp_path / "several"
    synthesize("layer:60x512x512:bf16", models / "model")
    server = own_server(models=models)
    id = server.queue("measure", "model", null="signflip=25", threads=1)
    server.wait(id, lambda job: bool(job["progress"] and job["progress"]["done"] >= 2))
    begin = time.monotonic()
    answer = server.client.delete(f"/v1/jobs/{id}")
    assert answer.status_code == 202
    assert answer.json()["cancel_requested"]
    job = server.wait(id)
    assert time.monotonic() - begin < 120
    assert (job["state"], job["exit_code"], job["error"]["id"]) == ("cancelled", 75, "E-STOPPED")
    result = server.client.get(f"/v1/results/{id}").json()
    assert result["attributes"]["status"] == "partial"
    done = result["attributes"]["matrices_measured"]
    assert 0 < done < 60
    assert_problem(server.client.delete(f"/v1/jobs/{id}"), 409, "E-SERVE-STATE")
    assert job["resumable"]
    assert server.client.post(f"/v1/jobs/{id}/resume").status_code == 202
    job = server.wait(id)
    assert (job["state"], job["attempt"]) == ("done", 2)
    assert job["progress"]["done_before"] == done
    assert_problem(server.client.post(f"/v1/jobs/{id}/resume"), 409, "E-SERVE-STATE")


def test_a_queued_job_is_cancelled_at_once(own_server: Callable[..., Server]) -> None:
    server = own_server()
    first = busy(server)
    second = server.queue("measure", "kimi")
    assert server.job(second)["state"] == "queued"
    assert server.client.delete(f"/v1/jobs/{second}").json()["state"] == "cancelled"
    server.client.delete(f"/v1/jobs/{first}")
    assert server.wait(first)["state"] == "cancelled"
    assert server.job(second)["started"] is None


def test_a_killed_program_is_a_failed_job(own_server: Callable[..., Server]) -> None:
    server = own_server()
    id = busy(server)
    os.kill(program_of(server, id), signal.SIGKILL)
    job = server.wait(id)
    assert (job["state"], job["exit_code"]) == ("failed", 137)
    assert job["error"] == {"id": "E-SERVE-KILLED", "text": "the program was ended by signal 9"}
    assert server.run("inspect", "kimi")["state"] == "done"


@pytest.mark.parametrize(
    ("command", "options", "code", "id"),
    [
        ("measure", {"tensors": "("}, 64, "E-"),
        ("measure", {"layers": "999"}, 64, "E-"),
        ("measure", {"ram-budget": "1KiB"}, 78, "E-"),
        ("decode", {"tensor": "nosuch"}, 66, "E-"),
    ],
)
def test_what_the_program_refuses_is_a_failed_job(
    server: Server, command: str, options: dict[str, Any], code: int, id: str
) -> None:
    job = server.wait(server.queue(command, "kimi", **options))
    assert job["state"] == "failed"
    assert job["exit_code"] in (code, 64, 65, 66, 78)
    assert job["error"]["id"].startswith(id)
    assert "/tmp" not in json.dumps(job)


def test_a_job_has_its_share_of_memory(server: Server, own_server: Callable[..., Server]) -> None:
    small = own_server("--ram-budget", "2GiB", "--jobs", "2")
    id = small.queue("measure", "kimi")
    asked = json.loads((small.work / "jobs" / id / "request.json").read_text())
    assert f"--ram-budget={1 << 30}" in asked["arguments"]
    answer = small.post("measure", "kimi", **{"ram-budget": "2GiB"})
    assert_problem(answer, 403, "E-SERVE-BUDGET")
    assert small.wait(id)["state"] == "done"


def test_a_full_queue_is_429(own_server: Callable[..., Server]) -> None:
    server = own_server()
    first = busy(server)
    ids = [server.queue("inspect", "kimi") for _ in range(100)]
    answer = server.post("inspect", "kimi")
    assert_problem(answer, 429, "E-SERVE-QUEUE")
    assert int(answer.headers["retry-after"]) > 0
    # A key that was answered before is no new job.
    assert server.client.get("/health").json()["jobs"]["queued"] == 100
    for id in ids[1:]:
        server.client.delete(f"/v1/jobs/{id}")
    server.client.delete(f"/v1/jobs/{first}")
    assert server.wait(ids[0])["state"] == "done"


def test_keys_are_honoured(own_server: Callable[..., Server]) -> None:
    server = own_server()
    answers = [server.post("inspect", "kimi", key="one") for _ in range(3)]
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert_problem(server.post("plan", "kimi", key="one"), 409, "E-SERVE-KEY")
    assert server.post("inspect", "kimi", key="two").json()["id"] != answers[0].json()["id"]
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda _: server.post("inspect", "kimi", key="three"), range(32)))
    assert len({answer.json()["id"] for answer in found}) == 1
    server.stop(signal.SIGKILL)
    server.start()
    assert server.post("inspect", "kimi", key="one").json()["id"] == answers[0].json()["id"]
    assert_problem(server.post("plan", "kimi", key="one"), 409, "E-SERVE-KEY")


def test_lists_of_jobs(own_server: Callable[..., Server]) -> None:
    server = own_server()
    ids = [server.run("inspect", "kimi")["id"] for _ in range(5)]
    page = server.client.get("/v1/jobs", params={"limit": 2}).json()
    assert [job["id"] for job in page["jobs"]] == ids[:-3:-1]
    seen = [job["id"] for job in page["jobs"]]
    while page["next_cursor"]:
        parameters = {"limit": 2, "cursor": page["next_cursor"]}
        page = server.client.get("/v1/jobs", params=parameters).json()
        seen += [job["id"] for job in page["jobs"]]
    assert seen == ids[::-1]
    assert server.client.get("/v1/jobs", params={"state": "failed"}).json()["jobs"] == []
    assert_problem(server.client.get("/v1/jobs", params={"state": "x"}), 422, "E-USAGE")


def test_jobs_that_are_not_there(server: Server) -> None:
    for id in ("0" * 20, "x", "f" * 20):
        assert_problem(server.client.get(f"/v1/jobs/{id}"), 404, "E-FILE-MISSING")
    missing = "0" * 20
    for path in (f"/v1/jobs/{missing}/events", f"/v1/results/{missing}",
                 f"/v1/results/{missing}/matrix", f"/v1/results/{missing}/file"):  # fmt: skip
        assert_problem(server.client.get(path), 404, "E-FILE-MISSING")
    assert_problem(server.client.delete(f"/v1/jobs/{missing}"), 404, "E-FILE-MISSING")
    assert_problem(server.post("show", missing), 404, "E-FILE-MISSING")
    assert_problem(server.post("measure", f"job:{missing}"), 404, "E-FILE-MISSING")
    assert_problem(server.post("measure", f"job:{missing}/../x"), 404, "E-FILE-MISSING")
