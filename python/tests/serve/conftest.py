"""A real server on a free port of loopback, with real models, for a real client."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import Server, synthesize


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two small mixtures, and one whose spectra take a while."""
    folder = tmp_path_factory.mktemp("models")
    synthesize("kimi-k2-mini", folder / "kimi")
    synthesize("kimi-k2-mini", folder / "deeper" / "other", seed=2)
    synthesize("layer:24x1024x1024:bf16", folder / "slow")
    return folder


@pytest.fixture(scope="session")
def server(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for tests that leave it as it is."""
    served = Server(models, tmp_path_factory.mktemp("served") / "work", "--jobs", "2")
    yield served
    assert served.stop() == 0, served.log.read_text()
    assert "Traceback" not in served.log.read_text(), served.log.read_text()


@pytest.fixture
def own_server(models: Path, tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Servers of one test."""
    begun: list[Server] = []

    def make(*flags: str, **options: Any) -> Server:
        given = options.pop("models", models)
        work = options.pop("work", tmp_path / f"work{len(begun)}")
        begun.append(Server(given, work, *flags, **options))
        return begun[-1]

    yield make
    for served in begun:
        if served.process.poll() is None:
            for job in served.client.get("/v1/jobs", params={"limit": 1000}).json()["jobs"]:
                if job["state"] in ("queued", "running"):
                    served.client.delete(f"/v1/jobs/{job['id']}")
            served.stop()


@pytest.fixture(scope="session")
def measured(server: Server) -> str:
    """Job that measured the small mixture."""
    return str(server.run("measure", "kimi")["id"])
