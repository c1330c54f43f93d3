#!/usr/bin/env python3
"""A page of 69,120 matrices: its size against the limit, and the time that writing took, for the log.

    large_page.py VINDEX FOLDER
"""
import pathlib
import shutil
import subprocess
import sys
import time

program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
shutil.rmtree(folder, ignore_errors=True)
folder.mkdir(parents=True)
subprocess.run([program, "synth", "kimi-k2-mini", "-o", "mini", "-q"], cwd=folder, check=True)
subprocess.run([program, "measure", "mini", "-o", "mini.h5", "-q"], cwd=folder, check=True)
maker = pathlib.Path(__file__).parent / "large_results.py"
subprocess.run([sys.executable, maker, "mini.h5", "large.h5", "--length", "256"], cwd=folder, check=True)
start = time.monotonic()
subprocess.run([program, "report", "large.h5", "-o", "large.html"], cwd=folder, check=True)
size = (folder / "large.html").stat().st_size
print(f"{size / 1e6:.2f} MB in {time.monotonic() - start:.2f} s")
shutil.rmtree(folder)
# A page that lost its rows would be small.
assert 5e6 < size < 10e6, size
