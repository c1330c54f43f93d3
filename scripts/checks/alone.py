#!/usr/bin/env python3
"""Compiles every source and every header alone, as the preset `dev` does: alone.py [PART/PARTS]

Other presets compile many sources together, where a source may use what another one included, and a header what was included
before it. With PART/PARTS only every PARTS-th of them, from number PART on (0/12 to 11/12 are all): what a push can afford;
scripts/deep_checks.sh looks at all. Nothing is built: each is parsed by its own command, so that none waits for the libraries
that its program links. Exit: 0, or 1 where one does not compile."""

import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "dev"
HEADERS = BUILD / "tests" / "headers"  # a source for every header, which includes it


def calls():
    """The compiler's call for every source that the repository holds and for every header, in the order of their paths."""
    listed = sorted(json.loads((BUILD / "compile_commands.json").read_text()), key=lambda call: call["file"])
    return [call for call in listed
            if BUILD not in pathlib.Path(call["file"]).parents or pathlib.Path(call["file"]).parent == HEADERS]


def parse(call):
    """What the compiler says of one, and whether it is sound. The words end with -o OBJECT -c SOURCE."""
    words = shlex.split(call["command"])
    words = [*words[:words.index("-o")], "-fsyntax-only", call["file"]]
    done = subprocess.run(words, cwd=call["directory"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.stdout, done.returncode == 0


def main():
    part, parts = map(int, (sys.argv[1] if len(sys.argv) > 1 else "0/1").split("/"))
    subprocess.run(["cmake", "--preset", "dev"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    chosen = calls()[part::parts]
    print(f"{len(chosen)} sources and headers", flush=True)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(parse, chosen))
    for text, _ in results:
        print(text, end="")
    wrong = [call["file"] for call, (_, sound) in zip(chosen, results) if not sound]
    for path in wrong:
        print(f"does not compile alone: {os.path.relpath(path, ROOT)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
