"""Dumps made by numpy through `vindex routing`, every number beside an independent one.

Usage: routing_with_numpy.py VINDEX SHARED_DATA WORK_FOLDER."""

import json
import os
import struct

import numpy as np

from dump_cases import RNG, SHARED, WORK, entropy, near, read_layers, run, streamed, write_dump, write_model


def route(logits, rule):
    """Experts, weights, entropy and margin of every token, by sorting."""
    logits = logits.astype(np.float64)
    if rule["scoring"] == "softmax":
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        scores = p / p.sum(axis=1, keepdims=True)
    else:
        scores = 1 / (1 + np.exp(-logits))
    deciding = scores + rule.get("bias", 0)
    groups = rule.get("groups", 1)
    if groups > 1:
        members = np.sort(deciding.reshape(len(logits), groups, -1), axis=2)
        worth = members[:, :, -2:].sum(axis=2)
        best = np.argsort(-worth, axis=1, kind="stable")[:, : rule["chosen"]]
        allowed = np.zeros((len(logits), groups), bool)
        np.put_along_axis(allowed, best, True, axis=1)
        deciding = np.where(np.repeat(allowed, logits.shape[1] // groups, axis=1), deciding,
                            -np.inf)
    k = rule["k"]
    order = np.argsort(-deciding, axis=1, kind="stable")
    experts = order[:, :k]
    ranked = np.take_along_axis(deciding, order, axis=1)
    weights = np.take_along_axis(scores, experts, axis=1)
    if rule.get("normalised"):
        weights = weights / weights.sum(axis=1, keepdims=True)
    shares = scores / scores.sum(axis=1, keepdims=True)
    margins = ranked[:, k - 1] - ranked[:, k]
    return (experts, weights * rule.get("scale", 1.0), [entropy(row) for row in shares],
            margins[np.isfinite(margins)])


def chosen_matrix(experts, count):
    out = np.zeros((len(experts), count))
    np.put_along_axis(out, experts, 1, axis=1)
    return out


def gini(x):
    return np.abs(x[:, None] - x[None, :]).sum() / (2 * len(x) ** 2 * x.mean())


def poisson_tail(count, mean):
    """Twice the smaller tail, with half of the count's own chance."""
    chances = np.cumprod(np.concatenate([[np.exp(-mean)], mean / np.arange(1, 200)]))
    half = chances[count] / 2
    return 2 * min(chances[:count].sum() + half, chances[count + 1:].sum() + half)


def check_tails(what, ours, together, expected):
    """Lifts that are expected fewer than five times carry a tail, others nothing."""
    theirs = np.full(expected.shape, np.nan)
    for at in np.argwhere((expected > 0) & (expected < 5)):
        theirs[tuple(at)] = poisson_tail(int(together[tuple(at)]), expected[tuple(at)])
    near(what, ours, theirs, 1e-5)


def check_layer(layer, row, logits, rule):
    count = logits.shape[1]
    experts, weights, entropies, margins = route(logits, rule)
    chosen = chosen_matrix(experts, count)
    counts = chosen.sum(axis=0)
    near("load", layer["load"][row][:count], counts / counts.sum())
    weight = np.zeros((len(logits), count))
    np.put_along_axis(weight, experts, weights, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        near("mean_weight", layer["mean_weight"][row][:count], weight.sum(axis=0) / counts, 1e-9)
        lift = chosen.T @ chosen * len(logits) / np.outer(counts, counts)
    np.fill_diagonal(lift, np.nan)
    near("coactivation_lift", layer["coactivation_lift"][row][:count, :count], lift, 1e-6)
    near("coactivation_lift_max", layer["coactivation_lift_max"][row], np.nanmax(lift), 1e-6)
    null = np.full((count, count), layer["coactivation_lift_null"][row])
    groups = rule.get("groups", 1)
    if groups > 1:
        of = np.arange(count) * groups // count
        null[of[:, None] == of] = layer["coactivation_lift_null_same_group"][row]
    np.fill_diagonal(null, np.nan)
    check_tails("coactivation_lift_p", layer["coactivation_lift_p"][row][:count, :count],
                chosen.T @ chosen, null * np.outer(counts, counts) / len(logits))
    used = weights.ravel()
    near("mean_weight_null_sd", layer["mean_weight_null_sd"][row],
         used.std() / np.sqrt(len(used) / count))
    check_noise(layer, row, logits, rule)
    near("load_cv", layer["load_cv"][row], counts.std() / counts.mean())
    near("load_entropy", layer["load_entropy"][row], entropy(counts / counts.sum())
         / np.log(count))
    near("gini", layer["gini"][row], gini(counts))
    near("max_over_mean", layer["max_over_mean"][row], counts.max() / counts.mean())
    near("dead_experts", layer["dead_experts"][row], (counts == 0).sum())
    near("router_entropy", layer["router_entropy"][row], np.mean(entropies))
    near("margin", layer["margin"][row], np.median(margins), 1e-7, 1e-12)
    near("mean_weight_null", layer["mean_weight_null"][row], weights.mean())
    near("load_null_sd", layer["load_null_sd"][row],
         np.sqrt(rule["k"] / count * (1 - rule["k"] / count) / len(logits)) / rule["k"])
    return chosen


def check_noise(layer, row, logits, rule):
    """Nulls of entropy and margin beside other normal logits of the layer's mean and deviation."""
    spread = logits.astype(np.float64)
    near("logit_mean", layer["logit_mean"][row], spread.mean())
    sd = np.sqrt(spread.var(axis=1, ddof=1).mean())
    near("logit_sd", layer["logit_sd"][row], sd)
    normal = spread.mean() + sd * np.random.default_rng(3).standard_normal((4000, logits.shape[1]))
    _, _, entropies, margins = route(normal, {**rule, "bias": 0})
    near("router_entropy_null", layer["router_entropy_null"][row], np.mean(entropies),
         absolute=5 * np.std(entropies) / np.sqrt(4000) + 1e-3)
    near("margin_null", layer["margin_null"][row], np.median(margins), 0.1)
    for name in ("router_entropy", "margin"):
        near(name + "_noise", layer[name + "_noise"][row], layer[name + "_null"][row])
    # Nothing is known to fewer digits than tokens allow, nor to more.
    assert 0 < layer["router_entropy_null_sd"][row] <= np.std(entropies) / np.sqrt(len(logits)) * 1.2
    assert 0.3 < layer["margin_null_sd"][row] / (np.std(margins) / np.sqrt(len(logits))) < 3
    for name in ("coactivation_lift_max", "load_cv", "gini", "load_entropy", "max_over_mean"):
        assert layer[name + "_null"][row] > 0 and layer[name + "_null_sd"][row] > 0, name
    assert layer["coactivation_lift_max_null"][row] > layer["coactivation_lift_null"][row]
    assert 1 / 1001 <= layer["coactivation_lift_max_p"][row] * (1 + 1e-9) <= 1.0001


def check_transition(layer, row, before, chosen):
    with np.errstate(invalid="ignore", divide="ignore"):
        expected = np.outer(before.sum(axis=0), chosen.sum(axis=0)) / len(chosen)
        lift = before.T @ chosen / expected
    check_tails("transition_lift_p",
                layer["transition_lift_p"][row][: before.shape[1], : chosen.shape[1]],
                before.T @ chosen, expected)
    near("transition_lift_max", layer["transition_lift_max"][row], np.nanmax(lift), 1e-6)
    assert layer["transition_lift_max_null"][row] > 1
    assert layer["transition_lift_max_null_sd"][row] > 0
    near("transition_lift", layer["transition_lift"][row][: before.shape[1], : chosen.shape[1]],
         lift, 1e-6)


def routing():
    first = RNG.standard_normal((400, 16)).astype(np.float32)
    second = (first + RNG.standard_normal((400, 16))).astype(np.float32)
    bias = (0.1 * RNG.standard_normal((2, 16))).astype(np.float32)
    dump = write_dump("routed", {"router_logits.1": first, "router_logits.2": second})
    model = write_model(
        "routers",
        {"model_type": "deepseek_v3", "num_experts_per_tok": 3, "n_group": 4, "topk_group": 2,
         "norm_topk_prob": True, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid",
         "topk_method": "noaux_tc"},
        {f"model.layers.{l}.mlp.gate.e_score_correction_bias": bias[l - 1] for l in (1, 2)})
    out = os.path.join(WORK, "routing.h5")
    run("routing", dump, "-o", out, "--model", model, "--restart", "-q")
    layer = read_layers(out)
    assert list(layer["layer"]) == [1, 2] and list(layer["previous_layer"]) == [-1, 1]
    rule = {"scoring": "sigmoid", "k": 3, "groups": 4, "chosen": 2, "normalised": True,
            "scale": 2.5}
    before = check_layer(layer, 0, first, rule | {"bias": bias[0]})
    chosen = check_layer(layer, 1, second, rule | {"bias": bias[1]})
    check_transition(layer, 1, before, chosen)
    assert np.isnan(layer["transition_lift"][0]).all()
    assert layer["coactivation_lift_null_same_group"][0] > layer["coactivation_lift_null"][0]
    # Told by hand, no model; a token that goes nowhere.
    third = RNG.standard_normal((400, 16)).astype(np.float32)
    broken = second.copy()
    broken[7, 3] = np.inf
    dump = write_dump("told", {"router_logits.0": third, "router_logits.5": broken})
    run("routing", dump, "-o", out, "--top-k", "2", "--scoring", "softmax", "--normalise",
        "--restart", "-q")
    layer = read_layers(out)
    rule = {"scoring": "softmax", "k": 2, "normalised": True}
    before = check_layer(layer, 0, third, rule)
    chosen = check_layer(layer, 1, np.delete(broken, 7, axis=0), rule)
    check_transition(layer, 1, np.delete(before, 7, axis=0), chosen)
    near("tokens_left_out", layer["tokens_left_out"], [0, 1])
    near("null of pairs", layer["coactivation_lift_null"],
         [16 * 1 / (2 * 15)] * 2)
    # Scores that nothing overflows or underflows: a sigmoid of large logits, masked experts.
    extreme = (40 * RNG.standard_normal((400, 16))).astype(np.float32)
    extreme[:, 3] = -np.inf
    run("routing", write_dump("extreme", {"router_logits.0": extreme}), "-o", out, "--top-k", "2",
        "--scoring", "softmax", "--restart", "-q")
    assert read_layers(out)["load"][0][3] == 0
    # Logits that prefer nobody are beside their nulls; ones that do are not.
    plain = RNG.standard_normal((2000, 16)).astype(np.float32)
    liked = plain + np.linspace(0, 0.5, 16).astype(np.float32)
    run("routing", write_dump("fair", {"router_logits.0": plain, "router_logits.1": liked}), "-o",
        out, "--top-k", "2", "--scoring", "softmax", "--restart", "-q")
    layer = read_layers(out)
    for name in ("load_cv", "gini", "load_entropy", "max_over_mean", "router_entropy", "margin",
                 "coactivation_lift_max"):
        z = (layer[name] - layer[name + "_null"]) / layer[name + "_null_sd"]
        assert abs(z[0]) < 4.5, (name, z)
        if name.startswith(("load", "gini")):
            assert abs(z[1]) > 10, (name, z)
    # Keys of another type are told by name, biases that are missing are a warning.
    config = {"model_type": "deepseek_v3", "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1,
              "topk_method": "noaux_tc", "routed_scaling_factor": "x"}
    gate = {"model.layers.0.mlp.gate.weight": np.ones((16, 4), np.float32)}
    said = run("routing", dump, "-o", os.path.join(WORK, "x.h5"), "--model",
               write_model("typo", config, gate), code=78).stderr
    assert "E-ROUTER-KEY" in said and 'routed_scaling_factor is the text "x"' in said, said
    config["routed_scaling_factor"] = 2.5
    said = run("routing", dump, "-o", out, "--model", write_model("no-bias", config, gate),
               "--restart").stderr
    assert "W-ROUTER-BIAS" in said and "layers 0, 5" in said and "scores alone" in said, said
    # What is refused, and what it says to pass.
    unknown = write_model("unknown", {"model_type": "somethingnew", "num_experts_per_tok": 2},
                          {"model.layers.0.mlp.gate.weight": np.ones((16, 4), np.float32)})
    said = run("routing", dump, "-o", os.path.join(WORK, "x.h5"), "--model", unknown, code=78)
    assert "--top-k" in said.stderr and "E-ROUTER-UNKNOWN" in said.stderr, said.stderr
    run("routing", dump, "-o", os.path.join(WORK, "x.h5"), code=64)
    run("routing", dump, "-o", os.path.join(WORK, "x.h5"), "--top-k", "17", "--scoring",
        "softmax", code=78)
    assert not os.path.exists(os.path.join(WORK, "x.h5"))
    run("routing", write_dump("no-logits", {"mlp.0": third}), "-o", os.path.join(WORK, "x.h5"),
        "--top-k", "1", "--scoring", "softmax", code=65)


def bfloat16_tensors(folder, names):
    """Tensors of a sharded model, as float32."""
    with open(os.path.join(folder, "model.safetensors.index.json"), encoding="utf-8") as file:
        where = json.load(file)["weight_map"]
    out = {}
    for name in names:
        with open(os.path.join(folder, where[name]), "rb") as file:
            size, = struct.unpack("<Q", file.read(8))
            entry = json.loads(file.read(size))[name]
            begin, end = entry["data_offsets"]
            file.seek(8 + size + begin)
            raw = file.read(end - begin)
        if entry["dtype"] == "BF16":
            wide = np.frombuffer(raw, "<u2").astype(np.uint32) << 16
            out[name] = wide.view(np.float32).reshape(entry["shape"])
        else:
            out[name] = np.frombuffer(raw, "<f4").reshape(entry["shape"])
    return out


def real_router():
    """The routers of a trained mixture with their biases, on inputs of the trained embedding."""
    folder = os.path.join(SHARED, "moe")
    if not os.path.isdir(folder):
        print("no trained mixture here: its routers are not checked")
        return
    names = ["model.embed_tokens.weight"]
    for number in (1, 2, 3):
        names += [f"model.layers.{number}.mlp.gate.weight",
                  f"model.layers.{number}.mlp.gate.e_score_correction_bias",
                  f"model.layers.{number}.post_attention_layernorm.weight"]
    tensors = bfloat16_tensors(folder, names)
    embedded = tensors[names[0]][RNG.integers(32, 127, 3000)]
    arrays, biases = {}, []
    for number in (1, 2, 3):
        x = embedded + embedded[::-1] * 0.5 + RNG.standard_normal(embedded.shape) * 0.02
        x = x / np.sqrt((x * x).mean(axis=1, keepdims=True))
        x = x * tensors[f"model.layers.{number}.post_attention_layernorm.weight"]
        arrays[f"router_logits.{number}"] = (
            x @ tensors[f"model.layers.{number}.mlp.gate.weight"].T).astype(np.float32)
        biases.append(tensors[f"model.layers.{number}.mlp.gate.e_score_correction_bias"])
    dump = write_dump("real", arrays)
    results = []
    for model in (folder, os.path.join(folder, "kjv-moe-7.6M-BF16.gguf")):
        out = os.path.join(WORK, "real.h5")
        run("routing", dump, "-o", out, "--model", model, "--restart", "-q")
        layer = read_layers(out)
        results.append(layer)
        before = None
        for row in range(3):
            rule = {"scoring": "sigmoid", "k": 2, "normalised": True, "bias": biases[row]}
            chosen = check_layer(layer, row, arrays[f"router_logits.{row + 1}"], rule)
            if before is not None:
                check_transition(layer, row, before, chosen)
            before = chosen
    for name, values in results[0].items():  # one rule, from config.json and from GGUF keys
        np.testing.assert_array_equal(values, results[1][name])


routing()
real_router()
streamed("routing", {f"router_logits.{layer}": RNG.standard_normal((40000, 128)).astype(np.float32) for layer in range(2)}, "36000000",
         "--top-k", "2", "--scoring", "softmax")
print("routing agrees with numpy")
