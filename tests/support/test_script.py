"""Owns what the test scripts share: calls of the program, data that may be missing, and working folders: what a script empties must
have been made by one of them, whatever path it was given.

tests/python/with_packages.sh puts this folder on the PYTHONPATH of a script and finds an interpreter that has its packages."""

import os
import shutil
import subprocess
import sys

MARK = ".of-a-test-script"


def fresh_folder(path):
    """Makes `path` an empty folder. Ends the script where something else than a folder of this function's lies there."""
    if os.path.lexists(path):
        if not os.path.isdir(path) or (os.listdir(path) and not os.path.exists(os.path.join(path, MARK))):
            sys.exit(f"{path} is there and was not made by a test: remove it, or name another folder")
        shutil.rmtree(path)
    os.makedirs(path)
    with open(os.path.join(path, MARK), "w", encoding="utf-8"):
        pass


def need(*paths):
    """Ends the script as skipped where one of the paths is missing."""
    for path in paths:
        if not path or not os.path.exists(path):
            print("skipped: shared data not found:", path)
            sys.exit(77)


def call(*command, code=0, **options):
    """The command when it has ended with `code`, with its `stdout` and `stderr` as text; ends the script where it ends otherwise."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, **options)
    if done.returncode != code:
        sys.exit(f"{command} ended with {done.returncode}, not {code}\n{done.stdout}{done.stderr}")
    return done
