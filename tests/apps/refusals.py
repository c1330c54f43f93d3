#!/usr/bin/env python3
"""What the commands refuse, and what a refusal costs: refusals.py PROGRAM FOLDER.

Every case must end with its exit code and one line on standard error that begins with "vindex: E-", leave nothing where its
output goes, take at most two seconds of processor time, and at most 200 MB more memory than `vindex --version`. Inputs of
1 GiB are holes: what reads them whole takes more than that."""

import json
import math
import os
import shutil
import struct
import subprocess
import sys
import threading

from test_script import call, fresh_folder

PROGRAM, FOLDER = map(os.path.abspath, sys.argv[1:])
MOST_SECONDS, MOST_BYTES = 2.0, 200 << 20
PATIENCE_SECONDS = 200.0  # of wall time: a run that waits for something uses no processor
GIB = 1 << 30
failures = []


def path(*parts):
    return os.path.join(FOLDER, *parts)


def write(name, content, hole=0):
    """`hole`: bytes of zeros behind it, which take no room on disk."""
    with open(path(name), "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())
        file.truncate(file.tell() + hole)
    return path(name)


def write_json(name, document):
    return write(name, json.dumps(document))


def safetensors(name, tensors, metadata=None):
    """`tensors`: name -> (dtype, shape, bytes, or how many zeros of all)."""
    header, at = ({"__metadata__": metadata} if metadata else {}), 0
    for tensor, (dtype, shape, data) in tensors.items():
        size = data if isinstance(data, int) else len(data)
        header[tensor] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    head, parts = struct.pack("<Q", len(text)) + text, [data for _, _, data in tensors.values()]
    return write(name, head, hole=at) if isinstance(parts[0], int) else write(name, head + b"".join(parts))


def floats(count, of=lambda i: ((i * 2654435761) % 4093 - 2046) / 2046):
    return struct.pack(f"<{count}f", *(of(i) for i in range(count)))


def gguf_text(string):
    return 8, struct.pack("<Q", len(string.encode())) + string.encode()


def gguf(name, keys, tensors, hole=0):
    """`keys`: name -> (type, its bytes); `tensors`: name -> (sides innermost first, how many F32 zeros)."""
    table, at = b"", 0
    for tensor, sides in tensors.items():
        table += gguf_text(tensor)[1] + struct.pack(f"<I{len(sides)}QIQ", len(sides), *sides, 0, at)
        at += -(-4 * math.prod(sides) // 32) * 32
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    head += b"".join(gguf_text(key)[1] + struct.pack("<I", kind) + value for key, (kind, value) in keys.items()) + table
    return write(name, head + bytes(-len(head) % 32), hole=at + hole)


def npy(name, shape, data, dtype="<f4"):
    """`data`: bytes, or how many zeros."""
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {tuple(shape)!r}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    return write(name, b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + (b"" if isinstance(data, int) else data),
                 hole=data if isinstance(data, int) else 0)


def cost(arguments):
    """Exit code, standard error, seconds of processor time, peak memory in bytes."""
    errors = path("stderr")
    with open(errors, "wb") as error, open(os.devnull, "r+b") as null:
        process = subprocess.Popen([PROGRAM, *map(str, arguments)], stdin=null, stdout=null, stderr=error, cwd=FOLDER)
        timer = threading.Timer(PATIENCE_SECONDS, process.kill)
        timer.start()
        _, status, used = os.wait4(process.pid, 0)
        timer.cancel()
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
    call(PROGRAM, "--quiet", *arguments, cwd=FOLDER)


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
        refused(73, [*right, *flags, "--force"])
    os.remove(path("fifo.safetensors"))
    refused(73, [*right, "-o", model, "--force"])
    refused(73, [*right, "-o", os.path.join(FOLDER, ".", "m.safetensors"), "--force"])
    for same in ("./o.safetensors", "../" + os.path.basename(FOLDER) + "/o.safetensors"):
        got, said, *_ = cost([*right, "-o", "o.safetensors", "--save-patch", same])
        if got not in (64, 73) or os.path.exists(out):
            failures.append("a model and its patch under one name")
            print("a model and its patch under one name", got, said)
    patch = {"absent.weight.a": ("F32", [1, 32], floats(32)), "absent.weight.b": ("F32", [32, 1], floats(32))}
    refused(65, ["edit", "apply", model, "--patch", safetensors("p.safetensors", patch, {"format": "vindex-patch/1"}), "-o", out])
    short, two = npy("short.npy", (31,), floats(31)), npy("two.npy", (32, 2), floats(64))
    insert = ["edit", "insert", model, "--tensor", "wide.weight", "-o", out]
    value = npy("value.npy", (16,), floats(16))
    refused(65, [*insert, "--key", short, "--value", value], "so 32 are expected")
    refused(65, [*insert, "--key", vector, "--value", vector], "so 16 are expected")
    refused(65, [*insert, "--key", two, "--value", value])
    refused(65, [*insert, "--key", npy("zero.npy", (32,), 128), "--value", value])
    refused(66, [*insert, "--key", path("missing.npy"), "--value", value])
    memit = ["edit", "memit", model, "--tensor", "square.weight", "--keys", two, "-o", out]
    refused(65, [*memit, "--values", vector], "2 keys and 1 values")
    refused(64, [*memit, "--values", two, "--ridge", "-1"], "--ridge")
    refused(78, [*memit, "--values", two, "--covariance", npy("ones.npy", (32, 32), floats(1024, lambda i: 1.0))], "E-EDIT-SINGULAR")
    refused(65, [*memit, "--values", two, "--covariance", npy("lopsided.npy", (32, 32), floats(1024, float))], "not symmetric")
    # Of wrong sides, so that a header says enough.
    refused(65, [*memit, "--values", two, "--covariance", npy("covariance.npy", (6000, 6000), 4 * 6000 ** 2)], "6000 x 6000")
    refused(65, [*memit, "--values", two, "--probe", npy("probe.npy", (GIB // 132, 33), GIB // 132 * 132)], "x 33")
    refused(65, [*memit, "--values", npy("values.npy", (31, 1 << 23), 31 << 25)], "so 32 are expected")
    refused(65, [*insert, "--key", npy("key.npy", (GIB // 4,), GIB), "--value", value], "so 32 are expected")
    refused(65, ["edit", "delete", model, "--direction", path("key.npy"), "--tensor", "wide.weight", "-o", out], "268435456 components")
    refused(78, [*delete, "--tensor", "wide.weight", "--ram-budget", "64MiB", "--probe", npy("wide.npy", (GIB // 128, 32), GIB), "-o", out], "E-BUDGET")
    for name in ("covariance", "probe", "values", "key", "wide"):
        os.remove(path(name + ".npy"))


def patches():
    """Of 1 GiB, each refuted by its header."""
    model, rank = path("m.safetensors"), GIB // 256
    name, own = "square.weight", {"format": "vindex-patch/1"}
    digests = {**own, "digests": json.dumps({name: {"before": "0" * 64}})}

    def patch(tensor, metadata, cols=32, dtype="F32", rank_of_b=rank):
        width = {"F32": 4, "I32": 4, "F16": 2}[dtype]
        return safetensors("large.safetensors", {tensor + ".a": (dtype, [rank, cols], rank * cols * width),
                                                 tensor + ".b": (dtype, [32, rank_of_b], 32 * rank_of_b * width)}, metadata)

    for code, reason, arguments in ((65, "absent.weight", ("absent.weight", own)), (78, "E-PATCH-SHAPE", (name, digests, 33)),
                                    (65, "E-PATCH-FORMAT", (name, digests, 32, "F32", rank + 1)), (65, "E-PATCH-FORMAT", (name, digests, 32, "I32")),
                                    (78, "--accept-unknown-base", (name, own)), (65, "E-PATCH-TENSOR", (name + "#1", digests)),
                                    (65, "vindex-patch/2", (name, {"format": "vindex-patch/2"})), (65, "E-JSON", (name, {**own, "digests": "{"}))):
        refused(code, ["edit", "apply", model, "--patch", patch(*arguments), "-o", path("o.safetensors")], reason)
    os.remove(path("large.safetensors"))
    # More rank than sides is brought down to them before anything that grows with its square.
    square = safetensors("square.safetensors", {name: ("F32", [64, 64], floats(4096))})
    factors = {name + ".a": ("F32", [4096, 64], floats(1 << 18)), name + ".b": ("F32", [64, 4096], floats(1 << 18))}
    got, said, seconds, _ = cost(["--quiet", "edit", "apply", square, "--patch", safetensors("wide.safetensors", factors, own), "--accept-unknown-base"])
    if got != 0 or seconds > MOST_SECONDS:
        failures.append("a patch of rank 4096")
        print("a patch of rank 4096 on 64 x 64 |", got, f"{seconds:.1f} s of processor time", said)


def organs():
    made("synth", "kimi-k2-mini-q8_0", "-o", "model")
    gguf = next(name for name in names_below(path("model")) if name.endswith(".gguf"))
    for target in ("nowhere/o.gguf", "m.safetensors/o.gguf", "x" * 256 + ".gguf"):
        refused(73, ["organ", "assemble", gguf, "-o", path(target)])
        refused(73, ["organ", "graft", "--source", gguf, "--target", gguf, "--type", "organ", "-o", path(target)])
        refused(73, ["organ", "purify", gguf, "--method", "svd-shrink", "-o", path(target)])
    os.mkdir(path("empty"))
    refused(66, ["organ", "assemble", path("empty"), "-o", path("o.gguf")])
    os.mkfifo(path("empty", "manifest.json"))
    refused(66, ["organ", "assemble", path("empty"), "-o", path("o.gguf")])
    os.mkfifo(path("fifo.gguf"))
    for command in (["assemble", gguf], ["graft", "--source", gguf, "--target", gguf, "--type", "organ"], ["purify", gguf]):
        refused(73, ["organ", *command, "-o", path("fifo.gguf")])
        refused(73, ["organ", *command, "-o", path("fifo.gguf"), "--force"])
    os.remove(path("fifo.gguf"))
    for flag in ("--rho", "--cap", "--rate"):
        refused(64, ["organ", "purify", gguf, flag, "nan", "-o", path("o.gguf")], flag)
    made("organ", "extract", gguf, "-o", path("organs"))
    refused(73, ["organ", "extract", gguf, "-o", path("organs")])
    garbage, recipe = write("garbage.gguf", bytes(range(256)) * 16, hole=GIB), {"schema": "organ-recipe/1", "donors": {"a": gguf}, "host": "a"}
    for command in (["verify", garbage], ["measure", garbage, "-o", path("new/reports")], ["diff", garbage, gguf], ["diff", gguf, garbage],
                 ["assemble", garbage, "-o", path("o.gguf")], ["extract", garbage, "-o", path("o")], ["purify", garbage, "-o", path("o.gguf")],
                 ["graft", "--source", garbage, "--target", gguf, "--type", "organ", "-o", path("o.gguf")]):
        refused(65, ["organ", *command])
    for rule in ({"from": "a", "layer": "0"}, {"from": "a", "layers": 0}, {"form": "a"}):
        refused(65, ["organ", "assemble", write_json("recipe.json", {**recipe, "rules": [rule]}), "-o", path("o.gguf")])
    refused(65, ["organ", "assemble", write_json("recipe.json", {**recipe, "rule": []}), "-o", path("o.gguf")], "rule")
    os.remove(garbage)
    refused(73, ["organ", "assemble", path("organs"), "-o", path("organs", "kv.gguf"), "--force"])
    refused(73, ["organ", "assemble", gguf, "-o", gguf, "--force"])


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
    apply({**plain, "alora_invocation_tokens": []})
    apply({**plain, "layer_replication": [[0, 1], [0, 1]]})
    apply({**plain, "arrow_config": {"top_k": 1}})
    for key in ("use_dora", "use_rslora"):
        apply({**plain, key: 1})
        apply({**plain, key: "true"})
    apply([])
    safetensors("adapter/adapter_model.safetensors", {name.replace("layers.0", "layers.7"): value for name, value in factors.items()})
    apply(plain, 65)
    rank = GIB // 256
    large = {"base_model.model.model.layers.7.mlp.down_proj.lora_A.weight": ("F32", [rank, 32], rank * 128),
             "base_model.model.model.layers.7.mlp.down_proj.lora_B.weight": ("F32", [32, rank], rank * 128)}
    safetensors("adapter/adapter_model.safetensors", large)
    apply({**plain, "r": rank}, 65)
    safetensors("adapter/adapter_model.safetensors", {name.replace("layers.7", "layers.0"): value for name, value in large.items()})
    apply({**plain, "r": rank})  # 32 x 32, the model has 16 x 32
    # An output head of 1 GiB that the model does not have.
    safetensors("adapter/adapter_model.safetensors", {"base_model.model.lm_head.weight": ("F32", [GIB // 128, 32], GIB),
                                                      **{name: (kind, shape, len(data)) for name, (kind, shape, data) in factors.items()}})
    apply(plain)
    os.remove(path("adapter/adapter_model.safetensors"))


def gguf_adapters():
    head, tensor = {"general.architecture": gguf_text("llama")}, "blk.0.ffn_down.weight"
    base = gguf("base.gguf", {**head, "llama.block_count": (4, struct.pack("<I", 1))}, {tensor: (32, 16), "token_embd.weight": (32, 8)})
    kind = {**head, "general.type": gguf_text("adapter"), "adapter.type": gguf_text("lora")}
    alpha = {"adapter.lora.alpha": (6, struct.pack("<f", 4.0))}

    def apply(code, keys, rank=2, name=tensor, says=""):
        adapter = gguf("adapter.gguf", {**kind, **keys}, {name + ".lora_a": (32, rank), name + ".lora_b": (rank, 16)})
        refused(code, ["edit", "apply", base, "--patch", adapter, "-o", path("o.gguf")], says)

    for size in (2, GIB // 256):
        apply(78, {"adapter.lora.alpha": gguf_text("8")}, size, says="E-LORA-CONFIG")
        apply(78, {"adapter.lora.alpha": (7, b"\1")}, size, says="E-LORA-CONFIG")
        apply(78, {**alpha, "adapter.alora.invocation_tokens": (9, struct.pack("<IQI", 4, 1, 5))}, size, says="E-ADAPTER-VARIANT")
        apply(78, {**alpha, "general.architecture": gguf_text("qwen2")}, size, says="E-ADAPTER-ARCHITECTURE")
        apply(65, alpha, size, "blk.7.ffn_down.weight", says="E-PATCH-TENSOR")
    os.remove(path("adapter.gguf"))


def models():
    """What measure, compare, inspect and lookup refuse."""
    out, name = path("o.h5"), "model.layers.0.mlp.down_proj.weight"
    side = 1 << 14
    large = safetensors("large.safetensors", {name: ("F32", [side, side], GIB)})
    refused(78, ["measure", large, "-o", out, "--backend", "cpu", "--ram-budget", "1MiB"], "ram-budget")
    refused(64, ["edit", "delete", large, "--tensor", name + "s", "--direction", "singular", "0", "-o", path("o.safetensors")], name)
    os.truncate(large, GIB)
    for command in (["measure", large, "-o", out], ["inspect", large], ["plan", large], ["compare", large, large, "-o", out], ["experts", large, "-o", out]):
        refused(65, command)
    os.remove(large)
    keys = {"general.architecture": gguf_text("llama"), "llama.block_count": (4, struct.pack("<I", 1))}
    large = gguf("large.gguf", keys, {"blk.0.ffn_down.weight": (side, side)})
    os.truncate(large, GIB)
    for command in (["measure", large, "-o", out], ["organ", "verify", large], ["organ", "assemble", large, "-o", path("o.gguf")]):
        refused(65, command)
    for count in (GIB // 16 + 1, 1 << 60):  # texts in a key's array, one more than the limit; the next ones do not fit the file
        gguf("large.gguf", {**keys, "llama.many": (9, struct.pack("<IQ", 8, count))}, {}, hole=GIB)
        refused(65, ["measure", large, "-o", out])
    os.remove(large)
    write("text.safetensors", struct.pack("<Q", 100_000_000) + b'{"a":', hole=GIB)
    refused(65, ["measure", path("text.safetensors"), "-o", out])
    os.remove(path("text.safetensors"))
    os.mkdir(path("split"))
    write_json("split/config.json", {"model_type": "llama"})
    index = {"metadata": {}, "weight_map": {name: "model-00001-of-00002.safetensors", "lm_head.weight": "model-00002-of-00002.safetensors"}}
    write_json("split/model.safetensors.index.json", index)
    safetensors("split/model-00001-of-00002.safetensors", {name: ("F32", [side, side], GIB)})
    refused(66, ["measure", path("split"), "-o", out], "model-00002-of-00002.safetensors")
    shutil.rmtree(path("split"))
    made("synth", "layer:2x16x48:bf16", "-o", "other")
    refused(65, ["compare", "layer", "other", "-o", out])
    words = ["w0", "w7", "\u0120w7", "w3"]
    base = gguf("words.gguf", {**keys, "tokenizer.ggml.tokens": (9, struct.pack("<IQ", 8, len(words)) + b"".join(gguf_text(word)[1] for word in words))},
                {"token_embd.weight": (32, len(words)), "blk.0.ffn_gate.weight": (32, 16), "blk.0.ffn_down.weight": (16, 32), "blk.0.ffn_up.weight": (32, 16)})
    refused(64, ["lookup", base, "--token", "w7"], "several entries")
    refused(64, ["lookup", base, "--token", "w77"])
    refused(64, ["lookup", base, "--token-id", str(len(words))])
    refused(66, ["lookup", base, "--vector", path("missing.npy")])
    refused(65, ["lookup", base, "--vector", npy("query.npy", (GIB // 4,), GIB)])
    os.remove(path("query.npy"))


def dumps():
    tokens, hidden = 24, 16

    def dump(name, **arrays):
        shutil.rmtree(path(name), ignore_errors=True)
        os.mkdir(path(name))
        for array, (shape, data, *dtype) in arrays.items():
            npy(f"{name}/{array.replace('_0', '.0')}.npy", shape, data, *dtype)
        return path(name)

    def ids(first, count=tokens):
        return (count,), struct.pack(f"<{count}q", *range(first, first + count)), "<i8"

    states, out = ((tokens, hidden), floats(tokens * hidden)), path("o.h5")
    a = dump("a", hidden_0=states, token_ids=ids(0))
    refused(78, ["cka", a, dump("b", hidden_0=states, token_ids=ids(1)), "-o", out], "E-CKA-ROWS")
    refused(78, ["cka", a, dump("b", hidden_0=((tokens - 1, hidden), floats((tokens - 1) * hidden)), token_ids=ids(0, tokens - 1)), "-o", out], "E-CKA-ROWS")
    wrong = dump("b", hidden_0=states, token_ids=ids(0, tokens - 1))
    for command in (["cka", a, wrong], ["activations", wrong], ["routing", wrong, "--top-k", "2", "--scoring", "softmax"]):
        refused(65, [*command, "-o", out])
    large = dump("b", hidden_0=((GIB // 64, hidden), GIB), token_ids=ids(0))
    for command in (["cka", a, large], ["activations", large]):
        refused(65, [*command, "-o", out])
    large = dump("b", mlp_0=((GIB // 64 - 1, hidden), GIB), token_ids=ids(0))
    refused(65, ["activations", large, "-o", out])
    refused(66, ["activations", path("missing"), "-o", out])
    experts = 8
    routed = dump("b", router_logits_0=((tokens, experts), floats(tokens * experts)), token_ids=ids(0))
    refused(64, ["routing", routed, "-o", out, "--top-k", "nan", "--scoring", "softmax"])
    os.mkdir(path("router"))
    safetensors("router/model.safetensors", {"model.layers.0.mlp.gate.weight": ("F32", [experts, hidden], floats(experts * hidden))})
    for config in ({}, {"num_experts_per_tok": 0}, {"num_experts_per_tok": 2, "routed_scaling_factor": "x"}):
        write_json("router/config.json", {"model_type": "deepseek_v3", **config})
        refused(78, ["routing", routed, "-o", out, "--model", path("router")], "E-ROUTER-KEY")
    shutil.rmtree(path("b"))


def results():
    made("synth", "layer:4x48x32:bf16", "-o", "layer")
    made("measure", "layer", "-o", path("layer.h5"), "--backend", "cpu")
    for command in (["compare", "layer", "layer"], ["experts", "layer"]):
        refused(64, [*command, "-o", path("o.h5"), "--k", "nan"])
    write("short.h5", open(path("layer.h5"), "rb").read()[:4000])
    for command in (["merge", path("short.h5"), "-o", path("o.h5")], ["validate", path("short.h5")], ["show", path("short.h5")],
                 ["export", path("short.h5"), "--format", "csv", "-o", path("o.csv")]):
        refused(65, command)


fresh_folder(FOLDER)
VERSION_BYTES = cost(["--version"])[3]
for part in (edits, patches, organs, adapters, gguf_adapters, results, models, dumps):
    part()
shutil.rmtree(FOLDER, ignore_errors=True)
print(f"{len(failures)} failures")
sys.exit(1 if failures else 0)
