"""Dumps made by numpy through `vindex activations`, every number beside an independent one.

Usage: activations_with_numpy.py VINDEX SHARED_DATA WORK_FOLDER."""

import os

import h5py
import numpy as np

from dump_cases import RNG, WORK, entropy, near, run, streamed, write_dump, write_model


def sparseness(a):
    a = np.abs(a.ravel())
    root = np.sqrt(a.size)
    return (root - a.sum() / np.sqrt((a * a).sum())) / (root - 1)


def check_values(layer, row, a):
    a = a.astype(np.float64)
    rms = np.sqrt((a * a).mean())
    near("sparsity", layer["sparsity"][row], [(np.abs(a) <= t * rms).mean()
                                              for t in (0.001, 0.01, 0.1)])
    near("hoyer", layer["hoyer"][row], sparseness(a))
    near("hoyer_token", layer["hoyer_token"][row], np.mean([sparseness(t) for t in a if t.any()]))
    near("neuron_variance", layer["neuron_variance"][row], a.var(axis=0).mean())
    near("neuron_variance_null", layer["neuron_variance_null"][row],
         rms**2 * (len(a) - 1) / len(a))
    near("dead", layer["dead_neurons"][row], (np.abs(a) <= 0.001 * rms).all(axis=0).sum())
    central = a - a.mean()
    near("kurtosis", layer["kurtosis"][row], (central**4).mean() / (central**2).mean() ** 2)
    near("mean_square", layer["mean_square"][row], rms**2)
    sigma = np.linalg.svd(a - a.mean(axis=0), compute_uv=False) ** 2
    near("effective_rank", layer["effective_rank"][row], np.exp(entropy(sigma / sigma.sum())), 1e-4)
    near("sparsity_null", layer["sparsity_null"][row],
         [0.00510804, 0.0364220, 0.2178287] if layer["role"][row] == b"mlp" else
         [0.000797884, 0.00797871, 0.0796557], 1e-5)


def check_gates(layer, row, gates):
    adjacent, pairs = [], []
    for gate in gates:
        unit = gate / np.linalg.norm(gate, axis=1, keepdims=True)
        adjacent.append((unit[1:] * unit[:-1]).sum(axis=1).mean())
        cosines = unit @ unit.T
        pairs.append(np.abs(cosines[np.triu_indices(len(gate), 1)]).mean())
    near("gate_adjacent_cosine", layer["gate_adjacent_cosine"][row], np.mean(adjacent), 1e-6, 1e-9)
    near("gate_mean_abs_cosine", layer["gate_mean_abs_cosine"][row], np.mean(pairs), 1e-6)
    near("gate_matrices", layer["gate_matrices"][row], len(gates))
    near("gate_mean_abs_cosine_null", layer["gate_mean_abs_cosine_null"][row],
         np.sqrt(2 / (np.pi * gates[0].shape[1])))


def activations():
    # More tokens than neurons, and fewer: both forms of the covariance. A mean that is large.
    wide = (RNG.standard_normal((37, 130)) * RNG.standard_normal((37, 130))).astype(np.float16)
    tall = (RNG.standard_normal((37, 20)) * np.exp(RNG.standard_normal(20)) + 3).astype(np.float32)
    tall[:, 4] = 0
    logits = (4 * RNG.standard_normal((37, 300))).astype(np.float32)
    logits[3, 5] = np.nan
    hidden = RNG.standard_normal((37, 16)).astype(np.float32)
    dump = write_dump("dump", {"mlp.0": tall, "mlp.2": wide, "logits": logits, "hidden.0": hidden})
    fused = RNG.standard_normal((3, 2 * 9, 16)).astype(np.float32)
    gate = (RNG.standard_normal((1100, 16)) + 0.2).astype(np.float32)
    names = {"model.layers.0.mlp.gate_proj.weight": gate,
             "model.layers.0.mlp.up_proj.weight": gate[::-1].copy(),
             "model.layers.0.mlp.down_proj.weight": gate.T.copy(),
             "model.layers.1.mlp.experts.gate_up_proj": fused,
             "model.layers.1.mlp.experts.down_proj":
                 RNG.standard_normal((3, 16, 9)).astype(np.float32)}
    model = write_model("gates", {"model_type": "qwen3_moe"}, names)
    out = os.path.join(WORK, "activations.h5")
    run("activations", dump, "-o", out, "--model", model, "--restart", "-q")
    run("validate", out)
    with h5py.File(out) as file:
        assert file.attrs["schema_name"] == "vindex-activations", dict(file.attrs)
        layer = {name: file["layer"][name][:] for name in file["layer"]}
        assert list(layer["layer"]) == [-1, 0, 1, 2], layer["layer"]
        assert list(layer["role"]) == [b"logits", b"mlp", b"gate_proj", b"mlp"]
        near("threshold", layer["threshold"], [0.001, 0.01, 0.1])
        check_values(layer, 1, tall)
        check_values(layer, 3, wide)
        kept = np.delete(logits, 3, axis=0).astype(np.float64)
        p = np.exp(kept - kept.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        near("top8_mass", layer["top8_mass"][0], np.sort(p, axis=1)[:, -8:].sum(axis=1).mean(),
             1e-6)
        near("output_entropy", layer["output_entropy"][0], np.mean([entropy(row) for row in p]),
             1e-6)
        near("top8_mass_null", layer["top8_mass_null"][0], 8 / 300)
        near("output_entropy_null", layer["output_entropy_null"][0], np.log(300))
        near("tokens_left_out", layer["tokens_left_out"][0], 1)
        check_gates(layer, 1, [gate.astype(np.float64)])
        check_gates(layer, 2, [expert[:9].astype(np.float64) for expert in fused])
        assert np.isnan(layer["gate_adjacent_cosine"][3])
        assert np.isnan(layer["sparsity"][2]).all() and b"not dumped" in layer["reason"][2]
    run("activations", dump, "-o", out, "--hidden", "--restart", "-q", "--no-effective-rank")
    with h5py.File(out) as file:
        layer = {name: file["layer"][name][:] for name in file["layer"]}
        assert list(layer["role"]) == [b"logits", b"hidden"]
        assert np.isnan(layer["effective_rank"][1])
        near("kurtosis_null", layer["kurtosis_null"][1], 3 * (37 * 16 - 1) / (37 * 16 + 1))
    # An array of other values: as many tokens, but not the same dump.
    np.save(os.path.join(dump, "mlp.0.npy"), tall + 1)
    run("activations", dump, "-o", out, "--hidden", "-q", "--no-effective-rank", code=78)
    run("activations", write_dump("only-hidden", {"hidden.0": hidden}), "-o",
        os.path.join(WORK, "none.h5"), code=65)


def hostile_activations():
    """What is not defined is NaN and says why; nothing but the file is left behind."""
    out = os.path.join(WORK, "hostile.h5")
    gate = np.ones((6, 8), np.float32)  # equal rows: cosines of 1, and not an ulp more
    model = write_model("hostile-gates", {"model_type": "qwen3"},
                        {"model.layers.0.mlp.gate_proj.weight": 0.3 * gate,
                         "model.layers.0.mlp.up_proj.weight": gate,
                         "model.layers.0.mlp.down_proj.weight": gate.T.copy()})
    broken = RNG.standard_normal((9, 8)).astype(np.float32)
    broken[4, 4] = np.inf
    varied = RNG.standard_normal((9, 8)).astype(np.float32)
    dump = write_dump("hostile", {
        "logits": np.full((9, 12), np.nan, np.float32), "mlp.0": broken, "mlp.1": broken,
        "mlp.2": np.full((9, 8), 0.1, np.float32), "mlp.3": np.zeros((9, 8), np.float32),
        "mlp.4": np.tile(varied[0], (9, 1)), "mlp.5": varied})
    done = run("activations", dump, "-o", out, "--model", model, "--restart", "-q")
    run("validate", out)
    assert "W-NOT-FINITE" in done.stderr or done.stderr == "", done.stderr
    assert not os.path.exists(out + ".parts"), "parts are left"
    with h5py.File(out) as file:
        layer = {name: file["layer"][name][:] for name in file["layer"]}
    reason = [text.decode() for text in layer["reason"]]
    assert layer["status"][0] == layer["status"][2] != 0 and not layer["status"][[1, 3, 4, 5, 6]].any(), layer["status"]
    assert "9 of 9 positions" in reason[0] and layer["tokens_left_out"][0] == -1, reason[0]
    # Of the weights there are numbers, of the activations none.
    assert layer["status"][1] == 0 and "not finite" in reason[1], reason[1]
    near("equal rows", [layer["gate_adjacent_cosine"][1], layer["gate_mean_abs_cosine"][1]], [1, 1], 1e-6)
    assert np.isnan(layer["kurtosis"][1]) and np.isnan(layer["sparsity"][1]).all()
    assert "not finite" in reason[2], reason[2]
    assert "all values are equal" in reason[3] and "all tokens are identical" in reason[3], reason[3]
    assert np.isnan(layer["kurtosis"][3]) and np.isnan(layer["effective_rank"][3])
    assert "zeros alone" in reason[4], reason[4]
    assert "all tokens are identical" in reason[5] and "equal" not in reason[5], reason[5]
    assert np.isnan(layer["effective_rank"][5]) and not np.isnan(layer["kurtosis"][5])
    assert all("no gate projection" in text for text in reason[2:]), reason
    one = write_dump("one-token", {"mlp.0": varied[:1], "mlp.1": varied[1:2, :8]})
    run("activations", one, "-o", out, "--restart", "-q")
    with h5py.File(out) as file:
        assert b"one token" in file["layer/reason"][0]
    narrow = write_dump("one-neuron", {"mlp.0": varied[:, :1]})
    run("activations", narrow, "-o", out, "--restart", "-q")
    with h5py.File(out) as file:
        assert b"one neuron" in file["layer/reason"][0] and np.isnan(file["layer/hoyer_token"][0])
    # Not one position whose logits are finite, and nothing else: a row without numbers, exit 0.
    alone = write_dump("no-logits", {"logits": np.full((5, 12), -np.inf, np.float32)})
    assert "W-NOT-FINITE" in run("activations", alone, "-o", out, "--restart").stderr
    run("validate", out)


activations()
hostile_activations()
streamed("activations", {"mlp.0": RNG.standard_normal((40000, 256)).astype(np.float32)}, "30000000")
print("activations agree with numpy")
