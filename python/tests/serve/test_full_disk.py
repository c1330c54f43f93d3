"""A disk that fills up: jobs fail with what the program says, requests with 507, no more."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from serving import Server, assert_problem, busy


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 6 MB, mounted for one test."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    command = ["mount", "-t", "tmpfs", "-o", "size=6m,mode=700", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path, leave: int = 0) -> Path:
    """Takes all room but `leave` bytes."""
    ballast = folder / "ballast"
    with open(ballast, "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 65_536)
        except OSError:
            pass
        if leave:
            file.truncate(max(0, file.tell() - leave))
    return ballast


def test_a_job_that_fills_the_disk_fails(
    own_server: Callable[..., Server], small_disk: Path
) -> None:
    server = own_server(work=small_disk / "work")
    # A folder of 9 MB does not fit.
    job = server.wait(server.queue("synth", spec="kimi-k2-mini"))
    assert (job["state"], job["exit_code"]) == ("failed", 74)
    assert job["error"]["id"].startswith("E-")
    assert server.client.get("/health").status_code == 200


def test_requests_on_a_full_disk_are_507(
    own_server: Callable[..., Server], small_disk: Path
) -> None:
    server = own_server(work=small_disk / "work")
    done = server.run("measure", "kimi", layers="0")["id"]
    ballast = fill(small_disk)
    answer = server.post("inspect", "kimi", key="again")
    assert_problem(answer, 507, "E-OUT-WRITE")
    # What only reads goes on, and says so.
    assert server.client.get("/health").json()["status"] == "no_room"
    assert server.client.get(f"/v1/results/{done}/matrix").status_code == 200
    assert server.client.get("/v1/models/kimi").status_code == 200
    ballast.unlink()
    assert server.client.get("/health").json()["status"] == "ok"
    # The same key is a new request: it was never answered with a job.
    again = server.post("inspect", "kimi", key="again")
    assert again.status_code == 202
    assert server.wait(again.json()["id"])["state"] == "done"
    names = [path.name for path in (small_disk / "work" / "jobs").iterdir()]
    assert not [name for name in names if name.startswith(".new-")]


def test_a_job_that_runs_while_the_disk_fills_is_known(
    own_server: Callable[..., Server], small_disk: Path
) -> None:
    """The end of a run needs no room: its exit code is kept, for this server and the next one."""
    server = own_server(work=small_disk / "work")
    id = busy(server)
    waiting, unwanted = server.queue("measure", "kimi"), server.queue("measure", "kimi")
    ballast = fill(small_disk)
    assert server.client.delete(f"/v1/jobs/{id}").status_code == 202
    assert server.client.delete(f"/v1/jobs/{unwanted}").json()["state"] == "cancelled"
    job = server.wait(id)
    assert job["state"] == "cancelled"
    assert job["exit_code"] in (74, 75, 143)  # 143: it was not yet so far as to look at signals
    # The one that waited cannot be started.
    job = server.wait(waiting)
    assert job["state"] == "failed"
    assert job["exit_code"] == 74
    server.stop()
    ballast.unlink()
    server.start()
    assert server.job(id)["state"] == "cancelled"
    assert server.job(unwanted)["state"] == "cancelled"
    # Nothing could be written about it: the next server has it in its queue, and starts it.
    assert server.wait(waiting)["state"] in ("failed", "done")
    assert server.run("inspect", "kimi")["state"] == "done"
