#!/usr/bin/env python3
"""Times what stands around the arithmetic, with a program before a change (OLD) and after it (NEW), samples alternating.

    python3 bench/speed/around_speed.py OLD NEW lookup MODEL QUERY.npy [--repeats 7] [--calm 60] > bench/results/MACHINE/NAME.json
    python3 bench/speed/around_speed.py OLD NEW small MODEL [--repeats 15]
    python3 bench/speed/around_speed.py OLD NEW memory MODEL TENSORS [--repeats 3]

lookup   `vindex lookup` of one query over weights in the page cache, and in it the pass over the weights; the limit is copying as many bytes of the
         same files from memory to memory by as many threads (memcpy, both touched before), in the same turn; beside it, reading them from the page
         cache, 1 MiB at a time into one buffer each
small    `vindex measure` of a whole small model, from the start of the process to its end
memory   `vindex measure` of the tensors that the expression TENSORS names, one thread: with the pages that were touched for the first time

Rows are seconds of wall clock and, since machines are shared, of processor time (user and system). Standard library alone.
"""
import argparse
import ctypes
import json
import math
import mmap
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from organ_speed import cpu_name

PIECE = 1 << 20


def wait_for_calm(most):
    """Until others have left nine tenths of the processors idle for 0.3 s, or `most` seconds; a turn that they share says little of its limit."""
    def idle_and_all():
        with open("/proc/stat") as file:
            fields = [int(field) for field in file.readline().split()[1:]]
        return fields[3], sum(fields)
    end = time.monotonic() + most
    before = idle_and_all()
    while time.monotonic() < end:
        time.sleep(0.3)
        after = idle_and_all()
        if after[0] - before[0] >= 0.9 * (after[1] - before[1]):
            return
        before = after


def weights_of(model):
    return sorted(model.rglob("*.safetensors")) if model.is_dir() else [model]


class Copy:
    """memcpy of `most` bytes of `files` to other memory; seconds of wall clock and of processor time."""

    def __init__(self, files, most, threads):
        self.memory = [mmap.mmap(-1, most) for _ in range(2)]
        at = 0
        for path in files:
            with open(path, "rb") as file:
                while at < most and (got := file.readinto(memoryview(self.memory[0])[at:])):
                    at += got
        self.places = [ctypes.addressof(ctypes.c_char.from_buffer(memory)) for memory in self.memory]
        self.parts = [(most * i // threads, most * (i + 1) // threads) for i in range(threads)]
        self.once()  # touches what is written

    def once(self):
        source, target = self.places
        threads = [threading.Thread(target=ctypes.memmove, args=(target + begin, source + begin, end - begin)) for begin, end in self.parts]
        wall, busy = time.perf_counter(), time.process_time()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return time.perf_counter() - wall, time.process_time() - busy


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
    """Seconds of wall clock and of processor time, minor faults, what was printed, and the seconds that a lookup says it took; 0: it says none."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPENBLAS_")}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as said:
        start = time.perf_counter()
        process = subprocess.Popen([program, *map(str, words)], stdout=out, stderr=said, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            sys.exit(f"{program} {' '.join(map(str, words))} ends with {process.returncode}")
        out.seek(0)
        said.seek(0)
        search = re.search(rb"^searched .* in (\d+\.\d\d+) s;", said.read(), re.MULTILINE)  # one digit, of older programs, is too few
        return wall, usage.ru_utime + usage.ru_stime, usage.ru_minflt, out.read(), float(search[1]) if search else 0.0


def same_answers(a, b):
    """But for digits in which programs may differ: scores are accurate to 1e-6 of the norms."""
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-6)
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same_answers(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same_answers, a, b))
    return a == b


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("section", choices=("lookup", "small", "memory"))
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("more", nargs="?", default="")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--calm", type=float, default=0.0, help="seconds to wait for an idle machine before each turn")
    arguments = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    programs = {"before": arguments.old, "after": arguments.new}
    seconds = {(which, what): [] for which in (*programs, "copying", "reading") for what in ("wall clock", "processor time", "the pass")}
    faults = {which: [] for which in programs}
    size = 0
    files = weights_of(arguments.model)
    read_cached(files, sum(path.stat().st_size for path in files), cores)
    with tempfile.TemporaryDirectory() as folder:
        words = {"lookup": ["lookup", arguments.model, "--progress", "none", "--vector", arguments.more, "--tokens-out", 0, "--top", 5, "--json"],
                 "small": ["-q", "measure", arguments.model, "-o", folder + "/s.h5", "--restart", "--progress", "none"],
                 "memory": ["-q", "measure", arguments.model, "-o", folder + "/s.h5", "--restart", "--progress", "none", "--threads", 1,
                            "--tensors", arguments.more]}[arguments.section]
        first, copy = None, None
        for repeat in range(arguments.repeats + 1):
            wait_for_calm(arguments.calm)
            for which, program in programs.items():
                wall, busy, touched, out, passing = run(program, words)
                if arguments.section == "lookup":
                    answer = json.loads(out)
                    first = first or answer
                    size = answer["bytes"]
                    if not same_answers(first, answer):
                        sys.exit("the programs answer differently")
                if repeat > 0:  # the first of each is warming up
                    seconds[which, "wall clock"].append(wall)
                    seconds[which, "processor time"].append(busy)
                    if passing > 0.0:
                        seconds[which, "the pass"].append(passing)
                    faults[which].append(touched)
            if arguments.section == "lookup":
                copy = copy or Copy(files, size, cores)
                for limit, found in (("copying", copy.once()), ("reading", read_cached(files, size, cores))):
                    if repeat > 0:
                        for what, value in zip(("wall clock", "processor time", "the pass"), (*found, found[0])):
                            seconds[limit, what].append(value)
    rows = []
    for what in ("wall clock", "processor time", "the pass"):
        limits = seconds["copying", what]
        before = seconds["before", what]
        for which in programs:
            samples = seconds[which, what]
            if not samples:
                continue
            note = f"least {min(samples):.3f}"
            if before:
                note += (f", of before {min(samples) / min(before):.2f} by the least and "
                         f"{statistics.median(samples) / statistics.median(before):.2f} by the median")
            for limit in ("copying", "reading") if limits else ():
                of = seconds[limit, what]
                note += (f"; {limit} takes {min(of) / min(samples):.2f} of it by the least, "
                         f"{statistics.median(of) / statistics.median(samples):.2f} by the median")
            note += f"; {size} bytes" if limits else ""
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
                      "command": f"bench/speed/around_speed.py OLD NEW {arguments.section} {arguments.model.name}{more} --repeats {arguments.repeats} --calm {arguments.calm:g}",
                      "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
