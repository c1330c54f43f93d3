#!/usr/bin/env python3
"""Times vindex.spectrum in Python against the same call in C++ and against the program's own back end, in turn, in one run.

    python bench/speed/python_overhead.py build/cpu/bench/facade_calls vindex [--rows 7168] [--cols 2048] [--repeats 9]
        > bench/results/MACHINE/NAME.json

For the interpreter that has the package. Both processes hold the same float32 matrix and stay; one measures at a time, the order
changes from round to round. Their results must agree in every bit. What a call costs beside its work shows on a matrix of 64 x 64,
of which there are twenty times as many rounds. `vindex bench` measures weights of that shape and kind of
spectrum in the same rounds. Beside the wall's seconds stand the processor's, which other work on the machine touches less.
Nobody inherits OPENBLAS_* variables.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from organ_speed import cpu_name

OPENBLAS = [name for name in os.environ if name.startswith("OPENBLAS_")]


def matrix(rows, cols):
    """Noise on a decaying spectrum."""
    import numpy as np
    random = np.random.default_rng(7)
    weights = random.standard_normal((rows, cols), dtype=np.float32)
    rank = min(rows, cols, 32)
    left = random.standard_normal((rows, rank), dtype=np.float32) * (4 * 0.85 ** np.arange(rank, dtype=np.float32))
    return (weights + left @ random.standard_normal((rank, cols), dtype=np.float32)) * np.float32(cols**-0.5)


class Partner:
    """The call in C++."""

    def __init__(self, program, weights, folder):
        path = pathlib.Path(folder) / "weights.f32"
        weights.tofile(path)
        self.process = subprocess.Popen([program, *map(str, weights.shape), path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)

    def measure(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        wall, processor, first, method = self.process.stdout.readline().split()
        return float(wall), float(processor), float(first), method

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def measure_here(weights):
    import vindex
    wall, processor = time.perf_counter(), time.process_time()
    found = vindex.spectrum(weights, backend="cpu")
    return time.perf_counter() - wall, time.process_time() - processor, float(found.sigma[0]), found.method


def bench(program, rows, cols):
    """Seconds that the program's back end takes for such a matrix, of the wall and of processors, and what it printed."""
    out = subprocess.run([program, "bench", "--sections", "spectra", "--shapes", f"{rows}x{cols}", "--encodings", "F32",
                          "--modes", "default", "--spectra", "trained", "--backend", "cpu", "--threads", "1", "--batch", "1",
                          "--samples", "1", "--json"], check=True, capture_output=True, text=True).stdout
    document = json.loads(out)
    wall, processor = (next(row["samples"][0] / 1e3 for row in document["rows"] if row["name"] == name)
                       for name in ("spectra.default", "probe.cpu_time"))
    return wall, processor, document


def alternate(program, weights, repeats):
    """Samples of both calls in turn, by name and clock, and the route."""
    samples = {name: {"wall": [], "processor": []} for name in ("python", "c++")}
    with tempfile.TemporaryDirectory() as folder:
        partner = Partner(program, weights, folder)
        calls = {"python": lambda: measure_here(weights), "c++": partner.measure}
        for call in calls.values():
            call()  # libraries are loaded
        for i in range(repeats):
            found = {}
            for name in sorted(calls, reverse=i % 2 == 1):
                wall, processor, *found[name] = calls[name]()
                samples[name]["wall"].append(wall)
                samples[name]["processor"].append(processor)
            if found["python"] != found["c++"]:
                sys.exit(f"python_overhead: {found['python']} is not {found['c++']}")
        partner.end()
    return samples, found["python"][1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("partner", help="build/cpu/bench/facade_calls")
    parser.add_argument("program")
    parser.add_argument("--rows", type=int, default=7168)
    parser.add_argument("--cols", type=int, default=2048)
    parser.add_argument("--repeats", type=int, default=9)
    arguments = parser.parse_args()
    if OPENBLAS:  # the module hands the environment over as it is
        os.execve(sys.executable, [sys.executable, *sys.argv], {k: v for k, v in os.environ.items() if k not in OPENBLAS})
    large, method = alternate(arguments.partner, matrix(arguments.rows, arguments.cols), arguments.repeats)
    small, small_method = alternate(arguments.partner, matrix(64, 64), 20 * arguments.repeats)
    large["program"] = {"wall": [], "processor": []}
    for _ in range(arguments.repeats):
        wall, processor, document = bench(arguments.program, arguments.rows, arguments.cols)
        large["program"]["wall"].append(wall)
        large["program"]["processor"].append(processor)
    common = {"name": "spectra.default", "backend": "cpu", "batch": 1, "encoding": "F32", "limit": None, "spectrum": "trained"}
    load = f"load average {os.getloadavg()[0]:.1f}"
    callers = {"python": (None, "vindex.spectrum in Python"),
               "c++": ("libvindex from C++", "vindex::spectrum in C++, the same weights"),
               "program": ("vindex bench", "the program's back end, weights of its own of that shape")}
    rows = []
    for shape, samples, route, unit, scale in (((arguments.rows, arguments.cols), large, method, "seconds", 1),
                                               ((64, 64), small, small_method, "microseconds", 1e6)):
        for name, clocks in samples.items():
            peer, what = callers[name]
            for clock, of in (("wall", "of the wall"), ("processor", "of processors")):
                own, python = statistics.median(clocks[clock]), statistics.median(samples["python"][clock])
                note = f"{what}, time {of}; {load}"
                if name != "python":
                    note += f"; by medians Python takes {python / own:.4f} of it, {(python - own) * 1e6:+.0f} microseconds"
                rows.append({**common, "rows": shape[0], "cols": shape[1], "route": f"auto: {route}", "unit": unit, "peer": peer,
                             "samples": [round(value * scale, 6) for value in clocks[clock]], "note": note})
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    print(json.dumps({"schema": "vindex-bench/1", "commit": document["commit"],
                      "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                      "host": {"cpu": cpu_name(), "cores": len(os.sched_getaffinity(0)), "memory_gib": memory,
                               "blas": document["host"]["blas"]},
                      "gpu": None,
                      "command": f"bench/speed/python_overhead.py facade_calls vindex --rows {arguments.rows} --cols {arguments.cols} "
                                 f"--repeats {arguments.repeats}",
                      "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
