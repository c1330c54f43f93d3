"""Compares `vindex lookup` with numpy: on real models, and on small ones of every layout with a planted feature.

Usage: lookup_with_numpy.py VINDEX DATA FOLDER. Without DATA only the small models."""

import json
import os
import sys

import gguf
import numpy as np

from model_files import to_bf16, write_safetensors
from test_script import call

VINDEX, DATA, FOLDER = sys.argv[1:4]
HIDDEN, NEURONS, VOCABULARY, LAYERS, EXPERTS = 96, 40, 50, 2, 3
checks = 0


def check(condition, *what):
    global checks
    checks += 1
    if not condition:
        print("FAILED:", *what)
        sys.exit(1)


def run(*arguments, code=0):
    return call(VINDEX, "lookup", *arguments, code=code)


def lookup(*arguments, code=0):
    """Queries with one list; by the size of the cosine where nothing else is said."""
    by = () if "--by" in arguments else ("--by", "cosine")
    found = json.loads(run(*arguments, *by, "--json", "-q", code=code).stdout)
    check(found["schema"] == "vindex-lookup/2", found["schema"])
    for query in found["queries"]:
        check(len(query["lists"]) == 1)
        query.update(query["lists"][0])
    return found


# ------------------------------------------------------------------------------------------------ what numpy finds


def circuit(cosine):
    if abs(cosine) < 0.2:
        return "projector"
    if abs(cosine) <= 0.5:
        return "transform" if cosine > 0 else "suppressor"
    return "identity" if cosine > 0 else "inverter"


def expected(feed_forwards, x, top, by):
    """feed_forwards: (layer, block, expert) -> gate [F, hidden], down [hidden, F]."""
    rows = []
    for (layer, block, expert), (gate, down) in feed_forwards.items():
        scores = gate.astype(np.float64) @ x
        norms = np.linalg.norm(gate.astype(np.float64), axis=1)
        cosines = scores / norms / np.linalg.norm(x)
        rows += [(layer, block, expert, f, scores[f], cosines[f], gate[f], down[:, f]) for f in range(len(gate))]
    rows.sort(key=lambda row: -abs(row[5 if by == "cosine" else 4]))
    return rows[:top], len(rows)


def law(features, width, one_side):
    """The largest of so many random cosines: values, and the chance to be below them, by quadrature of the density."""
    c = np.linspace(-1, 1, 400001)
    density = np.maximum(1 - c * c, 0) ** ((width - 3) / 2)
    below = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2)])
    below /= below[-1]
    if not one_side:
        c, below = c[200000:], 2 * below[200000:] - 1
    return c, below ** features


def check_null(found, one_side):
    c, below = law(found["features"], found["width"], one_side)
    for name, share in (("null_median", 0.5), ("null_q95", 0.95)):
        check(abs(found[name] - np.interp(share, below, c)) < 1e-4, name, found[name], np.interp(share, below, c))
    mean = c[-1] - ((below[1:] + below[:-1]) / 2).sum() * (c[1] - c[0])
    check(abs(found["expected_max"] - mean) < 1e-4, "expected_max", found["expected_max"], mean)
    for query in found["queries"]:
        for one in query["lists"]:
            best = max((abs(feature["cosine"]) for feature in one["features"]), default=None)
            check(best is None or abs(abs(one["best"]) - best) < 1e-12, one["by"])
            check(best is None or abs(one["p"] - (1 - np.interp(best, c, below))) < 2e-4 + 2e-2 * one["p"], one["by"], one["p"])


def compare(found, feed_forwards, x, output, top=20, by="cosine", tokens=8):
    want, features = expected(feed_forwards, x, top, by)
    query = found["queries"][0]
    check(found["features"] == features, "features", found["features"], features)
    check_null(found, one_side=False)
    check(abs(query["norm"] - np.linalg.norm(x)) < 1e-5 * query["norm"], "norm", query["norm"], np.linalg.norm(x))
    check(len(query["features"]) == min(top, features))
    for got, (layer, block, expert, feature, score, cosine, gate, down) in zip(query["features"], want):
        name = (got["layer"], got["block"], got["expert"], got["feature"])
        # Where two are equally near, either may come first.
        check(abs(got["cosine"] - cosine) < 2e-6, name, got["cosine"], "is not", cosine)
        if name != (layer, block, expert, feature):
            continue
        check(abs(got["score"] - score) < 2e-6 * np.linalg.norm(gate) * np.linalg.norm(x), name, "score")
        between = float(gate.astype(np.float64) @ down / np.linalg.norm(gate) / np.linalg.norm(down.astype(np.float64)))
        check(abs(got["gate_down_cosine"] - between) < 1e-6, name, "gate_down_cosine", got["gate_down_cosine"], between)
        if min(abs(abs(between) - 0.2), abs(abs(between) - 0.5)) > 1e-6:
            check(got["circuit"] == circuit(between), name, got["circuit"])
        raised = output.astype(np.float64) @ down
        check(np.allclose([token["score"] for token in got["tokens"]], np.sort(raised)[::-1][:tokens],
                          atol=2e-6 * np.abs(raised).max()), name, "token scores")
        check(all(abs(raised[token["token"]] - token["score"]) < 2e-6 * np.abs(raised).max() for token in got["tokens"]))


# ------------------------------------------------------------------------------------------------ real models


def gguf_model(path):
    reader = gguf.GGUFReader(path)
    tensors = {}
    for tensor in reader.tensors:
        shape = tuple(int(n) for n in reversed(tensor.shape))
        tensors[tensor.name] = np.asarray(gguf.quants.dequantize(tensor.data, tensor.tensor_type), dtype=np.float32).reshape(shape)
    feed_forwards = {}
    for name, values in tensors.items():
        if ".ffn_gate" not in name or "inp" in name:
            continue
        layer = int(name.split(".")[1])
        down = tensors[name.replace("ffn_gate", "ffn_down")]
        if values.ndim == 3:
            for expert in range(len(values)):
                feed_forwards[layer, "routed_expert", expert] = values[expert], down[expert]
        else:
            feed_forwards[layer, "shared_expert" if "shexp" in name else "dense_mlp", -1] = values, down
    tokens = reader.fields["tokenizer.ggml.tokens"].contents()
    return tensors, feed_forwards, tokens


def real_models():
    for path, text in ((os.path.join(DATA, "moe", "kjv-moe-7.6M-BF16.gguf"), "J"),
                       (os.path.join(DATA, "gguf", "full", "kjv-moe-Q4_K_M.gguf"), " "),
                       (os.path.join(DATA, "stories260k", "stories260K.gguf"), " the")):
        if not os.path.exists(path):
            print("not there:", path)
            continue
        tensors, feed_forwards, tokens = gguf_model(path)
        spelt = text.replace(" ", "\u0120" if "kjv" in path else "\u2581")
        number = tokens.index(spelt)
        embedding = tensors["token_embd.weight"]
        output = tensors.get("output.weight", embedding)
        x = embedding[number].astype(np.float64)
        found = lookup(path, "--token", text)
        check(found["queries"][0]["token"] == number, path, found["queries"][0]["token"], number)
        compare(found, feed_forwards, x, output)
        compare(lookup(path, "--token-id", number, "--by", "score", "--top", 7, "--tokens-out", 3),
                feed_forwards, x, output, top=7, by="score", tokens=3)
        layer = max(key[0] for key in feed_forwards)
        compare(lookup(path, "--token-id", number, "--layers", layer), {k: v for k, v in feed_forwards.items() if k[0] == layer}, x, output)
    shards = os.path.join(DATA, "moe")
    if os.path.exists(os.path.join(shards, "config.json")):
        # The same model as safetensors has no tokenizer: numbers do, texts say why not.
        path = os.path.join(DATA, "moe", "kjv-moe-7.6M-BF16.gguf")
        by_number = [lookup(one, "--token-id", 74)["queries"][0]["features"] for one in (shards, path)]
        check([(f["layer"], f["expert"], f["feature"], f["cosine"]) for f in by_number[0]] ==
              [(f["layer"], f["expert"], f["feature"], f["cosine"]) for f in by_number[1]], "GGUF and safetensors differ")
        check("E-VOCABULARY" in run(shards, "--token", "J", code=66).stderr)


# ------------------------------------------------------------------------------------------------ small models


def save(folder, tensors, config, tokenizer=None):
    os.makedirs(folder, exist_ok=True)
    write_safetensors(os.path.join(folder, "model.safetensors"), {name: ("BF16", to_bf16(values)) for name, values in tensors.items()})
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file)
    beside = os.path.join(folder, "tokenizer.json")
    if tokenizer is not None:
        with open(beside, "w") as file:
            json.dump(tokenizer, file)
    elif os.path.exists(beside):
        os.remove(beside)
    return folder


def bf16(values):
    return (np.ascontiguousarray(values, dtype=np.float32).view(np.uint32) & 0xFFFF0000).view(np.float32)


def weights(rng, *shape):
    return bf16(rng.standard_normal(shape) / np.sqrt(shape[-1]))


TOKENIZER = {"model": {"type": "BPE", "vocab": {**{f"\u0120w{i}": i for i in range(VOCABULARY - 2)},
                                                "w7": VOCABULARY - 2, "\u010a": VOCABULARY - 1}, "merges": []},
             "pre_tokenizer": {"type": "ByteLevel"}}
PLANTED = {"layer": 1, "feature": 23, "token": 11, "writes": 31}


def layouts():
    """Name -> (model_type, function of a layer's feed-forwards to tensors). A feed-forward: gate, up [F, H], down [H, F]."""
    def dense(names):
        return lambda layer, parts: {f"model.layers.{layer}.mlp.{name}.weight": make(parts[0]) for name, make in names.items()}

    def experts(prefix, names):
        return lambda layer, parts: {f"model.layers.{layer}.{prefix}.{e}.{name}.weight": make(part)
                                     for e, part in enumerate(parts) for name, make in names.items()}

    def stack(prefix, gate_up, down):
        return lambda layer, parts: {f"model.layers.{layer}.{prefix}.gate_up_proj": np.stack([gate_up(part) for part in parts]),
                                     f"model.layers.{layer}.{prefix}.down_proj": np.stack([down(part) for part in parts])}

    def alternating(part):
        both = np.empty((2 * NEURONS, HIDDEN), dtype=np.float32)
        both[0::2], both[1::2] = part[0], part[1]
        return both

    plain = {"gate_proj": lambda p: p[0], "up_proj": lambda p: p[1], "down_proj": lambda p: p[2]}
    fused = {"gate_up_proj": lambda p: np.concatenate(p[:2]), "down_proj": lambda p: p[2]}
    return {
        "llama": ("llama", 1, dense(plain)),
        "phi3": ("phi3", 1, dense(fused)),
        "mixtral": ("mixtral", EXPERTS, experts("block_sparse_moe.experts", {"w1": plain["gate_proj"], "w3": plain["up_proj"], "w2": plain["down_proj"]})),
        "qwen3_moe": ("qwen3_moe", EXPERTS, experts("mlp.experts", plain)),
        "fused stack": ("qwen3_moe", EXPERTS, stack("mlp.experts", lambda p: np.concatenate(p[:2]), lambda p: p[2])),
        "turned stack": ("llama4", EXPERTS, stack("feed_forward.experts", lambda p: np.concatenate(p[:2]).T, lambda p: p[2].T)),
        "turned alternating stack": ("gpt_oss", EXPERTS, stack("mlp.experts", lambda p: alternating(p).T, lambda p: p[2].T)),
        "unknown family": ("some_new_family", 1, dense(plain)),
    }


def small_model(name, seed=3, order=None, extra=None, tokenizer=TOKENIZER):
    model_type, experts, make = layouts()[name]
    rng = np.random.default_rng(seed)
    embedding, output = weights(rng, VOCABULARY, HIDDEN), weights(rng, VOCABULARY, HIDDEN)
    tensors = {"model.embed_tokens.weight": embedding, "lm_head.weight": output}
    feed_forwards = {}
    for layer in range(LAYERS):
        parts = []
        for expert in range(experts):
            gate, up, down = weights(rng, NEURONS, HIDDEN), weights(rng, NEURONS, HIDDEN), weights(rng, HIDDEN, NEURONS)
            if layer == PLANTED["layer"] and expert == experts - 1:
                gate[PLANTED["feature"]] = bf16(-0.7 * embedding[PLANTED["token"]] + 0.02 * gate[PLANTED["feature"]])
                down[:, PLANTED["feature"]] = output[PLANTED["writes"]]
            if order is not None:
                gate, up, down = gate[order], up[order], np.ascontiguousarray(down[:, order])
            parts.append((gate, up, down))
            block = "other" if name == "unknown family" else "routed_expert" if experts > 1 else "dense_mlp"
            feed_forwards[layer, block, expert if experts > 1 else -1] = gate, down
        tensors.update({key: np.ascontiguousarray(value) for key, value in make(layer, parts).items()})
    config = {"model_type": model_type, "hidden_size": HIDDEN, "num_hidden_layers": LAYERS, **(extra or {})}
    folder = save(os.path.join(FOLDER, name.replace(" ", "_")), tensors, config, tokenizer)
    return folder, feed_forwards, embedding, output


def planted_features():
    for name in layouts():
        folder, feed_forwards, embedding, output = small_model(name)
        x = embedding[PLANTED["token"]].astype(np.float64)
        found = lookup(folder, "--token", f"w{PLANTED['token']}")
        compare(found, feed_forwards, x, output)
        first = found["queries"][0]["features"][0]
        check((first["layer"], first["feature"]) == (PLANTED["layer"], PLANTED["feature"]) and first["cosine"] < -0.9, name, first)
        check(first["tokens"][0]["token"] == PLANTED["writes"] and first["tokens"][0]["text"] == f" w{PLANTED['writes']}", name, first["tokens"])
        check(found["queries"][0]["p"] < 1e-9, name, found["queries"][0]["p"])


def permuted_features():
    order = np.random.default_rng(5).permutation(NEURONS)
    for name in ("llama", "turned alternating stack"):
        plain = lookup(small_model(name)[0], "--token-id", 4, "--top", 15)["queries"][0]["features"]
        other = lookup(small_model(name, order=order)[0], "--token-id", 4, "--top", 15)["queries"][0]["features"]
        for one in other:
            one["feature"] = int(order[one["feature"]])
        check(plain == other, name, "permuting features does not permute the list")


def signs_apart():
    """By default positive and negative answers are two lists, each beside the law of its sign."""
    folder, feed_forwards, embedding, output = small_model("qwen3_moe")
    x = embedding[7].astype(np.float64)
    signed = []
    for (layer, block, expert), (gate, down) in feed_forwards.items():
        cosines = gate.astype(np.float64) @ x / np.linalg.norm(gate.astype(np.float64), axis=1) / np.linalg.norm(x)
        signed += [(cosine, layer, expert, f) for f, cosine in enumerate(cosines)]
    found = json.loads(run(folder, "--token-id", 7, "--top", 6, "--json", "-q").stdout)
    check(found["by"] == "apart" and [one["by"] for one in found["queries"][0]["lists"]] == ["positive", "negative"])
    check_null(found, one_side=True)
    for one, want in zip(found["queries"][0]["lists"], (sorted(signed, reverse=True)[:6], sorted(signed)[:6])):
        check(len(one["features"]) == 6)
        for got, (cosine, *_) in zip(one["features"], want):
            check(abs(got["cosine"] - cosine) < 2e-6, one["by"], got["cosine"], cosine)
        alone = lookup(folder, "--token-id", 7, "--top", 6, "--by", one["by"])
        check(alone["queries"][0]["features"] == one["features"] and alone["queries"][0]["p"] == one["p"], one["by"])
    # As many as there are, where fewer rows have the sign than are asked for.
    all_of_it = json.loads(run(folder, "--token-id", 7, "--top", 100000, "--json", "-q", "--tokens-out", 0).stdout)["queries"][0]["lists"]
    check([len(one["features"]) for one in all_of_it] == [sum(s[0] > 0 for s in signed), sum(s[0] < 0 for s in signed)])
    text = run(folder, "--token-id", 7, "-q").stdout
    check("largest positive cosine" in text and "largest negative cosine" in text and max(map(len, text.splitlines())) <= 80, text)


def batches_within_the_budget():
    """Queries that the budget does not hold together are answered in several passes, with the same answers."""
    rng = np.random.default_rng(12)
    folder = small_model("qwen3_moe")[0]
    np.save(os.path.join(FOLDER, "batches.npy"), rng.standard_normal((3000, HIDDEN)).astype(np.float32))
    vectors = ("--vector", os.path.join(FOLDER, "batches.npy"), "--top", 3, "--tokens-out", 2, "--threads", 1)
    whole = lookup(folder, *vectors, "--ram-budget", "1GiB")
    small = lookup(folder, *vectors, "--ram-budget", "12MiB")
    check(whole["passes"] == 1 and small["passes"] > 2, whole["passes"], small["passes"])
    check(small["bytes"] == small["passes"] * whole["bytes"])
    check(small["queries"] == whole["queries"], "answers depend on batches")
    said = run(folder, *vectors, "--by", "cosine", "--ram-budget", "12MiB").stderr
    check(f"{small['passes']} passes over the weights" in said, said)


def many_queries():
    folder, feed_forwards, embedding, output = small_model("qwen3_moe")
    rng = np.random.default_rng(8)
    vectors = rng.standard_normal((9, HIDDEN)).astype(np.float32)
    np.save(os.path.join(FOLDER, "vectors.npy"), vectors)
    np.save(os.path.join(FOLDER, "vector.npy"), vectors[3].astype(np.float64))
    found = lookup(folder, "--vector", os.path.join(FOLDER, "vectors.npy"), "--top", 5)
    check([query["name"] for query in found["queries"]] == [f"vectors.npy[{i}]" for i in range(9)])
    alone = lookup(folder, "--vector", os.path.join(FOLDER, "vector.npy"), "--top", 5)
    compare(alone, feed_forwards, vectors[3].astype(np.float64), output, top=5)
    check(alone["queries"][0]["features"] == found["queries"][3]["features"], "a query depends on its neighbours")
    lines = os.path.join(FOLDER, "queries.jsonl")
    with open(lines, "w") as file:
        file.write('"w5"\n\n12\n{"token": " w7", "name": "seven"}\n{"token_id": 48}\n' + json.dumps({"vector": vectors[3].tolist()}) + "\n")
    found = lookup(folder, "--queries", lines, "--token-id", 1, "--top", 5)
    check([query["token"] for query in found["queries"]] == [1, 5, 12, 7, 48, None])
    check(found["queries"][3]["name"] == "seven")
    check(found["queries"][5]["features"] == alone["queries"][0]["features"])
    words = os.path.join(FOLDER, "words.txt")
    with open(words, "w") as file:
        file.write("w5\n w7\r\nw12")
    check([query["token"] for query in lookup(folder, "--queries", words)["queries"]] == [5, 7, 12])


def several_tokens():
    """Several tokens as one query: the mean of their rows, or the last one alone."""
    folder, feed_forwards, embedding, output = small_model("qwen3_moe", extra={"model_type": "gemma2"})
    ids = [4, 9, 30, 9]
    factor = np.sqrt(HIDDEN)
    found = lookup(folder, "--token-ids", ",".join(map(str, ids)))
    compare(found, feed_forwards, factor * embedding[ids].astype(np.float64).mean(axis=0), output)
    query = found["queries"][0]
    check(query["token"] is None and query["token_ids"] == ids and query["pool"] == "mean", query)
    check(query["name"] == "mean of ` w4`, ` w9`, ` w30`, ` w9`", query["name"])
    by_text = lookup(folder, "--tokens", "w4 w9  \u0120w30 w9")["queries"][0]
    check(by_text == query, by_text["name"])
    last = lookup(folder, "--token-ids", "4,9,30,9", "--pool", "last")["queries"][0]
    alone = lookup(folder, "--token-id", 9)["queries"][0]
    check(last["features"] == alone["features"] and last["pool"] == "last" and alone["token_ids"] is None and alone["pool"] is None)
    lines = os.path.join(FOLDER, "several.jsonl")
    with open(lines, "w") as file:
        file.write('{"tokens": ["w4", "w9", " w30", 9]}\n{"token_ids": [4, 9, 30, 9], "name": "four"}\n')
    one, other = lookup(folder, "--queries", lines)["queries"]
    check(one == query and other["name"] == "four" and other["features"] == query["features"])
    long = lookup(folder, "--token-ids", ",".join(map(str, range(20))))["queries"][0]["name"]
    check(long == "mean of ` w0`, ` w1`, ` w2`, ... ` w19` (20 tokens)", long)
    for bad in ('{"tokens": []}', '{"token_ids": ["w4"]}', '{"tokens": ["w4"], "token_id": 4}', '{"tokens": [-1]}'):
        with open(lines, "w") as file:
            file.write(bad)
        check("line 1" in run(folder, "--queries", lines, code=65).stderr, bad)
    check("--token-ids has an empty value" in run(folder, "--token-ids", "", code=64).stderr)
    for bad in ("4,", "4,-1", "4;5", "99999999999999999999"):
        check("E-QUERY" in run(folder, "--token-ids", bad, code=64).stderr, bad)
    check("E-QUERY" in run(folder, "--tokens", "  ", code=64).stderr)
    check("E-TOKEN" in run(folder, "--tokens", "w4 w7", code=64).stderr)
    check("rows 0 to 49" in run(folder, "--token-ids", f"1,{VOCABULARY}", code=64).stderr)


def scaled_embeddings():
    for extra, factor in (({"model_type": "gemma2"}, np.sqrt(HIDDEN)), ({"model_type": "granite", "embedding_multiplier": 12.0}, 12.0),
                          ({"model_type": "minicpm", "scale_emb": 3}, 3.0), ({}, 1.0),
                          ({"model_type": "gemma3", "text_config": {"model_type": "gemma3_text"}}, np.sqrt(HIDDEN))):
        folder, feed_forwards, embedding, output = small_model("llama", extra=extra)
        found = lookup(folder, "--token-id", 9)
        check(abs(found["embedding_scale"] - factor) < 1e-12, extra, found["embedding_scale"])
        compare(found, feed_forwards, np.float64(factor) * embedding[9], output)


def refusals():
    folder = small_model("llama")[0]
    several = run(folder, "--token", "w7", code=64).stderr
    check("7 ` w7`" in several and "48 `w7`" in several, several)
    check(lookup(folder, "--token", " w7")["queries"][0]["token"] == 7)
    check(lookup(folder, "--token", "\u0120w7")["queries"][0]["token"] == 7)
    check("did you mean" in run(folder, "--token", "w77", code=64).stderr)
    check("rows 0 to 49" in run(folder, "--token-id", VOCABULARY, code=64).stderr)
    run(folder, code=64)
    run(folder, "--token-id", 1, "--layers", 9, code=64)
    run(os.path.join(FOLDER, "absent"), "--token-id", 1, code=66)
    np.save(os.path.join(FOLDER, "narrow.npy"), np.ones(5, dtype=np.float32))
    check("E-QUERY-WIDTH" in run(folder, "--vector", os.path.join(FOLDER, "narrow.npy"), code=78).stderr)
    run(folder, "--vector", os.path.join(FOLDER, "narrow.npy"), "--token-id", 1, code=78)
    for bad in (np.zeros(HIDDEN, np.float32), np.full(HIDDEN, np.nan, np.float32), np.ones((2, 2, 2), np.float32), np.ones(HIDDEN, np.int32)):
        np.save(os.path.join(FOLDER, "bad.npy"), bad)
        check("E-QUERY" in run(folder, "--vector", os.path.join(FOLDER, "bad.npy"), code=65).stderr)
    for line in ('{"token": 5}', '{"vector": [1, "a"]}', "nonsense", '{"token": "w5", "token_id": 5}', "[1]", '{"name": "a"}'):
        with open(os.path.join(FOLDER, "bad.jsonl"), "w") as file:
            file.write(line + "\n")
        check("line 1" in run(folder, "--queries", os.path.join(FOLDER, "bad.jsonl"), code=65).stderr, line)
    run(folder, "--token-id", 1, "--ram-budget", "100KB", code=78)
    # The vocabulary is needed for words alone.
    bare = small_model("llama", tokenizer=None)[0]
    check("E-VOCABULARY" in run(bare, "--token", "w5", code=66).stderr)
    tokens = lookup(bare, "--token-id", 5)["queries"][0]["features"][0]["tokens"]
    check(len(tokens) == 8 and tokens[0]["text"] is None)
    named = os.path.join(FOLDER, "a_tokenizer.json")
    with open(named, "w") as file:
        json.dump(TOKENIZER, file)
    check(lookup(bare, "--token", "w5", "--tokenizer", named)["queries"][0]["token"] == 5)
    with open(named, "w") as file:
        file.write('{"model": {"vocab": {"a": 1e99}}}')
    check("E-JSON" in run(bare, "--token", "w5", "--tokenizer", named, code=65).stderr)
    # Without its feed-forwards there is nothing to search.
    empty = save(os.path.join(FOLDER, "empty"), {"model.embed_tokens.weight": np.ones((4, 8), np.float32)}, {"model_type": "llama"})
    run(empty, "--token-id", 1, code=66)


def tables():
    folder = small_model("qwen3_moe")[0]
    text = run(folder, "--token-id", PLANTED["token"], "-q").stdout
    check("` w31`" in text and max(map(len, text.splitlines())) <= 80, text)
    check("back end: cpu" in run(folder, "--token-id", 1).stderr)


def small_budgets():
    """A model of 8 MiB: streamed where the budget does not hold a matrix."""
    rng = np.random.default_rng(2)
    width, rows = 512, 4096
    tensors = {"model.embed_tokens.weight": weights(rng, 20, width)}
    for layer in range(2):
        tensors[f"model.layers.{layer}.mlp.gate_proj.weight"] = weights(rng, rows, width)
        tensors[f"model.layers.{layer}.mlp.down_proj.weight"] = weights(rng, width, rows)
    folder = save(os.path.join(FOLDER, "larger"), tensors, {"model_type": "llama"})
    whole = lookup(folder, "--token-id", 3)
    check(lookup(folder, "--token-id", 3, "--ram-budget", "3500KiB", "--threads", 1)["queries"] == whole["queries"], "streamed differs")


def main():
    os.makedirs(FOLDER, exist_ok=True)
    planted_features()
    permuted_features()
    signs_apart()
    batches_within_the_budget()
    many_queries()
    several_tokens()
    scaled_embeddings()
    refusals()
    small_budgets()
    tables()
    real_models()
    print(checks, "checks")
    return 0


sys.exit(main())
