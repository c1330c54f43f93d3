#!/usr/bin/env python3
"""Compiles every source alone, as the preset `dev` does: alone.py [PART/PARTS]

Other presets compile two dozen sources together, where a source may use what another one included. With PART/PARTS only every
PARTS-th source, from number PART on (0/12 to 11/12 are all): what a push can afford; scripts/deep_checks.sh builds the whole
preset. Ends as ninja does."""

import json
import pathlib
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "dev"


def objects():
    """Names of the objects of sources that the repository holds, in the order of those."""
    calls = json.loads((BUILD / "compile_commands.json").read_text())
    return [shlex.split(call["command"])[-3] for call in sorted(calls, key=lambda call: call["file"])
            if BUILD not in pathlib.Path(call["file"]).parents]


def main():
    part, parts = map(int, (sys.argv[1] if len(sys.argv) > 1 else "0/1").split("/"))
    subprocess.run(["cmake", "--preset", "dev"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    chosen = objects()[part::parts]
    jobs = subprocess.run([ROOT / "scripts" / "toolchain" / "build_jobs.sh"], capture_output=True, text=True, check=True).stdout.strip()
    print(f"{len(chosen)} sources", flush=True)
    return subprocess.run(["cmake", "--build", BUILD, "-j", jobs, "--target", *chosen], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
