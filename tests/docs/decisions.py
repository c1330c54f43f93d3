#!/usr/bin/env python3
"""Owns the index of the decisions: one line for each heading of docs/decisions/*.md, made from the headings themselves.

    decisions.py check      the index is that of the pages, and every decision says what would change it
    decisions.py update     writes the index"""

import re
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "docs/decisions"
INTRODUCTION = """# Decisions

What was chosen, why, and what would change it: one heading for each choice, by topic. Code and pages link
the heading. A new one takes the place of one that it contradicts.
"""
EXTENDING = """
```{toctree}
:hidden:
%s
```
"""


def anchor(heading):
    """The anchor that GitHub and the site give a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower().strip()).replace(" ", "-")


def pages():
    return [page for page in sorted(FOLDER.glob("*.md")) if page.name != "index.md"]


def index():
    text = INTRODUCTION
    for page in pages():
        lines = page.read_text(encoding="utf-8").splitlines()
        text += f"\n## {lines[0].removeprefix('# ')}\n\n"
        for heading in (line.removeprefix("## ") for line in lines if line.startswith("## ")):
            text += f"- [{heading}]({page.name}#{anchor(heading)})\n"
    return text + EXTENDING % "\n".join(page.stem for page in pages())


def wrong():
    for page in pages():
        for section in page.read_text(encoding="utf-8").split("\n## ")[1:]:
            if section.count("\nWould change: ") != 1:
                yield f"{page.name}: '{section.splitlines()[0]}' does not say once what would change it"
    if (FOLDER / "index.md").read_text(encoding="utf-8") != index():
        yield "docs/decisions/index.md is out of date: tests/docs/decisions.py update"


if __name__ == "__main__":
    if sys.argv[1:] == ["update"]:
        (FOLDER / "index.md").write_text(index(), encoding="utf-8")
    found = list(wrong())
    print("\n".join(found) or "every decision is in the index and says what would change it")
    sys.exit(1 if found else 0)
