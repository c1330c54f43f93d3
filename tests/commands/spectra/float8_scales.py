#!/usr/bin/env python3
"""Mean and variation of float8 block scales in /tensor/, against numpy, and their absence elsewhere.

Usage: float8_scales.py VINDEX FOLDER
"""

import json
import pathlib
import shutil
import struct
import subprocess
import sys

import h5py
import numpy


def tensors_of(path):
    """Name to float32 array of a safetensors file, of those that are F32."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    for name, tensor in json.loads(data[8 : 8 + length]).items():
        if name != "__metadata__" and tensor["dtype"] == "F32":
            begin, end = (8 + length + offset for offset in tensor["data_offsets"])
            yield name, numpy.frombuffer(data[begin:end], "<f4").astype(float)


def main():
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)

    def call(*arguments):
        subprocess.run([program, "-q", *map(str, arguments)], check=True)

    call("synth", "layer:4x256x384:fp8:rowscale", "-o", folder / "fp8")
    call("synth", "layer:4x256x384:bf16", "-o", folder / "bf16")
    wanted = {}
    for file in (folder / "fp8").glob("*.safetensors"):
        for name, scales in tensors_of(file):
            if name.endswith("_scale_inv"):
                wanted[name.removesuffix("_scale_inv")] = scales
    assert len(wanted) >= 4, "a model with scales"
    for model, out in (("fp8", "fp8.h5"), ("bf16", "bf16.h5")):
        call("organ", "measure", folder / model, "-o", folder / out)
        call("validate", folder / out)
    call("organ", "measure", folder / "fp8", "-o", folder / "fp8.h5")  # nothing is left to do
    with h5py.File(folder / "fp8.h5") as file:
        table = file["tensor"]
        found = {}
        for name, count, mean, cv in zip(table["name"].asstr()[:], table["scale_count"][:], table["scale_mean"][:],
                                         table["scale_cv"][:], strict=True):
            if count > 0:
                found[name] = (count, mean, cv)
            else:
                assert numpy.isnan(mean) and numpy.isnan(cv), name
    assert found.keys() == wanted.keys(), (sorted(found), sorted(wanted))
    for name, (count, mean, cv) in found.items():
        scales = wanted[name]
        assert count == scales.size, name
        numpy.testing.assert_allclose([mean, cv], [scales.mean(), scales.std() / scales.mean()], rtol=1e-9)
    with h5py.File(folder / "bf16.h5") as file:
        assert "scale_count" not in file["tensor"], "columns where no tensor has scales"
    print(f"scales of {len(found)} tensors agree with numpy")


if __name__ == "__main__":
    main()
