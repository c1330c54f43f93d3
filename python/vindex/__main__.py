"""The console command `vindex`.

The program takes this process's place at once, except for `vindex export --format parquet|arrow`,
which pyarrow writes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from vindex._text import printable
from vindex.errors import Error

_OWN = ("parquet", "arrow")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns only where Python does the work, with its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if _format_asked_for(words) in _OWN:
            if {"-h", "--help"}.isdisjoint(words):
                return _export(words)
            words = ["export", "--help"]
        from vindex import _program

        program = _program.path()
        sys.stdout.flush()
        sys.stderr.flush()
        os.execv(program, ["vindex", *words])
    except Error as error:
        print(f"vindex: {printable(str(error))}", file=sys.stderr)
        return error.code
    except BrokenPipeError:  # whoever reads has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except OSError as error:
        print(f"vindex: E-PROGRAM: cannot run the program: {error}", file=sys.stderr)
        return 70


def _format_asked_for(words: Sequence[str]) -> str:
    """The value of --format of a command line of `vindex export`; empty for every other one."""
    if next((word for word in words if not word.startswith("-")), "") != "export":
        return ""
    found = ""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == "--":
            break
        if word == "--format":
            found = following
        elif word.startswith("--format="):
            found = word.removeprefix("--format=")
    return found


def _export(words: Sequence[str]) -> int:
    """`vindex export FILE --format F -o PATH [--table T] [--spectra] [--force] [-q]`."""
    import argparse

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> None:  # type: ignore[override]
            raise Error(64, "E-USAGE", f"{message}; see `vindex export --help`")

    parser = Parser(prog="vindex", add_help=False, allow_abbrev=False)
    parser.add_argument("-q", "--quiet", action="store_true")
    parser.add_argument("command")
    parser.add_argument("file")
    parser.add_argument("--format", required=True)
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--table")
    parser.add_argument("--spectra", action="store_true")
    parser.add_argument("--force", action="store_true")
    taken = parser.parse_intermixed_args(list(words))

    from vindex import export
    from vindex.results import open as open_results

    with open_results(taken.file) as results:
        export.write(
            results,
            taken.output,
            taken.format,
            table=taken.table,
            spectra=taken.spectra,
            force=taken.force,
        )
        sample = results.attributes.get("sample")
        if sample and not taken.quiet:
            note = "the rows are a sample of the model: counts, sums and extremes are not its own"
            print(f"note: {printable(taken.file)}: {note}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
