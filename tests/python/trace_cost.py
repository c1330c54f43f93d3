"""Owns what trace_test.py holds `vindex trace --loss` and `--against` to: the loss that transformers itself returns for the labels of
a prompt, and torch's divergence of the logits of two models."""

import json
import subprocess

import torch

# Nats. Measured: 2e-7, the rounding of the float32 in which transformers returns a loss.
CLOSE = 1e-5


def by_transformers(model, prompts):
    """Mean loss in nats of all tokens but the first of each prompt; the model's own, prompt by prompt."""
    total, count = 0.0, 0
    with torch.inference_mode():
        for ids in (prompt for prompt in prompts if len(prompt) > 1):  # its loss of no token is NaN
            tokens = torch.tensor([ids])
            total += model(input_ids=tokens, labels=tokens, use_cache=False).loss.item() * (len(ids) - 1)
            count += len(ids) - 1
    return total / count


def by_torch(model, other, prompts):
    """Divergence of `other` from `model` in nats a token, and the share of tokens with the same first choice."""
    divergence, same, count = 0.0, 0, 0
    with torch.inference_mode():
        for ids in prompts:
            tokens = torch.tensor([ids])
            ours, theirs = (one(input_ids=tokens, use_cache=False).logits[0, :-1].double().log_softmax(1) for one in (model, other))
            divergence += torch.nn.functional.kl_div(theirs, ours, reduction="sum", log_target=True).item()
            same += (ours.argmax(1) == theirs.argmax(1)).sum().item()
            count += len(ids) - 1
    return divergence / count, same / count


def by_vindex(program, folder, path, other, prompts):
    """The members `loss` and `against` of the summary."""
    ids = folder / "cost.jsonl"
    ids.write_text("".join(json.dumps({"ids": prompt}) + "\n" for prompt in prompts))
    ran = subprocess.run([program, "trace", path, "--ids", ids, "--loss", "--against", other, "--json"], capture_output=True, text=True)
    if ran.returncode != 0:
        raise RuntimeError(f"{path} against {other} ended with {ran.returncode}: {ran.stderr[-2000:]}")
    summary = json.loads(ran.stdout)
    return summary["loss"], summary["against"]
