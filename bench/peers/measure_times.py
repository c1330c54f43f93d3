#!/usr/bin/env python3
"""What a user waits for: `vindex measure` as a process, from its start to its end, in the form vindex-bench/1.

    python3 bench/peers/measure_times.py --program build/cuda/apps/vindex --backend cuda --folder /tmp -o times.json MODEL...

Rows: `probe.start_up`, seconds of a run over four small matrices, which is all start and end, and for every model
`end_to_end` (ms per matrix, start and end in it) with the seconds of whole runs in `probe.measure`. A model is read once
beforehand, so that it is in the page cache as far as memory holds it. The verdict of every run is its exit code; one that
fails is a row with a note, and the end is 1.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from peer_processes import clean_environment, machine, run  # noqa: E402

SMALL = "layer:4x512x384:fp8"
PIECE = 8 << 20


def read_once(folder):
    """Every byte, so that it is in the page cache where that has room."""
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            with open(path, "rb", buffering=0) as file:
                while file.read(PIECE):
                    pass


def matrices_of(folder):
    """How many matrices `truth.json` lists, and their shape and encoding; `vindex synth` wrote it."""
    with open(os.path.join(folder, "truth.json"), encoding="utf-8") as file:
        tensors = json.load(file)["tensors"]
    return len(tensors), tensors[0]


def seconds_of(options, model):
    """One run from start to end. Errors: RuntimeError with the program's last line."""
    out = os.path.join(options.folder, f"measure-times-{os.getpid()}.h5")
    command = [options.program, "measure", model, "-o", out, "--backend", options.backend, "--progress", "none"]
    start = time.perf_counter()
    done = subprocess.run(command, env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    took = time.perf_counter() - start
    if os.path.exists(out):
        os.remove(out)
    if done.returncode != 0:
        raise RuntimeError(f"ended with {done.returncode}: {(done.stdout.strip().splitlines() or ['no message'])[-1]}")
    return took


def row_of(options, name, route, unit, batch=1, shape=None):
    shape = shape or {"rows": 0, "cols": 0, "encoding": "none"}
    return {"name": name, "route": route, "backend": options.backend, "rows": shape["rows"], "cols": shape["cols"], "batch": batch,
            "encoding": shape["encoding"], "unit": unit, "samples": [], "limit": None, "peer": None}


def times(options, model):
    """Seconds of the runs, and why there are no more."""
    found = []
    try:
        for _ in range(options.samples):
            found.append(seconds_of(options, model))
    except RuntimeError as error:
        return found, str(error)
    return found, None


def rows_of(options, model, is_small):
    count, shape = matrices_of(model)
    read_once(model)
    found, failure = times(options, model)
    note = failure or "whole processes, " + ", ".join(f"{took:.2f} s" for took in found)
    rows = [{**row_of(options, "probe.start_up" if is_small else "probe.measure", "vindex measure", "seconds", count, shape),
             "samples": found, "note": note}]
    if not is_small:
        rows.append({**row_of(options, "end_to_end", "page-cache, vindex measure", "ms_per_matrix", count, shape),
                     "samples": [1e3 * took / count for took in found], "note": note})
    return rows, failure is None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="vindex")
    parser.add_argument("--backend", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="for results files, which are removed")
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("models", nargs="+", help="folders that `vindex synth` wrote")
    options = parser.parse_args()
    options.program = os.path.abspath(options.program)
    report, rows, all_well = machine(options.program), [], True
    with tempfile.TemporaryDirectory(prefix="measure-times-", dir=options.folder) as folder:
        small = os.path.join(folder, "small")
        run([options.program, "synth", SMALL, "-o", small])
        for model in [small, *options.models]:
            found, is_well = rows_of(options, model, model == small)
            rows += found
            all_well = all_well and is_well
            # What is known is kept whatever ends a later run.
            with open(options.output, "w", encoding="utf-8") as file:
                json.dump({**report, "command": " ".join(["bench/peers/measure_times.py"] + sys.argv[1:]), "rows": rows}, file, indent=1)
            for row in found:
                print(row["name"], os.path.basename(model), row["batch"], row["unit"], " ".join(f"{s:.4g}" for s in row["samples"]),
                      row["note"])
    return 0 if all_well else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (RuntimeError, OSError, ValueError, KeyError) as error:
        sys.exit(f"measure_times: {error}")
