"""What the checks of `vindex edit` share: files of tensors, a call of the program, and what was found.

Reads the command line of edit_with_numpy.py."""

import glob
import json
import os
import subprocess
import sys

import numpy as np

from model_files import read_safetensors

VINDEX, DATA, FOLDER = sys.argv[1:4]
RANDOM = np.random.default_rng(13)
FAILURES = []


def check(what, condition, detail=""):
    if not condition:
        FAILURES.append(what)
        print("FAILED:", what, detail)


def close(what, got, wanted, tolerance=1e-6):
    error = np.abs(np.asarray(got, dtype=np.float64) - wanted).max() / max(np.abs(wanted).max(), 1e-300)
    check(what, error <= tolerance, f"relative error {error:.1e}")


def read_folder(folder):
    out = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.safetensors"))):
        out.update(read_safetensors(path)[0])
    return out


def path(*names):
    return os.path.join(FOLDER, *names)


def npy(name, array):
    np.save(path(name), array)
    return path(name)


def edit(*arguments, code=0):
    done = subprocess.run([VINDEX, "edit", *map(str, arguments), "--json", "--quiet"], capture_output=True, text=True, check=False)
    check(f"exit code of {arguments[:6]}", done.returncode == code, f"{done.returncode}: {done.stderr.strip()}")
    if code:
        return done.stderr
    return json.loads(done.stdout) if done.returncode == 0 else None


def only_differs(what, before, after, name):
    check(what + ": names", before.keys() == after.keys())
    for key in before:
        same = before[key].tobytes() == after[key].tobytes()
        check(f"{what}: {key}", same != (key == name))
