#!/usr/bin/env python3
"""Executes the examples of pages and compares what they print with what the pages show; finds commands that there are not.

    examples.py check [PAGE...]             every block of commands or code has a marker; every command, flag,
                                            file, link and identifier of an error that a page names exists
    examples.py run FOLDER [PAGE...]        executes the blocks marked `run`, each page in a folder of its own below FOLDER
    examples.py update FOLDER [PAGE...]     the same, and writes what was printed into the pages
    examples.py count [PAGE...]             a table: how many blocks of a page are run, and why the others are not

Markers: page_blocks.py. Options: --program VINDEX (default build/cpu/apps/vindex), --data FOLDER (real weights, ../shared/data),
--models-python PYTHON (with transformers, build/python-models/bin/python). Without PAGE: README.md, CONTRIBUTING.md and docs/**/*.md.
Exit: 0, 1 where something is wrong, 77 where all blocks of the pages were left out."""

import argparse
import collections
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import command_lines
import page_blocks
import page_run
import references

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/support"))
from test_script import fresh_folder  # noqa: E402

WIDTH = 80


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("check", "run", "update", "count"))
    parser.add_argument("--program", type=Path, default=ROOT / "build/cpu/apps/vindex")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared/data")
    parser.add_argument("--models-python", type=Path, default=ROOT / "build/python-models/bin/python")
    parser.add_argument("--repository", type=Path, default=ROOT)
    parser.add_argument("--unmarked", action="append", default=[], metavar="PAGE", help="a page whose blocks need no marker")
    parser.add_argument("rest", nargs="*", metavar="FOLDER, PAGE")
    flags = parser.parse_intermixed_args(arguments)
    flags.folder = Path(flags.rest.pop(0)).absolute() if flags.action in ("run", "update") and flags.rest else None
    if flags.action in ("run", "update") and not flags.folder:
        parser.error(f"{flags.action} needs a folder")
    pages = sorted((flags.repository / "docs").rglob("*.md"))
    roots = [flags.repository / name for name in ("README.md", "CONTRIBUTING.md")]
    flags.pages = [Path(page) for page in flags.rest] or [*roots, *pages]
    return flags


def read(path, repository):
    name = os.path.relpath(path, repository)
    text = path.read_text(encoding="utf-8")
    return name, text, page_blocks.read_page(text, name)


def wrong_of_page(name, text, blocks, commands, named, flags):
    repository = flags.repository
    if name not in flags.unmarked:
        yield from page_blocks.unmarked(blocks)
    for block in blocks:
        if block.language in page_blocks.SHELLS:
            try:
                for words in command_lines.simple_commands(block.text, block.language):
                    for what in commands.wrong(words):
                        yield f"{block.place}: {what}"
            except ValueError as error:
                yield f"{block.place}: {error}"
        run_by = block.marker("run by")
        if run_by and not is_read_by(repository / run_by[1], Path(name).name):
            yield f"{block.place}: {run_by[1]} is not there, or does not name {Path(name).name}"
        source = block.marker("from")
        if source and not is_part(block.text, repository / source[1]):
            yield f"{block.place}: not a part of {source[1]}"
        for one in filter(None, (block.output, block if block.language == "console" else None)):
            for line in one.text.splitlines():
                if len(line) > WIDTH and not line.startswith("$ "):
                    yield f"{one.place}: an output of {len(line)} columns: {line}"
    prose = re.sub(r"^ *```.*?^ *```", "", text, flags=re.M | re.S)
    if re.search(r"^    (\$ )?vindex ", re.sub("<!--.*?-->", "", prose, flags=re.S), re.M):
        yield f"{name}: commands in an indented block: they need a fence and a marker"
    for what in (*commands.wrong_in_prose(prose), *named.wrong(prose), *named.wrong_links(prose, name)):
        yield f"{name}: {what}"


def is_part(text, path):
    """The lines stand in the file in this order and together, however they are indented."""
    def plain(lines):
        return "\n".join(line.strip() for line in lines.splitlines())
    return path.exists() and plain(text) in plain(path.read_text(encoding="utf-8"))


def is_read_by(script, page):
    """A test names the page, or is given it where it is registered."""
    lists = [folder / "CMakeLists.txt" for folder in (script.parent, script.parent.parent)]
    texts = [path.read_text(encoding="utf-8") for path in (script, *lists) if path.exists()]
    return script.exists() and any(page in text for text in texts)


def check(flags):
    described = json.loads(subprocess.run([flags.program, "commands", "--json"], check=True, capture_output=True, text=True).stdout)
    commands = command_lines.Commands(described, flags.repository)
    named = references.References(flags.repository)
    wrong = [line for path in flags.pages for name, text, blocks in [read(path, flags.repository)]
             for line in wrong_of_page(name, text, blocks, commands, named, flags)]
    print("\n".join(wrong) or f"{len(flags.pages)} pages: every block has a marker, every command is one of the program")
    return 1 if wrong else 0


def run(flags):
    states = collections.Counter()
    for path in flags.pages:
        name, text, blocks = read(path, flags.repository)
        if not any(block.marker("run") for block in blocks):
            continue
        folder = flags.folder / path.stem
        fresh_folder(folder)
        place = page_run.Place(flags.program.absolute(), flags.repository.absolute(), flags.data.absolute(),
                               flags.models_python.absolute(), folder)
        outcomes = list(page_run.run_page(blocks, place))
        for outcome in outcomes:
            states[outcome.state] += 1
            if outcome.text:
                print(f"{outcome.block.place}: {outcome.state}: {outcome.text}")
        if flags.action == "update":
            write_updates(path, text, outcomes)
    print(", ".join(f"{count} blocks {state}" for state, count in sorted(states.items())) or "no block is run")
    return 1 if states["failed"] else 77 if states["left out"] and not states["run"] else 0


def write_updates(path, text, outcomes):
    lines = text.split("\n")
    for outcome in sorted((one for one in outcomes if one.shown is not None), key=lambda one: -one.block.first):
        lines[outcome.block.first:outcome.block.end] = outcome.shown
    if lines != text.split("\n"):
        path.write_text("\n".join(lines), encoding="utf-8")
        print(f"{path}: written")


def count(flags):
    print(f"{'page':<28} {'run':>4} {'outputs':>7} {'by a test':>9} {'not run':>7}")
    for path in flags.pages:
        name, _, blocks = read(path, flags.repository)
        marked = collections.Counter(next((m[0] for m in block.markers if m[0] in page_blocks.HOW), "") for block in blocks)
        outputs = sum(block.output is not None or (block.language == "console" and bool(block.marker("run"))) for block in blocks)
        if marked.keys() - {""}:
            print(f"{name:<28} {marked['run']:>4} {outputs:>7} {marked['run by'] + marked['from']:>9} {marked['not run']:>7}")
            for reason, number in collections.Counter(b.marker("not run")[1] for b in blocks if b.marker("not run")).items():
                print(f"{'':<4}{number} not run: {reason}")
    return 0


def main(arguments):
    flags = parse(arguments)
    try:
        return {"check": check, "count": count}.get(flags.action, run)(flags)
    except page_blocks.PageError as error:
        print(error)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
