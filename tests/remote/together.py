#!/usr/bin/env python3
"""Runs scripts of this folder at once, since all of them mostly wait: together.py SCRIPT... PROGRAM FOLDER.

Prints what those said that failed, and ends with 1 where one did."""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
*SCRIPTS, PROGRAM, FOLDER = sys.argv[1:]


def main():
    os.makedirs(FOLDER, exist_ok=True)
    running = {}
    for name in SCRIPTS:
        with open(os.path.join(FOLDER, name + ".said"), "w", encoding="utf-8") as said:
            running[name] = subprocess.Popen([sys.executable, os.path.join(HERE, name + ".py"), PROGRAM, os.path.join(FOLDER, name)],
                                             stdout=said, stderr=subprocess.STDOUT)
    failed = [name for name, process in running.items() if process.wait() != 0]
    for name in SCRIPTS:
        print(f"{name}: {'FAILED' if name in failed else 'passed'}")
    for name in failed:
        with open(os.path.join(FOLDER, name + ".said"), encoding="utf-8") as said:
            print(f"---- {name}\n{said.read()}")
    return 1 if failed else 0


sys.exit(main())
