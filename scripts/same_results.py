#!/usr/bin/env python3
"""Runs every command with two programs and compares all that they write: same_results.py OLD NEW [--quick] [--keep DIR] ...

For changes that may not change a figure: OLD is the program before, NEW the one after. A case is a folder in which some
commands run; their results files are compared bit for bit, reports and what they print line by line, weights by SHA-256, and
exit codes. Prints one line per case, `same` or `DIFFERENT` with the first differences; exit code 1 where there is one.

same_results_cases.py lists the cases, same_results_files.py compares and lists what is left out and why. Left out altogether:
`bench`, whose output is times, and back ends other than the CPU's.
"""

import argparse
import fcntl
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

try:
    from same_results_cases import chosen_cases, make_inputs
    from same_results_files import file_digest, folder_differences
except ImportError as missing:
    print(f"same_results: {missing}: run it with build/python/bin/python, which scripts/python_env.sh makes", file=sys.stderr)
    sys.exit(77)

PATIENCE_SECONDS = 300
SHOWN = 4  # differences of a case that are printed
REAL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "shared", "data")


def run_case(program, case, folder):
    """Runs the commands; what they print and their exit codes lie beside what they write."""
    place = os.path.join(folder, case.name)
    shutil.rmtree(place, ignore_errors=True)
    os.makedirs(place)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OPENBLAS_", "VINDEX_", "SLURM_", "COLUMNS"))}
    codes = []
    for number, command in enumerate(case.commands(), 1):
        with open(f"{place}/step{number:02}.out", "wb") as out, open(f"{place}/step{number:02}.err", "wb") as errors:
            # The same name for every program: a results file keeps the command.
            done = subprocess.run(["vindex", *shlex.split(command)], executable=program, cwd=place, env=environment, stdin=subprocess.DEVNULL,
                                  stdout=out, stderr=errors, timeout=PATIENCE_SECONDS, check=False)
        codes.append(f"step{number:02} ends with {done.returncode}: vindex {command}\n")
    with open(f"{place}/steps.txt", "w", encoding="utf-8") as file:
        file.writelines(codes)


def has_run(case, folder):
    """Whether the outputs of these very commands lie there."""
    try:
        with open(f"{folder}/{case.name}/steps.txt", encoding="utf-8") as file:
            return [line.rstrip("\n").split(": vindex ", 1)[1] for line in file] == case.commands()
    except FileNotFoundError:
        return False


def prepare(folder, models, program):
    """Makes or takes up a folder for the outputs of `program`, with `inputs` and `data` in it."""
    os.makedirs(folder, exist_ok=True)
    about, said = folder + "/about.txt", f"outputs of the program of SHA-256 {file_digest(program)} with the models of {models or 'nobody'}\n"
    if os.path.exists(about):
        with open(about, encoding="utf-8") as file:
            if file.read() != said:
                sys.exit(f"same_results: {folder} is of another program or other models ({about}): remove it, or name another folder")
        return
    if set(os.listdir(folder)) - {"lock"}:
        sys.exit(f"same_results: {folder} holds something else: name another folder")
    make_inputs(folder + "/inputs")
    if models:
        os.symlink(models, folder + "/data")
    with open(about, "w", encoding="utf-8") as file:
        file.write(said)


def commands_of(program):
    """Names of the commands of `program`: "measure", "organ.extract"."""
    described = subprocess.run([program, "commands", "--json"], stdout=subprocess.PIPE, check=True)
    return list(json.loads(described.stdout)["commands"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", help="program before")
    parser.add_argument("new", help="program after")
    parser.add_argument("--models", default=REAL if os.path.isdir(REAL) else "", help="real weights and conformance data (default: ../shared/data, "
                        "where it is; `none`: models of `vindex synth` alone)")
    parser.add_argument("--quick", action="store_true", help="small cases alone")
    parser.add_argument("--keep", metavar="DIR", help="the outputs of OLD stay there, and the next comparison runs NEW alone")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name contains TEXT, and those that they need")
    given = parser.parse_args()
    models = os.path.realpath(given.models) if given.models not in ("", "none") else ""
    old, new = os.path.abspath(given.old), os.path.abspath(given.new)
    scratch = tempfile.mkdtemp(prefix="same_results.")
    before, after = os.path.abspath(given.keep or scratch + "/old"), scratch + "/new"
    cases, different = chosen_cases(models, given.quick, given.only, commands_of(new)), []
    os.makedirs(before, exist_ok=True)
    with open(before + "/lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Several comparisons may share what is kept; it is written before NEW runs.
        prepare(before, models, old)
        for case in cases:
            if not has_run(case, before):
                run_case(old, case, before)
    prepare(after, models, new)
    for case in cases:
        began = time.monotonic()
        run_case(new, case, after)
        found = folder_differences(f"{before}/{case.name}", f"{after}/{case.name}", {before: "FOLDER"}, {after: "FOLDER"})
        more = [f"and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
        verdict = "DIFFERENT: " + "\n  ".join(found[:SHOWN] + more) if found else "same"
        print(f"{case.name} ({len(case.commands())} commands, {time.monotonic() - began:.1f} s): {verdict}", flush=True)
        different += [case.name] if found else []
    if different:
        print(f"{len(different)} of {len(cases)} cases differ; outputs of NEW: {after}, of OLD: {before}")
        return 1
    shutil.rmtree(scratch)
    print(f"{len(cases)} cases are the same")
    return 0


if __name__ == "__main__":
    sys.exit(main())
