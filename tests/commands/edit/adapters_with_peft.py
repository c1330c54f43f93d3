"""Holds what `vindex` reads and writes of LoRA adapters against PEFT itself: experts of a mixture, copies of the base, ways to begin.

Usage: adapters_with_peft.py VINDEX DATA FOLDER. Exit 77 (skipped) where the data is missing."""

import csv
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import peft
import torch
import transformers
from safetensors.torch import load_file, save_file

from edit_cases import FAILURES, FOLDER, VINDEX, check, path
from peft_cases import MODEL, load, weights
from test_script import fresh_folder, need

EXPERTS = 8


def vindex(*arguments):
    done = subprocess.run([VINDEX, *map(str, arguments)], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def apply(model, adapter, out):
    code, text = vindex("edit", "apply", model, "--patch", adapter, "-o", path(out), "--quiet")
    check(f"apply {os.path.basename(adapter)} to {os.path.basename(model)}", code == 0, text)
    return weights(path(out))


def refused(what, code, identity, model, adapter):
    got, text = vindex("edit", "apply", model, "--patch", adapter, "-o", path("refused"), "--quiet")
    check(what, got == code and identity in text and not os.path.exists(path("refused")), f"{got} {text}")


def change_config(folder, **members):
    file = os.path.join(folder, "adapter_config.json")
    config = json.load(open(file))
    config.update(members)
    json.dump(config, open(file, "w"))


def drawn(name, base, **settings):
    """An adapter as PEFT saves it after training (here: drawn), and the weights that PEFT merges."""
    settings = {"r": 2, "lora_alpha": 6, "init_lora_weights": False, **settings}
    model = peft.get_peft_model(load(base), peft.LoraConfig(**settings))
    model.save_pretrained(path(name))
    return model.merge_and_unload().state_dict()


def near(what, got, wanted, before, most):
    """The distance of two edits as a share of the edit."""
    error = ((got.double() - wanted.double()).norm() / (wanted.double() - before.double()).norm()).item()
    check(what, error < most, f"{error:.1e}")


def tiny(name, dtype):
    """A dense model that is small enough to be loaded often."""
    config = transformers.LlamaConfig(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4, vocab_size=64)
    transformers.LlamaForCausalLM(config).to(dtype).save_pretrained(path(name))
    return path(name)


def expert_parts(tensors, layer):
    """gate_up_proj and down_proj of a layer whose experts are stored one by one."""
    name = f"model.layers.{layer}.mlp.experts"
    parts = {role: torch.stack([tensors[f"{name}.{e}.{role}.weight"].float() for e in range(EXPERTS)]) for role in ("gate_proj", "up_proj", "down_proj")}
    return {"gate_up_proj": torch.cat([parts["gate_proj"], parts["up_proj"]], dim=1), "down_proj": parts["down_proj"]}


def fused_checkpoint():
    """The same mixture with the experts of a layer in one tensor, float32."""
    os.makedirs(path("fused"))
    shutil.copy(os.path.join(MODEL, "config.json"), path("fused", "config.json"))
    save_file({name: tensor.contiguous() for name, tensor in load(MODEL).state_dict().items()}, path("fused", "model.safetensors"))


def experts():
    own, fused = weights(MODEL), weights(path("fused"))
    cases = {
        "down": {"target_modules": [], "target_parameters": ["mlp.experts.down_proj"]},
        "both": {"target_modules": ["o_proj"], "target_parameters": ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"], "use_rslora": True},
        "patterns": {"target_modules": [], "target_parameters": ["experts.gate_up_proj", "experts.down_proj"], "rank_pattern": {"experts.down_proj": 3},
                     "alpha_pattern": {r"layers\.[12]\.mlp\.experts\.gate_up_proj": 10}},
        # What PEFT makes of names of transformers 4: targets without a module.
        "bare": {"target_modules": ["gate_proj", "up_proj", "down_proj", "q_b_proj"]},
    }
    for name, settings in cases.items():
        merged = drawn(name, MODEL, **settings)
        in_one, alone = apply(path("fused"), path(name), name + "_in_fused"), apply(MODEL, path(name), name + "_in_own")
        changed = [tensor for tensor in merged if not torch.equal(merged[tensor], fused[tensor])]
        check(name + ": changed", changed == [t for t in merged if not torch.equal(in_one[t], fused[t])] and len(changed) > 2, str(len(changed)))
        for tensor in changed:
            near(f"{name}: {tensor}", in_one[tensor], merged[tensor], fused[tensor], 1e-5)
        for layer in (1, 2, 3):
            before, after = expert_parts(own, layer), expert_parts(alone, layer)
            for role in before:
                tensor = f"model.layers.{layer}.mlp.experts.{role}"
                if tensor in changed:  # stored in BF16: rounding is a few per cent of such an edit
                    near(f"{name}: {tensor}, one by one", after[role], merged[tensor], before[role], 0.1)
                else:
                    check(f"{name}: {tensor} stays", torch.equal(before[role], after[role]))
        spectra(name, {tensor: (merged[tensor] - fused[tensor]).double() for tensor in changed if merged[tensor].dim() == 3})


def spectra(name, changes):
    """A row of /product/ for every expert."""
    code, text = vindex("measure", path(name), "--lora", "-o", path(name + ".h5"), "--progress", "none")
    check(name + ": measured", code == 0, text)
    vindex("export", path(name + ".h5"), "--format", "csv", "--table", "product", "-o", path(name + ".csv"))
    rows = {(row["tensor"], int(row["slice"])): row for row in csv.DictReader(open(path(name + ".csv")))}
    for tensor, change in changes.items():
        wanted = torch.linalg.svdvals(change)[:, 0]
        got = torch.tensor([float(rows[(tensor, e)]["spectral_norm"]) for e in range(len(change))])
        check(f"{name}: spectra of {tensor}", torch.allclose(got.double(), wanted, rtol=1e-5), f"{(got - wanted).abs().max():.1e}")


def transposed_stack():
    """gpt-oss stores experts in x out, and says so."""
    config = transformers.GptOssConfig(hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                                       num_local_experts=4, num_experts_per_tok=2, vocab_size=64, layer_types=["full_attention"] * 2)
    transformers.GptOssForCausalLM(config).save_pretrained(path("oss"))
    before = weights(path("oss"))
    merged = drawn("oss_lora", path("oss"), target_modules=[], target_parameters=["experts.gate_up_proj", "experts.down_proj"])
    after = apply(path("oss"), path("oss_lora"), "oss_applied")
    for role in ("gate_up_proj", "down_proj"):  # down_proj is square
        name = f"model.layers.1.mlp.experts.{role}"
        near("gpt-oss " + role, after[name], merged[name], before[name], 1e-5)


def older_versions():
    """PEFT before 0.19 took the first side of a stack for the inputs: the same numbers, turned."""
    name = "model.layers.1.mlp.experts.down_proj"
    before = weights(path("fused"))[name]
    now = weights(path("down_in_fused"))[name] - before
    shutil.copytree(path("down"), path("down_018"))
    change_config(path("down_018"), peft_version="0.18.1")
    then = apply(path("fused"), path("down_018"), "down_018_in_fused")[name] - before
    check("PEFT 0.18 is turned", torch.allclose(then, now.transpose(1, 2), atol=1e-6) and not torch.allclose(then, now, atol=1e-3))
    change_config(path("down_018"), peft_version=None)
    refused("square stacks of an unknown PEFT", 78, "peft_version", path("fused"), path("down_018"))


def adapters_of_ours():
    """PEFT merges what `--as lora` writes of experts, stored one by one or not."""
    np.save(path("v.npy"), np.random.default_rng(5).standard_normal(256))
    regex = r"model\.layers\.1\.mlp\.experts\.3\.(gate_proj|up_proj|down_proj)\.weight|model\.layers\.2\.mlp\.experts\.0\.up_proj\.weight"
    common = ["edit", "delete", MODEL, "--tensors", regex, "--side", "right", "--direction", path("v.npy"), "--quiet"]
    for more in (["-o", path("ours")], ["--as", "lora", "-o", path("ours_lora")]):
        check("one expert " + more[0], vindex(*common, *more)[0] == 0)
    merged = peft.PeftModel.from_pretrained(load(MODEL), path("ours_lora")).merge_and_unload().state_dict()
    fused, own = weights(path("fused")), weights(path("ours"))
    for layer, role, expert in ((1, "gate_up_proj", 3), (1, "down_proj", 3), (2, "gate_up_proj", 0)):
        name = f"model.layers.{layer}.mlp.experts.{role}"
        near(f"one expert: {name}", expert_parts(own, layer)[role], merged[name], fused[name], 0.1)
        others = [e for e in range(EXPERTS) if e != expert]
        check(f"one expert: others of {name}", torch.equal(merged[name][others], fused[name][others]))
    check("one expert: nothing else", sum(not torch.equal(merged[n], fused[n]) for n in fused) == 3)
    again = apply(MODEL, path("ours_lora"), "ours_again")
    check("our own adapter is our edit", all(torch.equal(own[n], again[n]) for n in own))
    # A single expert of one role, which PEFT refused once.
    one = ["edit", "delete", MODEL, "--tensor", "model.layers.1.mlp.experts.5.down_proj.weight", "--side", "right", "--direction", path("v.npy"), "--quiet"]
    check("one matrix", vindex(*one, "--as", "lora", "-o", path("one_lora"))[0] == 0)
    merged = peft.PeftModel.from_pretrained(load(MODEL), path("one_lora")).merge_and_unload().state_dict()
    changed = [n for n in fused if not torch.equal(merged[n], fused[n])]
    check("one matrix: loaded", changed == ["model.layers.1.mlp.experts.down_proj"], str(changed))


def mixtral():
    """Experts under other names than those of the parameter."""
    config = transformers.MixtralConfig(hidden_size=32, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, num_local_experts=4, vocab_size=64)
    transformers.MixtralForCausalLM(config).save_pretrained(path("mixtral"))
    own, fused, name = weights(path("mixtral")), load(path("mixtral")).state_dict(), "model.layers.1.mlp.experts.gate_up_proj"
    merged = drawn("mixtral_lora", path("mixtral"), target_modules=[], target_parameters=["experts.gate_up_proj"])
    after = apply(path("mixtral"), path("mixtral_lora"), "mixtral_applied")
    parts = [torch.cat([after[f"model.layers.1.block_sparse_moe.experts.{e}.{w}.weight"] for w in ("w1", "w3")]) for e in range(4)]
    near("Mixtral, applied", torch.stack(parts), merged[name], fused[name], 1e-5)
    np.save(path("v32.npy"), np.random.default_rng(6).standard_normal(32))
    common = ["edit", "delete", path("mixtral"), "--tensor", "model.layers.1.block_sparse_moe.experts.2.w3.weight", "--direction", path("v32.npy"), "--quiet"]
    for more in (["-o", path("mixtral_edited")], ["--as", "lora", "-o", path("mixtral_edit")]):
        check("Mixtral " + more[0], vindex(*common, *more)[0] == 0)
    merged = peft.PeftModel.from_pretrained(load(path("mixtral")), path("mixtral_edit")).merge_and_unload().state_dict()
    edited = weights(path("mixtral_edited"))["model.layers.1.block_sparse_moe.experts.2.w3.weight"]
    near("Mixtral, written", merged[name][2][24:], edited, own["model.layers.1.block_sparse_moe.experts.2.w3.weight"], 1e-5)
    check("Mixtral, nothing else", [n for n in fused if not torch.equal(merged[n], fused[n])] == [name] and torch.equal(merged[name][2][:24], fused[name][2][:24]))


def copies():
    base = tiny("bf16", torch.bfloat16)
    before, name = weights(base), "model.layers.1.self_attn.o_proj.weight"
    for case, settings in {"embeddings": {"target_modules": ["embed_tokens", "lm_head", "o_proj"]}, "saved": {"target_modules": ["o_proj"], "modules_to_save": ["lm_head"]}}.items():
        merged = drawn(case, base, **settings)
        after = apply(base, path(case), case + "_applied")
        file = path(case, "adapter_model.safetensors")
        tensors = load_file(file)
        held = [tensor for tensor in tensors if ".lora_" not in tensor]
        check(case + ": PEFT saves copies", len(held) == (2 if case == "embeddings" else 1), str(held))
        for tensor in ("model.embed_tokens.weight", "lm_head.weight", name):
            if torch.equal(merged[tensor], before[tensor].float()):
                check(f"{case}: {tensor} stays", torch.equal(before[tensor], after[tensor]))
            else:
                near(f"{case}: {tensor}", after[tensor].float(), merged[tensor], before[tensor].float(), 0.1)
        for tensor in held:
            other = {**tensors, tensor: tensors[tensor].clone()}
            other[tensor][-1, -1] += 2.0**-12
            save_file(other, file)
            refused(f"{case}: another {tensor}", 78, tensor, base, path(case))


def beginnings():
    """Ways to begin that take their factors out of the base, when an adapter is loaded as well."""
    base = tiny("f32", torch.float32)
    name, module = "model.layers.1.self_attn.o_proj.weight", "base_model.model.model.layers.1.self_attn.o_proj.base_layer.weight"
    before = weights(base)[name]
    for init in ("pissa", "pissa_niter_4", "olora", "gaussian", "orthogonal", "mica"):
        adapter = path("begun_" + init)
        drawn("begun_" + init, base, target_modules=["o_proj"], init_lora_weights=init)
        trained = {key: tensor + 0.01 * torch.randn(tensor.shape) for key, tensor in load_file(os.path.join(adapter, "adapter_model.safetensors")).items()}
        save_file(trained, os.path.join(adapter, "adapter_model.safetensors"))
        loaded = peft.PeftModel.from_pretrained(load(base), adapter)
        kept = torch.equal(loaded.state_dict()[module], before)
        check(init + " in PEFT", kept == (init in ("gaussian", "orthogonal", "mica")))
        if kept:
            near(init + " is a plain LoRA", apply(base, adapter, "applied_" + init)[name], loaded.merge_and_unload().state_dict()[name], before, 1e-4)
        else:
            refused(init + " changes the base", 78, init, base, adapter)

    # PEFT makes a plain LoRA of one, of twice the rank.
    model = peft.get_peft_model(load(base), peft.LoraConfig(r=2, lora_alpha=6, target_modules=["o_proj"], init_lora_weights="pissa"))
    model.peft_config["default"].init_lora_weights = True
    model.save_pretrained(path("initial"))
    model.peft_config["default"].init_lora_weights = "pissa"
    for parameter_name, parameter in model.named_parameters():
        if "lora_" in parameter_name:
            parameter.data += 0.01 * torch.randn(parameter.shape)
    model.save_pretrained(path("converted"), path_initial_model_for_weight_conversion=path("initial"))
    near("a converted pissa", apply(base, path("converted"), "converted_applied")[name], model.merge_and_unload().state_dict()[name], before, 1e-4)


def keys():
    """Every field of PEFT's configuration is known by name, whatever it is set to."""
    drawn("plain", path("f32"), target_modules=["o_proj"])
    config = json.load(open(path("plain", "adapter_config.json")))

    def inspected():
        done = subprocess.run([VINDEX, "inspect", path("plain"), "--lora"], capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    check("an adapter of PEFT has no unknown key", "W-LORA-KEYS" not in inspected() and "W-LORA-VARIANT" not in inspected())
    read = ("r", "lora_alpha", "peft_type", "rank_pattern", "alpha_pattern", "target_parameters")
    change_config(path("plain"), **{key: True if isinstance(value, bool) else "x" for key, value in config.items() if key not in read})
    check("no key of PEFT's is unknown", "W-LORA-VARIANT" in inspected() and "W-LORA-KEYS" not in inspected())
    change_config(path("plain"), a_key_of_tomorrow=1)
    check("an unknown key is told", "W-LORA-KEYS" in inspected() and "a_key_of_tomorrow" in inspected())


def main():
    need(os.path.join(MODEL, "config.json"))
    fresh_folder(FOLDER)
    torch.manual_seed(0)
    fused_checkpoint()
    experts()
    transposed_stack()
    older_versions()
    adapters_of_ours()
    mixtral()
    copies()
    beginnings()
    keys()
    print("failures:", len(FAILURES))
    return 1 if FAILURES else 0


sys.exit(main())
