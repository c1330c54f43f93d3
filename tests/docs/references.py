"""Owns the check of what sentences name: files of the repository, also as links, and identifiers of errors, warnings and findings."""

import re
from pathlib import Path

SOURCES = ("host", "apps", "kernels", "python", "scripts", "jobs", "include")
IDENTIFIER = re.compile(r"\b[EWV]-[A-Z][A-Z0-9-]*[A-Z0-9]\b")
LINK = re.compile(r"\]\((?!\w+:)([^)\s#]+)")
FILE = re.compile(r"`((?:host|apps|kernels|tests|bench|scripts|jobs|python|docs|include)/[\w./-]+\.\w+)")


class References:
    """What the sources of the repository have."""

    def __init__(self, repository):
        self.repository, self.identifiers = Path(repository), None

    def wrong_links(self, text, page):
        """The links of a page that lead nowhere, one text each."""
        for target in sorted(set(LINK.findall(re.sub("`[^`]*`", "", text)))):
            if not (self.repository / page).parent.joinpath(target).exists():
                yield f"a link to {target}, which there is not"

    def wrong(self, text):
        """What is named and is not there, one text each. NAME in a path stands for one of the reader's own."""
        if self.identifiers is None:
            self.identifiers = {name for folder in SOURCES for file in (self.repository / folder).rglob("*")
                                if file.suffix in (".cpp", ".hpp", ".cu", ".cuh", ".py", ".sh")
                                for name in IDENTIFIER.findall(file.read_text(encoding="utf-8", errors="replace"))}
        for name in sorted(set(IDENTIFIER.findall(text)) - self.identifiers):
            yield f"{name} is in no source"
        for path in sorted(set(FILE.findall(text))):
            if "NAME" not in path and not (self.repository / path).exists():
                yield f"no file {path}"
