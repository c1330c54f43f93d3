"""Input and output of scripts/capture.py and tokenise.py: prompts as token ids, and the arrays of a dump, written row by row."""

import json
import os
import re
import shutil
from pathlib import Path

import numpy as np


class CaptureError(Exception):
    """An error that the user can correct: printed as one line; the first member is the exit code (sysexits)."""


def parse_numbers(text):
    """'0,8-15' as a set; None for nothing."""
    if not text:
        return None
    numbers = set()
    for part in text.split(","):
        found = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        if not found or (found[2] and int(found[2]) < int(found[1])):
            raise CaptureError(64, f"--layers `{text}`: write numbers and ranges, for example 0,8-15")
        numbers.update(range(int(found[1]), int(found[2] or found[1]) + 1))
    return numbers


def read_ids(path):
    """Prompts of token numbers: .npy [tokens], or JSON lines {"ids": [...]} or [...]."""
    if path.suffix == ".npy":
        ids = np.load(path, allow_pickle=False)
        if ids.ndim != 1 or ids.dtype.kind not in "iu":
            raise CaptureError(65, f"{path}: integers [tokens] are needed")
        return [ids.tolist()]
    prompts = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError as error:
            raise CaptureError(65, f"{path}, line {number}: {error}") from None
        ids = value.get("ids") if isinstance(value, dict) else value
        if not isinstance(ids, list) or not all(type(i) is int and i >= 0 for i in ids):
            raise CaptureError(65, f'{path}, line {number}: {{"ids": [numbers]}} is needed')
        prompts.append(ids)
    return prompts


def read_texts(path, tokenizer, paragraphs=False):
    """Prompts of a UTF-8 file, one per line, empty lines skipped; or its paragraphs, which empty lines part."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise CaptureError(65, f"{path}: byte {error.start} is not UTF-8") from None
    parts = re.split(r"\n(?:[ \t]*\n)+", text) if paragraphs else text.splitlines()
    texts = [part.strip("\n") if paragraphs else part for part in parts if part.strip()]
    if tokenizer == "bytes":
        return [list(text.encode()) for text in texts]
    from transformers import AutoTokenizer

    folder, arguments = model_arguments(Path(tokenizer))
    try:
        encode = AutoTokenizer.from_pretrained(folder, **arguments)
    except Exception as error:  # the library raises many kinds
        raise CaptureError(66, f"no tokenizer in {tokenizer} ({first_line(error)}): --tokenizer takes another folder or `bytes`, "
                               "--ids of capture.py and `vindex trace` token numbers") from None
    return [encode(text)["input_ids"] for text in texts]


def cut(prompts, window):
    """Prompts longer than `window` in pieces of it, each a prompt of its own: no token is dropped."""
    return [ids[at:at + window] for ids in prompts for at in range(0, len(ids), window)]


def first_line(error):
    return str(error).strip().split("\n")[0][:200]


def model_arguments(path):
    """Folder and arguments of from_pretrained(): a GGUF file is named within its folder."""
    if path.suffix == ".gguf":
        return str(path.parent), {"gguf_file": path.name}
    return str(path), {}


class ArrayFile:
    """One [tokens, width] array on disk that rows are added to; its size is known from the start."""

    TYPES = {"f32": ("F32", np.dtype("<f4")), "f16": ("F16", np.dtype("<f2")), "bf16": ("BF16", np.dtype("<u2"))}

    def __init__(self, folder, name, container, dtype, shape):
        self.name, self.kind, self.at = name, dtype, 0
        if dtype == "i64":
            label, stored = "I64", np.dtype("<i8")
        else:
            label, stored = self.TYPES[dtype]
        path = folder / f"{name}.{container}"
        if container == "npy":
            self.rows = np.lib.format.open_memmap(path, mode="w+", dtype=stored, shape=shape)
            return
        size = int(np.prod(shape)) * stored.itemsize
        header = json.dumps({name: {"dtype": label, "shape": list(shape), "data_offsets": [0, size]}}).encode()
        header += b" " * (-len(header) % 8)
        with open(path, "wb") as file:
            file.write(len(header).to_bytes(8, "little") + header)
            file.truncate(8 + len(header) + size)
        self.rows = np.memmap(path, dtype=stored, mode="r+", offset=8 + len(header), shape=shape)

    def add(self, values):
        """Rows of a float32 tensor (torch) or integers (numpy)."""
        if self.kind == "i64":
            rows = np.asarray(values, dtype=np.int64)
        else:
            rows = self.converted(values)
        self.rows[self.at:self.at + len(rows)] = rows
        self.at += len(rows)

    def converted(self, values):
        import torch

        values = values.detach().float().cpu()
        if self.kind == "bf16":
            return values.to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
        rows = values.numpy()
        if self.kind == "f16":
            with np.errstate(over="ignore"):
                narrow = rows.astype(np.float16)
            if np.isinf(narrow).any() and not np.isinf(rows).any():
                raise CaptureError(78, f"{self.name} has values beyond float16 (up to {np.abs(rows).max():.3g}): "
                                       "--dtype bf16 or f32 holds them")
            return narrow
        return rows

    def close(self):
        self.rows.flush()


class Dump:
    """The arrays of a dump, in a folder that is renamed when it is complete."""

    def __init__(self, target, container, dtype, tokens):
        self.target, self.container, self.dtype, self.tokens = target, container, dtype, tokens
        self.folder = target.with_name(target.name + ".partial")
        self.files = {}
        if self.folder.exists():
            shutil.rmtree(self.folder)
        self.folder.mkdir(parents=True)

    def add(self, name, values):
        """Rows for `name`; its width is that of the first ones."""
        if name not in self.files:
            shape = (self.tokens,) if values.ndim == 1 else (self.tokens, values.shape[1])
            dtype = "i64" if values.ndim == 1 else self.dtype
            self.files[name] = ArrayFile(self.folder, name, self.container, dtype, shape)
        self.files[name].add(values)

    def finish(self):
        short = [name for name, file in self.files.items() if file.at != self.tokens]
        if short:
            raise CaptureError(70, f"rows are missing in {', '.join(short)}")
        for file in self.files.values():
            file.close()
        if self.target.exists():
            shutil.rmtree(self.target)
        os.replace(self.folder, self.target)

    def discard(self):
        shutil.rmtree(self.folder, ignore_errors=True)
