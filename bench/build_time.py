#!/usr/bin/env python3
"""Measures a first build: processor time by library, the dearest sources, the size of what it leaves.

Configures a new folder, builds one target without a compiler cache and records what every compiler call cost:

    bench/build_time.py --preset cpu --target vindex -o build_time.json

The same script stands in front of the compiler as its launcher (`--launch`), so that a figure is of one call: user and
system time of the compiler and its children. Times are of this machine; compare them within one record only.
"""
import argparse
import collections
import json
import os
import pathlib
import platform
import resource
import subprocess
import sys
import tempfile
import time

LOG = "VINDEX_BUILD_TIME_LOG"


def launch(command: list[str]) -> int:
    """Runs one compiler call and appends its cost to the log."""
    began = time.monotonic()
    status = subprocess.call(command)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    output = command[command.index("-o") + 1] if "-o" in command else ""
    line = json.dumps({"output": output, "processor_s": round(used.ru_utime + used.ru_stime, 3),
                       "wall_s": round(time.monotonic() - began, 3), "memory_kib": used.ru_maxrss})
    with open(os.environ[LOG], "a", encoding="utf-8") as log:  # one write of one line: appended whole
        log.write(line + "\n")
    return status


def library_of(output: str) -> str:
    """The library or program an object belongs to, from CMake's CMakeFiles/<target>.dir/."""
    for part in pathlib.PurePath(output).parts:
        if part.endswith(".dir"):
            return part[:-len(".dir")]
    return "other"


def source_of(output: str) -> str:
    """The source of an object, relative to the library's folder."""
    name = output.split(".dir/", 1)[-1]
    return name[:-2] if name.endswith(".o") else name


def first_line(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]


def processor_name() -> str:
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def children_time() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def timed(command: list[str], environment: dict[str, str], source: pathlib.Path) -> tuple[float, float]:
    """Runs a command; returns its wall time and the processor time of it and its children, in seconds."""
    before, began = children_time(), time.monotonic()
    done = subprocess.run(command, env=environment, cwd=source, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"build_time: {' '.join(command)} failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return time.monotonic() - began, children_time() - before


def measure(arguments: argparse.Namespace) -> dict:
    source = pathlib.Path(arguments.source).resolve()
    with tempfile.TemporaryDirectory(prefix="vindex-build-") as folder:
        log = pathlib.Path(folder) / "calls.jsonl"
        build = pathlib.Path(folder) / "build"
        environment = dict(os.environ, CCACHE_DISABLE="1")
        environment[LOG] = str(log)
        launcher = f"{sys.executable};{pathlib.Path(__file__).resolve()};--launch"
        configure = ["cmake", "--preset", arguments.preset, "-B", str(build),
                     f"-DCMAKE_C_COMPILER_LAUNCHER={launcher}", f"-DCMAKE_CXX_COMPILER_LAUNCHER={launcher}",
                     f"-DCMAKE_CUDA_COMPILER_LAUNCHER={launcher}", *arguments.define]
        configure_wall, configure_processor = timed(configure, environment, source)
        log.unlink(missing_ok=True)  # calls of the configuration's own trials
        build_wall, build_processor = timed(
            ["cmake", "--build", str(build), "--target", arguments.target, "-j", str(arguments.jobs)], environment,
            source)
        calls = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        program = build / "apps" / "vindex"
        size = program.stat().st_size if program.exists() else None
    libraries = collections.defaultdict(lambda: {"objects": 0, "processor_s": 0.0})
    for call in calls:
        library = libraries[library_of(call["output"])]
        library["objects"] += 1
        library["processor_s"] = round(library["processor_s"] + call["processor_s"], 2)
    dearest = sorted(calls, key=lambda call: -call["processor_s"])[:arguments.dearest]
    return {
        "what": f"first build of {arguments.target}, preset {arguments.preset}, no compiler cache",
        "command": "bench/build_time.py " + " ".join(sys.argv[1:]),
        "commit": subprocess.run(["git", "describe", "--always", "--dirty"], cwd=source, capture_output=True, text=True,
                                 check=False).stdout.strip(),
        "processor": processor_name(),
        "cores": os.cpu_count(),
        "jobs": arguments.jobs,
        "compiler": first_line(["c++", "--version"]),
        "configure": {"wall_s": round(configure_wall, 1), "processor_s": round(configure_processor, 1)},
        "build": {"wall_s": round(build_wall, 1), "processor_s": round(build_processor, 1)},
        "compiler_calls": len(calls),
        "compiler_processor_s": round(sum(call["processor_s"] for call in calls), 1),
        "largest_memory_kib": max(call["memory_kib"] for call in calls),
        "program_bytes": size,
        "libraries": dict(sorted(libraries.items(), key=lambda item: -item[1]["processor_s"])),
        "dearest_sources": [{"source": f"{library_of(call['output'])}/{source_of(call['output'])}",
                             "processor_s": call["processor_s"]} for call in dearest],
    }


def main() -> int:
    if len(sys.argv) > 1 and sys.argv[1] == "--launch":
        return launch(sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", default=pathlib.Path(__file__).resolve().parent.parent, help="checkout to build")
    parser.add_argument("--preset", default="cpu")
    parser.add_argument("--target", default="vindex")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--dearest", type=int, default=10, help="how many of the dearest sources are listed")
    parser.add_argument("--define", action="append", default=[], help="further cmake arguments (-DNAME=VALUE)")
    parser.add_argument("-o", "--output", help="JSON file; standard output where it is missing")
    arguments = parser.parse_args()
    text = json.dumps(measure(arguments), indent=2) + "\n"
    if arguments.output:
        pathlib.Path(arguments.output).write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
