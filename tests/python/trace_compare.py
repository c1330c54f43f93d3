"""Owns how dumps of `vindex trace` are compared with references, with numpy alone: errors, and the experts that a model's rule takes."""

import numpy as np

# What of a dump is compared.
KINDS = "hidden,mlp,router_logits,logits"
# A tenth of what docs/commands/trace.md promises (1e-3), and some times what two orders of summation in float32 give.
CLOSE = 1e-4


def error(got, want):
    """Largest difference, over the standard deviation of what is wanted."""
    return float(np.abs(got.astype(np.float64) - want).max() / want.astype(np.float64).std())


def row_error(got, want):
    """Largest over tokens of the difference's norm over that of the wanted row."""
    lengths = np.linalg.norm(want.astype(np.float64), axis=1)
    return float((np.linalg.norm(got.astype(np.float64) - want, axis=1) / lengths).max())


def losses(logits, prompts):
    """-ln p of every token but the first of its prompt, in float64."""
    found, first = [], 0
    for ids in prompts:
        rows = logits[first:first + len(ids) - 1].astype(np.float64)
        top = rows.max(axis=1, initial=-np.inf, keepdims=True)
        found.append(np.log(np.exp(rows - top).sum(axis=1)) + top[:, 0] - rows[np.arange(len(rows)), ids[1:]])
        first += len(ids)
    return np.concatenate(found)


class Choice:
    """The experts that the rule of a model takes, by router logits; with the margin of the decision. Of a config.json (of the language
    model, where it has one of its own) and the biases of selection by the names of their tensors."""

    def __init__(self, config, biases):
        self.k = config.get("num_experts_per_tok") or 0
        self.groups, self.kept = 1, 1
        self.sigmoid = config["model_type"] in ("deepseek_v3", "kimi_k2")
        if self.sigmoid or config.get("topk_method") == "group_limited_greedy":
            self.groups, self.kept = config.get("n_group") or 1, config.get("topk_group") or 1
        self.biases = {name: values for name, values in biases.items() if name.endswith("e_score_correction_bias")}

    def __call__(self, layer, logits):
        scores = logits.astype(np.float64)
        if self.sigmoid:
            scores = 1 / (1 + np.exp(-scores)) + self.biases[f"model.layers.{layer}.mlp.gate.e_score_correction_bias"]
        else:
            scores = np.exp(scores - scores.max(axis=1, keepdims=True))
            scores /= scores.sum(axis=1, keepdims=True)
        margin = np.full(len(scores), np.inf)
        if self.groups > 1:
            parts = np.sort(scores.reshape(len(scores), self.groups, -1), axis=2)[:, :, ::-1]
            of_groups = parts[:, :, :2].sum(axis=2) if self.sigmoid else parts[:, :, 0]
            order = np.argsort(-of_groups, axis=1)
            ranked = np.take_along_axis(of_groups, order, axis=1)
            margin = ranked[:, self.kept - 1] - ranked[:, self.kept]
            allowed = np.zeros_like(of_groups, dtype=bool)
            np.put_along_axis(allowed, order[:, :self.kept], True, axis=1)
            scores = np.where(np.repeat(allowed, scores.shape[1] // self.groups, axis=1), scores, -np.inf)
        order = np.argsort(-scores, axis=1)
        ranked = np.take_along_axis(scores, order, axis=1)
        return np.sort(order[:, :self.k], axis=1), np.minimum(margin, ranked[:, self.k - 1] - ranked[:, self.k])
