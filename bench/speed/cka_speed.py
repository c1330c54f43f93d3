#!/usr/bin/env python3
"""Times `vindex cka` of two dumps of one layer each against numpy's matrix products of the same arithmetic, in turn, in one run;
with --prompts also with the interval of its jackknife.

    python3 bench/speed/cka_speed.py PROGRAM FOLDER [--tokens 100000] [--width 4096] [--layers 1] [--repeats 3] [--prompts 0] > bench/results/MACHINE/NAME.json

FOLDER gets dumps of noise (float32: 3.3 GB in all at the defaults, in the page cache where memory allows) and is emptied at the
end. numpy multiplies centred arrays that are in memory: X^T Y of every pair of layers, X^T X and Y^T Y of every layer, X^T X' of
neighbours in A, which is what the program multiplies; reading, centring and norms are in the program's time alone. Neither process
inherits OPENBLAS_* variables. Needs numpy.
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

MULTIPLY = """
import sys, time
import numpy as np
a = [np.load(path) for path in sys.argv[2:2 + int(sys.argv[1])]]
b = [np.load(path) for path in sys.argv[2 + int(sys.argv[1]):]]
for x in a + b:
    x -= x.mean(axis=0)
a[0][:1000].T @ a[0][:1000]  # threads and buffers are there
start = time.perf_counter()
total = 0.0
for x in a:
    for y in b:
        total += float(np.vdot(z := x.T @ y, z))
for x in a + b:
    total += float(np.vdot(z := x.T @ x, z))
for x, y in zip(a, a[1:]):
    total += float(np.vdot(z := x.T @ y, z))
print(time.perf_counter() - start)
"""
BLAS = "import numpy as np; c = np.show_config(mode='dicts')['Build Dependencies']['blas']; print(c['name'], c['version'])"


def write_dump(folder, tokens, width, layers, prompts, seed):
    import numpy as np
    folder.mkdir(parents=True)
    for layer in range(layers):
        random = np.random.default_rng([seed, layer])
        out = np.lib.format.open_memmap(folder / f"hidden.{layer}.npy", mode="w+", dtype=np.float32, shape=(tokens, width))
        for first in range(0, tokens, 4096):
            rows = out[first:first + 4096]
            rows[:] = random.standard_normal(rows.shape, dtype=np.float32)
        out.flush()
    np.save(folder / "token_ids.npy", np.arange(tokens))
    if prompts:
        np.save(folder / "prompt.npy", (np.arange(tokens) * prompts // tokens).astype(np.int32))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--tokens", type=int, default=100_000)
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--prompts", type=int, default=0, help="of equal length; 0: none, and no interval")
    arguments = parser.parse_args()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPENBLAS_")}
    a, b, out = arguments.folder / "a", arguments.folder / "b", arguments.folder / "cka.h5"
    for seed, path in enumerate((a, b)):
        write_dump(path, arguments.tokens, arguments.width, arguments.layers, arguments.prompts, seed)
    paths = [str(path / f"hidden.{layer}.npy") for path in (a, b) for layer in range(arguments.layers)]

    def run(*command):
        return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout

    def compare(*more):
        start = time.perf_counter()
        run(arguments.program, "-q", "cka", str(a), str(b), "-o", str(out), "--backend", "cpu", "--restart",
            "--permutations", "0", *more)
        return time.perf_counter() - start

    samples = {"vindex": [], "numpy": []}
    for _ in range(arguments.repeats):
        samples["numpy"].append(float(run(sys.executable, "-c", MULTIPLY, str(arguments.layers), *paths)))
        samples["vindex"].append(compare("--no-interval"))
        if arguments.prompts:
            samples.setdefault("interval", []).append(compare())
    medians = {name: statistics.median(values) for name, values in samples.items()}
    layers = arguments.layers
    products = layers * layers + layers + (layers - 1)  # numpy and the program take half for X^T X
    flop = 2.0 * arguments.tokens * arguments.width**2 * products
    rows = [{"name": "end_to_end", "route": "auto", "backend": "cpu", "rows": arguments.tokens, "cols": arguments.width,
             "batch": layers, "encoding": "F32", "unit": "seconds", "samples": [round(value, 3) for value in samples[name]],
             "limit": None, "peer": "numpy" if name == "numpy" else None, "spectrum": "noise",
             "note": f"{what}: {medians[name] / medians['numpy']:.2f} of the time of numpy's products "
                     f"({flop * 1e-9:.0f} GFLOP), {medians[name] / medians['vindex']:.2f} of the estimate's; "
                     f"load average before {os.getloadavg()[0]:.1f}"}
            for name, what in (("vindex", "vindex cka, the estimate alone"), ("numpy", "the same products"),
                               ("interval", f"vindex cka with the jackknife over {arguments.prompts} prompts")) if name in samples]
    version = run(arguments.program, "--version")
    commit = version.split("(", 1)[1].split(",")[0] if "(" in version else "unknown"
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    print(json.dumps({"schema": "vindex-bench/1", "commit": commit,
                      "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                      "host": {"cpu": cpu_name(), "cores": len(os.sched_getaffinity(0)), "memory_gib": memory,
                               "blas": f"numpy: {run(sys.executable, '-c', BLAS).strip()}; vindex: as the results file says"},
                      "gpu": None,
                      "command": f"bench/speed/cka_speed.py vindex FOLDER --tokens {arguments.tokens} --width {arguments.width} "
                                 f"--layers {arguments.layers} --repeats {arguments.repeats} --prompts {arguments.prompts}",
                      "rows": rows}, indent=1))
    shutil.rmtree(arguments.folder)


if __name__ == "__main__":
    main()
