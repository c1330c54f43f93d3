"""The example of README.md, run as it stands there: readme_example.py PROGRAM README FOLDER."""

import os
import re
import sys

from test_script import call, fresh_folder

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
    out = call(PROGRAM, *command.split()[1:], cwd=FOLDER).stdout
# The page shows it as a terminal of 80 columns has it, with narrower gaps.
lines = [line.split() for line in out.splitlines()]
for row in table:
    assert row.split() in lines, f"not printed:\n{row}\n{out}"
