#!/usr/bin/env python3
"""Times `vindex organ extract` and `assemble` against `cp` of the same bytes, in turn, in one run.

    python3 bench/speed/organ_speed.py PROGRAM FOLDER [--gib 1] [--repeats 5] > bench/results/MACHINE/NAME.json

FOLDER gets a synthetic GGUF (Q8_0 matrices of random bytes, F32 norms) and is emptied of what the run made. What is timed
is what a user waits for with nothing left to write: `cp` and then fsync of the file (or of every organ that is copied
back), the commands with the fsync that they do themselves. The source is in the page cache for all of them. Ratios are of
medians. Standard library alone.
"""
import argparse
import json
import os
import pathlib
import platform
import shutil
import statistics
import struct
import subprocess
import sys
import time

ROWS, COLS = 2048, 4096


def gguf_string(text):
    return struct.pack("<Q", len(text)) + text.encode()


def write_model(path, gib):
    """Blocks of seven Q8_0 matrices and two norms until the file is as large as wanted."""
    matrix_bytes = ROWS * COLS // 32 * 34
    blocks = max(1, round(gib * 2**30 / (7 * matrix_bytes)))
    names = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]
    tensors = []
    for block in range(blocks):
        tensors += [(f"blk.{block}.{norm}.weight", (COLS,), 0, 4 * COLS) for norm in ("attn_norm", "ffn_norm")]
        tensors += [(f"blk.{block}.{name}.weight", (COLS, ROWS), 8, matrix_bytes) for name in names]
    keys = [gguf_string("general.architecture") + struct.pack("<I", 8) + gguf_string("llama"),
            gguf_string("llama.block_count") + struct.pack("<II", 4, blocks)]
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(keys)
    offset = 0
    for name, shape, kind, size in tensors:
        head += gguf_string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)
        offset += -(-size // 32) * 32
    with open(path, "wb") as file:
        file.write(head + b"\0" * (-len(head) % 32))
        for _, _, _, size in tensors:
            file.write(os.urandom(size) + b"\0" * (-size % 32))
    return len(tensors)


def synced(paths):
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def timed(action, clean, size):
    clean()
    os.sync()  # what others left to write is not this one's
    # In a virtual machine the first touch of a page is the host's work and costs more than the copy: whoever comes first
    # after a pause would pay it. Pages for what is written are touched and given back before.
    pages = bytearray(b"x") * (size + size // 4)
    del pages
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def cpu_name():
    for line in open("/proc/cpuinfo", encoding="utf-8"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--gib", type=float, default=1.0)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    folder = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    model, copy, made = folder / "model.gguf", folder / "copy.gguf", folder / "made.gguf"
    organs, organ_copy, reference = folder / "organs", folder / "organs-copy", folder / "reference"
    count = write_model(model, arguments.gib)
    size = model.stat().st_size

    def run(*words):
        subprocess.run([arguments.program, "-q", "organ", *map(str, words)], check=True)

    def remove(*paths):
        for path in paths:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    def copy_file():
        subprocess.run(["cp", model, copy], check=True)
        synced([copy])

    def copy_organs():
        subprocess.run(["cp", "-r", organs, organ_copy], check=True)
        synced(path for path in organ_copy.rglob("*") if path.is_file())

    run("extract", model, "-o", organs)
    run("extract", model, "-o", reference, "--by-reference")
    steps = {
        "cp of the model, fsync": (copy_file, lambda: remove(copy), "cp"),
        "organ extract": (lambda: run("extract", model, "-o", organs), lambda: remove(organs), None),
        "cp -r of the organs, fsync of each": (copy_organs, lambda: remove(organ_copy), "cp"),
        "organ assemble": (lambda: run("assemble", organs, "-o", made), lambda: remove(made), None),
        "organ assemble, extracted by reference": (
            lambda: run("assemble", reference, "-o", made), lambda: remove(made), None),
        "organ extract --by-reference": (
            lambda: run("extract", model, "-o", reference, "--by-reference"), lambda: remove(reference), None),
    }
    samples = {name: [] for name in steps}
    for _ in range(arguments.repeats):
        for name, (action, clean, _) in steps.items():
            samples[name].append(timed(action, clean, size))
    if model.read_bytes() != made.read_bytes():
        sys.exit("assembled model differs from its source")
    medians = {name: statistics.median(values) for name, values in samples.items()}
    peer = medians["cp of the model, fsync"]
    rows = [{"name": "end_to_end", "route": "auto", "backend": "cpu", "rows": ROWS, "cols": COLS, "batch": count,
             "encoding": "Q8_0", "unit": "seconds", "samples": [round(value, 4) for value in samples[name]], "limit": None,
             "peer": kind,
             "note": f"{name}: {size} bytes, {size / medians[name] / 1e6:.0f} MB/s, "
                     f"{peer / medians[name]:.2f} of cp's rate; load average before {os.getloadavg()[0]:.1f}"}
            for name, (_, _, kind) in steps.items()]
    version = subprocess.run([arguments.program, "--version"], check=True, capture_output=True, text=True).stdout
    commit = version.split("(", 1)[1].split(",")[0] if "(" in version else "unknown"
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    print(json.dumps({"schema": "vindex-bench/1", "commit": commit,
                      "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                      "host": {"cpu": cpu_name(), "cores": len(os.sched_getaffinity(0)), "memory_gib": memory,
                               "blas": "none"},
                      "gpu": None,
                      "command": f"bench/speed/organ_speed.py vindex FOLDER --gib {arguments.gib} --repeats {arguments.repeats}",
                      "rows": rows}, indent=1))
    remove(model, copy, made, organs, organ_copy, reference)


if __name__ == "__main__":
    main()
