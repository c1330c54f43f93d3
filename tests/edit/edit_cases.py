"""What the checks of `vindex edit` share: files of tensors, a call of the program, and what was found.

Reads the command line of edit_with_numpy.py."""

import glob
import json
import os
import struct
import subprocess
import sys

import numpy as np

VINDEX, DATA, FOLDER = sys.argv[1:4]
RANDOM = np.random.default_rng(13)
FAILURES = []


def check(what, condition, detail=""):
    if not condition:
        FAILURES.append(what)
        print("FAILED:", what, detail)


def close(what, got, wanted, tolerance=1e-6):
    error = np.abs(np.asarray(got, dtype=np.float64) - wanted).max() / max(np.abs(wanted).max(), 1e-300)
    check(what, error <= tolerance, f"relative error {error:.1e}")


def to_bf16(values):
    """float32 to bfloat16 bits, nearest, ties to even."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def write_safetensors(path, tensors, metadata=None):
    header, data = {}, b""
    if metadata:
        header["__metadata__"] = metadata
    for name, (dtype, array) in tensors.items():
        raw = array.tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path):
    with open(path, "rb") as file:
        raw = file.read()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + size])
    metadata = header.pop("__metadata__", {})
    types = {"F32": np.float32, "BF16": np.uint16, "F16": np.float16, "F8_E4M3": np.uint8, "I32": np.int32, "F64": np.float64}
    out = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        array = np.frombuffer(raw[8 + size + begin:8 + size + end], dtype=types[entry["dtype"]]).reshape(entry["shape"])
        out[name] = from_bf16(array) if entry["dtype"] == "BF16" else array
    return out, metadata


def read_folder(folder):
    out = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.safetensors"))):
        out.update(read_safetensors(path)[0])
    return out


def path(name):
    return os.path.join(FOLDER, name)


def npy(name, array):
    np.save(path(name), array)
    return path(name)


def edit(*arguments, code=0):
    done = subprocess.run([VINDEX, "edit", *map(str, arguments), "--json", "--quiet"], capture_output=True, text=True, check=False)
    check(f"exit code of {arguments[:6]}", done.returncode == code, f"{done.returncode}: {done.stderr.strip()}")
    if code:
        return done.stderr
    return json.loads(done.stdout) if done.returncode == 0 else None


def only_differs(what, before, after, name):
    check(what + ": names", before.keys() == after.keys())
    for key in before:
        same = before[key].tobytes() == after[key].tobytes()
        check(f"{what}: {key}", same != (key == name))
