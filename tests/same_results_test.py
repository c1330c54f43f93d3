"""What scripts/same_results.py must find and what it must not: same_results_test.py SCRIPT."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import h5py
import numpy as np

SCRIPT = os.path.abspath(sys.argv[1])
sys.path.insert(0, os.path.dirname(SCRIPT))
sys.dont_write_bytecode = True
from same_results_files import folder_differences, text_differences, without  # noqa: E402


def write_results(path):
    with h5py.File(path, "w") as f:
        f.attrs["status"] = "complete"
        f.attrs["history"] = "2026-01-02T03:04:05Z vindex measure"
        f["run/command"] = '{"argv":"vindex measure","started":"2026-01-02T03:04:05Z"}'
        f["run/settings"] = '{"mode": "default", "ram_budget_bytes": 17}'
        f["matrix/matrix"] = np.arange(3)
        f["matrix/matrix"].make_scale("matrix")
        f["matrix/name"] = ["a", "b", "c"]
        f["matrix/value"] = np.array([1.0, np.nan, -0.0])
        f["matrix/value"].attrs["units"] = "1"
        f["matrix/value"].dims[0].attach_scale(f["matrix/matrix"])
        f.create_dataset("matrix/packed", data=np.arange(3), chunks=(3,))
        f["matrix/note"] = ["kept 1.5 s, 2026-01-02T03:04:05Z"]


def replace(f, name, value, **how):
    attributes = dict(f[name].attrs) if name.endswith("name") else {}
    del f[name]
    f.create_dataset(name, data=value, **how).attrs.update(attributes)


def patched(patch):
    """Differences after `patch` of a copy."""
    with tempfile.TemporaryDirectory() as folder:
        for side in ("old", "new"):
            os.makedirs(f"{folder}/{side}")
        write_results(folder + "/old/o.h5")
        shutil.copy(folder + "/old/o.h5", folder + "/new/o.h5")
        with h5py.File(folder + "/new/o.h5", "r+") as f:
            patch(f)
        return folder_differences(folder + "/old", folder + "/new")


def one_bit(f):
    bits = f["matrix/value"][:].view("u8")
    bits[0] += np.uint64(1)
    f["matrix/value"][:] = bits.view("f8")


def set_value(row, value):
    def patch(f):
        f["matrix/value"][row] = value
    return patch


assert patched(lambda f: None) == []
for name, patch in {
    "/matrix/value: values": one_bit,
    "/matrix/value: values: 1 of 24 bytes": set_value(2, 0.0),  # the sign of a zero
    "/matrix/name: values: 1 of 3 differ, first at 1": lambda f: f["matrix/name"].write_direct(np.array(["a", "B", "c"], dtype=object)),
    "/matrix/note: values": lambda f: replace(f, "matrix/note", ["kept 1.6 s, 2026-01-02T03:04:05Z"]),  # a time where no time is left out
    "/matrix/value: type": lambda f: replace(f, "matrix/value", np.zeros(3, "f4")),
    "/matrix/value: shape": lambda f: replace(f, "matrix/value", np.zeros(4)),
    "/matrix/value: largest shape": lambda f: replace(f, "matrix/value", np.zeros(3), maxshape=(None,)),
    "/matrix/packed: filters": lambda f: replace(f, "matrix/packed", np.arange(3), chunks=(3,), fletcher32=True),
    "/matrix/more only in NEW": lambda f: f.create_dataset("matrix/more", data=1),
    "/matrix/name only in OLD": lambda f: f.pop("matrix/name"),
    "@status: value": lambda f: f.attrs.modify("status", "partial!"),
    "/matrix/value@units: value": lambda f: f["matrix/value"].attrs.modify("units", "2"),
    "/matrix/value@units only in OLD": lambda f: f["matrix/value"].attrs.pop("units"),
    "/matrix/value@DIMENSION_LIST": lambda f: f["matrix/value"].dims[0].detach_scale(f["matrix/matrix"]),
    "/run/settings: values": lambda f: replace(f, "run/settings", '{"mode": "strict", "ram_budget_bytes": 17}'),
    "@history: ": lambda f: f.attrs.modify("history", "2026-01-02T03:04:05Z vindex compare"),
}.items():
    found = patched(patch)
    assert any(name in what for what in found), (name, found)
for patch in (lambda f: f.attrs.modify("history", "2027-01-02T03:04:06Z vindex measure"),
              lambda f: replace(f, "run/settings", '{"mode": "default", "ram_budget_bytes": 18}')):
    assert patched(patch) == [], patched(patch)

# Texts: times are left out, figures are not.
for old, new, equal in (
    ("37 of 37 matrices in 0.2 s\n", "37 of 37 matrices in 11.3 s\n", True), ("37 of 37 matrices in 0.2 s\n", "36 of 37 matrices in 0.2 s\n", False),
    ('{"seconds": 0.5,\n"theta": 0.5}', '{"seconds": 1e-05,\n"theta": 0.5}', True),
    ('{"seconds": 0.5,\n"theta": 0.5}', '{"seconds": 0.5,\n"theta": 0.6}', False),
    ("1/37 matrices  6%  ETA 0:00  138/s\ndone\n", "done\n", True), ("a\n", "a\nb\n", False), ("at /x/y\n", "at FOLDER/y\n", True),
):
    assert (text_differences(without(old, {"/x": "FOLDER"}), without(new, {})) == []) == equal, (old, new)

# The script: files that differ, are missing or have another exit code; a program that does not differ; outputs that are kept.
with tempfile.TemporaryDirectory() as folder:
    def program(name, body):
        path = pathlib.Path(folder, name)
        path.write_text("#!/bin/sh\n" + body, encoding="utf-8")
        path.chmod(0o755)
        return path

    def compared(new, *flags, code):
        arguments = [sys.executable, "-B", SCRIPT, folder + "/old", new, "--models", "none", "--only", "help", "--keep", folder + "/kept", *flags]
        done = subprocess.run(arguments, capture_output=True, text=True, check=False, env={**os.environ, "TMPDIR": folder})
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done.stdout

    names = '{"commands": {"measure": {}, "organ.verify": {}}}'
    wrote = f"[ \"$1 $2\" != \"commands --json\" ] || {{ echo '{names}'; exit 0; }}\necho x >> {folder}/count; echo \"$*\"; printf abc > w.gguf; exit 3\n"
    program("old", wrote)
    assert "1 cases are the same" in compared(program("copy", "#\n" + wrote), code=0)
    once = len(pathlib.Path(folder, "count").read_text())
    assert "help (" in compared(program("copy", "#\n" + wrote), code=0)
    assert len(pathlib.Path(folder, "count").read_text()) == once * 3 // 2, "what is kept is not run again"
    assert "w.gguf: bytes" in compared(program("other", wrote.replace("abc", "abd")), code=1)
    assert "w.gguf only from OLD" in compared(program("other", wrote.replace("> w.gguf", "")), code=1)
    assert "steps.txt: line 1" in compared(program("other", wrote.replace("exit 3", "exit 4")), code=1)
    assert "step01.out: line 1" in compared(program("other", wrote.replace("$*", "x $*")), code=1)
    program("old", wrote + "# another\n")
    compared(folder + "/copy", code=1)
