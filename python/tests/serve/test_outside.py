"""Nothing outside --models and --work is read, and nothing of this machine's folders is told."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from serving import Server, assert_problem, busy

from vindex import _program
from vindex.serve.jobs.processes import environment

NAME = "model.layers.0.mlp.down_proj.weight"
SECRET = "THE-SECRET"


def safetensors(path: Path, names: list[str], seed: int = 0) -> Path:
    """Matrices 8 x 6 of float32 under these names."""
    header = {
        name: {"dtype": "F32", "shape": [8, 6], "data_offsets": [192 * i, 192 * (i + 1)]}
        for i, name in enumerate(names)
    }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    body = np.random.default_rng(seed).normal(size=48 * len(names)).astype("<f4").tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)
    return path


class Place:
    """Models that may be read, and what lies outside."""

    def __init__(self, folder: Path) -> None:
        self.models, self.outside = folder / "models", folder / "outside"
        self.models.mkdir(parents=True)
        self.outside.mkdir()
        self.text = self.outside / "text"
        self.text.write_text(f"{SECRET} in a text file\n" * 4)
        self.weights = safetensors(self.outside / "weights.safetensors", [NAME])
        self.config = self.outside / "config.json"
        self.config.write_text(json.dumps({"model_type": SECRET, "num_hidden_layers": 77}))
        self.folder = self.outside / "model"
        safetensors(self.folder / f"{SECRET}.safetensors", [NAME])

    def write(self, name: str, value: object) -> None:
        path = self.models / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value if isinstance(value, str) else json.dumps(value))

    def link(self, name: str, target: Path) -> str:
        path = self.models / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)
        return name


def shard(place: Place, target: Path) -> str:
    place.write("m/model.safetensors.index.json", {"weight_map": {NAME: "a.safetensors"}})
    place.link("m/a.safetensors", target)
    return "m"


def config_beside_a_file(place: Place) -> str:
    safetensors(place.models / "m/a.safetensors", [NAME])
    place.link("m/config.json", place.config)
    return "m/a.safetensors"


def index_file(place: Place) -> str:
    inner = place.outside / "model.safetensors.index.json"
    inner.write_text(json.dumps({"weight_map": {NAME: SECRET}}))
    return place.link("m/model.safetensors.index.json", inner)


def index_names_a_link(place: Place) -> str:
    shard(place, place.weights)
    return "m/model.safetensors.index.json"


def folder_within(place: Place) -> str:
    place.write(
        "m/model.safetensors.index.json", {"weight_map": {NAME: "deep/weights.safetensors"}}
    )
    place.link("m/deep", place.outside)
    return "m/model.safetensors.index.json"


def chain(place: Place) -> str:
    place.link("b", place.text)
    (place.models / "a.safetensors").symlink_to("b")
    return "a.safetensors"


# What each makes of a place, and the model to ask for.
WAYS: dict[str, Callable[[Place], str]] = {
    "a text": lambda place: place.link("a.gguf", place.text),
    "weights": lambda place: place.link("a.safetensors", place.weights),
    "a folder": lambda place: place.link("m", place.folder),
    "a file of a folder": lambda place: f"{place.link('m', place.folder)}/{SECRET}.safetensors",
    "a shard of weights": lambda place: shard(place, place.weights),
    "a shard of text": lambda place: shard(place, place.text),
    "a shard of the machine": lambda place: shard(place, Path("/etc/passwd")),
    "a magic link": lambda place: shard(place, Path("/proc/self/environ")),
    "an index": index_file,
    "a shard behind an index": index_names_a_link,
    "a folder of shards": folder_within,
    "a configuration": config_beside_a_file,
    "two links": chain,
    "a name that climbs": lambda _: f"../outside/model/{SECRET}.safetensors",
}


def run(place: Place, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [_program.path(), *words], cwd=place.models, env=environment(place.models),
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_the_program_reads_nothing_outside(tmp_path: Path, way: str) -> None:
    place = Place(tmp_path)
    model = WAYS[way](place)
    for words in (
        ["inspect", "--tensors", "--json"],
        ["plan"],
        ["measure", "-o", "out.h5", "--backend", "cpu", "--progress", "none"],
        ["organ", "extract", "-o", "organs"],
    ):
        found = run(place, *words, "--", model)
        said = found.stdout + found.stderr
        # Some do not go that far: an index that names sub-folders, organs of an index.
        early = way == "a folder of shards" or (words[0] == "organ" and "index" in model)
        assert found.returncode == 77 or (early and found.returncode == 65), (words, found)
        assert early or "E-READ-OUTSIDE" in found.stderr, (words, found)
        assert "root:" not in said
        # What the client has named itself is no secret.
        assert SECRET not in said.replace(model, ""), (words, said)
        assert not (place.models / "out.h5").exists()


def test_files_that_a_file_names(tmp_path: Path) -> None:
    """A recipe leads the program to further files, and so do manifests and patches."""
    place = Place(tmp_path)
    for donor, code in (
        (str(place.text), 77), ("../outside/text", 77), ("../outside/model", 77),
        ("/proc/self/environ", 77), ("https://127.0.0.1:9/a.gguf", 64),
    ):  # fmt: skip
        place.write(
            "recipe.json",
            {"schema": "organ-recipe/1", "name": "x", "donors": {"a": donor}, "host": "a"},
        )
        found = run(place, "organ", "assemble", "recipe.json", "-o", "made.gguf")
        assert found.returncode == code, found
        assert "E-READ-OUTSIDE" in found.stderr
        assert SECRET not in found.stdout + found.stderr


def test_remote_addresses_are_outside(tmp_path: Path) -> None:
    place = Place(tmp_path)
    for address in ("https://127.0.0.1:9/a.gguf", "http://127.0.0.1:9/a", "hf://org/repo",
                    "s3://bucket/a.gguf"):  # fmt: skip
        found = run(place, "inspect", address)
        assert (found.returncode, "E-READ-OUTSIDE" in found.stderr) == (64, True), found
    found = run(place, "inspect", f"file://{place.weights}")
    assert (found.returncode, "E-READ-OUTSIDE" in found.stderr) == (77, True), found


def test_links_within_are_followed(tmp_path: Path) -> None:
    """Caches of the Hub are links; so are farms of links to one store, absolute ones too."""
    place = Place(tmp_path)
    safetensors(place.models / "blobs/x", [NAME])
    place.link("m/model.safetensors", Path("../blobs/x"))
    place.link("n/model.safetensors", place.models / "blobs/x")
    for name in ("m", "n"):
        found = run(place, "inspect", name)
        assert found.returncode == 0, found


@pytest.mark.parametrize("way", WAYS)
def test_the_server_answers_as_for_what_is_missing(
    own_server: Callable[..., Server], tmp_path: Path, way: str
) -> None:
    place = Place(tmp_path)
    model = WAYS[way](place)
    served = own_server(models=place.models)
    for path in (f"/v1/models/{model}", f"/v1/models/{model}/tensors"):
        answer = served.client.get(path)
        assert answer.status_code == 404 or way == "a folder of shards", answer.text
        assert answer.status_code in (404, 422)
        assert SECRET not in answer.text.replace(model, "")
    listed = served.client.get("/v1/models").text
    assert SECRET not in listed
    assert str(tmp_path) not in listed
    asked = served.post("measure", model)
    if asked.status_code == 202:
        job = served.wait(asked.json()["id"])
        assert job["state"] == "failed"
        assert job["error"]["id"] == "E-READ-OUTSIDE" or way == "a folder of shards", job
        told = json.dumps(job).replace(model, "")
        assert SECRET not in told
        assert str(tmp_path) not in told
    else:
        assert_problem(asked, 404, "E-FILE-MISSING")


def test_a_link_that_comes_after_the_question(
    own_server: Callable[..., Server], models: Path, tmp_path: Path
) -> None:
    """What is checked when a job is queued may be another file when it runs."""
    place = Place(tmp_path)
    shutil.copytree(models / "slow", place.models / "slow")
    safetensors(place.models / "m/model.safetensors", [NAME])
    served = own_server(models=place.models)
    long = busy(served)
    waiting = served.queue("measure", "m")
    (place.models / "m/model.safetensors").unlink()
    place.link("m/model.safetensors", place.weights)
    served.client.delete(f"/v1/jobs/{long}")
    job = served.wait(waiting)
    assert (job["state"], job["error"]["id"]) == ("failed", "E-READ-OUTSIDE"), job


@pytest.mark.parametrize("ending", ["%0a", "%0A", "%00", "%0d", "%7f", "%0a%0a"])
def test_a_name_is_taken_whole(server: Server, measured: str, ending: str) -> None:
    for path in (
        f"/v1/models/kimi{ending}", f"/v1/models/kimi/tensors{ending}",
        f"/v1/jobs/{measured}{ending}", f"/v1/results/{measured}{ending}",
        f"/v1/results/{measured}/matrix{ending}",
    ):  # fmt: skip
        assert_problem(server.client.get(path), 404, "E-FILE-MISSING")
    for name, value in (("table", "matrix"), ("role", "down_proj"), ("cursor", "1-" + "0" * 16)):
        answer = server.client.get(f"/v1/results/{measured}/matrix?{name}={value}{ending}")
        assert answer.status_code == 422, answer.text


def test_nothing_of_this_machine_is_told(server: Server, measured: str) -> None:
    """Neither in answers nor in files: results, reports, manifests, exports."""
    ids = [measured]
    for command, model, options in [
        ("compare", "kimi", {"b": "deeper/other"}),
        ("organ.extract", "kimi", {}),
        ("organ.measure", "kimi", {"report": True}),
        ("report", measured, {}),
        ("export", measured, {"format": "json"}),
        ("inspect", "kimi", {"json": True, "tensors": True}),
        ("plan", "kimi", {"json": True}),
        ("synth", None, {"spec": "layer:2x32x64:bf16"}),
        ("edit.delete", "kimi",
         {"tensor": "model.layers.0.mlp.down_proj.weight", "direction": ["singular 0"],
          "save-patch": True, "as": "lora"}),
    ]:  # fmt: skip
        ids.append(server.run(command, model, **options)["id"])
    folders = (os.fsencode(server.models), os.fsencode(server.work), os.fsencode(_program.path()))
    for id in ids:
        for path in (f"/v1/jobs/{id}", f"/v1/results/{id}"):
            answer = server.client.get(path)
            assert all(folder not in answer.content for folder in folders), answer.text
        for file in server.client.get(f"/v1/results/{id}").json()["files"]:
            content = server.client.get(
                f"/v1/results/{id}/file", params={"name": file["name"]}
            ).content
            assert all(folder not in content for folder in folders), (id, file)
    run_group = subprocess.run(
        [_program.path(), "show", str(server.work / f"jobs/{measured}/out/kimi.h5"), "--json"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert "models/kimi" in run_group
