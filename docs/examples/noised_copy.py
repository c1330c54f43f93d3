#!/usr/bin/env python3
"""Copies a folder of BF16 safetensors and adds white noise to every matrix but embeddings, head and routers, for the page trace.md: what
a change costs that has the size of an edit and knows nothing of the model. Needs numpy alone; its old generator gives the same
numbers in every version.

    python3 docs/examples/noised_copy.py MODEL OUT SHARE     SHARE: the noise's norm over the matrix's"""

import json
import shutil
import struct
import sys
import zlib
from pathlib import Path

import numpy as np


def noised(name, words, shape, share):
    """The BF16 words of a matrix with noise that depends on the name alone."""
    values = (words.astype(np.uint32) << 16).view(np.float32).reshape(shape)
    noise = np.random.RandomState(zlib.crc32(name.encode())).randn(*shape)
    noise *= share * np.linalg.norm(values.astype(np.float64)) / np.linalg.norm(noise)
    bits = (values + noise).astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")


def main(model, out, share):
    out.mkdir(parents=True)
    for path in model.iterdir():
        if path.suffix == ".json":
            shutil.copyfile(path, out / path.name)
        elif path.suffix == ".safetensors":
            data = bytearray(path.read_bytes())
            start = 8 + struct.unpack_from("<Q", data)[0]
            for name, tensor in json.loads(data[8:start]).items():
                if "_proj" in name and len(tensor["shape"]) == 2:
                    first, end = (start + offset for offset in tensor["data_offsets"])
                    words = np.frombuffer(data, "<u2", (end - first) // 2, first).copy()
                    data[first:end] = noised(name, words, tensor["shape"], share).tobytes()
            (out / path.name).write_bytes(data)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]))
