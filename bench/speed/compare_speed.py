#!/usr/bin/env python3
"""Times `vindex compare` against reading and decoding alone, as `vindex bench` measures both in the same run.

    python3 bench/speed/compare_speed.py PROGRAM FOLDER [--experts 48] [--encodings bf16,fp8] [--repeats 5] [--former OLDER]
        > bench/results/MACHINE/NAME.json

FOLDER gets two synthetic models per encoding (7168 x 2048 experts; 48 in BF16 are 1.4 GB each) and is emptied of what the run made. Both lie in the
page cache. What they are held against: every byte read by `bench --sections read` from the page cache (all cores), then decoded by `bench --sections
decode` (one thread; so many as there are cores are taken to be that much faster), one after the other:

    1 / (1 / read + 1 / (cores x decode))     in GB of stored bytes per second

`compare` counts the bytes of both models over its whole run, from the start of the process to its end. Samples alternate, those of an older program
(--former) among them; what they are held against is measured after the first and after the last; the share is of medians. --first-in-line runs what is timed at a real-time priority (chrt, root), for machines that others use
meanwhile. Standard library alone.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import time

from organ_speed import cpu_name

ROWS, COLS = 7168, 2048
STORED = {"bf16": ("BF16", 2.0), "fp8": ("F8", 1.0)}


def warm(files):
    """Brings files into the page cache, piece by piece: what is freed in one piece goes back to the system."""
    piece = bytearray(1 << 20)
    for path in files:
        with open(path, "rb", buffering=0) as file:
            while file.readinto(piece):
                pass


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--experts", type=int, default=48)
    parser.add_argument("--encodings", default="bf16,fp8")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--former")
    parser.add_argument("--first-in-line", action="store_true")
    arguments = parser.parse_args()
    folder = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    cores = len(os.sched_getaffinity(0))

    first = ["chrt", "-r", "5"] if arguments.first_in_line else []

    def call(*words, program=arguments.program, line=first):
        return subprocess.run([*line, program, *map(str, words)], check=True, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True).stdout

    def best(name, route, *words):
        rows = json.loads(call("bench", *words, "--samples", 3, "--json"))["rows"]
        return max(max(row["samples"]) for row in rows if row["name"] == name and row["route"].startswith(route))

    programs = {"compare": arguments.program, **({"compare before": arguments.former} if arguments.former else {})}
    rows = []
    for encoding in arguments.encodings.split(","):
        label, bytes_each = STORED[encoding]
        models = [folder / f"{side}-{encoding}" for side in "ab"]
        for seed, model in enumerate(models):
            if model.exists():
                continue  # of a run that was stopped
            call("synth", f"layer:{arguments.experts}x{ROWS}x{COLS}:{encoding}", "-o", model, "--seed", seed + 1, line=[])
        files = [path for model in models for path in model.rglob("*.safetensors")]
        size = sum(path.stat().st_size for path in files)
        limits, samples = [], {name: [] for name in programs}

        def compare(program):
            warm(files)  # whatever `read`, or the machine, dropped
            start = time.perf_counter()
            call("-q", "compare", *models, "-o", folder / "pairs.h5", "--restart", "--progress", "none", program=program)
            return 1e-9 * size / (time.perf_counter() - start)

        for program in programs.values():
            compare(program)  # once unmeasured: machines that are virtual first have to find the memory
        for turn in range(arguments.repeats):
            for name, program in programs.items():
                samples[name].append(compare(program))
            if 0 < turn < arguments.repeats - 1:
                continue  # its samples of the disk take long
            read = best("read", "page-cache", "--sections", "read", "--model", models[0])
            decode = best("decode", "", "--sections", "decode", "--encodings", label) * bytes_each / 4.0
            limits.append(1.0 / (1.0 / read + 1.0 / (cores * decode)))
        limit = statistics.median(limits)
        for name, rates in samples.items():
            share = statistics.median(rates) / limit
            rows.append({"name": "end_to_end", "route": f"page-cache, {name}", "backend": "cpu", "rows": ROWS, "cols": COLS,
                         "batch": 2 * arguments.experts, "encoding": label, "unit": "gb_per_s",
                         "samples": [round(value, 3) for value in rates], "limit": round(limit, 3), "peer": None,
                         "note": f"{share:.2f} of reading and decoding ({', '.join(f'{value:.2f}' for value in limits)} GB/s); {size} bytes; "
                                 f"load average after {os.getloadavg()[0]:.1f}"})
        for model in models:
            shutil.rmtree(model)
    (folder / "pairs.h5").unlink(missing_ok=True)
    version = subprocess.run([arguments.program, "--version"], check=True, capture_output=True, text=True).stdout
    commit = version.split("(", 1)[1].split(",")[0] if "(" in version else "unknown"
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    print(json.dumps({"schema": "vindex-bench/1", "commit": commit, "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                      "host": {"cpu": cpu_name(), "cores": cores, "memory_gib": memory, "blas": "none"}, "gpu": None,
                      "command": f"bench/speed/compare_speed.py vindex FOLDER --experts {arguments.experts} "
                                 f"--encodings {arguments.encodings} --repeats {arguments.repeats}"
                                 + (" --former OLDER" if arguments.former else "") + (" --first-in-line" if first else ""),
                      "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
