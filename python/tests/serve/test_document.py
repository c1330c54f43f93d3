"""The interface is what /openapi.json says: schemathesis tries to refute it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from serving import Server


def test_the_document(server: Server) -> None:
    document = server.client.get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    assert set(document["paths"]) == {
        "/health", "/metrics", "/session", "/v1/jobs", "/v1/jobs/{id}", "/v1/jobs/{id}/events",
        "/v1/jobs/{id}/resume", "/v1/models", "/v1/models/{id}", "/v1/models/{id}/tensors",
        "/v1/results/{id}", "/v1/results/{id}/file", "/v1/results/{id}/matrix",
        "/v1/results/{id}/spectrum",
    }  # fmt: skip
    for path in document["paths"].values():
        for operation in path.values():
            assert operation["summary"]
            assert {"400", "401", "421", "422", "500"} <= set(operation["responses"])
    body = document["paths"]["/v1/jobs"]["post"]["requestBody"]
    forms = body["content"]["application/json"]["schema"]["oneOf"]
    measure = next(form for form in forms if form["title"] == "measure")
    assert measure["properties"]["options"]["properties"]["mode"]["enum"] == [
        "fast", "default", "strict"
    ]  # fmt: skip


@pytest.mark.skipif(importlib.util.find_spec("schemathesis") is None, reason="no schemathesis")
def test_schemathesis_finds_nothing(own_server: Callable[..., Server], tmp_path: Path) -> None:
    server = own_server()
    # Identifiers that exist, so that more than refusals are tried.
    server.run("measure", "kimi")
    result = subprocess.run(
        [
            str(Path(sys.executable).with_name("schemathesis")), "--config-file",
            str(Path(__file__).with_name("schemathesis.toml")), "run",
            f"{server.url}/openapi.json", "--checks", "all", "--seed", "1",
            # DELETE ends a job; the job stays, with its results.
            "--exclude-checks", "use_after_free",
            "--max-examples", "10", "--max-time", "60", "--warnings", "off",
        ],
        capture_output=True, text=True, timeout=600, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-2000:]
    assert server.client.get("/health").json()["status"] == "ok"
    assert "Traceback" not in server.log.read_text()
