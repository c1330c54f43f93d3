"""Owns the small models of tests/data/trace, with numpy alone: their weights are made from a seed by integers, so that only
configurations and what transformers computed are stored. tests/data/trace/README.md describes the files."""

import json
import zlib
from pathlib import Path

import numpy as np

TYPES = {"F32": np.dtype("<f4"), "U8": np.dtype("u1"), "BF16": np.dtype("<u2")}
# Of the sum of four bytes, each of 0 ... 255 alike.
MEAN, DEVIATION = 510, (4 * (256**2 - 1) / 12) ** 0.5


def mixed(numbers):
    """The output function of SplitMix64 (Steele, Lea and Flood 2014), of 64-bit integers."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def values_of(name, law, seed):
    """bfloat16 values, as float32, of a tensor whose law says `SHAPE MEAN DEVIATION`, as in "48x80 0 0.1677". Value i takes four bytes of
    mixed(2^32 (CRC-32 of the name + seed) + i); one product and one sum in float64 follow, which are the same on every machine."""
    shape, mean, deviation = law.split()
    shape = tuple(int(part) for part in shape.split("x"))
    first = ((zlib.crc32(name.encode()) + seed) & 0xFFFFFFFF) << 32
    bits = mixed(np.arange(np.prod(shape), dtype=np.uint64) + np.uint64(first))
    total = sum((bits >> np.uint64(8 * part)) & np.uint64(255) for part in range(4)).astype(np.int64)
    values = float(mean) + (total - MEAN) * (float(deviation) / DEVIATION)
    return rounded(values.astype(np.float32)).reshape(shape)


def rounded(values):
    """The nearest bfloat16, even ones of equal distance, as float32."""
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)


def write_safetensors(path, tensors):
    """`tensors`: name -> (type, array of TYPES[type]); the same bytes whenever it is called."""
    header, parts, at = {}, [], 0
    for name, (kind, values) in sorted(tensors.items()):
        data = np.ascontiguousarray(values, TYPES[kind]).tobytes()
        header[name] = {"dtype": kind, "shape": list(values.shape), "data_offsets": [at, at + len(data)]}
        parts.append(data)
        at += len(data)
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    Path(path).write_bytes(len(text).to_bytes(8, "little") + text + b"".join(parts))


def read_safetensors(path):
    """Name -> array of a file of write_safetensors."""
    content = Path(path).read_bytes()
    size = int.from_bytes(content[:8], "little")
    tensors = {}
    for name, of in json.loads(content[8:8 + size]).items():
        if name != "__metadata__":
            first, last = (8 + size + offset for offset in of["data_offsets"])
            tensors[name] = np.frombuffer(content[first:last], TYPES[of["dtype"]]).reshape(of["shape"])
    return tensors


def write_model(folder, config, tensors):
    """A Hugging Face folder of bfloat16; `tensors`: name -> float32 values that bfloat16 holds."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    write_safetensors(folder / "model.safetensors", {name: ("BF16", values.view(np.uint32) >> 16) for name, values in tensors.items()})


class Golden:
    """A model of tests/data/trace: its configuration, weights, prompts, and the reference."""

    def __init__(self, path):
        described = json.loads(path.read_text())
        self.name = path.stem
        self.config = described["config"]
        self.in_gguf = described["gguf"]
        self.loss = described["loss"]
        self.prompts_file = path.with_name(described["prompts"])
        self.prompts = [json.loads(line)["ids"] for line in self.prompts_file.read_text().splitlines()]
        self.tensors = {name: values_of(name, law, described["seed"]) for name, law in described["tensors"].items()}
        self.reference = read_safetensors(path.with_suffix(".safetensors"))


def rows_kept(prompts):
    """Rows of a dump that are stored: the last token of every prompt, and the middle one of the longest."""
    lengths = [len(ids) for ids in prompts]
    ends = np.cumsum(lengths)
    longest = int(np.argmax(lengths))
    return sorted({*(int(end) - 1 for end in ends), int(ends[longest]) - 1 - lengths[longest] // 2})
