"""Owns encoded forms of the models of trace_models.py, as published checkpoints have them: experts of gpt-oss in MXFP4, projections
of DeepSeek in FP8 with a scale for each block. Values are made of random codes, decoded here by the formats' definitions and put
into the model, so that both sides have the same weights."""

import json

import numpy as np
import torch
from safetensors.torch import load_file, save_file

FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=np.float32)


def mxfp4(shape, random):
    """(blocks, scales, values) of [..., inputs]: 32 values of four bits, the low ones first, share a power of two (OCP MX 1.0)."""
    groups = (*shape[:-1], shape[-1] // 32)
    blocks = random.integers(0, 256, (*groups, 16), dtype=np.uint8)
    scales = random.integers(123, 126, groups, dtype=np.uint8)
    codes = np.stack([blocks & 15, blocks >> 4], axis=-1).reshape(*groups, 32)
    values = FP4[codes] * np.exp2(scales.astype(np.float32) - 127)[..., None]
    return torch.from_numpy(blocks), torch.from_numpy(scales), torch.from_numpy(values.reshape(shape))


def save_gpt_oss(model, folder):
    """Experts as `_blocks` and `_scales`; the model's are replaced by what these stand for."""
    random = np.random.default_rng(3)
    model.save_pretrained(folder)
    tensors = load_file(folder / "model.safetensors")
    for name in [name for name in tensors if name.endswith(("experts.gate_up_proj", "experts.down_proj"))]:
        stored = tensors.pop(name)
        blocks, scales, values = mxfp4(tuple(stored.transpose(1, 2).shape), random)
        tensors[name + "_blocks"], tensors[name + "_scales"] = blocks, scales
        model.get_parameter(name).data.copy_(values.transpose(1, 2))
    save(folder, tensors, {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router",
                                                                                "model.embed_tokens", "lm_head"]})


def fp8_blocks(values, side):
    """(codes, scales, decoded) of a matrix: a scale for each block of side x side."""
    rows, cols = values.shape
    tall, wide = -(-rows // side), -(-cols // side)
    padded = torch.zeros(tall * side, wide * side)
    padded[:rows, :cols] = values
    scales = padded.reshape(tall, side, wide, side).abs().amax(dim=(1, 3)) / 448
    spread = scales.repeat_interleave(side, 0).repeat_interleave(side, 1)[:rows, :cols]
    codes = (values / spread).to(torch.float8_e4m3fn)
    return codes, scales, codes.float() * spread


def save_deepseek(model, folder, side=32):
    """Projections as FP8 and `_scale_inv`; the router, norms and embeddings stay."""
    model.save_pretrained(folder)
    tensors = load_file(folder / "model.safetensors")
    for name in [name for name in tensors if name.endswith("_proj.weight") or name.endswith("_mqa.weight")]:
        codes, scales, values = fp8_blocks(tensors[name], side)
        tensors[name], tensors[name + "_scale_inv"] = codes, scales
        replace(model, name, values)
    save(folder, tensors, {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [side, side]})


def replace(model, name, values):
    """Of a stored tensor: the library keeps the experts of a layer in two parameters."""
    stem, _, rest = name.partition(".experts.")
    if not rest or "shared" in rest:
        model.get_parameter(name).data.copy_(values)
        return
    number, part, _ = rest.split(".")
    if part == "down_proj":
        model.get_parameter(stem + ".experts.down_proj").data[int(number)].copy_(values)
    else:
        half = values.shape[0]
        first = 0 if part == "gate_proj" else half
        model.get_parameter(stem + ".experts.gate_up_proj").data[int(number), first:first + half].copy_(values)


def save(folder, tensors, quantisation):
    save_file({name: values.contiguous() for name, values in tensors.items()}, folder / "model.safetensors", metadata={"format": "pt"})
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "quantization_config": quantisation}))
