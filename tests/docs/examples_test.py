"""The harness of the pages itself, on pages that have something wrong: examples_test.py PROGRAM FOLDER."""

import contextlib
import io
import os
import sys
from pathlib import Path

import examples
from test_script import fresh_folder

PROGRAM, FOLDER = sys.argv[1], Path(sys.argv[2]).absolute()


def harness(action, text, code, *says):
    """Does `action` to a page with this text; returns the page's text afterwards."""
    page = FOLDER / "docs/page.md"
    page.write_text(text, encoding="utf-8")
    runs = [str(FOLDER / "runs")] if action in ("run", "update") else []
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        ended = examples.main([action, "--program", PROGRAM, "--repository", str(FOLDER), "--data", str(FOLDER / "data"),
                               "--models-python", str(FOLDER / "none"), *runs, str(page)])
    said = out.getvalue()
    assert ended == code, (ended, code, said)
    for one in says:
        assert one in said, (one, said)
    return page.read_text(encoding="utf-8")


def block(text, *markers, language="sh"):
    return "".join(f"<!-- {marker} -->\n" for marker in markers) + f"```{language}\n{text}\n```\n\n"


def what_check_finds():
    for language in ("sh", "console", "python", "cpp"):
        harness("check", block("echo", language=language), 1, "docs/page.md:1", "without a marker")
    harness("check", block("echo", "not run:"), 1, "no reason")
    harness("check", block("echo", "run", "not run: a reason"), 1, "several of")
    harness("check", "<!-- run -->\n\nText.\n", 1, "a marker without a block")
    harness("check", block("vindex show x.h5", language=""), 1, "without a language")
    harness("check", "Text:\n\n    vindex show x.h5\n", 1, "indented block")
    harness("check", block("echo x", "run") + block("x" * 81, language=""), 1, "81 columns")
    harness("check", block("x", "run by tests/none.py", language="python"), 1, "is not there")
    harness("check", block("int none;", "from docs/page.txt", language="cpp"), 1, "not a part of")
    (FOLDER / "docs/page.txt").write_text("{\n  int some;\n  int none;\n}\n", encoding="utf-8")
    harness("check", block("int none;", "from docs/page.txt", language="cpp"), 0)
    harness("check", "[a page](page.txt#part), [another](https://a.b/c)\n", 0)
    harness("check", "[no page](none.md)\n", 1, "a link to none.md")
    for command, says in {
        "vindex measures x": "no command `vindex measures`",
        "vindex organ extracts x": "no command `vindex organ extracts`",
        "vindex organ": "needs a command",
        "vindex measure x -o y.h5 --heds": "no --heds",
        "A=1 build/vindex measure x -o y.h5 | grep a; vindex show --no": "no --no",
        "vindex measure x -o y.h5 --mode fastest": "one of",
        "vindex measure x": "needs --output",
        "vindex compare x -o y.h5": "takes 2 to 2",
        "vindex measure x -o y.h5 \\\n  --heds": "no --heds",
        "scripts/none.sh": "no file scripts/none.sh",
        "echo 'x": "without an end",
    }.items():
        harness("check", block(command, "not run: a reason"), 1, says)
        harness("check", block("$ " + command.replace("\n", "\n> "), "not run: a reason", language="console"), 1, says)
    harness("check", "Use `vindex show --heds` and `--heds`.\n", 1, "`vindex show --heds`: `vindex show` has no --heds", "nor a script")
    harness("check", "It ends with E-NONE, see `scripts/none.sh`.\n", 1, "E-NONE is in no source", "no file scripts/none.sh")
    harness("check", "Use `vindex edit delete|insert`, `vindex show --top 3`.\n", 0)
    harness("check", block("vindex -q measure x -o y.h5 --mode fast > z 2>&1 && vindex show y.h5 # it's done", "not run: a reason"), 0)


def what_a_run_finds():
    same = block("echo a; echo 0.1 s", "run") + block("a\n0.1 s", language="")
    harness("run", same, 0, "1 blocks run")
    harness("run", same.replace("a\n0.1 s", "a\n0.2 s"), 1, "-0.2 s", "+0.1 s")
    varies = block("echo a; echo 0.1 s", "run") + block("a\n0.2 s", "varies: seconds", language="")
    assert harness("update", varies, 0) == varies  # what may differ stays as it is
    harness("run", varies.replace("echo a", "echo b"), 1, "+b")
    harness("run", block("echo 1.2345", "run") + block("1.2344", "varies: last digits", language=""), 0)
    harness("run", block("echo 1.2345", "run") + block("1.2341", "varies: last digits", language=""), 1)
    harness("run", block("echo a", "run") + block("a", "varies: everything", language=""), 1, "is none of")
    long = block("seq 1 20", "run")
    harness("run", long + block("1\n...\n7\n...\n20", language=""), 0)
    for wrong in ("1\n...\n7\n8\n20", "...\n7\n...\n1", "2\n..."):
        harness("run", long + block(wrong, language=""), 1)
    renewed = harness("update", block("printf '%s\\n' 'x 1' 'y 2' 'z 3'", "run") + block("x 1\n...\nz 4", language=""), 1)
    assert "```\nx 1\n...\nz 3\n```" in renewed, renewed
    harness("run", renewed, 0)
    # A failure ends the page: what follows builds on it.
    harness("run", block("false", "run") + block("echo never", "run"), 1, "exit code 1, not 0", "1 blocks failed")
    harness("run", block("exit 3", "run: exit 3"), 0)
    # Commands, Python, variables and what was made before a block carry on.
    harness("run", block("X=1", "run") + block("test -e here && echo $X > there", "before: touch here", "run")
            + block("y = open('there').read()", "run", language="python") + block("print(y, end='')", "run", language="python")
            + block("1", language=""), 0, "4 blocks run")
    harness("run", block("1 / 0", "run", language="python"), 1, "ZeroDivisionError")
    console = block("$ T=2\n$ echo a\na\n$ echo $T\n3", "run", language="console")
    harness("run", console, 1)
    assert "$ echo $T\n2\n" in harness("update", console, 1)
    # What is not here leaves out the rest of its section, and says so.
    for need in ("data none", "command no-such-command", "package no_such_package", "models"):
        harness("run", block("false", f"run: {need}") + block("false", "run"), 77, "left out: no ", "2 blocks left out")
    harness("run", block("false", "run: data none") + "## Next\n\n" + block("true", "run"), 0, "1 blocks left out", "1 blocks run")
    harness("run", "<!-- blocks: run -->\n" + block("false") + block("true", "not run: a reason"), 1)


fresh_folder(FOLDER)
for name in ("docs", "scripts", "jobs", "data"):
    os.makedirs(FOLDER / name)
what_check_finds()
what_a_run_finds()
