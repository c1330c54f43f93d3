#!/usr/bin/env python3
"""What the verbs refuse, and what a refusal costs: refusals.py PROGRAM FOLDER.

Every case must end with its exit code and one line on standard error that begins with "vindex: E-", leave nothing where its
output goes, take at most two seconds of processor time, and at most 200 MB more memory than `vindex --version`."""

import json
import os
import shutil
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from own_folder import fresh_folder  # noqa: E402

PROGRAM, FOLDER = map(os.path.abspath, sys.argv[1:])
MOST_SECONDS, MOST_BYTES = 2.0, 200 << 20
failures = []


def path(*parts):
    return os.path.join(FOLDER, *parts)


def write(name, content):
    with open(path(name), "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())
    return path(name)


def write_json(name, document):
    return write(name, json.dumps(document))


def safetensors(name, tensors, metadata=None):
    """`tensors`: name -> (dtype, shape, bytes)."""
    header, at = ({"__metadata__": metadata} if metadata else {}), 0
    for tensor, (dtype, shape, data) in tensors.items():
        header[tensor] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return write(name, struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))


def floats(count, of=lambda i: ((i * 2654435761) % 4093 - 2046) / 2046):
    return struct.pack(f"<{count}f", *(of(i) for i in range(count)))


def npy(name, shape, data, dtype="<f4"):
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {tuple(shape)!r}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    return write(name, b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)


def cost(arguments):
    """Exit code, standard error, seconds of processor time, peak memory in bytes."""
    errors = path("stderr")
    with open(errors, "wb") as error, open(os.devnull, "r+b") as null:
        process = subprocess.Popen([PROGRAM, *map(str, arguments)], stdin=null, stdout=null, stderr=error, cwd=FOLDER)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    with open(errors, encoding="utf-8", errors="replace") as error:
        said = error.read()
    os.remove(errors)
    return process.returncode, said, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024


def names_below(folder):
    return sorted(os.path.join(place, name) for place, folders, files in os.walk(folder) for name in folders + files)


def refused(code, arguments, says=""):
    """One case: `vindex ARGUMENTS` ends with `code`; `says` is part of the reason."""
    before = names_below(FOLDER)
    got, said, seconds, peak = cost(["--quiet", *arguments])
    lines = [line for line in said.splitlines() if line]
    wrong = []
    if got != code:
        wrong.append(f"ends with {got}, not {code}")
    if len(lines) != 1 or not lines[0].startswith("vindex: E-"):
        wrong.append("does not say why in one line")
    if says not in said:
        wrong.append(f"does not say {says!r}")
    left = [name for name in names_below(FOLDER) if name not in before]
    if left:
        wrong.append(f"leaves {left}")
        for name in left:
            shutil.rmtree(name, ignore_errors=True) if os.path.isdir(name) else os.path.exists(name) and os.remove(name)
    if seconds > MOST_SECONDS:
        wrong.append(f"takes {seconds:.1f} s of processor time")
    if peak > VERSION_BYTES + MOST_BYTES:
        wrong.append(f"takes {(peak - VERSION_BYTES) >> 20} MiB")
    if wrong:
        failures.append(" ".join(map(str, arguments)))
        print("vindex", *arguments, "|", "; ".join(wrong), "|", said.strip()[:400])


def made(*arguments):
    subprocess.run([PROGRAM, "--quiet", *map(str, arguments)], check=True, cwd=FOLDER, stdout=subprocess.DEVNULL)


def edits():
    model = safetensors("m.safetensors", {"square.weight": ("F32", [32, 32], floats(1024)), "wide.weight": ("F32", [16, 32], floats(512))})
    vector, out = npy("v.npy", (32,), floats(32)), path("o.safetensors")
    delete = ["edit", "delete", model, "--direction", vector]
    refused(64, [*delete, "--tensor", "square.weight", "-o", out], "--side")
    refused(65, ["edit", "delete", model, "--direction", npy("v2.npy", (2, 32), floats(64)), "--tensor", "square.weight", "--side", "right", "-o", out])
    refused(65, ["edit", "delete", model, "--direction", npy("nan.npy", (32,), floats(32, lambda i: float("nan"))), "--tensor", "square.weight",
                 "--side", "right", "-o", out])
    right = [*delete, "--tensor", "square.weight", "--side", "right"]
    for number in ("nan", "inf", "-inf", "1e999", "one"):
        refused(64, [*right, "--alpha", number, "-o", out], "--alpha")
    refused(64, [*delete, "--tensor", "missing.weight", "--side", "right", "-o", out], "missing.weight")
    for target in ("nowhere/o.safetensors", "m.safetensors/o.safetensors", "x" * 256 + ".safetensors"):
        refused(73, [*right, "-o", path(target)])
    os.mkfifo(path("fifo.safetensors"))
    for flags in (["-o", path("fifo.safetensors")], ["-o", out, "--save-patch", path("fifo.safetensors")]):
        refused(73, [*right, *flags])
        refused(73, [*right, *flags, "--replace"])
    os.remove(path("fifo.safetensors"))
    refused(73, [*right, "-o", model, "--replace"])
    refused(73, [*right, "-o", os.path.join(FOLDER, ".", "m.safetensors"), "--replace"])
    for same in ("./o.safetensors", "../" + os.path.basename(FOLDER) + "/o.safetensors"):
        got, said, *_ = cost([*right, "-o", "o.safetensors", "--save-patch", same])
        if got not in (64, 73) or os.path.exists(out):
            failures.append("a model and its patch under one name")
            print("a model and its patch under one name", got, said)
    patch = {"absent.weight.a": ("F32", [1, 32], floats(32)), "absent.weight.b": ("F32", [32, 1], floats(32))}
    refused(65, ["edit", "apply", model, "--patch", safetensors("p.safetensors", patch, {"format": "vindex-patch/1"}), "-o", out])


def organs():
    made("synth", "kimi-k2-mini-q8_0", "-o", "gguf")
    gguf = next(name for name in names_below(path("gguf")) if name.endswith(".gguf"))
    for target in ("nowhere/o.gguf", "m.safetensors/o.gguf", "x" * 256 + ".gguf"):
        refused(73, ["organ", "assemble", gguf, "-o", path(target)])
        refused(73, ["organ", "graft", "--source", gguf, "--target", gguf, "--type", "organ", "-o", path(target)])
        refused(73, ["organ", "purify", gguf, "--method", "svd-shrink", "-o", path(target)])
    os.mkdir(path("empty"))
    refused(66, ["organ", "assemble", path("empty"), "-o", path("o.gguf")])
    os.mkfifo(path("empty", "manifest.json"))
    refused(66, ["organ", "assemble", path("empty"), "-o", path("o.gguf")])
    os.mkfifo(path("fifo.gguf"))
    for verb in (["assemble", gguf], ["graft", "--source", gguf, "--target", gguf, "--type", "organ"], ["purify", gguf]):
        refused(73, ["organ", *verb, "-o", path("fifo.gguf")])
        refused(73, ["organ", *verb, "-o", path("fifo.gguf"), "--replace"])
    os.remove(path("fifo.gguf"))
    for flag in ("--rho", "--cap", "--rate"):
        refused(64, ["organ", "purify", gguf, flag, "nan", "-o", path("o.gguf")], flag)
    made("organ", "extract", gguf, "-o", path("organs"))
    refused(73, ["organ", "assemble", path("organs"), "-o", path("organs", "kv.gguf"), "--replace"])
    refused(73, ["organ", "assemble", gguf, "-o", gguf, "--replace"])


def adapters():
    names = ("model.layers.0.mlp.down_proj.weight",)
    base = safetensors("base.safetensors", {names[0]: ("F32", [16, 32], floats(512))})
    os.mkdir(path("adapter"))
    factors = {"base_model.model.model.layers.0.mlp.down_proj.lora_A.weight": ("F32", [2, 32], floats(64)),
               "base_model.model.model.layers.0.mlp.down_proj.lora_B.weight": ("F32", [16, 2], floats(32))}
    safetensors("adapter/adapter_model.safetensors", factors)
    plain = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["down_proj"]}

    def apply(config, code=78):
        write_json("adapter/adapter_config.json", config)
        refused(code, ["edit", "apply", base, "--patch", path("adapter"), "-o", path("o.safetensors")])

    for start in ("pissa", "pissa_niter_16", "olora", "corda", "loftq"):
        apply({**plain, "init_lora_weights": start})
    apply({**plain, "alora_invocation_tokens": [1, 2]})
    apply({**plain, "layer_replication": [[0, 1], [0, 1]]})
    apply({**plain, "arrow_config": {"top_k": 1}})
    for key in ("use_dora", "use_rslora"):
        apply({**plain, key: 1})
        apply({**plain, key: "true"})
    apply([])
    safetensors("adapter/adapter_model.safetensors", {name.replace("layers.0", "layers.7"): value for name, value in factors.items()})
    apply(plain, 65)


def results():
    made("synth", "layer:4x48x32:bf16", "-o", "layer")
    made("measure", "layer", "-o", path("layer.h5"), "--backend", "cpu")
    for verb in (["compare", "layer", "layer"], ["experts", "layer"]):
        refused(64, [*verb, "-o", path("o.h5"), "--k", "nan"])
    write("short.h5", open(path("layer.h5"), "rb").read()[:4000])
    for verb in (["merge", path("short.h5"), "-o", path("o.h5")], ["validate", path("short.h5")], ["show", path("short.h5")],
                 ["export", path("short.h5"), "--format", "csv", "-o", path("o.csv")]):
        refused(65, verb)


fresh_folder(FOLDER)
VERSION_BYTES = cost(["--version"])[3]
for part in (edits, organs, adapters, results):
    part()
shutil.rmtree(FOLDER, ignore_errors=True)
print(f"{len(failures)} failures")
sys.exit(1 if failures else 0)
