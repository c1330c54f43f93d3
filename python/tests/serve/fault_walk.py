#!/usr/bin/env python3
"""Lets system calls of the program fail in jobs of a server, and looks at what becomes of them.

    python tests/serve/fault_walk.py LIBRARY [STRIDE]

LIBRARY is vindex_faults.so. Each job is one `measure` of a small model whose call N fails, or at
which it is killed, for every STRIDE-th N; the server itself has no faults. Every job ends: done, or
failed with the program's exit code and its line. Its results file is absent or valid, it is not
served where it is neither, and the next job of the same model is done. Prints the counts as JSON,
and ends with 1 where one of these fails.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from serving import Server, synthesize

from vindex import _program

OPENING = "open,openat,creat"
WRITING = "write,pwrite,copy_file_range,fsync,ftruncate,rename,link,unlink,mkdir,close"
# What goes wrong at which calls, and the exit codes that the contract has for it.
FAULTS: list[tuple[str, str, set[int]]] = [
    ("EIO", f"{OPENING},{WRITING},read,pread,stat,fstat,opendir,readdir", {0, 74}),
    ("ENOSPC", f"{OPENING},{WRITING}", {0, 74}),
    ("EACCES", OPENING, {0, 77}),
    ("kill-before", f"{OPENING},{WRITING},pread", {0, -9, 137}),
]


def wrapper(work: Path, library: Path) -> Path:
    """A program that runs vindex with the fault that `work/fault` names; none where it is empty."""
    script = work / "vindex"
    script.write_text(f'#!/bin/sh\n. {work}/fault\nexec {_program.path()} "$@"\n', encoding="utf-8")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    (work / "library").write_text(str(library), encoding="utf-8")
    return script


def set_fault(work: Path, library: Path, calls: str, do: str, at: int, log: Path) -> None:
    lines = [
        f'case "$*" in *measure*) export LD_PRELOAD={library} VINDEX_FAULT_CALLS={calls} '
        f"VINDEX_FAULT_DO={do} VINDEX_FAULT_AT={at} VINDEX_FAULT_LOG={log} ;; esac"
    ]
    staged = work / "fault.new"
    staged.write_text("\n".join(lines) + "\n", encoding="utf-8")
    staged.replace(work / "fault")


def walk(work: Path, library: Path, stride: int) -> dict[str, Any]:
    models = work / "models"
    models.mkdir()
    synthesize("layer:2x48x32:bf16", models / "model")
    (work / "fault").write_text("", encoding="utf-8")
    server = Server(models, work / "jobs", program=str(wrapper(work, library)))
    counts: Counter[str] = Counter()
    found: list[str] = []
    log = work / "calls"
    try:
        for do, calls, exits in FAULTS:
            log.unlink(missing_ok=True)
            set_fault(work, library, calls, do, 0, log)
            server.run("measure", "model", threads=1)
            number = len(log.read_text(errors="replace").splitlines())
            for at in range(1, number + 1, stride):
                set_fault(work, library, calls, do, at, log)
                job = server.wait(server.queue("measure", "model", threads=1))
                counts[f"{do} {job['state']}"] += 1
                found += [f"{do} at call {at}: {line}" for line in wrong(server, job, exits)]
            (work / "fault").write_text("", encoding="utf-8")
            server.run("measure", "model", threads=1)
    finally:
        server.stop()
    return {"counts": dict(sorted(counts.items())), "found": found}


def wrong(server: Server, job: dict[str, Any], exits: set[int]) -> list[str]:
    """What is wrong with how a job ended."""
    lines = []
    code = job.get("exit_code")
    if job["state"] not in ("done", "failed", "lost"):
        lines.append(f"state {job['state']}")
    if code is not None and code not in exits:
        lines.append(f"exit code {code}")
    if (job["state"] == "done") != (code == 0):
        lines.append(f"{job['state']} with exit code {code}")
    answer = server.client.get(f"/v1/results/{job['id']}/file")
    if job["state"] == "done" and answer.status_code != 200:
        lines.append(f"done, and its result is {answer.status_code}")
    if answer.status_code == 200 and job["state"] == "done":
        with tempfile.NamedTemporaryFile(suffix=".h5") as file:
            file.write(answer.content)
            file.flush()
            checked = subprocess.run([_program.path(), "validate", file.name], capture_output=True)
            if checked.returncode != 0:
                lines.append("its result is not valid")
    return lines


def main() -> int:
    library = Path(sys.argv[1]).resolve()
    stride = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    with tempfile.TemporaryDirectory(dir=os.environ.get("VINDEX_WALK_FOLDER")) as folder:
        outcome = walk(Path(folder), library, stride)
    print(json.dumps(outcome, indent=1))
    return 1 if outcome["found"] else 0


if __name__ == "__main__":
    sys.exit(main())
