#!/usr/bin/env python3
"""Times `vindex organ measure` with z_modulus and csci against a program that has samples but not these, in turn, in one run.

    python3 bench/speed/scales_speed.py PROGRAM BEFORE FOLDER [--models A.gguf ...] [--layers 16x1024x2048:bf16 ...] [--repeats 7] \\
        > bench/results/MACHINE/NAME.json

BEFORE is built from the commit before they came. FOLDER gets the layers, written by `vindex synth` (names EXPERTSxROWSxCOLS:FORMAT),
and the results; it is emptied at the end. The order of the two programs changes from round to round. Samples are wall seconds; the
note of a row has the ratio of medians, and that of the processor seconds (user and system), which other processes of the machine
change less. Standard library alone.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

from organ_speed import cpu_name


def timed(program, model, out):
    """(wall, processor) seconds of a run from nothing."""
    shutil.rmtree(out, ignore_errors=True)
    start = time.perf_counter()
    process = subprocess.Popen([program, "organ", "measure", model, "-o", out, "-q", "--backend", "cpu"], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    if status != 0:
        sys.exit(f"{program} organ measure {model} ended with status {status}")
    return wall, usage.ru_utime + usage.ru_stime


def compare(programs, model, out, repeats):
    """Per program the samples, after one round that is not counted."""
    samples = {name: [] for name in programs}
    for round_number in range(repeats + 1):
        order = list(programs) if round_number % 2 == 0 else list(reversed(programs))
        for name in order:
            sample = timed(programs[name], model, out)
            if round_number > 0:
                samples[name].append(sample)
    return samples


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("before")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--models", nargs="*", default=[])
    parser.add_argument("--layers", nargs="*", default=["16x1024x2048:bf16"])
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True)
    models = list(arguments.models)
    for layer in arguments.layers:
        models.append(str(arguments.folder / layer.replace(":", "-")))
        subprocess.run([arguments.program, "synth", "layer:" + layer, "-o", models[-1]], check=True, stdout=subprocess.DEVNULL)
    rows = []
    for model in models:
        load = os.getloadavg()[0]
        samples = compare({"before": arguments.before, "with": arguments.program}, model, arguments.folder / "out", arguments.repeats)
        name = pathlib.Path(model).name
        wall, processor = ([statistics.median(s[i] for s in samples["with"]) / statistics.median(s[i] for s in samples["before"])
                            for i in (0, 1)])
        for what, peer in (("with", None), ("before", "vindex without z_modulus and csci")):
            rows.append({"name": "end_to_end", "route": "auto", "backend": "cpu", "rows": 0, "cols": 0, "batch": 1, "encoding": name,
                         "unit": "seconds", "samples": [round(sample[0], 4) for sample in samples[what]], "limit": None, "peer": peer,
                         "note": f"organ measure {name}: {wall:.3f} of the time without, {processor:.3f} of its processor time; "
                                 f"processor seconds {[round(sample[1], 3) for sample in samples[what]]}; load average before {load:.1f}"})
    version = subprocess.run([arguments.program, "--version"], check=True, capture_output=True, text=True).stdout
    commit = version.split("(", 1)[1].split(",")[0] if "(" in version else "unknown"
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    print(json.dumps({"schema": "vindex-bench/1", "commit": commit, "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                      "host": {"cpu": cpu_name(), "cores": len(os.sched_getaffinity(0)), "memory_gib": memory,
                               "blas": "as the results file says"},
                      "gpu": None,
                      "command": f"bench/speed/scales_speed.py vindex BEFORE FOLDER --models "
                                 f"{' '.join(pathlib.Path(model).name for model in arguments.models)} "
                                 f"--layers {' '.join(arguments.layers)} --repeats {arguments.repeats}",
                      "rows": rows}, indent=1))
    shutil.rmtree(arguments.folder)


if __name__ == "__main__":
    main()
