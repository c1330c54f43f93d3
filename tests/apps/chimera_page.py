#!/usr/bin/env python3
"""Executes docs/chimera.md: every block of commands, its output compared with the block that follows.

Usage: chimera_page.py VINDEX DOCS FOLDER
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys


def blocks(page):
    """(commands, expected output) of the page; None where no output follows."""
    fences = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    for i, (language, text) in enumerate(fences):
        if language == "sh":
            expected = fences[i + 1][1] if i + 1 < len(fences) and fences[i + 1][0] == "" else None
            yield text, expected


def main():
    program, docs, folder = map(pathlib.Path, sys.argv[1:])
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/vindex").symlink_to(program.resolve())
    (folder / "bin/python3").symlink_to(sys.executable)
    shutil.copy(docs / "chimera_parents.py", folder)
    # A virtual environment's interpreter finds its packages by the path it is called by.
    environment = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "LC_ALL": "C",
                   "PYTHONPATH": ":".join(path for path in sys.path if path.endswith("site-packages"))}
    compared = 0
    for commands, expected in blocks((docs / "chimera.md").read_text()):
        run = subprocess.run(["bash", "-c", commands], cwd=folder, env=environment, text=True, capture_output=True)
        if run.stdout != (expected or ""):
            sys.exit(f"{commands}printed\n{run.stdout}instead of\n{expected}{run.stderr}")
        compared += expected is not None
    if compared < 8:
        sys.exit(f"only {compared} blocks of output: the page is not read as it was meant")
    print(f"{compared} outputs as the page has them")


if __name__ == "__main__":
    main()
