"""Owns model files of the test scripts as numpy arrays: safetensors read and written by hand, GGUF by the package `gguf`."""

import json
import struct

import numpy as np

TYPES = {"F32": np.float32, "BF16": np.uint16, "F16": np.float16, "F8_E4M3": np.uint8, "I32": np.int32, "F64": np.float64}


def to_bf16(values):
    """float32 to bfloat16 bits, nearest, ties to even."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def write_safetensors(path, tensors, metadata=None):
    """`tensors`: name to an array, written as float32, or to (type, array of its bits)."""
    header, data = {"__metadata__": metadata} if metadata else {}, b""
    for name, values in tensors.items():
        dtype, array = values if isinstance(values, tuple) else ("F32", values.astype("<f4"))
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    return path


def read_safetensors(path):
    """Name to array, BF16 as float32, and the metadata."""
    with open(path, "rb") as file:
        raw = file.read()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + size])
    metadata = header.pop("__metadata__", {})
    out = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        array = np.frombuffer(raw[8 + size + begin:8 + size + end], dtype=TYPES[entry["dtype"]]).reshape(entry["shape"])
        out[name] = from_bf16(array) if entry["dtype"] == "BF16" else array
    return out, metadata


def gguf_tensors(*paths):
    """Name to tensor of the package `gguf`, of all the files."""
    import gguf
    return {tensor.name: tensor for path in paths for tensor in gguf.GGUFReader(path).tensors}


def gguf_values(tensor):
    """Its weights as float32, outermost side first."""
    import gguf
    values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
    return np.asarray(values, dtype=np.float32).reshape([int(side) for side in reversed(tensor.shape)])


def finish_gguf(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
