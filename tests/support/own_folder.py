"""Owns the working folders of test scripts: what a script empties must have been made by one of them, whatever path it was given."""

import os
import shutil
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
