#!/usr/bin/env python3
"""Several processes on one output: workers_with_h5py.py PROGRAM SCRIPTS FOLDER.

Workers by the variables of a scheduler, and processes that claim shares, of which one is killed in the middle of its work: what is
merged equals the file of one run, object by object and bit for bit, but for what /run/ says of the commands. SCRIPTS holds
same_results_files.py, which compares."""

import json
import os
import signal
import subprocess
import sys
import time

from test_script import call, fresh_folder

PROGRAM, SCRIPTS, FOLDER = map(os.path.abspath, sys.argv[1:])
sys.path.insert(0, SCRIPTS)
from same_results_files import hdf5_differences  # noqa: E402

COUNT = 3
CLEAN = {key: value for key, value in os.environ.items() if not key.startswith("SLURM_") and key != "JOB_COMPLETION_INDEX"}
fresh_folder(FOLDER)
os.chdir(FOLDER)


def check(condition, *words):
    if not condition:
        sys.exit(f"FAILED: {words}")


def measure(out, *flags):
    return [PROGRAM, "measure", "model", "-o", out, "--backend", "cpu", "--threads", "1", "--mode", "strict", "--progress", "none", *flags]


def status(out):
    done = subprocess.run([PROGRAM, "status", out, "--json"], capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else {"done": 0, "worker_list": []}


def expect_file_of_one_run(out):
    call(PROGRAM, "merge", out + ".parts", "-o", out)
    call(PROGRAM, "validate", out)
    found = [line for line in hdf5_differences("one.h5", out) if not line.startswith(("/run/", "@history"))]
    check(not found, out, found[:5])
    check(not os.path.exists(out + ".parts"), out, "parts are left")


call(PROGRAM, "synth", "layer:20x640x640:bf16", "-o", "model")
call(*measure("one.h5"))

# Tasks of Slurm: each says by which variables it is which worker.
for rank in range(COUNT):
    environment = CLEAN | {"SLURM_PROCID": str(rank), "SLURM_NTASKS": str(COUNT)}
    told = call(*measure("many.h5", "--worker", "auto"), env=environment).stderr
    check(f"worker {rank} of {COUNT}, by SLURM_PROCID={rank}" in told, told)
    if rank == 0:
        refused = call(PROGRAM, "merge", "many.h5.parts", "-o", "many.h5", code=66).stderr
        check("worker 1 of 3 has not begun" in refused and not os.path.exists("many.h5"), refused)
expect_file_of_one_run("many.h5")
for flags in (["--worker", "auto"], ["--claim", "--worker", "0/2"], ["--claim", "--restart"]):
    call(*measure("none.h5", *flags), code=64, env=CLEAN)
check(not os.path.exists("none.h5.parts"), "a refusal leaves something")

# Processes that claim shares; one is killed, the others have its shares too.
running = [subprocess.Popen(measure("claims.h5", "--claim"), env=CLEAN, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
           for _ in range(COUNT)]
victim = running[0]
while victim.poll() is None and len([w for w in status("claims.h5")["worker_list"] if w["process"] == victim.pid and w["done"]]) == 0:
    time.sleep(0.05)
victim.send_signal(signal.SIGKILL)
check(victim.wait() == -signal.SIGKILL, "it had nothing left to be killed at", victim.returncode)
seen = status("claims.h5")
check([w["state"] for w in seen["worker_list"] if w["process"] == victim.pid] == ["dead"], seen)
check(seen["shares"]["total"] == 20 and seen["workers"] == COUNT - 1, seen)
text = call(PROGRAM, "status", "claims.h5").stdout
check(all(len(line) <= 80 for line in text.splitlines()) and "dead" in text and "claimed shares" in text, text)
for process in running[1:]:
    told = process.communicate()[1]
    check(process.returncode == 0, told)
check(status("claims.h5")["left"] == 0, status("claims.h5"))
expect_file_of_one_run("claims.h5")
