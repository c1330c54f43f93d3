"""What scripts/tokenise.py writes beside the tokenizer's own ids, and its errors; a small tokenizer is made here.

Usage: tokenise_test.py SCRIPT PROMPTS FOLDER."""

import contextlib
import importlib.util
import io
import json
import os
import sys
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
from test_script import fresh_folder
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

SCRIPT, PROMPTS, FOLDER = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
sys.path.insert(0, os.path.dirname(os.path.abspath(SCRIPT)))
spec = importlib.util.spec_from_file_location("tokenise", SCRIPT)
tokenise = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tokenise)
WORDS = ["<s>", "<unk>", "the", "cat", "sat", "on", "mat", ".", "Ġthe"]


def make_tokenizer(folder):
    """Words and punctuation, <s> in front."""
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", unk_token="<unk>").save_pretrained(folder)


def run(*arguments, code=0):
    """Standard output, and what is said; within this process, since importing transformers takes seconds."""
    out, said = io.StringIO(), io.StringIO()
    ended, text = 0, ""
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
        try:
            tokenise.run([str(argument) for argument in arguments])
        except tokenise.CaptureError as error:
            ended, text = error.args
    assert ended == code, (arguments, ended, text)
    return out.getvalue(), text or said.getvalue()


def written(*arguments):
    return [json.loads(line) for line in run(*arguments)[0].splitlines()]


def rows(*prompts):
    return [{"ids": ids} for ids in prompts]


def same(got, want):
    assert got == want, (got, want)


def main():
    fresh_folder(FOLDER)
    text, out = FOLDER / "text.txt", FOLDER / "ids.jsonl"
    text.write_text("the cat sat.\n\nthe mat\non the mat\n \n\n\u00e9\n", encoding="utf-8")
    same(written(text, "--tokenizer", "bytes", "--limit", 2), rows(list(b"the cat sat."), list(b"the mat")))
    same(written(text, "--tokenizer", "bytes", "--paragraphs"), rows(list(b"the cat sat."), list(b"the mat\non the mat"), [0xC3, 0xA9]))
    make_tokenizer(FOLDER / "tokenizer")
    own = ["--tokenizer", FOLDER / "tokenizer"]
    lines = rows([0, 2, 3, 4, 7], [0, 2, 6], [0, 5, 2, 6], [0, 1])
    same(written(text, *own), lines)
    same(written(text, *own, "--paragraphs"), rows([0, 2, 3, 4, 7], [0, 2, 6, 5, 2, 6], [0, 1]))
    same(written(text, *own, "--window", 4), rows([0, 2, 3, 4], [7], [0, 2, 6], [0, 5, 2, 6], [0, 1]))

    printed, said = run(text, *own, "-o", out)
    assert printed == "" and "14 tokens of 4 prompts" in said, (printed, said)
    same([json.loads(line) for line in out.read_text().splitlines()], lines)
    assert "--force" in run(text, *own, "-o", out, code=73)[1]
    run(text, "--tokenizer", "bytes", "--limit", 1, "-o", out, "--force")
    same(json.loads(out.read_text()), {"ids": list(b"the cat sat.")})
    run(text, *own, "-o", FOLDER / "absent" / "ids.jsonl", code=73)
    assert not list(FOLDER.rglob("*.partial"))

    run(FOLDER / "absent.txt", *own, code=66)
    run(text, "--tokenizer", FOLDER / "absent", code=66)
    run(text, *own, "--window", 0, code=64)
    text.write_bytes(b"caf\xe9\n")
    assert "byte 3" in run(text, *own, code=65)[1]
    text.write_text("\n  \n")
    run(text, *own, code=65)

    # What docs/commands/prompts.md says of its file.
    ids = [line["ids"] for line in written(PROMPTS, "--tokenizer", "bytes")]
    texts = [bytes(one).decode() for one in ids]
    assert len(texts) == 256 == len(set(texts)) and "\n".join(texts) + "\n" == PROMPTS.read_text(encoding="utf-8")
    return 0


sys.exit(main())
