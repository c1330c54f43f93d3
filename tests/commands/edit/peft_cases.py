"""What the checks against PEFT share: the trained mixture of experts, and weights as torch's."""

import os

import torch
import transformers
from safetensors.torch import load_file

from edit_cases import DATA

MODEL = os.path.join(DATA, "moe")


def weights(folder):
    out = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".safetensors"):
            out.update(load_file(os.path.join(folder, name)))
    return out


def load(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
