#!/usr/bin/env python3
"""Finds words that texts for users avoid and suggests better ones: check_words.py [FILE...]

Checks the pages below docs/, README.md, CONTRIBUTING.md, the string literals of apps/ and the comments of the public headers
(include/), or the files given, against the list scripts/words.txt. Code quoted in Markdown or in a comment is verbatim: `code` and
addresses of links are skipped, and of fenced blocks only comments are checked. Where codespell is installed, misspellings are reported too, by its own dictionary and
scripts/spelling.txt; where it is not, a line on standard error says so.

Exit code: 0 nothing found, 1 something found, 64 an invalid line in the list."""

import fnmatch
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SCRIPTS = os.path.join(ROOT, "scripts")
OK = re.compile(r"word: ok\b")
# A comment, a raw string, a string or a character, whichever begins first: a quote inside another one does not count.
CPP = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\((.*?)\)\1"|"((?:[^"\\\n]|\\.)*)"|\'(?:[^\'\\\n]|\\.)*\'', re.S)


def rules(path):
    """(rules, exceptions) of a word list: (expression, better word), (pattern of files, expression)."""
    found, allowed = [], []
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            line = line.split("#")[0].strip()
            exception = re.fullmatch(r"allow (\S+): (.+)", line)
            rule = re.fullmatch(r"(.+?)\s+->\s+(.+)", line)
            try:
                if exception:
                    allowed.append((exception[1], re.compile(exception[2])))
                elif rule:
                    words = rule[1].replace(" ", r"\s+")  # a phrase may continue on the next line
                    found.append((re.compile(rf"(?<![\w-])(?:{words})(?![\w-])", re.I), rule[2]))
                elif line:
                    raise re.error("neither 'EXPRESSION -> BETTER WORD' nor 'allow FILE: EXPRESSION'")
            except re.error as error:
                print(f"{path}:{number}: {error}", file=sys.stderr)
                sys.exit(64)
    return found, allowed


def markdown(text):
    """(first line, text) of the paragraphs and tables of a page, and of the comments in its code blocks."""
    paragraph, first, fence = [], 0, False
    for number, line in enumerate([*text.split("\n"), ""], 1):
        if line.lstrip().startswith("```"):
            fence = not fence
            line = ""
        elif fence:
            comment = re.search(r"(?:^|\s)(?:#|//) (.*)", line)
            if comment:
                yield number, comment[1]
            continue
        if line.strip() and (paragraph or not line.startswith("    ")):  # indented code begins behind an empty line
            first = first if paragraph else number
            paragraph.append(line)
        elif paragraph:
            # The whole paragraph at once: code and phrases continue across lines.
            whole = without_code("\n".join(paragraph))
            whole = re.sub(r"\]\([^)\s]*\)", lambda link: "]" + "`" * (len(link[0]) - 1), whole)
            yield first, whole
            paragraph = []


def without_code(text):
    """`text` with `code` blanked, line by line as long as before."""
    return re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", lambda code: re.sub(r"[^\n]", "`", code[0]), text, flags=re.S)


def comments(text):
    """(first line, text) of the comments of C++, those of lines that follow each other as the one that they are."""
    block, first = [], 0
    for number, line in enumerate([*text.split("\n"), ""], 1):
        comment = re.search(r"(?:^|\s)//[/!]?<?(.*)", line)
        if comment:
            first = first if block else number
            block.append(comment[1])
        elif block:
            yield first, without_code("\n".join(block))
            block = []


def texts_of(path, text):
    """What of a file is checked, by its kind."""
    if path.endswith(".md"):
        return markdown(text)
    return comments(text) if path.endswith(".hpp") else literals(text)


def literals(text):
    """(line, text) of the string literals of C++, adjacent ones as the one that they are; those of one word are keys."""
    joined, first, end = "", 0, 0
    for literal in [*CPP.finditer(text), None]:
        words = None if literal is None else literal[2] if literal[2] is not None else literal[3]
        if literal is not None and words is None and not literal[0].startswith(("//", "/*")):
            continue  # a character
        if joined and (words is None or text[end:literal.start()].strip()):
            if " " in joined.strip():
                yield first, joined
            joined = ""
        if words is not None:
            words = words.replace("\\n", "  ")
            if joined:
                joined += "\n" * text.count("\n", end, literal.start()) + words
            else:
                joined, first = words, text.count("\n", 0, literal.start()) + 1
            end = literal.end()


def check(path, found, allowed):
    """Prints the findings of one file and returns their number."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    lines = text.split("\n")
    name = os.path.relpath(path, ROOT)
    shown = path if name.startswith("..") else name
    exceptions = [expression for pattern, expression in allowed if fnmatch.fnmatch(name, pattern)]
    findings = []
    for first, words in texts_of(path, text):
        for expression, better in found:
            for hit in expression.finditer(words):
                line = first + words.count("\n", 0, hit.start())
                whole = lines[line - 1]
                if not OK.search(whole) and not any(exception.search(whole) for exception in exceptions):
                    findings.append((line, hit.start(), f"'{' '.join(hit[0].split())}' -> {better}"))
    for line, _, finding in sorted(findings):
        print(f"{shown}:{line}: {finding}")
    return len(findings)


def misspellings(paths):
    """Prints the findings of codespell and returns their number; 0, with a notice, where it is not installed."""
    if not shutil.which("codespell"):
        print("check_words: codespell is not installed; misspellings are not checked", file=sys.stderr)
        return 0
    done = subprocess.run(["codespell", "-D", os.path.join(SCRIPTS, "spelling.txt"), "-D", "-", *paths],
                          capture_output=True, text=True, check=False)
    print(done.stdout, end="", flush=True)
    if done.returncode and not done.stdout:
        sys.stderr.write(done.stderr)
        return 1
    return len(done.stdout.splitlines())


def texts():
    """The files that are checked by default."""
    for folder, ending in (("docs", ".md"), ("apps", ".cpp"), ("include", ".hpp")):
        for at, folders, names in os.walk(os.path.join(ROOT, folder)):
            folders.sort()
            yield from (os.path.join(at, name) for name in sorted(names) if name.endswith(ending))
    yield os.path.join(ROOT, "README.md")
    yield os.path.join(ROOT, "CONTRIBUTING.md")


def main():
    found, allowed = rules(os.path.join(SCRIPTS, "words.txt"))
    paths = sys.argv[1:] or list(texts())
    count = sum(check(path, found, allowed) for path in paths) + misspellings(paths)
    if count:
        print(f"check_words: {count} found; the list is scripts/words.txt", file=sys.stderr)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
