"""Texts with and without words of scripts/words.txt, given to scripts/check_words.py.

Usage: check_words_test.py CHECK_WORDS FOLDER."""

import os
import shutil
import subprocess
import sys

CHECK, FOLDER = map(os.path.abspath, sys.argv[1:3])
shutil.rmtree(FOLDER, ignore_errors=True)
os.makedirs(FOLDER)


def check(name, text, **environment):
    """Exit code, and the findings without the folder."""
    path = os.path.join(FOLDER, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    done = subprocess.run([sys.executable, CHECK, path], capture_output=True, text=True, check=False,
                          env={**os.environ, **environment})
    return done.returncode, done.stdout.replace(FOLDER + os.sep, "").splitlines(), done.stderr


def passes(name, text):
    code, found, _ = check(name, text)
    assert code == 0 and not found, (text, code, found)


def fails(name, text, *beginnings):
    code, found, _ = check(name, text)
    assert code == 1 and len(found) == len(beginnings), (text, code, found)
    for line, beginning in zip(found, beginnings):
        assert f"/{beginning}" in f"/{line}" and " -> " in line, (text, found)


passes("good.md", "The caller gets a report.\n\nEvery command says so.\n")
fails("word.md", "A line.\n\nWhoever reads this is told so.\n", "word.md:3: 'Whoever'", "word.md:3: 'told'")
fails("list.md", "10. An item that\n    nobody reads.\n", "list.md:2: 'nobody'")
fails("phrase.md", "# Page\n\nWhat is\nwanted is a name.\n", "phrase.md:3: 'is wanted'")  # across lines
fails("table.md", "| a | b |\n|---|---|\n| c | any verb |\n", "table.md:3: 'verb'")
# A line that is allowed, and what is quoted.
passes("allowed.md", "| `verb` | the word whoever <!-- word: ok --> |\n")
passes("quoted.md", "The key `verb`, `told\nso`, and [a page](told.md).\n\n```\nwhoever\n```\n\n    vindex verb\n")
fails("comment.md", "```sh\nvindex lookup M --token T   # whoever answers to a word\n```\n",
      "comment.md:2: 'whoever'", "comment.md:2: 'answers to a word'")
# C++: what a user reads, not comments, keys and names.
passes("good.cpp", '// whoever is told\nint told = f("verb", \'"\');  /* is wanted */\n')
fails("help.cpp", 'int a;\nauto x = "of experts: how "\n         "alike they are";\n', "help.cpp:2: 'how alike'")
fails("raw.cpp", 'auto x = R"(One line.\nWhoever reads)";\n', "raw.cpp:2: 'Whoever'")
passes("allowed.cpp", 'auto x = "a verb of the contract";  // word: ok\n')
# A header: what a programmer reads, over lines that follow each other.
fails("header.hpp", 'int a;  ///< for people\n/// Of experts: how\n/// alike they are.\n', "header.hpp:1: 'people'",
      "header.hpp:2: 'how alike'")
passes("good.hpp", '/// Reads `whoever`.\nint told = f("is told");\n')
# Misspellings, where codespell is installed; where it is not, a line says so.
if shutil.which("codespell"):
    code, found, _ = check("spelling.md", "A singluar value of teh matrix.\n")
    assert code == 1 and len(found) == 2 and "singular" in found[0] + found[1], found
code, found, said = check("spelling.md", "A singluar value.\n", PATH=FOLDER)
assert code == 0 and not found and "codespell is not installed" in said, (code, found, said)
print("words: checked")
