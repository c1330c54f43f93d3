#!/usr/bin/env python3
"""Times `vindex experts` on one group of experts against the products alone, as the program measures them at its end.

    python3 bench/speed/experts_speed.py PROGRAM MODEL [--repeats 3] [--former OLDER] [--first-in-line] > bench/results/MACHINE/NAME.json

MODEL holds one group (`vindex synth layer:384x7168x2048:fp8`); it lies in the page cache as far as memory allows. A sample is the wall time of a whole
process, those of an older program (--former) in turn with it. `limit` is the median of the seconds that the multiplications of the group would take at
the rate of the library's rank update on every core; the note has them all, and the cores that were busy: processor time over wall time.
--first-in-line runs what is timed at a real-time priority (chrt, root), for machines that others use meanwhile. Standard library alone.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import tempfile
import time

from compare_speed import warm
from organ_speed import cpu_name


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--former")
    parser.add_argument("--first-in-line", action="store_true")
    arguments = parser.parse_args()
    truth = json.loads((arguments.model / "truth.json").read_text(encoding="utf-8"))
    files = list(arguments.model.rglob("*.safetensors"))
    first = ["chrt", "-r", "5"] if arguments.first_in_line else []
    environment = {key: value for key, value in os.environ.items() if not key.startswith("OPENBLAS_")}

    def run(program):
        """Seconds, cores that were busy, seconds of the products alone."""
        warm(files)
        with tempfile.TemporaryDirectory() as folder:
            before, start = os.times(), time.perf_counter()
            done = subprocess.run([*first, program, "experts", str(arguments.model), "-o", f"{folder}/experts.h5", "--progress", "none"],
                                  check=True, capture_output=True, text=True, env=environment)
            seconds, after = time.perf_counter() - start, os.times()
        busy = after.children_user + after.children_system - before.children_user - before.children_system
        alone = re.search(r"products alone ([0-9.]+) s", done.stdout + done.stderr)
        return seconds, busy / seconds, float(alone.group(1))

    programs = {"experts": arguments.program, **({"experts before": arguments.former} if arguments.former else {})}
    found = {name: [] for name in programs}
    for _ in range(arguments.repeats):
        for name, program in programs.items():
            found[name].append(run(program))
    matrices = truth["tensors"]
    rows = []
    for name, runs in found.items():
        seconds, cores, alone = zip(*runs)
        limit = statistics.median(alone)
        rows.append({"name": "end_to_end", "route": f"page-cache, {name}", "backend": "cpu", "rows": matrices[0]["rows"],
                     "cols": matrices[0]["cols"], "batch": len(matrices), "encoding": matrices[0]["encoding"], "unit": "seconds",
                     "samples": [round(value, 2) for value in seconds], "limit": limit, "peer": None,
                     "note": f"{statistics.median(seconds) / limit:.2f} times the products alone ({', '.join(map(str, alone))} s); cores busy "
                             f"{', '.join(f'{value:.2f}' for value in cores)}; {sum(path.stat().st_size for path in files)} bytes; "
                             f"load average after {os.getloadavg()[0]:.1f}"})
    version = subprocess.run([arguments.program, "--version"], check=True, capture_output=True, text=True).stdout
    print(json.dumps({"schema": "vindex-bench/1", "commit": version.split("(", 1)[1].split(",")[0],
                      "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                      "host": {"cpu": cpu_name(), "cores": len(os.sched_getaffinity(0)),
                               "memory_gib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, "blas": "OpenBLAS"},
                      "gpu": None,
                      "command": f"bench/speed/experts_speed.py vindex MODEL --repeats {arguments.repeats}"
                                 + (" --former OLDER" if arguments.former else "") + (" --first-in-line" if first else ""),
                      "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
