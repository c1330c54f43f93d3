#!/usr/bin/env python3
"""Writes a dump of activations for `vindex cka`, `activations` and `routing` from a model that transformers loads.

    scripts/capture.py MODEL --text prompts.txt -o dump
    scripts/capture.py MODEL --ids prompts.jsonl -o dump --keep hidden,router_logits --dtype f16
    scripts/capture.py model.gguf --text prompts.txt -o dump --layers 0,8-15

One prompt at a time goes through the model, and its rows go to disk before the next one: memory is the model and one prompt.
What is written, and what of a mixture of experts is not: docs/commands/capture.md. Packages: scripts/python_env.sh --models.
"""

import argparse
import re
import sys
from pathlib import Path

import numpy as np

from capture_files import CaptureError, Dump, cut, first_line, model_arguments, parse_numbers, read_ids, read_texts

KINDS = ("hidden", "mlp", "router_logits", "logits")
# Linear layers back into the residual stream: what they read are the neurons.
DOWN_NAMES = {"down_proj", "w2", "dense_4h_to_h", "fc2", "c_proj", "output_linear", "wo"}
ROUTER_NAMES = {"gate", "router", "wg", "layer"}


def load_model(path, dtype, device, trust):
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    folder, arguments = model_arguments(path)
    kinds = {"auto": "auto", "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
    arguments["trust_remote_code"] = trust
    try:
        config = AutoConfig.from_pretrained(folder, **arguments)
        # GGUF files say 2^32 - 1 for "none", which the library takes for a row of the embedding. Nothing is padded here.
        padding, rows = getattr(config, "pad_token_id", None), getattr(config, "vocab_size", None)
        if padding is not None and rows is not None and not 0 <= padding < rows:
            config.pad_token_id = None
        arguments["config"] = config
        try:
            model = AutoModelForCausalLM.from_pretrained(folder, dtype=kinds[dtype], **arguments)
        except TypeError:  # transformers 4 has another name for it
            model = AutoModelForCausalLM.from_pretrained(folder, torch_dtype=kinds[dtype], **arguments)
    except Exception as error:  # the library raises many kinds
        raise CaptureError(65 if path.exists() else 66, f"transformers cannot load {path}: {first_line(error)}") from None
    return model.to(device).eval()


def text_config(model):
    get = getattr(model.config, "get_text_config", None)
    return get() if get else model.config


def find_layers(model):
    """The decoder's layers: the list of modules of the length that the configuration gives, outside other towers."""
    from torch import nn

    wanted = text_config(model).num_hidden_layers
    lists = [(name, module) for name, module in model.named_modules()
             if isinstance(module, nn.ModuleList) and len(module) == wanted
             and not re.search(r"vision|visual|audio|encoder|mtp", name)]
    if not lists:
        raise CaptureError(65, f"no list of {wanted} decoder layers in {type(model).__name__}")
    return list(min(lists, key=lambda one: (one[0].count("."), one[0]))[1])


def is_expert(name):
    return "experts" in name.split(".")


def find_down(layer):
    """The linear layer that reads the neurons of every token: of a dense feed-forward, or of the shared expert of a mixture.
    Routed experts see only the tokens sent to them, so they have no [tokens, neurons] matrix."""
    found = [(name, module) for name, module in layer.named_modules()
             if name.split(".")[-1] in DOWN_NAMES and not is_expert(name) and not re.search(r"attn|attention|mixer|mamba", name)]
    return found[0] if len(found) == 1 else None


def find_router(layer):
    """The module that scores experts: `weight` [experts, hidden], beside modules that are called experts."""
    if not any(is_expert(name) for name, _ in layer.named_modules()):
        return None
    for name, module in layer.named_modules():
        weight = getattr(module, "weight", None)
        if name.split(".")[-1] in ROUTER_NAMES and not is_expert(name) and weight is not None and weight.ndim == 2 \
                and weight.shape[0] > 1 and not re.search(r"shared_expert", name):
            return name, module
    return None


def raw_logits(module, given, returned):
    """Router logits before scoring and selection biases: what the module itself returned of that shape and value, so that
    its own rounding is kept, else the product of its input and its weights."""
    import torch

    weight = module.weight.float()
    bias = getattr(module, "bias", None)
    rows = given.reshape(-1, given.shape[-1]).float()
    own = torch.nn.functional.linear(rows, weight, None if bias is None else bias.float())
    outputs = returned if isinstance(returned, (tuple, list)) else (returned,)
    for output in outputs:
        if torch.is_tensor(output) and output.is_floating_point() and output.shape[-1] == weight.shape[0]:
            output = output.reshape(-1, weight.shape[0])
            if output.shape == own.shape and torch.allclose(output.float(), own, rtol=2e-2, atol=2e-2 * own.abs().max().item()):
                return output
    return own


class Hooks:
    """Keeps what the hooked modules of one forward pass read and return, by array name."""

    def __init__(self, layers, keep, wanted):
        self.arrays, self.handles, self.notes = {}, [], []
        for number, layer in enumerate(layers):
            if wanted is not None and number not in wanted:
                continue
            if "hidden" in keep:
                self.handles.append(layer.register_forward_hook(self.hidden(f"hidden.{number}")))
            down, router = find_down(layer), find_router(layer)
            if "mlp" in keep:
                if down:
                    self.handles.append(down[1].register_forward_pre_hook(self.neurons(f"mlp.{number}")))
                    if router:
                        self.notes.append(f"mlp.{number} is of the shared expert")
                else:
                    self.notes.append(f"no mlp.{number}: " + ("routed experts only" if router else "no one down projection"))
            if "router_logits" in keep and router:
                self.handles.append(router[1].register_forward_hook(self.logits(f"router_logits.{number}"), with_kwargs=True))

    def put(self, name, values):
        if name in self.arrays:
            raise CaptureError(70, f"{name} was computed twice in one pass")
        self.arrays[name] = values.reshape(-1, values.shape[-1]).detach()

    def hidden(self, name):
        return lambda module, given, returned: self.put(name, returned[0] if isinstance(returned, tuple) else returned)

    def neurons(self, name):
        return lambda module, given: self.put(name, given[0])

    def logits(self, name):
        def hook(module, given, named, returned):
            rows = given[0] if given else next(iter(named.values()))
            self.put(name, raw_logits(module, rows, returned))
        return hook

    def take(self):
        arrays, self.arrays = self.arrays, {}
        return arrays

    def remove(self):
        for handle in self.handles:
            handle.remove()


def capture(model, prompts, dump, keep, wanted, say):
    """Runs every prompt and writes its rows."""
    import torch

    layers = find_layers(model)
    if wanted is not None and max(wanted) >= len(layers):
        raise CaptureError(64, f"--layers names layer {max(wanted)}; the model has 0 to {len(layers) - 1}")
    hooks = Hooks(layers, keep, wanted)
    for note in summed_up(hooks.notes):
        say(note)
    vocabulary = model.get_input_embeddings().weight.shape[0]
    done = 0
    try:
        for number, ids in enumerate(prompts):
            if max(ids) >= vocabulary:
                raise CaptureError(65, f"prompt {number}: token {max(ids)}; the embedding has rows 0 to {vocabulary - 1}")
            with torch.inference_mode():
                out = model(input_ids=torch.tensor([ids], device=model.device), use_cache=False)
            for name, values in hooks.take().items():
                if len(values) != len(ids):
                    raise CaptureError(70, f"{name}: {len(values)} rows for {len(ids)} tokens")
                dump.add(name, values)
            if "logits" in keep:
                dump.add("logits", out.logits[0])
            dump.add("token_ids", np.array(ids, dtype=np.int64))
            dump.add("prompt", np.full(len(ids), number, dtype=np.int64))
            done += len(ids)
            if number % 50 == 49:
                say(f"{number + 1} of {len(prompts)} prompts, {done} tokens")
    finally:
        hooks.remove()


def summed_up(notes):
    """Notes that differ only in the layer as one."""
    groups = {}
    for note in notes:
        number = re.search(r"\.(\d+)", note)[1]
        groups.setdefault(note.replace("." + number, ".{}", 1), []).append(number)
    return [text.format(numbers[0] if len(numbers) == 1 else f"{{{','.join(numbers)}}}") for text, numbers in groups.items()]


# ---------------------------------------------------------------------------------------------------------------- command line


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="Hugging Face folder, or a .gguf that transformers loads")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--text", type=Path, help="prompts, one a line")
    source.add_argument("--ids", type=Path, help='token numbers: JSON lines {"ids": [...]}, or .npy [tokens]')
    parser.add_argument("--tokenizer", help="folder of another tokenizer, or `bytes` (default: the model's own)")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder of the dump")
    parser.add_argument("--keep", default="hidden,mlp,router_logits",
                        help="of hidden, mlp, router_logits, logits (default: all but logits)")
    parser.add_argument("--layers", help="for example 0,8-15 (default: all)")
    parser.add_argument("--dtype", choices=("f32", "f16", "bf16"), default="f32", help="of what is written")
    parser.add_argument("--format", choices=("npy", "safetensors"), help="default: npy; safetensors for bf16")
    parser.add_argument("--window", type=int, help="tokens of a pass; longer prompts are cut (default: the model's context, at most 2048)")
    parser.add_argument("--compute", choices=("auto", "f32", "f16", "bf16"), default="f32", help="of the weights while computing")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1, ...")
    parser.add_argument("--trust-remote-code", action="store_true", help="let the model's folder bring code")
    parser.add_argument("--force", action="store_true", help="replace a dump that is there")
    parser.add_argument("-q", "--quiet", action="store_true")
    flags = parser.parse_args(arguments)
    flags.keep = [part.strip() for part in flags.keep.split(",")]
    for kind in flags.keep:
        if kind not in KINDS:
            raise CaptureError(64, f"--keep `{kind}`: one of {', '.join(KINDS)}")
    flags.container = flags.format or ("safetensors" if flags.dtype == "bf16" else "npy")
    if flags.dtype == "bf16" and flags.container == "npy":
        raise CaptureError(64, ".npy has no bfloat16: --format safetensors, or --dtype f16")
    flags.layers = parse_numbers(flags.layers)
    return flags


def require_free(target, force):
    """A folder is replaced only on request, and only one that is a dump."""
    if not target.exists():
        return
    names = [path.name for path in target.iterdir()] if target.is_dir() else [""]
    is_dump = all(re.fullmatch(r"(hidden|mlp|router_logits)\.\d+\.\w+|(logits|token_ids|prompt)\.\w+", name) for name in names)
    if not force or not is_dump:
        raise CaptureError(73, f"{target} is there" + (" and no dump: choose another name" if force else ": --force replaces it"))


def run(arguments):
    flags = parse(arguments)

    def say(line):
        if not flags.quiet:
            print(f"capture: {line}", file=sys.stderr)

    require_free(flags.output, flags.force)
    for path in (flags.model, flags.text, flags.ids):
        if path is not None and not path.exists():
            raise CaptureError(66, f"{path}: no such file or folder")
    prompts = read_ids(flags.ids) if flags.ids else read_texts(flags.text, flags.tokenizer or str(flags.model))
    model = load_model(flags.model, flags.compute, flags.device, flags.trust_remote_code)
    context = getattr(text_config(model), "max_position_embeddings", None) or 2048
    prompts = cut(prompts, flags.window or min(context, 2048))
    tokens = sum(map(len, prompts))
    if tokens == 0:
        raise CaptureError(65, f"{flags.ids or flags.text}: no token in it")
    dump = Dump(flags.output, flags.container, flags.dtype, tokens)
    try:
        capture(model, prompts, dump, flags.keep, flags.layers, say)
        dump.finish()
    except BaseException:
        dump.discard()
        raise
    say(f"{tokens} tokens of {len(prompts)} prompts in {flags.output}: {', '.join(sorted(dump.files, key=natural))}")


def natural(name):
    stem, _, number = name.partition(".")
    return stem, int(number or -1)


def main():
    try:
        run(sys.argv[1:])
    except CaptureError as error:
        print(f"capture: {error.args[1]}", file=sys.stderr)
        sys.exit(error.args[0])


if __name__ == "__main__":
    main()
