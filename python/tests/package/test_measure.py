"""Running the program: flags, progress, warnings, errors, interruption."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
from package_files import call

import vindex
from vindex._flags import argument_list


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that takes some seconds to measure."""
    folder = tmp_path_factory.mktemp("large")
    call("synth", "layer:32x1024x1024:bf16", "-o", folder / "model", "-q")
    return folder / "model"


def test_measure_gives_the_results(files: Path, tmp_path: Path) -> None:
    events: list[dict[str, Any]] = []
    results = vindex.measure(
        files / "mini", tmp_path / "out.h5", progress=events.append, backend="cpu",
        layers=[1, 2], blocks=("routed_expert", "router"), no_spectra=False, threads=1,
    )  # fmt: skip
    assert results.status == "complete"
    assert set(results.matrix["layer"]) == {1, 2}
    assert set(results.matrix["block"]) == {"routed_expert", "router"}
    assert events[-1]["done"] == events[-1]["total"] == len(results.matrix)
    assert {"failed", "bytes_done", "eta_seconds", "tensor"} <= set(events[-1])
    assert results.run["settings"]["mode"] == "default"


def test_progress_is_a_bar(files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vindex.measure(files / "mini", tmp_path / "out.h5", layers=1)
    shown = capsys.readouterr()
    assert "measure: 100%" in shown.err
    assert shown.out == ""
    vindex.measure(files / "mini", tmp_path / "out.h5", layers=1, progress=False)
    assert "%" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"layer": 1}, "did you mean 'layers'"),
        ({"no_spectra": 1}, "True or False"),
        ({"mode": True}, "takes a value"),
        ({"layers": []}, "empty list"),
        ({"layers": object()}, "a text, a number or a path"),
        ({"threads": float("nan")}, "a text, a number or a path"),
        ({"tensors": "a\0b"}, "NUL"),
        ({"output": "x"}, "second argument"),
        ({"worker": "0/2"}, "vindex.run"),
        ({"help": True}, "no flag"),
    ],
)
def test_flags_are_checked(
    files: Path, tmp_path: Path, flags: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        vindex.measure(files / "mini", tmp_path / "out.h5", **flags)
    assert list(tmp_path.iterdir()) == []


def test_flags_become_words() -> None:
    found = argument_list(
        "measure", (Path("-model"),),
        {"layers": range(2, 4), "no_spectra": True, "heads": False, "imatrix": Path("a b"),
         "ram_budget": "8GiB", "vectors": 4, "null": None},
    )  # fmt: skip
    assert found == [
        "measure", "--layers=2,3", "--no-spectra", "--imatrix=a b", "--ram-budget=8GiB",
        "--vectors=4", "--", "-model",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("model", "flags", "code", "id"),
    [
        ("nothing", {}, 66, "E-FILE-MISSING"),
        ("mini", {"mode": "slow"}, 64, "E-USAGE"),
        ("mini", {"layers": "99"}, 64, None),
        ("mini", {"ram_budget": "1KiB"}, 78, None),
    ],
)
def test_errors_are_those_of_the_program(
    files: Path, tmp_path: Path, model: str, flags: dict[str, Any], code: int, id: str | None
) -> None:
    with pytest.raises(vindex.Error) as caught:
        vindex.measure(files / model, tmp_path / "out.h5", progress=False, **flags)
    assert caught.value.code == code
    assert caught.value.id.startswith("E-")
    assert id in (None, caught.value.id)
    assert caught.value.text
    assert not (tmp_path / "out.h5").exists()


def test_rows_that_fail_are_an_error_and_the_others_are_kept(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    call("synth", "layer:3x16x12:fp8", "-o", tmp_path / "model", "-q")
    shard = next((tmp_path / "model").glob("*.safetensors"))
    header = shard.read_bytes()
    assert b"F8_E4M3" in header
    # Scales that are no numbers of any known kind: the row that needs them cannot be decoded.
    first = header.index(b'"F32"')
    shard.write_bytes(header[:first] + b'"I32"' + header[first + 5 :])
    with pytest.raises(vindex.Error) as caught:
        vindex.measure(tmp_path / "model", tmp_path / "out.h5", progress=False)
    assert (caught.value.code, caught.value.id) == (65, "E-ROWS")
    status = vindex.open(tmp_path / "out.h5").matrix["status"]
    assert sorted(status.value_counts()[lambda counts: counts > 0]) == [1, 2]


def test_warnings_of_the_program(hostile: Path, tmp_path: Path) -> None:
    with pytest.warns(vindex.VindexWarning, match="W-NOT-FINITE") as caught:
        vindex.measure(hostile.parent / "model.safetensors", tmp_path / "a.h5", progress=False)
    found = [one for one in caught if one.message.id == "W-NOT-FINITE"]  # type: ignore[union-attr]
    assert len(found) == 1
    assert found[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error", vindex.VindexWarning)
        with pytest.raises(vindex.VindexWarning):
            vindex.measure(hostile.parent / "model.safetensors", tmp_path / "b.h5", progress=False)


def test_other_commands(files: Path, tmp_path: Path) -> None:
    found = vindex.run("inspect", files / "mini", json=True).json()
    assert found["schema"] == "vindex-inspect/1"
    assert "kimi" in str(vindex.run("inspect", files / "mini"))
    vindex.run("compare", files / "mini", files / "mini2", output=tmp_path / "p.h5", layers=1)
    assert vindex.open(tmp_path / "p.h5").kind == "compare"
    weights = vindex.run(
        "decode", files / "mini", tensor="model.layers.1.mlp.gate.weight", output="-"
    )
    assert len(weights.stdout) == 4 * 16 * 256
    with pytest.raises(vindex.Error, match="did you mean 'compare'"):
        vindex.run("compar")
    with pytest.raises(vindex.Error) as caught:
        vindex.run("organ.verify", files / "mini" / "config.json")
    assert caught.value.code == 65


def test_a_failing_callback_stops_the_run(large: Path, tmp_path: Path) -> None:
    def fail(event: dict[str, Any]) -> None:
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        vindex.measure(large, tmp_path / "out.h5", progress=fail, threads=1)
    assert children() == []


def children() -> list[int]:
    path = Path(f"/proc/self/task/{threading.get_native_id()}/children")
    return [int(number) for number in path.read_text().split()]


SCRIPT = textwrap.dedent(
    """
    import sys, vindex
    def told(event):
        print(event["done"], flush=True)
    try:
        vindex.measure(sys.argv[1], sys.argv[2], progress=told, threads=1, mode="strict")
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        sys.exit(3)
    """
)


def started(model: Path, out: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(model), str(out)],
        stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    while int(process.stdout.readline()) < 1:  # until something is finished
        pass
    return process


def running(word: str) -> list[int]:
    """Processes with `word` on their command line."""
    found = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if word.encode() in line.read_bytes().split(b"\0"):
                found.append(int(line.parent.name))
    return found


def test_an_interrupt_publishes_what_is_finished(large: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.h5"
    process = started(large, out)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal and a notebook do: the whole group
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 3
    assert said.splitlines()[-1] == "interrupted"
    results = vindex.open(out)
    assert results.status == "partial"
    assert 0 < (results.matrix["status"] == "measured").sum() < 32
    results = vindex.measure(large, out, progress=False, mode="strict")
    assert results.status == "complete"


def test_the_program_does_not_outlive_a_caller_that_is_killed(large: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.h5"
    process = started(large, out)
    workers = running(f"--output={out}")
    assert workers
    process.kill()
    process.communicate()
    end = time.monotonic() + 120
    while any(Path(f"/proc/{worker}/exe").exists() for worker in workers):
        assert time.monotonic() < end
        time.sleep(0.05)
    assert (vindex.open(out).matrix["status"] == "measured").sum() > 0


def test_a_program_that_is_killed_is_an_error(large: Path, tmp_path: Path) -> None:
    def kill(event: dict[str, Any]) -> None:
        for child in children():
            os.kill(child, signal.SIGKILL)

    with pytest.raises(vindex.Error) as caught:
        vindex.measure(large, tmp_path / "out.h5", progress=kill, threads=1)
    assert (caught.value.code, caught.value.id) == (137, "E-KILLED")


def test_a_program_that_is_stopped_by_others_can_go_on(large: Path, tmp_path: Path) -> None:
    def stop(event: dict[str, Any]) -> None:
        for child in children():
            os.kill(child, signal.SIGTERM)  # as a scheduler does

    with pytest.raises(vindex.Error) as caught:
        vindex.measure(large, tmp_path / "out.h5", progress=stop, threads=1)
    assert (caught.value.code, caught.value.id) == (75, "E-STOPPED")
    assert vindex.measure(large, tmp_path / "out.h5", progress=False).status == "complete"


def test_in_threads(files: Path, tmp_path: Path) -> None:
    found: list[str] = []

    def work(number: int) -> None:
        results = vindex.measure(
            files / "mini", tmp_path / f"{number}.h5", progress=False, layers=number
        )
        found.append(results.status)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["complete"] * 3


def test_a_program_that_is_not_there(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VINDEX_PROGRAM", "/nothing/vindex")
    with pytest.raises(vindex.Error) as caught:
        vindex.measure(files / "mini", tmp_path / "out.h5")
    assert (caught.value.code, caught.value.id) == (66, "E-PROGRAM")
    other = tmp_path / "vindex"
    other.write_text("#!/bin/sh\necho 1\n")
    other.chmod(0o755)
    monkeypatch.setenv("VINDEX_PROGRAM", str(other))
    with pytest.raises(vindex.Error, match="another version"):
        vindex.run("inspect", files / "mini")
