#!/usr/bin/env python3
"""Times what stands around the arithmetic, with a program before a change (OLD) and after it (NEW), samples alternating.

    python3 bench/around_speed.py OLD NEW lookup MODEL QUERY.npy [--repeats 7] > bench/results/NAME.json
    python3 bench/around_speed.py OLD NEW small MODEL [--repeats 15]
    python3 bench/around_speed.py OLD NEW memory MODEL TENSORS [--repeats 3]

lookup   `vindex lookup` of one query over weights in the page cache; the limit is reading as many bytes of the same files from the page cache by as
         many threads, 1 MiB at a time into one buffer each, in the same turn
small    `vindex measure` of a whole small model, from the start of the process to its end
memory   `vindex measure` of the tensors that the expression TENSORS names, one thread: with the pages that were touched for the first time

Rows are seconds of wall clock and, since machines are shared, of processor time (user and system). Standard library alone.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from organ_speed import cpu_name

PIECE = 1 << 20


def weights_of(model):
    return sorted(model.rglob("*.safetensors")) if model.is_dir() else [model]


def read_cached(files, most, threads):
    """Reads `most` bytes of `files`, each thread the next piece; seconds of wall clock and of processor time."""
    pieces, left = [], most
    for path in files:
        for at in range(0, min(path.stat().st_size, left), PIECE):
            pieces.append((path, at))
        left = max(0, left - path.stat().st_size)
    opened = {path: os.open(path, os.O_RDONLY) for path in files}
    following, lock = iter(pieces), threading.Lock()

    def work():
        buffer = bytearray(PIECE)
        while True:
            with lock:
                piece = next(following, None)
            if piece is None:
                return
            os.preadv(opened[piece[0]], [buffer], piece[1])

    wall, busy = time.perf_counter(), time.process_time()
    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    found = time.perf_counter() - wall, time.process_time() - busy
    for descriptor in opened.values():
        os.close(descriptor)
    return found


def run(program, words):
    """Seconds of wall clock and of processor time, minor faults, and what was printed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPENBLAS_")}
    with tempfile.TemporaryFile() as out:
        start = time.perf_counter()
        process = subprocess.Popen([program, *map(str, words)], stdout=out, stderr=subprocess.DEVNULL, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            sys.exit(f"{program} {' '.join(map(str, words))} ends with {process.returncode}")
        out.seek(0)
        return wall, usage.ru_utime + usage.ru_stime, usage.ru_minflt, out.read()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("section", choices=("lookup", "small", "memory"))
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("more", nargs="?", default="")
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    programs = {"before": arguments.old, "after": arguments.new}
    seconds = {(which, what): [] for which in (*programs, "reading") for what in ("wall clock", "processor time")}
    faults = {which: [] for which in programs}
    size = 0
    files = weights_of(arguments.model)
    read_cached(files, sum(path.stat().st_size for path in files), cores)
    with tempfile.TemporaryDirectory() as folder:
        words = {"lookup": ["-q", "lookup", arguments.model, "--vector", arguments.more, "--tokens-out", 0, "--top", 5, "--json"],
                 "small": ["-q", "measure", arguments.model, "-o", folder + "/s.h5", "--restart", "--progress", "none"],
                 "memory": ["-q", "measure", arguments.model, "-o", folder + "/s.h5", "--restart", "--progress", "none", "--threads", 1,
                            "--tensors", arguments.more]}[arguments.section]
        answers = set()
        for repeat in range(arguments.repeats + 1):
            for which, program in programs.items():
                wall, busy, touched, out = run(program, words)
                if arguments.section == "lookup":
                    answers.add(out)
                    size = json.loads(out)["bytes"]
                if repeat > 0:  # the first of each is warming up
                    seconds[which, "wall clock"].append(wall)
                    seconds[which, "processor time"].append(busy)
                    faults[which].append(touched)
            if arguments.section == "lookup" and repeat > 0:
                for what, value in zip(("wall clock", "processor time"), read_cached(files, size, cores)):
                    seconds["reading", what].append(value)
        if len(answers) > 1:
            sys.exit("the programs answer differently")
    rows = []
    for what in ("wall clock", "processor time"):
        limits = seconds["reading", what]
        before = seconds["before", what]
        for which in programs:
            samples = seconds[which, what]
            note = (f"least {min(samples):.3f}, of before {min(samples) / min(before):.2f} by the least and "
                    f"{statistics.median(samples) / statistics.median(before):.2f} by the median")
            if limits:
                note += (f"; {size} bytes; reading takes {min(limits) / min(samples):.2f} of it by the least, "
                         f"{statistics.median(limits) / statistics.median(samples):.2f} by the median")
            note += f"; minor faults {statistics.median(faults[which]):.0f}; load average after {os.getloadavg()[0]:.1f}"
            rows.append({"name": "end_to_end", "route": f"{arguments.section}, {which}, {what}", "backend": "cpu", "rows": 0, "cols": 0, "batch": 1,
                         "encoding": "as stored", "unit": "seconds", "samples": [round(value, 4) for value in samples],
                         "limit": round(statistics.median(limits), 4) if limits else None, "peer": None, "note": note})
    version = subprocess.run([arguments.new, "--version"], check=True, capture_output=True, text=True).stdout
    commit = version.split("(", 1)[1].split(",")[0] if "(" in version else "unknown"
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    more = f" '{arguments.more}'" if arguments.section == "memory" else " QUERY.npy" if arguments.section == "lookup" else ""
    print(json.dumps({"schema": "vindex-bench/1", "commit": commit, "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                      "host": {"cpu": cpu_name(), "cores": cores, "memory_gib": memory, "blas": "OpenBLAS"}, "gpu": None,
                      "command": f"bench/around_speed.py OLD NEW {arguments.section} {arguments.model.name}{more} --repeats {arguments.repeats}",
                      "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
