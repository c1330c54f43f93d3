"""Owns how a page is read: its fenced blocks, the markers before them, and which block is the output of which.

A marker is an HTML comment of its own before a block; it is not shown. Of a block of commands or of code:

    <!-- run -->                                    executed; its output is compared with the block that follows
    <!-- run: data moe; command sqlite3 -->         ... where these are there, otherwise left out with a reason
    <!-- run: exit 65 -->                           ... and ends with this code
    <!-- not run: needs Slurm -->                   never executed, and why
    <!-- run by tests/python/recipes_test.py -->    another test executes it
    <!-- from host/decode/formats/ternary_blocks.hpp -->    not executed: a part of this file

`<!-- blocks: ... -->` or `<!-- python blocks: ... -->` says the same of every later block of the page that has no marker of its
own. `<!-- before: ... -->` has commands of one or several lines that make what the page takes as given. Of an output:

    <!-- varies: seconds, rates, line 3, /regular expression/ -->   what need not be the same (normal_text.py)
    <!-- not output -->                                             a block that no command printed

A line `...` of an output stands for any lines."""

import dataclasses
import re

MARKER = re.compile(r"<!--\s*(run by|run|not run|from|not output|before|varies|(?:\w+ )?blocks)\b\s*:?\s*(.*?)\s*-->", re.S)
FENCE = re.compile(r"( *)(```+)\s*([^\n`]*)$")
SHELLS = ("sh", "bash", "console")
CODE = (*SHELLS, "python", "cpp", "cmake")
PLAIN = ("", "text")
HOW = ("run", "run by", "from", "not run")  # what a marker can say of a block of commands or of code


class PageError(Exception):
    """What is wrong with a page: a text that begins with its place."""


@dataclasses.dataclass
class Block:
    """A fenced block: `first` is the number of its first line of text, counted from 0, `end` one past its last."""

    page: str
    language: str
    text: str
    first: int
    end: int
    section: str
    markers: list[tuple[str, str]]
    output: "Block | None" = None

    @property
    def place(self):
        return f"{self.page}:{self.first}"

    def marker(self, *names):
        """(name, rest) of the marker of one of these names, or None."""
        return next((marker for marker in self.markers if marker[0] in names), None)


def read_markers(lines, at, page):
    """The marker whose comment begins at line `at`, and the number of the line after it; (None, at + 1) of anything else."""
    end = at
    while "-->" not in lines[end]:
        end += 1
        if end == len(lines):
            raise PageError(f"{page}:{at + 1}: a comment without an end")
    found = MARKER.fullmatch("\n".join(lines[at:end + 1]).strip())
    return (found and (found[1], found[2])), end + 1


def read_page(text, page):
    """The blocks of a page in their order."""
    lines, blocks, markers, defaults, section = text.split("\n"), [], [], {}, ""
    at = 0
    while at < len(lines):
        fence = FENCE.match(lines[at])
        if fence:
            end = at + 1
            while end < len(lines) and lines[end].strip() != fence[2]:
                end += 1
            if end == len(lines):
                raise PageError(f"{page}:{at + 1}: a block without an end")
            language = fence[3].split(" ")[0]
            inner = "".join(line.removeprefix(fence[1]) + "\n" for line in lines[at + 1:end])
            block = Block(page, language, inner, at + 1, end, section, markers)
            if language in CODE and not block.marker(*HOW):
                block.markers = markers + defaults.get(language, defaults.get("", []))
            blocks.append(block)
            markers, at = [], end + 1
        elif lines[at].lstrip().startswith("<!--"):
            marker, at = read_markers(lines, at, page)
            if marker and marker[0].endswith("blocks"):
                what = MARKER.fullmatch(f"<!-- {marker[1]} -->")
                if not what:
                    raise PageError(f"{page}:{at}: what is said of blocks is no marker: {marker[1]}")
                defaults[marker[0].removesuffix("blocks").strip()] = [(what[1], what[2])]
            elif marker:
                markers = [*markers, marker]
        else:
            if lines[at].startswith("#"):
                section = lines[at]
            if lines[at].strip() and markers:
                raise PageError(f"{page}:{at + 1}: a marker without a block: {markers[-1]}")
            at += 1
    pair_outputs(blocks)
    return blocks


def pair_outputs(blocks):
    """The plain block that is next in the section of an executed one is its output."""
    for block, following in zip(blocks, blocks[1:]):
        if block.language in (*SHELLS, "python") and block.language != "console" and block.marker("run") and following.language \
                in PLAIN and following.section == block.section and not following.marker("not output"):
            block.output = following


def unmarked(blocks):
    """What is wrong with the markers of a page, one line each."""
    outputs = {id(block.output) for block in blocks}
    for block in blocks:
        named = [name for name, _ in block.markers if name in HOW]
        if block.language in CODE and not named:
            yield f"{block.place}: a block of {block.language} without a marker ({', '.join(HOW)}): tests/docs/page_blocks.py"
        if len(named) > 1:
            yield f"{block.place}: several of {', '.join(HOW)}"
        if block.marker("not run") and not block.marker("not run")[1]:
            yield f"{block.place}: not run, and no reason"
        if block.language in PLAIN and re.search(r"^(\$ |vindex |scripts/|pip |cmake )", block.text, re.M) and id(block) not in outputs:
            yield f"{block.place}: commands in a block without a language"
        if block.marker("varies") and id(block) not in outputs and block.language != "console":
            yield f"{block.place}: `varies` at a block that is no output"
