"""Holds the adapters and models of `vindex edit` against PEFT and transformers on the trained mixture of experts.

Usage: edit_with_peft.py VINDEX DATA FOLDER. Exit 77 (skipped) where the data is missing."""

import os
import sys

import numpy as np
import peft
import torch
import transformers

from edit_cases import FAILURES, FOLDER, check, edit, path
from peft_cases import MODEL, load, weights
from test_script import fresh_folder, need

TARGETS = ["model.layers.1.self_attn.o_proj.weight", "model.layers.2.mlp.shared_experts.down_proj.weight", "model.layers.0.mlp.down_proj.weight"]


def stack_of_experts():
    """gpt-oss: experts in one parameter, stored in x out."""
    config = transformers.GptOssConfig(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                                       num_local_experts=4, num_experts_per_tok=2, vocab_size=64, layer_types=["full_attention"] * 2)
    transformers.GptOssForCausalLM(config).save_pretrained(path("oss"))
    name = "model.layers.1.mlp.experts.down_proj"
    np.save(path("v48.npy"), np.random.default_rng(14).standard_normal(48))
    more = ["--tensor", name, "--slice", "2", "--direction", path("v48.npy")]
    edit("delete", path("oss"), *more, "-o", path("oss_edited"))
    edit("delete", path("oss"), *more, "--as", "lora", "-o", path("oss_lora"))
    merged = peft.PeftModel.from_pretrained(load(path("oss")), path("oss_lora")).merge_and_unload().state_dict()[name]
    own, before = weights(path("oss_edited"))[name].float(), weights(path("oss"))[name].float()
    edit("apply", path("oss"), "--patch", path("oss_lora"), "-o", path("oss_applied"))
    check("the adapter of a stack, applied", torch.equal(weights(path("oss_applied"))[name].float(), own))
    check("a stack of experts", ((own - merged).norm() / (own - before).norm()).item() < 1e-4 and not torch.equal(own, before))


def main():
    need(os.path.join(MODEL, "config.json"))
    fresh_folder(FOLDER)
    torch.manual_seed(0)
    np.save(path("v.npy"), np.random.default_rng(13).standard_normal(256))
    regex = "|".join(TARGETS).replace(".", r"\.")
    common = ["--tensors", regex, "--direction", path("v.npy"), "--side", "left"]
    edit("delete", MODEL, *common, "-o", path("edited"))
    edit("delete", MODEL, *common, "--as", "lora", "-o", path("lora"))
    before, after = weights(MODEL), weights(path("edited"))
    edit("apply", MODEL, "--patch", path("lora"), "-o", path("own_merge"))
    check("our own merge is the edit", all(torch.equal(own, after[name]) for name, own in weights(path("own_merge")).items()))
    check("only the targets differ", sorted(n for n in before if not torch.equal(before[n], after[n])) == sorted(TARGETS))

    # PEFT finds the modules and merges what the edited model holds, to the rounding of BF16.
    model = peft.PeftModel.from_pretrained(load(MODEL), path("lora"))
    merged = model.merge_and_unload().state_dict()
    for name in TARGETS:
        own, theirs = after[name].float(), merged[name].float()
        size = (theirs - before[name].float()).norm() / before[name].float().norm()
        error = ((own - theirs).norm() / theirs.norm()).item()
        # Both round W + b a to BF16, from sums that differ by float32's rounding: ties may fall either way.
        differing = (own != theirs.bfloat16().float()).float().mean().item()
        check("merge of " + name, error < 2.5e-3 and differing < 1e-3, f"error {error:.1e}, edit {size:.1e}, {differing:.1e} differ in BF16")
        exact = before[name].double() - torch.outer(*(lambda u, w: (u, u @ w))(torch.from_numpy(np.load(path("v.npy")) / np.linalg.norm(np.load(path("v.npy")))), before[name].double()))
        check("closed form of " + name, ((theirs.double() - exact).norm() / exact.norm()).item() < 1e-6)

    # transformers loads the edited model, and its logits are those of the merged one up to BF16.
    ids = torch.arange(32).reshape(1, 32)
    with torch.no_grad():
        base, edited = load(MODEL)(ids).logits, load(path("edited"))(ids).logits
        adapted = peft.PeftModel.from_pretrained(load(MODEL), path("lora"))(ids).logits
    change = ((edited - base).norm() / base.norm()).item()
    check("logits", change > 1e-3 and ((edited - adapted).norm() / (edited - base).norm()).item() < 0.2, f"the edit changes them by {change:.1e}")

    # An adapter that PEFT trained (here: drew), merged by PEFT and by us.
    config = peft.LoraConfig(r=4, lora_alpha=6, use_rslora=True, target_modules=["o_proj", "q_b_proj"], rank_pattern={"layers.0.self_attn.o_proj": 2},
                             alpha_pattern={"layers.2.self_attn.q_b_proj": 20}, init_lora_weights=False)
    drawn = peft.get_peft_model(load(MODEL), config)
    drawn.save_pretrained(path("drawn"))
    merged = drawn.merge_and_unload().state_dict()
    edit("apply", MODEL, "--patch", path("drawn"), "-o", path("applied"))
    applied = weights(path("applied"))
    changed = [name for name in before if not torch.equal(before[name], applied[name])]
    check("adapter of PEFT: matrices", len(changed) == 8, str(len(changed)))
    for name in changed:
        check("apply " + name, torch.equal(merged[name].bfloat16(), applied[name]) or ((merged[name] - applied[name].float()).norm() / merged[name].norm()).item() < 2.5e-3)
    stack_of_experts()
    print("failures:", len(FAILURES))
    return 1 if FAILURES else 0


sys.exit(main())
