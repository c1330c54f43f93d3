"""Owns the execution of a page: its commands and its Python, in the order of the page, in one folder.

Commands run in bash (-eu) with the program, a python3 and the repository's scripts/ and docs/ in reach, in 80 columns; what they write
to standard output is compared, standard error is shown when something fails. Assignments of earlier blocks are carried on. Python
blocks share their names."""

import contextlib
import dataclasses
import importlib.util
import io
import os
import re
import shutil
import subprocess
import sys
import traceback
from pathlib import Path

import normal_text
from page_blocks import PageError

SPLIT = "\036"


@dataclasses.dataclass
class Outcome:
    """Of one block: run, failed or left out, with a text; `shown` is what the page has to show instead, if that differs."""

    block: object
    state: str
    text: str = ""
    shown: list[str] | None = None


@dataclasses.dataclass
class Place:
    """What a page finds where it runs."""

    program: Path
    repository: Path
    data: Path
    models_python: Path
    folder: Path

    def prepare(self):
        (self.folder / ".bin").mkdir()
        (self.folder / ".bin/vindex").symlink_to(self.program.resolve())
        self.link_python("python3", sys.executable)
        for name in ("scripts", "docs", "jobs"):
            (self.folder / name).symlink_to(self.repository / name)

    def link_python(self, name, interpreter):
        # Not a link: an interpreter finds its packages by the path it is called by.
        path = self.folder / ".bin" / name
        path.write_text(f'#!/bin/sh\nexec "{interpreter}" "$@"\n', encoding="utf-8")
        path.chmod(0o755)

    def environment(self):
        return {**os.environ, "PATH": f"{self.folder / '.bin'}:{os.environ['PATH']}", "LC_ALL": "C", "COLUMNS": "80", "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "",
                "PYTHONDONTWRITEBYTECODE": "1"}


class Needs:
    """The options of `run`: data A, B; command C; package P; models; exit N."""

    def __init__(self, text):
        self.data, self.commands, self.packages, self.models, self.code = [], [], [], False, 0
        for part in filter(None, (part.strip() for part in text.split(";"))):
            word, _, rest = part.partition(" ")
            names = re.split(r",\s*", rest)
            if word == "data":
                self.data += names
            elif word == "command":
                self.commands += names
            elif word == "package":
                self.packages += names
            elif part == "models":
                self.models = True
            elif word == "exit":
                self.code = int(rest)
            else:
                raise ValueError(f"run: `{part}` is none of data, command, package, models, exit")

    def missing(self, place):
        """Why the block cannot run here, or ''."""
        for name in self.data:
            if not any(place.data.glob(name)):
                return f"no {name} in {place.data}"
        for name in self.commands:
            if not shutil.which(name):
                return f"no command {name}"
        for name in self.packages:
            if not importlib.util.find_spec(name):
                return f"no Python package {name}"
        if self.models and not models_python(place):
            return "no transformers: scripts/python_env.sh --models"
        return ""

    def fetch(self, place):
        """Links to the data, under their own names, in the page's folder."""
        for name in self.data:
            for path in sorted(place.data.glob(name)):
                link = place.folder / path.name
                if not link.exists():
                    link.symlink_to(path)


def models_python(place):
    return place.models_python if place.models_python.exists() and subprocess.run(
        [place.models_python, "-c", "import importlib.util as u; assert all(map(u.find_spec, ('torch', 'transformers')))"],
        check=False, capture_output=True).returncode == 0 else None


class PageRun:
    """Executes the blocks of one page."""

    def __init__(self, place):
        self.place, self.names, self.assignments, self.left_out = place, {}, "", None

    def run(self, block):
        """The outcome of a block marked `run`."""
        needs = Needs(block.marker("run")[1])
        if self.left_out and self.left_out[0] == block.section:
            return Outcome(block, "left out", self.left_out[1])
        missing = needs.missing(self.place)
        if missing:  # what follows in the section builds on it
            self.left_out = (block.section, missing)
            return Outcome(block, "left out", missing)
        needs.fetch(self.place)
        if needs.models:
            self.place.link_python("python3", models_python(self.place))
        for name, text in block.markers:
            if name == "before":
                self.bash(text, 0)
        if block.language == "python":
            return self.compare(block, self.python(block))
        if block.language == "console":
            return self.console(block, needs.code)
        printed = self.bash(block.text, needs.code)
        self.assignments += "".join(line + "\n" for line in block.text.split("\n") if re.fullmatch(r"\w+=[^\s(]+", line))
        return self.compare(block, printed)

    def bash(self, text, code):
        done = subprocess.run(["bash", "-euc", self.assignments + text], cwd=self.place.folder, env=self.place.environment(), text=True,
                              capture_output=True, check=False, stdin=subprocess.DEVNULL)
        if done.returncode != code:
            raise PageError(f"exit code {done.returncode}, not {code}\n{done.stdout}{done.stderr}")
        return done.stdout

    def python(self, block):
        out, before = io.StringIO(), os.getcwd()
        os.chdir(self.place.folder)
        try:
            with contextlib.redirect_stdout(out):
                # Line numbers of the page in what goes wrong.
                exec(compile("\n" * block.first + block.text, block.page, "exec"), self.names)  # noqa: S102
        except Exception:
            raise PageError(traceback.format_exc(limit=-1)) from None
        finally:
            os.chdir(before)
        return out.getvalue()

    def compare(self, block, printed):
        if not block.output:
            return Outcome(block, "run")
        varies = normal_text.Varies((block.output.marker("varies") or ("", ""))[1])
        return judged(block.output, block.output.text.splitlines(), printed.splitlines(), varies)

    def console(self, block, code):
        """`$ command` lines, each with its output behind it."""
        lines, commands, shown = block.text.splitlines(), [], []
        for line in lines:
            if line.startswith("$ "):
                commands.append([line])
                shown.append([])
            elif line.startswith("> ") and not shown[-1]:
                commands[-1].append(line)
            else:
                shown[-1].append(line)
        script = "".join("\n".join(line[2:] for line in command) + f"\nprintf '{SPLIT}'\n" for command in commands)
        printed = [text.splitlines() for text in self.bash(script, code).split(SPLIT)]
        self.assignments += "".join(f"{command[0][2:]}\n" for command in commands if re.fullmatch(r"\w+=[^\s(]+", command[0][2:]))
        varies = normal_text.Varies((block.marker("varies") or ("", ""))[1])
        # A command without output in the page says nothing of its output.
        whole = [(command, page, normal_text.updated(page, out, varies) if page else [])
                 for command, page, out in zip(commands, shown, printed)]
        return judged_lines(block, lines, [line for command, _, out in whole for line in [*command, *out]])


def judged(block, shown, printed, varies):
    if normal_text.matches(shown, printed, varies):
        return Outcome(block, "run")
    return Outcome(block, "failed", normal_text.difference(shown, printed), normal_text.updated(shown, printed, varies))


def judged_lines(block, shown, wanted):
    return Outcome(block, "run") if shown == wanted else Outcome(block, "failed", normal_text.difference(shown, wanted), wanted)


def run_page(blocks, place):
    """The outcomes of the blocks that are marked `run`. After a failure other than of an output nothing goes on."""
    place.prepare()
    page = PageRun(place)
    for block in blocks:
        if not block.marker("run"):
            continue
        try:
            yield page.run(block)
        except (PageError, ValueError) as error:
            yield Outcome(block, "failed", f"{block.text}{error}")
            return
