#!/usr/bin/env python3
"""Writes the token ids of a text as JSON lines {"ids": [...]}, one prompt a line, for `vindex trace` and scripts/capture.py.

    scripts/tokenise.py prompts.txt --tokenizer MODEL -o prompts.jsonl
    scripts/tokenise.py book.txt --paragraphs --tokenizer model.gguf --window 512 -o book.jsonl
    scripts/tokenise.py prompts.txt --tokenizer bytes > prompts.jsonl

Special tokens are those that the tokenizer adds by itself. Packages: scripts/python_env.sh --models (none for `bytes`).
"""

import argparse
import json
import os
import sys
from pathlib import Path

from capture_files import CaptureError, cut, read_texts


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path, help="UTF-8; a prompt is a line, empty ones skipped")
    parser.add_argument("--tokenizer", required=True, help="a model's folder, a .gguf, or `bytes`: a token is a byte of the text")
    parser.add_argument("--paragraphs", action="store_true", help="a prompt is what stands between empty lines")
    parser.add_argument("--window", type=int, help="cut longer prompts into pieces of so many tokens, each a prompt; none is dropped")
    parser.add_argument("--limit", type=int, help="the first so many prompts only")
    parser.add_argument("-o", "--output", type=Path, help="default: standard output")
    parser.add_argument("--force", action="store_true", help="replace a file that is there")
    flags = parser.parse_args(arguments)
    for name in ("window", "limit"):
        if getattr(flags, name) is not None and getattr(flags, name) < 1:
            raise CaptureError(64, f"--{name} {getattr(flags, name)}: at least 1")
    return flags


def run(arguments):
    flags = parse(arguments)
    if not flags.text.is_file():
        raise CaptureError(66, f"{flags.text}: no such file")
    if flags.output is not None and flags.output.exists() and not flags.force:
        raise CaptureError(73, f"{flags.output} is there: --force replaces it")
    prompts = [ids for ids in read_texts(flags.text, flags.tokenizer, flags.paragraphs) if ids]
    if flags.window:
        prompts = cut(prompts, flags.window)
    prompts = prompts[:flags.limit]
    if not prompts:
        raise CaptureError(65, f"{flags.text}: no token in it")
    lines = "".join(json.dumps({"ids": ids}) + "\n" for ids in prompts)
    if flags.output is None:
        sys.stdout.write(lines)
    else:
        unfinished = flags.output.with_name(flags.output.name + ".partial")
        try:
            unfinished.write_text(lines)
            os.replace(unfinished, flags.output)
        except OSError as error:
            unfinished.unlink(missing_ok=True)
            raise CaptureError(73, f"{flags.output}: {error.strerror}") from None
    print(f"tokenise: {sum(map(len, prompts))} tokens of {len(prompts)} prompts", file=sys.stderr)


def main():
    try:
        run(sys.argv[1:])
    except CaptureError as error:
        print(f"tokenise: {error.args[1]}", file=sys.stderr)
        sys.exit(error.args[0])


if __name__ == "__main__":
    main()
