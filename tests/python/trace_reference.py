"""Owns what transformers computes of a model, as the arrays of a dump of `vindex trace`."""

import numpy as np
import torch

from trace_compare import KINDS


def reference(capture, model, prompts):
    """Arrays by name, prompt by prompt; `capture`: scripts/capture.py as a module."""
    hooks = capture.Hooks(capture.find_layers(model), KINDS.split(","), None)
    rows = {}
    with torch.inference_mode():
        for number, ids in enumerate(prompts):
            # Dynamic rope keeps the frequencies of the longest sequence until a short one comes.
            model(input_ids=torch.tensor([[1]]), use_cache=False)
            hooks.take()
            out = model(input_ids=torch.tensor([ids]), use_cache=False)
            for name, values in [*hooks.take().items(), ("logits", out.logits[0])]:
                rows.setdefault(name, []).append(values.float().numpy())
    hooks.remove()
    arrays = {name: np.concatenate(parts) for name, parts in rows.items()}
    arrays["token_ids"] = np.concatenate(prompts)
    arrays["prompt"] = np.repeat(np.arange(len(prompts)), [len(ids) for ids in prompts])
    return arrays
