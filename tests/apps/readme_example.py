"""The example of README.md, run as it stands there: readme_example.py PROGRAM README FOLDER."""

import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from own_folder import fresh_folder  # noqa: E402

PROGRAM, README, FOLDER = map(os.path.abspath, sys.argv[1:])
with open(README, encoding="utf-8") as file:
    text = file.read()
section = text[text.index("## What it looks like"):]
section = section[:section.index("\n## ", 1)]
table = re.search(r"```\n(.*?)```", section, re.DOTALL).group(1).splitlines()
commands = re.findall(r"`(vindex [^`]*)`", section)
assert len(table) == 4 and len(commands) >= 2, (table, commands)

fresh_folder(FOLDER)
for command in commands[:2]:
    done = subprocess.run([PROGRAM, *command.split()[1:]], cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (command, done.stderr)
    out = done.stdout
# The page shows it as a terminal of 80 columns has it, with narrower gaps.
lines = [line.split() for line in out.splitlines()]
for row in table:
    assert row.split() in lines, f"not printed:\n{row}\n{out}"
