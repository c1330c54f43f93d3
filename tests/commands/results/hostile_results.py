"""Results files whose datasets have wrong types, ranks, lengths and sizes that no file can hold: every command that reads them ends with an
answer or with 65 and one line, in little time and memory. Usage: hostile_results.py VINDEX FOLDER [--all]. Without --all some
datasets of each file are tried with one command for each damage, with it all of them with all commands."""

import os
import resource
import shutil
import subprocess
import sys


import h5py
import numpy as np

from test_script import call, fresh_folder

VINDEX, FOLDER = sys.argv[1:3]
ALL = "--all" in sys.argv
fresh_folder(FOLDER)
SECONDS, BYTES = 2, 200 << 20
TEXT = h5py.string_dtype("utf-8")
SOME = {"results": ["matrix/tensor", "matrix/layer", "matrix/status", "matrix/var_at_k", "matrix/k", "matrix/matrix", "tensor/name", "tensor/count",
                    "spectra/p12/sigma", "spectra/p12/matrix", "vectors/p12_n16/right", "vectors/p12_n16/sigma", "resume/fingerprint_name",
                    "resume/moments", "run/inputs", "layer/count"],
        "pairs": ["pair/tensor_a", "pair/cosine", "pair/angles_right", "pair/delta_var_at_k", "unpaired/tensor", "resume/error_class"],
        "experts": ["group/tensor", "group/cosine", "group/expert", "group/expert_axis_spectrum", "group/experts", "resume/optional_columns"]}


def path_of(name):
    return os.path.join(FOLDER, name)


def made(*arguments):
    call(VINDEX, *arguments, "-q")


def set_up():
    made("synth", "layer:3x16x12:bf16", "-o", path_of("model"))
    made("synth", "layer:3x16x12:bf16", "-o", path_of("other"), "--seed", "2")
    made("measure", path_of("model"), "-o", path_of("results.h5"), "--vectors", "2")
    made("compare", path_of("model"), path_of("other"), "-o", path_of("pairs.h5"), "--k", "2", "--delta")
    made("experts", path_of("model"), "-o", path_of("experts.h5"), "--k", "2")


def replace(file, name, shape, dtype, chunks=None):
    attributes = {key: value for key, value in file[name].attrs.items() if key in ("long_name", "units")}
    del file[name]
    dataset = file.create_dataset(name, shape=shape, dtype=dtype, chunks=chunks)
    dataset.attrs.update(attributes)


def damages(dataset):
    """Shape, type and chunks of what takes its place."""
    shape, dtype = dataset.shape, dataset.dtype
    is_text = h5py.check_string_dtype(dtype) is not None
    other = np.int32 if is_text else np.float64 if dtype.kind == "i" else np.int64
    yield "of another type", shape, other, None
    yield "text", shape, TEXT, None
    yield "a scalar", () if shape else (3,), dtype, None
    yield "of one more dimension", (*shape, 2), dtype, None
    yield "empty", (0, *shape[1:]) if shape else (0,), dtype, None
    yield "longer", (shape[0] + 7, *shape[1:]) if shape else (7,), dtype, None
    yield "of 2^36 rows", (2**36, *shape[1:]), dtype, (1024, *shape[1:])
    yield "of 2^26 rows in one chunk", (2**26, *shape[1:]), dtype, (2**26 // max(1, int(np.prod(shape[1:]))), *shape[1:])


def limited():
    resource.setrlimit(resource.RLIMIT_CPU, (2 * SECONDS, 2 * SECONDS))


def ends_well(what, path, command):
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = subprocess.run([VINDEX, *command], capture_output=True, text=True, errors="replace", preexec_fn=limited, check=False)
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = now.ru_utime + now.ru_stime - usage.ru_utime - usage.ru_stime
    wrong = []
    if result.returncode not in (0, 65):
        wrong.append(f"exit {result.returncode}")
    lines = [line for line in result.stderr.splitlines() if line.startswith("vindex: ")]
    if result.returncode == 65 and len(lines) != (0 if command[0] == "validate" and not lines else 1):
        wrong.append(f"{len(lines)} lines")
    if seconds > SECONDS:
        wrong.append(f"{seconds:.1f} s")
    if now.ru_maxrss * 1024 > BYTES:
        wrong.append(f"{now.ru_maxrss >> 10} MiB")
    if wrong:
        print(f"{what}: {' '.join(command[:1])}: {', '.join(wrong)}: {result.stderr.strip()[-300:]}")
    return not wrong


def main():
    set_up()
    failures = tried = turn = 0
    for kind in SOME:
        with h5py.File(path_of(kind + ".h5")) as file:
            every = []
            file.visititems(lambda name, item: every.append(name) if isinstance(item, h5py.Dataset) else None)
        missing = set(SOME[kind]) - set(every)
        assert not missing, missing
        for name in every if ALL else SOME[kind]:
            with h5py.File(path_of(kind + ".h5")) as file:
                planned = list(damages(file[name]))
            for what, shape, dtype, chunks in planned:
                path, out = path_of("damaged.h5"), path_of("merged.h5")
                shutil.copy(path_of(kind + ".h5"), path)
                try:
                    with h5py.File(path, "r+") as file:
                        replace(file, name, shape, dtype, chunks)
                except (ValueError, TypeError, OSError):
                    continue
                commands = (["validate", path], ["show", path], ["status", path], ["merge", path, "-o", out],
                         ["export", path, "--format", "json", "--force", "-o", path_of("out.json")])
                turn += 1
                for command in commands if ALL else (commands[turn % len(commands)],):
                    if os.path.exists(out):
                        os.remove(out)
                    tried += 1
                    failures += not ends_well(f"{kind}: {name} {what}", path, command)
    print(f"{tried} runs, {failures} failures")
    return 1 if failures or tried < 200 else 0


sys.exit(main())
