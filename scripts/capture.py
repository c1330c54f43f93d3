#!/usr/bin/env python3
"""Writes a dump of activations for `vindex cka`, `activations` and `routing` from a model that transformers loads.

    scripts/capture.py MODEL --text prompts.txt -o dump
    scripts/capture.py MODEL --ids prompts.jsonl -o dump --keep hidden,router_logits --dtype f16
    scripts/capture.py model.gguf --text prompts.txt -o dump --layers 0,8-15

One prompt at a time goes through the model, and its rows go to disk before the next one: memory is the model and one prompt.
What is written, and what of a mixture of experts is not: docs/capture.md. Packages: scripts/python_env.sh --models.
"""

import argparse
import json
import os
import re
import shutil
import sys
from pathlib import Path

import numpy as np

KINDS = ("hidden", "mlp", "router_logits", "logits")
# Linear layers back into the residual stream: what they read are the neurons.
DOWN_NAMES = {"down_proj", "w2", "dense_4h_to_h", "fc2", "c_proj", "output_linear", "wo"}
ROUTER_NAMES = {"gate", "router", "wg", "layer"}


class CaptureError(Exception):
    """What a user can mend: printed as one line; the first member is the exit code (sysexits)."""


# ---------------------------------------------------------------------------------------------------------------- prompts


def parse_numbers(text):
    """'0,8-15' as a set; None for nothing."""
    if not text:
        return None
    numbers = set()
    for part in text.split(","):
        found = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        if not found or (found[2] and int(found[2]) < int(found[1])):
            raise CaptureError(64, f"--layers `{text}`: write numbers and ranges, for example 0,8-15")
        numbers.update(range(int(found[1]), int(found[2] or found[1]) + 1))
    return numbers


def read_ids(path):
    """Prompts of token numbers: .npy [tokens], or JSON lines {"ids": [...]} or [...]."""
    if path.suffix == ".npy":
        ids = np.load(path, allow_pickle=False)
        if ids.ndim != 1 or ids.dtype.kind not in "iu":
            raise CaptureError(65, f"{path}: integers [tokens] are needed")
        return [ids.tolist()]
    prompts = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError as error:
            raise CaptureError(65, f"{path}, line {number}: {error}") from None
        ids = value.get("ids") if isinstance(value, dict) else value
        if not isinstance(ids, list) or not all(type(i) is int and i >= 0 for i in ids):
            raise CaptureError(65, f'{path}, line {number}: {{"ids": [numbers]}} is needed')
        prompts.append(ids)
    return prompts


def read_texts(path, tokenizer):
    """Prompts of a text file, one a line; empty lines are passed over."""
    lines = [line for line in path.read_text().splitlines() if line.strip()]
    if tokenizer == "bytes":
        return [list(line.encode()) for line in lines]
    from transformers import AutoTokenizer

    folder, arguments = model_arguments(Path(tokenizer))
    try:
        encode = AutoTokenizer.from_pretrained(folder, **arguments)
    except Exception as error:  # the library raises many kinds
        raise CaptureError(66, f"no tokenizer in {tokenizer} ({first_line(error)}); --ids takes token numbers, "
                               "--tokenizer another folder or `bytes`") from None
    return [encode(line)["input_ids"] for line in lines]


def cut(prompts, window):
    """Prompts longer than `window` in pieces of it, each a prompt of its own: no token is dropped."""
    return [ids[at:at + window] for ids in prompts for at in range(0, len(ids), window)]


# ---------------------------------------------------------------------------------------------------------------- arrays


class ArrayFile:
    """One [tokens, width] array on disk that rows are added to; its size is known from the start."""

    TYPES = {"f32": ("F32", np.dtype("<f4")), "f16": ("F16", np.dtype("<f2")), "bf16": ("BF16", np.dtype("<u2"))}

    def __init__(self, folder, name, container, dtype, shape):
        self.name, self.kind, self.at = name, dtype, 0
        if dtype == "i64":
            label, stored = "I64", np.dtype("<i8")
        else:
            label, stored = self.TYPES[dtype]
        path = folder / f"{name}.{container}"
        if container == "npy":
            self.rows = np.lib.format.open_memmap(path, mode="w+", dtype=stored, shape=shape)
            return
        size = int(np.prod(shape)) * stored.itemsize
        header = json.dumps({name: {"dtype": label, "shape": list(shape), "data_offsets": [0, size]}}).encode()
        header += b" " * (-len(header) % 8)
        with open(path, "wb") as file:
            file.write(len(header).to_bytes(8, "little") + header)
            file.truncate(8 + len(header) + size)
        self.rows = np.memmap(path, dtype=stored, mode="r+", offset=8 + len(header), shape=shape)

    def add(self, values):
        """Rows of a float32 tensor (torch) or integers (numpy)."""
        if self.kind == "i64":
            rows = np.asarray(values, dtype=np.int64)
        else:
            rows = self.converted(values)
        self.rows[self.at:self.at + len(rows)] = rows
        self.at += len(rows)

    def converted(self, values):
        import torch

        values = values.detach().float().cpu()
        if self.kind == "bf16":
            return values.to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
        rows = values.numpy()
        if self.kind == "f16":
            with np.errstate(over="ignore"):
                narrow = rows.astype(np.float16)
            if np.isinf(narrow).any() and not np.isinf(rows).any():
                raise CaptureError(78, f"{self.name} has values beyond float16 (up to {np.abs(rows).max():.3g}): "
                                       "--dtype bf16 or f32 holds them")
            return narrow
        return rows

    def close(self):
        self.rows.flush()


class Dump:
    """The arrays of a dump, in a folder that gets its name when everything is in it."""

    def __init__(self, target, container, dtype, tokens):
        self.target, self.container, self.dtype, self.tokens = target, container, dtype, tokens
        self.folder = target.with_name(target.name + ".partial")
        self.files = {}
        if self.folder.exists():
            shutil.rmtree(self.folder)
        self.folder.mkdir(parents=True)

    def add(self, name, values):
        """Rows for `name`; its width is that of the first ones."""
        if name not in self.files:
            shape = (self.tokens,) if values.ndim == 1 else (self.tokens, values.shape[1])
            dtype = "i64" if values.ndim == 1 else self.dtype
            self.files[name] = ArrayFile(self.folder, name, self.container, dtype, shape)
        self.files[name].add(values)

    def finish(self):
        short = [name for name, file in self.files.items() if file.at != self.tokens]
        if short:
            raise CaptureError(70, f"rows are missing in {', '.join(short)}")
        for file in self.files.values():
            file.close()
        if self.target.exists():
            shutil.rmtree(self.target)
        os.replace(self.folder, self.target)

    def discard(self):
        shutil.rmtree(self.folder, ignore_errors=True)


# ---------------------------------------------------------------------------------------------------------------- the model


def first_line(error):
    return str(error).strip().split("\n")[0][:200]


def model_arguments(path):
    """Folder and arguments of from_pretrained(): a GGUF file is named within its folder."""
    if path.suffix == ".gguf":
        return str(path.parent), {"gguf_file": path.name}
    return str(path), {}


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
    """The decoder's layers: the list of modules that has as many as the configuration says, outside other towers."""
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
    Routed experts see only the tokens that are sent to them, so there is no [tokens, neurons] of theirs."""
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
