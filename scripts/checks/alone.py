#!/usr/bin/env python3
"""Compiles every source and every header alone, as the preset `dev` does: alone.py [PART/PARTS]

Other presets compile many sources together, where a source may use what another one included, and a header what was included
before it. With PART/PARTS only every PARTS-th of them, from number PART on (0/12 to 11/12 are all): what a push can afford;
scripts/deep_checks.sh compiles all. Ends as ninja does."""

import json
import pathlib
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "dev"
HEADERS = BUILD / "tests" / "headers"  # a source for every header, which includes it


def objects():
    """Names of the objects of sources that the repository holds, and of its headers, in the order of those."""
    calls = json.loads((BUILD / "compile_commands.json").read_text())
    return [shlex.split(call["command"])[-3] for call in sorted(calls, key=lambda call: call["file"])
            if BUILD not in pathlib.Path(call["file"]).parents or pathlib.Path(call["file"]).parent == HEADERS]


def main():
    part, parts = map(int, (sys.argv[1] if len(sys.argv) > 1 else "0/1").split("/"))
    subprocess.run(["cmake", "--preset", "dev"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    chosen = objects()[part::parts]
    jobs = subprocess.run([ROOT / "scripts" / "toolchain" / "build_jobs.sh"], capture_output=True, text=True, check=True).stdout.strip()
    print(f"{len(chosen)} sources and headers", flush=True)
    return subprocess.run(["cmake", "--build", BUILD, "-j", jobs, "--target", *chosen], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
