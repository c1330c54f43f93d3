"""Every source begins with a comment that says what it owns, or what a script does: above the first line of code, in a sentence.

    opening_comments_test.py SOURCE_FOLDER
"""
import pathlib
import re
import sys
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()
FOLDERS = ("apps", "bench", "docs", "host", "include", "jobs", "kernels", "python", "scripts", "tests")
# How a comment begins, by the ending of a file's name.
SLASHES = re.compile(r"///?\s|/\*")
BEGINNINGS = {
    **dict.fromkeys((".cpp", ".hpp", ".cu", ".cuh", ".js"), SLASHES),
    **dict.fromkeys((".sh", ".cmake"), re.compile(r"#\s")),
    **dict.fromkeys((".py", ".pyi"), re.compile(r'r?"""|#\s')),
}
LEAST_WORDS = 4


def opening(text, ending):
    """The first line that is neither empty nor names an interpreter, if it begins a comment; else None."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#!")]
    beginning = lines and BEGINNINGS[ending].match(lines[0])
    if not beginning:
        return None
    comment = lines[0][beginning.end():]
    return comment if lines[1:2] == [] else f"{comment} {lines[1].strip('/# ')}"


def sources():
    for folder in FOLDERS:
        for path in sorted((SOURCE / folder).rglob("*")):
            if path.suffix in BEGINNINGS and path.is_file() and "__pycache__" not in path.parts:
                yield path


class OpeningComments(unittest.TestCase):
    def test_every_source_has_one(self):
        count, wrong = 0, []
        for path in sources():
            text = path.read_text(encoding="utf-8")
            count += 1
            comment = opening(text, path.suffix) if text.strip() else "an empty file owns nothing at all"
            if comment is None or len(comment.split()) < LEAST_WORDS:
                wrong.append(f"{path.relative_to(SOURCE)} does not begin with a comment on what it owns")
        self.assertEqual(wrong, [])
        self.assertGreater(count, 1000)

    def test_what_is_missing_is_found(self):
        self.assertIsNone(opening('#include "a.hpp"\n// Owns nothing of this.\n', ".cpp"))
        self.assertIsNone(opening("#!/bin/sh\nset -eu\n", ".sh"))
        self.assertIsNone(opening("import os\n", ".py"))
        self.assertEqual(opening("#!/bin/sh\n# Builds all.\nset -eu\n", ".sh"), "Builds all. set -eu")
        self.assertEqual(opening("\n// Owns a queue.\n#pragma once\n", ".hpp"), "Owns a queue. pragma once")
        self.assertEqual(opening('"""Reads files."""\n', ".py"), 'Reads files."""')


if __name__ == "__main__":
    unittest.main()
