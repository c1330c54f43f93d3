"""What `vindex lookup MODEL -o FILE` stores gives the same answers as the model: exactly where the type of the file holds the weights, to
its rounding elsewhere; and a damaged file gives them too, or ends with 65.

Usage: stored_lookup.py VINDEX DATA FOLDER. Without DATA only models made here."""

import json
import os
import random
import subprocess
import sys

import h5py
import numpy as np

from model_files import to_bf16, write_safetensors
from test_script import call, fresh_folder

VINDEX, DATA, FOLDER = sys.argv[1:4]
HIDDEN, NEURONS, VOCABULARY = 48, 40, 30
checks = 0


def check(condition, *what):
    global checks
    checks += 1
    if not condition:
        print("FAILED:", *what)
        sys.exit(1)


def path(name):
    return os.path.join(FOLDER, name)


def run(*arguments, code=0):
    return call(VINDEX, "lookup", *arguments, code=code)


def answers(model, *queries, code=0):
    return json.loads(run(model, *queries, "--json", "-q", code=code).stdout)


def store(model, name, *flags, code=0):
    call(VINDEX, "lookup", model, "-o", path(name), *flags, "-q", code=code)
    check(call(VINDEX, "validate", path(name)).stdout.endswith(": valid\n"), name)
    return path(name)


OF_THE_FILE = ("model", "made_of", "bytes", "passes", "vocabulary")


def same(model, file, *queries, exact=True, rounding=0.0, code=0):
    """Asks both; returns what the file says."""
    left, right = (answers(one, *queries, code=code) for one in (model, file))
    check(right["made_of"] == str(model) and left["made_of"] is None, file, right["made_of"])
    check((left["vocabulary"] or {}).get("entries") == (right["vocabulary"] or {}).get("entries"), "vocabulary")
    if exact:
        a, b = ({key: value for key, value in one.items() if key not in OF_THE_FILE} for one in (left, right))
        check(a == b, file, queries, "\n", json.dumps(a)[:3000], "\n", json.dumps(b)[:3000])
        return right
    check(left["features"] == right["features"] and left["null_median"] == right["null_median"], file, "counts")
    for one, other in zip(left["queries"], right["queries"], strict=True):
        check(one["name"] == other["name"] and one["token"] == other["token"], file, one["name"], other["name"])
        for a, b in zip(one["lists"], other["lists"], strict=True):
            # Of all features of a sign a few whose cosine is next to none have the other one.
            check(abs(len(a["features"]) - len(b["features"])) <= (0 if rounding == 0 else len(a["features"]) // 100), file, "lists")
            of = {(f["tensor"], f["slice"], f["feature"]): f for f in a["features"]}
            for k, feature in enumerate(b["features"][:len(a["features"])]):
                check(abs(abs(feature["cosine"]) - abs(a["features"][k]["cosine"])) <= rounding + 2e-6, file, "cosines in order")
                beside = of.get((feature["tensor"], feature["slice"], feature["feature"]))
                if beside is None:  # two that are as near as the rounding
                    continue
                check(abs(feature["cosine"] - beside["cosine"]) <= rounding + 2e-6, file, "cosine")
                check(abs(feature["gate_down_cosine"] - beside["gate_down_cosine"]) < 1e-6, file, "gate_down_cosine")
                check([t["token"] for t in feature["tokens"]] == [t["token"] for t in beside["tokens"]], file, "tokens")
    return right


def asked_in_every_way(model, file, **how):
    for queries in (("--token-id", 3), ("--token-id", 5, "--token-id", 9, "--by", "cosine", "--top", 7), ("--token-ids", "2,3,9", "--tokens-out", 3),
                    ("--token-id", 4, "--by", "score", "--layers", 1), ("--token-id", 4, "--by", "negative", "--top", 100000)):
        same(model, file, *queries, **how)


# ------------------------------------------------------------------------------------------------ models made here


def weights(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32) / np.float32(np.sqrt(shape[-1]))


def save(name, model_type, tensors, dtype="BF16", tokenizer=True, **config):
    folder = path(name)
    os.makedirs(folder, exist_ok=True)
    stored = {"BF16": to_bf16, "F16": lambda v: v.astype("<f2"), "F32": lambda v: v.astype("<f4")}[dtype]
    write_safetensors(os.path.join(folder, "model.safetensors"), {key: (dtype, stored(np.ascontiguousarray(v))) for key, v in tensors.items()})
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump({"model_type": model_type, "hidden_size": HIDDEN, "num_hidden_layers": 2, **config}, file)
    if tokenizer:
        vocabulary = {f"\u0120w{i}": i for i in range(VOCABULARY - 3)} | {"\u00c3": VOCABULARY - 1}  # a hole, a byte that is no text
        with open(os.path.join(folder, "tokenizer.json"), "w") as file:
            json.dump({"model": {"type": "BPE", "vocab": vocabulary, "merges": []}, "pre_tokenizer": {"type": "ByteLevel"}}, file)
    return folder


def ends(rng):
    return {"model.embed_tokens.weight": weights(rng, VOCABULARY, HIDDEN), "lm_head.weight": weights(rng, VOCABULARY, HIDDEN)}


def dense(rng, neurons=NEURONS):
    tensors = ends(rng)
    for layer in range(2):
        at = f"model.layers.{layer}.mlp."
        tensors |= {at + "gate_proj.weight": weights(rng, neurons, HIDDEN), at + "up_proj.weight": weights(rng, neurons, HIDDEN),
                    at + "down_proj.weight": weights(rng, HIDDEN, neurons)}
    return tensors


def mixture(rng, turned):
    """Stacks of fused gate and up: turned ones are stored in x out, their rows alternate (gpt_oss)."""
    tensors = ends(rng)
    for layer in range(2):
        at = f"model.layers.{layer}.mlp.experts."
        fused, down = weights(rng, 3, 2 * NEURONS, HIDDEN), weights(rng, 3, HIDDEN, NEURONS)
        tensors |= {at + "gate_up_proj": fused.swapaxes(1, 2) if turned else fused, at + "down_proj": down.swapaxes(1, 2) if turned else down}
    return tensors


def exact_types():
    rng = np.random.default_rng(1)
    for dtype in ("BF16", "F16", "F32"):
        model = save(f"dense {dtype}", "gemma2", dense(rng), dtype)
        file = store(model, f"dense_{dtype}.h5")
        asked_in_every_way(model, file)
        same(model, file, "--token", "w7", "--tokens", "w2 w3", "--tokens-out", 0)
        with h5py.File(file) as hdf5:
            check(hdf5["feature/vectors"].dtype == {"BF16": np.float32, "F16": np.float16, "F32": np.float32}[dtype] or dtype == "BF16", dtype)
            check(hdf5["feature/vectors"].id.get_type().get_size() == (4 if dtype == "F32" else 2))
            gate = dense(np.random.default_rng(1))["model.layers.0.mlp.gate_proj.weight"] if dtype == "BF16" else None
            if gate is not None:
                want = (to_bf16(gate).astype(np.uint32) << 16).view(np.float32)
                check(np.array_equal(hdf5["feature/vectors"][:NEURONS].astype(np.float32), want), "bfloat16 for h5py")
                check(np.allclose(hdf5["feature/norm"][:NEURONS], np.linalg.norm(want.astype(np.float64), axis=1)))
            check(np.all(hdf5["gate/rounding_error"][:] == 0) and hdf5.attrs["schema_name"] == "vindex-gate-vectors")
        again = run(model, "-o", file).stdout
        check("already" in again or "2 of 2" in again or file in again, again)


def mixtures():
    for turned, model_type in ((False, "qwen3_moe"), (True, "gpt_oss")):
        model = save(f"mixture {model_type}", model_type, mixture(np.random.default_rng(2), turned))
        file = store(model, f"{model_type}.h5")
        # Sums over what is stored by columns go in another order.
        asked_in_every_way(model, file, exact=not turned)
        with h5py.File(file) as hdf5:
            check(list(hdf5["gate/expert"][:]) == [0, 1, 2, 0, 1, 2] and list(hdf5["gate/first"][:]) == [NEURONS * i for i in range(6)])
        other = store(model, f"{model_type}_up.h5", "--role", "up_proj", "--layers", 1, "--dtype", "f32")
        same(model, other, "--token-id", 3, "--role", "up_proj", "--layers", 1, exact=not turned)
        check("holds up_proj" in run(other, "--token-id", 3, code=66).stderr)
        run(other, "--token-id", 3, "--role", "up_proj", "--layers", 0, code=64)
    model = path("mini")
    call(VINDEX, "synth", "kimi-k2-mini", "-o", model, "-q")
    rounded = store(model, "mini.h5")
    with h5py.File(rounded) as hdf5:
        lost = hdf5["gate/rounding_error"][:]
    check(0 < lost.max() < 2 ** -11, lost)
    asked_in_every_way(model, rounded, exact=False, rounding=2 * lost.max())
    asked_in_every_way(model, store(model, "mini32.h5", "--dtype", "f32"))


def another_scale():
    """A file is that of a configuration too: the scale of the embedding is stored in it."""
    model = save("scaled", "granite", dense(np.random.default_rng(8)), embedding_multiplier=2.0)
    file = store(model, "scaled.h5")
    run(model, "-o", file)
    config = os.path.join(model, "config.json")
    with open(config) as text:
        keys = json.load(text)
    with open(config, "w") as text:
        json.dump(keys | {"embedding_multiplier": 3.0}, text)
    said = run(model, "-o", file, code=78).stderr
    check("E-RESUME-FINGERPRINT" in said and "scale of the embedding" in said, said)
    run(model, "-o", file, "--restart")
    with h5py.File(file) as hdf5:
        check(hdf5["embedding/scale"][0] == 3.0)


def odd_models():
    """Rows of zeros, rows that are not finite, no vocabulary, no down_proj, an embedding that is tied, weights beyond float16."""
    rng = np.random.default_rng(4)
    tensors = dense(rng)
    tensors["model.layers.0.mlp.gate_proj.weight"][3] = 0
    tensors["model.layers.1.mlp.gate_proj.weight"][4, 5] = np.nan
    tensors["model.layers.1.mlp.down_proj.weight"][:, 7] = np.inf
    model = save("odd", "llama", tensors, tokenizer=False)
    right = same(model, store(model, "odd.h5"), "--token-id", 3, "--top", 100)
    check(right["zero_features"] == 1 and right["not_finite_features"] == 1 and right["vocabulary"] is None)
    check("E-VOCABULARY" in run(path("odd.h5"), "--token", "w3", code=66).stderr)
    for layer in range(2):
        del tensors[f"model.layers.{layer}.mlp.down_proj.weight"]
    del tensors["lm_head.weight"]
    model = save("bare", "llama", tensors)
    right = same(model, store(model, "bare.h5"), "--token-id", 3, "--tokens-out", 0)
    check(answers(path("bare.h5"), "--token-id", 3)["tokens_reason"] == "no down_proj is as wide as the output embedding")
    tensors = dense(rng)
    tensors["model.layers.1.mlp.gate_proj.weight"][2, 2] = 1e5
    large = save("large", "llama", tensors)
    said = run(large, "-o", path("large.h5"), "--dtype", "f16", code=78).stderr
    check("E-DTYPE" in said and not os.path.exists(path("large.h5")), said)
    # A file with fewer entries than are asked for says so.
    file = store(large, "few.h5", "--tokens-out", 2)
    check("2 entries for each feature" in run(file, "--token-id", 1).stderr)
    check(all(len(f["tokens"]) == 2 for f in answers(file, "--token-id", 1)["queries"][0]["lists"][0]["features"]))


def outputs():
    model = path("dense BF16")
    file = store(model, "again.h5")
    before = os.stat(file)
    run(model, "-o", file)
    check(os.stat(file).st_ino == before.st_ino, "a complete file is left as it is")
    check("E-RESUME-FINGERPRINT" in run(model, "-o", file, "--dtype", "f32", code=78).stderr)
    run(model, "-o", file, "--dtype", "f32", "--restart", "-q")
    check(os.stat(file).st_size > before.st_size)
    for wrong, code in ((("--token-id", 1), 64), (("--by", "cosine"), 64), (("--dtype", "int8"), 64), (("--layers", 9), 64)):
        run(model, "-o", path("wrong.h5"), *wrong, code=code)
    run(model, "--token-id", 1, "--dtype", "f32", code=64)
    run(file, "-o", path("wrong.h5"), code=64)
    run(file, "--token-id", 1, "--model-config", path("x"), code=64)
    run(model, "-o", path("absent/x.h5"), code=73)
    check(not os.path.exists(path("wrong.h5")))
    text = run(file, "--token", "w3", "-q").stdout
    check("gate vectors of" in " ".join(text.split()) and max(map(len, text.splitlines())) <= 80, text)
    shown = call(VINDEX, "show", file).stdout
    check("gate.down" in shown and max(map(len, shown.splitlines()[1:])) <= 80, shown)
    document = json.loads(call(VINDEX, "show", file, "--json").stdout)
    check([row["features"] for row in document["rows"]] == [NEURONS, NEURONS], document)
    check("E-MERGE-KIND" in call(VINDEX, "merge", file, "-o", path("merged.h5"), code=64).stderr)
    # Results of another kind are no vectors.
    call(VINDEX, "measure", model, "-o", path("measured.h5"), "-q")
    check("E-RESULTS-KIND" in run(path("measured.h5"), "--token-id", 1, code=65).stderr)
    check("E-OUT-FOREIGN" in run(model, "-o", path("measured.h5"), code=73).stderr)


# ------------------------------------------------------------------------------------------------ files that are damaged


def damage():
    """Any byte flipped, any end cut off: the same answer, or 65 and nothing on standard output that is not JSON."""
    model = save("tiny", "llama", dense(np.random.default_rng(7), 12))
    file = store(model, "tiny.h5")
    with open(file, "rb") as whole:
        data = whole.read()
    queries = ("--token", "w3", "--top", 30, "--tokens-out", 4, "--json", "-q")
    want = json.loads(run(file, *queries).stdout)
    rng = random.Random(11)
    with h5py.File(file) as hdf5:
        place = hdf5["feature/vectors"].id.get_offset()
        rows = hdf5["embedding/vectors"].id.get_offset()
    places = [place, place + 12 * 2 * HIDDEN - 1, rows + 3 * 2 * HIDDEN] + rng.sample(range(len(data)), 220)
    refused = 0
    broken = path("broken.h5")
    for at in places:
        flipped = bytearray(data)
        flipped[at] ^= 1 << rng.randrange(8)
        with open(broken, "wb") as out:
            out.write(flipped)
        done = subprocess.run([VINDEX, "lookup", broken, *map(str, queries)], capture_output=True, text=True, timeout=60)
        check(done.returncode in (0, 65), at, done.returncode, done.stderr)
        if done.returncode == 0:
            got = json.loads(done.stdout)
            check(got | {"model": ""} == want | {"model": ""}, "another answer, byte", at)
        else:
            refused += 1
            check(len(done.stderr.splitlines()) == 1, done.stderr)
        if at in places[:3]:
            check(done.returncode == 65 and "E-RESULTS-DATA" in done.stderr, at, done.stderr)
            check(call(VINDEX, "validate", broken, code=65).stdout.count("not what was written") == 1, at)
    check(refused > 25, refused)
    for size in [0, 1, 8, 100] + rng.sample(range(len(data)), 30):
        with open(broken, "wb") as out:
            out.write(data[:size])
        done = subprocess.run([VINDEX, "lookup", broken, *map(str, queries)], capture_output=True, text=True, timeout=60)
        check(done.returncode == 65, size, done.returncode, done.stderr)


def edited():
    """What a file claims is not believed: every dataset of another shape or type, or gone."""
    source = path("tiny.h5")
    broken = path("edited.h5")
    names = []
    with h5py.File(source) as hdf5:
        hdf5.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
    for name in names:
        for kind in ("gone", "short", "type", "huge"):
            with open(source, "rb") as whole, open(broken, "wb") as out:
                out.write(whole.read())
            with h5py.File(broken, "r+") as hdf5:
                old = hdf5[name]
                shape, dtype = old.shape, old.dtype
                del hdf5[name]
                if kind == "short":
                    hdf5.create_dataset(name, shape=(max(0, shape[0] - 1), *shape[1:]) if shape else (2,), dtype=dtype)
                elif kind == "type":
                    hdf5.create_dataset(name, shape=shape, dtype="i2" if dtype.kind != "i" else "f8")
                elif kind == "huge":
                    hdf5.create_dataset(name, shape=(1 << 40, *shape[1:]), dtype=dtype, chunks=(64, *shape[1:]))
            done = subprocess.run([VINDEX, "lookup", broken, "--token-id", "3", "-q"], capture_output=True, text=True, timeout=60)
            read = not name.startswith(("run/", "resume/")) and name not in (
                "feature/norm", "feature/feature", "feature/rank", "feature/input", "embedding/token", "embedding/input", "gate/matrix")
            check(done.returncode in ((65,) if read and kind != "short" else (0, 65)), name, kind, done.returncode, done.stderr)
            if not name.startswith("resume/"):
                call(VINDEX, "validate", broken, code=65)


def real_models():
    for name, file, token in (("stories260k/stories260K.gguf", "stories.h5", " the"), ("moe/kjv-moe-7.6M-BF16.gguf", "kjv.h5", "J"),
                              ("gguf/full/kjv-moe-Q4_K_M.gguf", "kjv_q4.h5", "J")):
        model = os.path.join(DATA, name)
        if not os.path.exists(model):
            print("not there:", model)
            continue
        is_exact = "Q4" not in name
        stored = store(model, file)
        rounding = 0 if is_exact else 1e-3
        same(model, stored, "--token", token, "--top", 50, exact=is_exact, rounding=rounding)
        same(model, stored, "--token-ids", "65,66,67", "--pool", "last", "--by", "cosine", exact=is_exact, rounding=rounding)
        if not is_exact:
            same(model, store(model, "kjv_q4_f32.h5", "--dtype", "f32"), "--token", token)


def main():
    fresh_folder(FOLDER)
    exact_types()
    mixtures()
    another_scale()
    odd_models()
    outputs()
    damage()
    edited()
    real_models()
    print(checks, "checks")
    return 0


sys.exit(main())
