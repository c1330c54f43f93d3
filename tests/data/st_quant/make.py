#!/usr/bin/env python3
"""Makes the quantised checkpoints of this folder with the schemes' own packages.

Every case is CASE.safetensors and CASE.config.json, tensors and configuration named as the package's `save_pretrained` names them, with small random matrices. index.json says, for each
tensor, who decoded it, and the SHA-256 of what came out as little-endian float32. Where a package's own result has a narrower type, `rounded` is the digest of that result: the test rounds what
vindex decodes and compares. Where it also rounds between its steps, `narrow` names the type, and CASE.narrow.safetensors (of some) holds the result, to which the test has a bound.

    python3 -m venv venv && venv/bin/pip install -r requirements.txt && venv/bin/pip install --no-deps --no-build-isolation gptqmodel==7.7.0
    venv/bin/pip download --no-deps --no-binary :all: autoawq==0.2.9 && tar xzf autoawq-0.2.9.tar.gz     # it no longer installs beside new packages
    venv/bin/pip install --no-deps --target old compressed-tensors==0.9.4
    AWQ_SOURCE=autoawq-0.2.9 venv/bin/python make.py OUT [CASE...]      # all of them without a CASE; needs no GPU
    PYTHONPATH=old venv/bin/python make.py OUT CASES                    # those that the first run names

A case writes the same bytes in every run (torch.manual_seed) as long as the versions in requirements.txt are kept; index.json names the versions that made the files. `--expected` also writes
OUT/CASE.expected.safetensors, to look at where bits differ.
"""

import argparse
import hashlib
import importlib.metadata
import json
import pathlib
import sys
import traceback

import numpy as np
import torch
from safetensors.torch import save_file

CASES = {}
MODULE = "model.layers.0.mlp.down_proj"
EXPERT = "model.layers.1.mlp.experts.3.up_proj"


def case(*packages):
    """Registers a case: a function that returns (config, tensors, {logical name: result})."""

    def register(make):
        CASES[make.__name__] = (make, packages)
        return make

    return register


def family(names, *packages):
    """Registers one case for every row of `names`: {case: arguments}."""

    def register(make):
        for name, arguments in names.items():
            CASES[name] = (lambda arguments=arguments: make(**arguments), packages)
        return make

    return register


class Result:
    """What a package decoded: exact float32 values, or values that the package rounded."""

    def __init__(self, exact, peer, rounded=None):
        self.exact, self.peer, self.rounded = exact, peer, rounded


def weights(rows, cols, seed=0):
    """Noise with a few outliers, like a trained matrix."""
    generator = torch.Generator().manual_seed(1000 * rows + cols + seed)
    w = torch.randn(rows, cols, generator=generator) * 0.02
    w[torch.rand(rows, cols, generator=generator) < 0.01] *= 8
    return w


def model_config(quantisation, **more):
    return {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, **more, "quantization_config": quantisation}


# compressed-tensors: its compressors, and its own dequantize() with the scales widened to float32.
# ------------------------------------------------------------------------------------------------


def ct_scales(w, args):
    """Scales and zero points by the package's own formula, over the package's own blocks."""
    from compressed_tensors.quantization import QuantizationStrategy as Strategy
    from compressed_tensors.quantization.utils import calculate_qparams

    rows, cols = w.shape[-2:]
    if args.strategy in (Strategy.GROUP, Strategy.TENSOR_GROUP):
        blocks = w.unflatten(-1, (cols // args.group_size, args.group_size))
        low, high = blocks.amin(-1), blocks.amax(-1)
    elif args.strategy == Strategy.CHANNEL:
        low, high = w.amin(-1, keepdim=True), w.amax(-1, keepdim=True)
    elif args.strategy == Strategy.BLOCK:
        from compressed_tensors.quantization.utils import maybe_pad_tensor_for_block_quant

        high_block, wide = args.block_structure
        padded = maybe_pad_tensor_for_block_quant(w, tuple(args.block_structure))
        blocks = padded.reshape(padded.shape[0] // high_block, high_block, padded.shape[1] // wide, wide)
        low, high = blocks.amin((1, 3)), blocks.amax((1, 3))
    else:
        low, high = w.min().reshape(1), w.max().reshape(1)
    global_scale = None
    if args.strategy == Strategy.TENSOR_GROUP:
        from compressed_tensors.quantization.utils import generate_gparam

        global_scale = generate_gparam(w.min().reshape(1), w.max().reshape(1))
    scale, zero = calculate_qparams(low, high, args, global_scale=global_scale)
    return scale, zero, global_scale


def with_replaced(name, replacement, call, *arguments):
    """Calls with `name` replaced in every module of compressed-tensors' compressors."""
    owners = [m for key, m in sys.modules.items() if key.startswith("compressed_tensors.compressors") and hasattr(m, name)]
    kept = [getattr(m, name) for m in owners]
    try:
        for m in owners:
            setattr(m, name, replacement)
        return call(*arguments)
    finally:
        for m, value in zip(owners, kept):
            setattr(m, name, value)


def compressed_tensors_case(shape=(20, 64), scale_dtype=torch.bfloat16, module=MODULE, format=None, ignore=("lm_head",), **arguments):
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.compressors.format import infer_module_format
    from compressed_tensors.quantization import QuantizationArgs, QuantizationConfig, QuantizationScheme
    from compressed_tensors.quantization.lifecycle.forward import dequantize

    inputs = arguments.pop("input_activations", None)
    args = QuantizationArgs(**arguments)
    scheme = QuantizationScheme(targets=["Linear"], weights=args, input_activations=inputs and QuantizationArgs(**inputs))
    w = weights(*shape[-2:]).to(scale_dtype)
    if len(shape) == 3:
        w = torch.stack([weights(*shape[-2:], seed=i) for i in range(shape[0])]).to(scale_dtype)
    scale, zero, global_scale = ct_scales(w, args)
    if args.scale_dtype is None and args.type == "int" or format in ("float-quantized", "naive-quantized"):
        scale = scale.to(scale_dtype)
    state = {"weight": w, "weight_scale": scale}
    if not args.symmetric:
        state["weight_zero_point"] = zero
    if global_scale is not None:
        state["weight_global_scale"] = global_scale
    format = format or infer_module_format(torch.nn.Linear, scheme).value
    compressor = BaseCompressor.get_value_from_registry(format)
    stored = compressor.compress(state, scheme)
    # What decompress() does, once as it is and once without its narrow result.
    own = compressor.decompress(dict(stored), scheme)["weight"]

    def widened(x_q, scale, zero_point=None, args=None, dtype=None, global_scale=None):
        return dequantize(x_q.float(), scale.float(), zero_point, args, torch.float32, global_scale)

    # The modules that decompress() finds its dequantize() in.
    exact = with_replaced("dequantize", widened, compressor.decompress, dict(stored), scheme)["weight"]
    config = QuantizationConfig(config_groups={"group_0": scheme}, format=format, ignore=list(ignore), quantization_status="compressed")
    tensors = {f"{module}.{key}": value for key, value in stored.items() if value is not None}
    rounded = own if own.dtype != torch.float32 else None
    return (model_config(json.loads(config.model_dump_json())), tensors,
            {f"{module}.weight": Result(exact, f"compressed-tensors {format} decompress()", rounded)})


CT = ("compressed-tensors",)
family({f"ct_pack_int{bits}_g32": dict(num_bits=bits, type="int", strategy="group", group_size=32) for bits in (2, 3, 5, 6, 7)}, *CT)(compressed_tensors_case)
family({f"ct_pack_int{bits}_asym": dict(num_bits=bits, type="int", strategy="group", group_size=32, symmetric=False) for bits in (2, 3, 4, 5, 6, 7, 8)}, *CT)(compressed_tensors_case)
family({f"ct_pack_int{bits}_channel": dict(shape=(20, 50), num_bits=bits, type="int", strategy="channel", scale_dtype=torch.float16) for bits in (3, 4, 5, 8)}, *CT)(compressed_tensors_case)
family({
    "ct_pack_int3_channel_asym": dict(shape=(21, 50), num_bits=3, type="int", strategy="channel", symmetric=False),
    "ct_pack_int1_g32": dict(num_bits=1, type="int", strategy="group", group_size=32),
    "ct_pack_int4_tensor": dict(shape=(20, 50), num_bits=4, type="int", strategy="tensor"),
    "ct_pack_int4_f32": dict(num_bits=4, type="int", strategy="group", group_size=16, scale_dtype=torch.float32, module=EXPERT),
    "ct_pack_int4_stack": dict(shape=(3, 32, 64), num_bits=4, type="int", strategy="group", group_size=32, module="model.layers.1.mlp.experts.down_proj"),
    "ct_int8_channel": dict(shape=(20, 50), num_bits=8, type="int", strategy="channel", format="int-quantized", input_activations=dict(num_bits=8, type="int", strategy="token", dynamic=True)),
    "ct_int8_channel_asym": dict(shape=(20, 50), num_bits=8, type="int", strategy="channel", symmetric=False, format="int-quantized", input_activations=dict(num_bits=8, type="int", strategy="token", dynamic=True)),
    "ct_int8_tensor": dict(shape=(20, 50), num_bits=8, type="int", strategy="tensor", format="int-quantized", input_activations=dict(num_bits=8, type="int", strategy="token", dynamic=True)),
    "ct_int8_g32": dict(num_bits=8, type="int", strategy="group", group_size=32, format="naive-quantized"),
    "ct_int4_naive": dict(num_bits=4, type="int", strategy="group", group_size=32, format="naive-quantized"),
    "ct_float8_channel": dict(shape=(20, 50), num_bits=8, type="float", strategy="channel", format="float-quantized", input_activations=dict(num_bits=8, type="float", strategy="token", dynamic=True)),
    "ct_float8_tensor": dict(shape=(20, 50), num_bits=8, type="float", strategy="tensor", format="float-quantized", scale_dtype=torch.float32, input_activations=dict(num_bits=8, type="float", strategy="tensor")),
    "ct_float8_block": dict(shape=(40, 60), num_bits=8, type="float", strategy="block", block_structure=[32, 48], format="float-quantized", input_activations=dict(num_bits=8, type="float", strategy="group", group_size=32, dynamic=True)),
    "ct_float8_g32": dict(num_bits=8, type="float", strategy="group", group_size=32, format="float-quantized"),
    "ct_nvfp4": dict(num_bits=4, type="float", strategy="tensor_group", group_size=16, scale_dtype=torch.bfloat16, module=EXPERT),
    "ct_mxfp4": dict(num_bits=4, type="float", strategy="group", group_size=32, module=EXPERT),
    "ct_mxfp8": dict(num_bits=8, type="float", strategy="group", group_size=32, format="mxfp8-quantized"),
}, *CT)(compressed_tensors_case)


def old_compressed_tensors_case(bits=4, group=32, order=False, symmetric=True, shape=(20, 64)):
    """Version 0.9: whole codes per word, group indices of activation order."""
    from compressed_tensors.compressors.quantized_compressors.pack_quantized import pack_to_int32, unpack_from_int32
    from compressed_tensors.quantization import QuantizationArgs
    from compressed_tensors.quantization.lifecycle.forward import dequantize, quantize

    rows, cols = shape
    w = weights(rows, cols).bfloat16()
    args = QuantizationArgs(num_bits=bits, type="int", strategy="group" if group else "channel", group_size=group, symmetric=symmetric, actorder="group" if order else None)
    size = group or cols
    index = torch.arange(cols, dtype=torch.int32) // size
    if order:
        index = index[torch.randperm(cols, generator=torch.Generator().manual_seed(11))]
    scales = torch.empty(rows, cols // size)
    zeros = torch.zeros(rows, cols // size, dtype=torch.int8)
    for g in range(cols // size):
        part = w[:, index == g].float()
        scales[:, g] = (part.amax(1) - part.amin(1)).clamp(min=1e-4) / (2**bits - 1)
        if not symmetric:
            zeros[:, g] = torch.round(-part.amin(1) / scales[:, g] - 2 ** (bits - 1)).clamp(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1).to(torch.int8)
    scales = scales.bfloat16()
    indices = index if order else None
    codes = quantize(x=w, scale=scales, zero_point=zeros, args=args, dtype=torch.int8, g_idx=indices)
    stored = {"weight_packed": pack_to_int32(codes, bits), "weight_scale": scales, "weight_shape": torch.tensor(w.shape)}
    if order:
        stored["weight_g_idx"] = index
    if not symmetric:
        stored["weight_zero_point"] = pack_to_int32(zeros, bits, packed_dim=0) if (rows * bits) % 32 == 0 else pack_to_int32(torch.nn.functional.pad(zeros, (0, 0, 0, -rows % (32 // bits))), bits, packed_dim=0)
    unpacked = unpack_from_int32(stored["weight_packed"], bits, w.shape)
    points = unpack_from_int32(stored["weight_zero_point"], bits, zeros.shape, packed_dim=0) if not symmetric else None
    exact = dequantize(unpacked.float(), scales.float(), None if points is None else points.float(), args, torch.float32, indices)
    narrow = dequantize(unpacked, scales, points, args, None, indices)
    config = {"quant_method": "compressed-tensors", "format": "pack-quantized", "quantization_status": "compressed", "ignore": ["lm_head"],
              "config_groups": {"group_0": {"targets": ["Linear"], "input_activations": None, "output_activations": None, "weights": json.loads(args.model_dump_json())}}}
    return model_config(config), {f"{MODULE}.{key}": value for key, value in stored.items()}, {f"{MODULE}.weight": Result(exact, "compressed-tensors 0.9.4 unpack_from_int32(), dequantize()", narrow)}


CT_OLD = ("compressed-tensors==0.9.4",)
family({f"ct_old_int{bits}": dict(bits=bits) for bits in (3, 5, 6, 7)}, *CT_OLD)(old_compressed_tensors_case)
family({
    "ct_old_int4_order": dict(order=True),
    "ct_old_int4_order_asym": dict(order=True, symmetric=False, shape=(24, 96)),
    "ct_old_int8_order": dict(bits=8, order=True, group=16),
    "ct_old_int3_asym": dict(bits=3, symmetric=False),
}, *CT_OLD)(old_compressed_tensors_case)


# GPTQ: GPTQModel's packer and dequantize_weight(), with the scales widened to float32.
# ------------------------------------------------------------------------------------------------


def gptq_quantised(w, bits, group, symmetric, order):
    """Scales and zeros [out, groups] of round-to-nearest, and g_idx."""
    rows, cols = w.shape
    size = cols if group == -1 else group
    index = torch.arange(cols, dtype=torch.int32) // size
    if order:
        index = index[torch.randperm(cols, generator=torch.Generator().manual_seed(7))]
    groups = (cols + size - 1) // size
    most = 2**bits - 1
    scales, zeros = torch.empty(rows, groups), torch.empty(rows, groups)
    for g in range(groups):
        part = w[:, index == g]
        low, high = part.amin(1).clamp(max=0), part.amax(1).clamp(min=0)
        if symmetric:
            high = torch.maximum(-low, high)
            low = -high
        scales[:, g] = ((high - low) / most).half().float()
        zeros[:, g] = float((most + 1) // 2) if symmetric else torch.round(-low / scales[:, g]).clamp(0, most)
    return scales, zeros, index


def gptq_case(bits=4, group=32, symmetric=True, order=False, version=1, shape=(32, 64), only_format=False, module=MODULE):
    from gptqmodel.nn_modules.qlinear.torch import TorchLinear
    from gptqmodel.quantization import QuantizeConfig
    from gptqmodel.utils.model import convert_gptq_v2_to_v1_format_module

    rows, cols = shape
    w = weights(rows, cols)
    scales, zeros, index = gptq_quantised(w, bits, group, symmetric, order)
    linear = torch.nn.Linear(cols, rows, bias=False)
    linear.weight.data = w
    packed = TorchLinear(bits=bits, group_size=group, sym=symmetric, desc_act=order, in_features=cols, out_features=rows, bias=False, pack_dtype=torch.int32, register_buffers=True)
    packed.pack_original(linear, scales.clone(), zeros.clone(), index)
    packed.post_init()
    narrow = packed.dequantize_weight().T.contiguous()
    packed.scales = packed.scales.float()
    exact = packed.dequantize_weight().T.contiguous()
    packed.scales = packed.scales.half()
    config = QuantizeConfig(bits=bits, group_size=group, sym=symmetric, desc_act=order, format="gptq" if version == 1 else "gptq_v2")
    if version == 1:
        convert_gptq_v2_to_v1_format_module(packed, config)
    quantisation = json.loads(json.dumps(config.to_dict(), default=str))
    quantisation["meta"] = {"quantizer": [f"gptqmodel:{importlib.metadata.version('GPTQModel')}"]}  # as its writer says; the rest is how it ran
    if only_format:
        del quantisation["checkpoint_format"]
    tensors = {f"{module}.{key}": getattr(packed, key) for key in ("qweight", "qzeros", "scales", "g_idx")}
    return (model_config(quantisation), tensors, {f"{module}.weight": Result(exact, "GPTQModel TorchLinear.dequantize_weight(), float32 scales", narrow)})


GPTQ = ("GPTQModel",)
family({f"gptq_int{bits}_g32": dict(bits=bits) for bits in (2, 3, 8)}, *GPTQ)(gptq_case)
family({f"gptq_int{bits}_asym": dict(bits=bits, symmetric=False) for bits in (2, 3, 4, 8)}, *GPTQ)(gptq_case)
family({f"gptq_v2_int{bits}_asym": dict(bits=bits, symmetric=False, version=2) for bits in (2, 3, 4, 8)}, *GPTQ)(gptq_case)
family({
    "gptq_v2_int4_format": dict(symmetric=False, version=2, only_format=True),
    "gptq_int4_channel": dict(group=-1, shape=(32, 96)),
    "gptq_int4_order": dict(order=True, symmetric=False, module=EXPERT),
    "gptq_int3_order": dict(bits=3, order=True, symmetric=False),
    "gptq_int4_ragged": dict(group=64, symmetric=False, shape=(32, 96)),
}, *GPTQ)(gptq_case)


# auto-round: its two packers of GPTQ's layout, read back by its own forward() of the identity (one product and zeros in every sum).
# ------------------------------------------------------------------------------------------------


def auto_round_case(packing, bits=4, symmetric=False, group=32, shape=(32, 64)):
    if packing == "auto_round:auto_gptq":
        from auto_round_extension.torch.qlinear_torch_zp import QuantLinear
    else:
        from auto_round_extension.torch.qlinear_torch import QuantLinear

    rows, cols = shape
    scales, zeros, _ = gptq_quantised(weights(rows, cols), bits, group, symmetric, False)
    linear = torch.nn.Linear(cols, rows, bias=False)
    linear.weight.data = weights(rows, cols)
    packed = QuantLinear(bits, group, cols, rows, False)
    packed.device = "cpu"  # its pack() reads it, nothing sets it
    packed.pack(linear, scales, zeros, device="cpu")
    packed.scales = packed.scales.float()
    exact = packed.forward(torch.eye(cols)).T.contiguous()
    quantisation = {"quant_method": "auto-round", "bits": bits, "group_size": group, "sym": symmetric, "data_type": "int", "packing_format": packing}
    tensors = {f"{MODULE}.{key}": getattr(packed, key) for key in ("qweight", "qzeros")} | {f"{MODULE}.scales": packed.scales.half()}
    return model_config(quantisation), tensors, {f"{MODULE}.weight": Result(exact, "auto-round QuantLinear.forward() of the identity, float32 scales")}


family({
    "auto_round_int4": dict(packing="auto_round"),
    "auto_round_int3": dict(packing="auto_round:gptqmodel", bits=3),
    "auto_round_gptq_int4": dict(packing="auto_round:auto_gptq", symmetric=True),
    "auto_round_gptq_int2": dict(packing="auto_round:auto_gptq", bits=2),
}, "auto-round")(auto_round_case)


# AWQ: AutoAWQ's packer and dequantize_gemm(), with the scales widened to float32.
# ------------------------------------------------------------------------------------------------


def awq_source(name):
    """A module of AutoAWQ's source, which no longer imports as a package; AWQ_SOURCE is its folder."""
    import importlib.util
    import os
    import types

    root = pathlib.Path(os.environ["AWQ_SOURCE"])
    for package in ("awq", "awq.utils", "awq.modules", "awq.modules.linear"):
        module = sys.modules.setdefault(package, types.ModuleType(package))
        module.__path__ = [str(root / package.replace(".", "/"))]
    return importlib.import_module(name)


def awq_case(group=32, shape=(32, 96), module=MODULE):
    gemm = awq_source("awq.modules.linear.gemm")
    dequantize = awq_source("awq.utils.packing_utils").dequantize_gemm
    rows, cols = shape
    w = weights(rows, cols)
    scales, zeros, _ = gptq_quantised(w, 4, group, False, False)
    linear = torch.nn.Linear(cols, rows, bias=False)
    linear.weight.data = w.half()
    size = cols if group == -1 else group
    packed = gemm.WQLinear_GEMM.from_linear(linear, 4, size, scales=scales.T.contiguous(), zeros=zeros.T.contiguous())
    narrow = dequantize(packed.qweight, packed.qzeros, packed.scales, 4, size).T.contiguous()
    exact = dequantize(packed.qweight, packed.qzeros, packed.scales.float(), 4, size).T.contiguous()
    quantisation = {"quant_method": "awq", "zero_point": True, "group_size": group, "bits": 4, "version": "gemm", "modules_to_not_convert": None}
    tensors = {f"{module}.{key}": getattr(packed, key) for key in ("qweight", "qzeros", "scales")}
    return model_config(quantisation), tensors, {f"{module}.weight": Result(exact, "AutoAWQ dequantize_gemm(), float32 scales", narrow)}


family({"awq_int4_g32": dict(), "awq_int4_channel": dict(group=-1, shape=(64, 40)), "awq_int4_expert": dict(group=16, shape=(32, 48), module=EXPERT)}, "autoawq")(awq_case)


# bitsandbytes
# ------------------------------------------------------------------------------------------------


def bnb4_case(kind="nf4", block=64, nested=False, shape=(24, 80), dtype=torch.float32, storage=torch.uint8, module=MODULE):
    import bitsandbytes as bnb
    from bitsandbytes.backends.default.ops import _dequantize_4bit_compute

    layer = bnb.nn.Linear4bit(shape[1], shape[0], bias=False, compute_dtype=dtype, quant_type=kind, compress_statistics=nested, quant_storage=storage)
    codes, state = bnb.functional.quantize_4bit(weights(*shape).to(dtype), blocksize=block, quant_type=kind, compress_statistics=nested, quant_storage=storage)
    tensors = {f"{module}.weight": codes}
    for key, value in state.as_dict(packed=True).items():
        tensors[f"{module}.weight.{key}"] = value
    narrow = bnb.functional.dequantize_4bit(codes, state)
    absmax = state.absmax
    if nested:
        absmax = bnb.functional.dequantize_blockwise(state.absmax, state.state2) + state.offset
    exact = _dequantize_4bit_compute(codes.view(torch.uint8).reshape(-1), absmax.float(), state.code, block, shape, torch.float32).reshape(shape)
    # The package's CPU kernel starts a new block with every row, the others do not: it is no judge of rows that are no whole blocks.
    whole = shape[1] % block == 0
    quantisation = {"quant_method": "bitsandbytes", "_load_in_4bit": True, "_load_in_8bit": False, "load_in_4bit": True, "load_in_8bit": False, "bnb_4bit_quant_type": kind,
                    "bnb_4bit_use_double_quant": nested, "bnb_4bit_compute_dtype": str(dtype).split(".")[1], "bnb_4bit_quant_storage": str(storage).split(".")[1]}
    if whole and dtype == torch.float32:
        exact = narrow
    rounded = narrow if whole and dtype != torch.float32 else None
    return model_config(quantisation), tensors, {f"{module}.weight": Result(exact, "bitsandbytes dequantize_4bit()" if whole and dtype == torch.float32 else "bitsandbytes _dequantize_4bit_compute(), float32", rounded)}


BNB = ("bitsandbytes",)
family({
    "bnb_nf4_nested": dict(nested=True, shape=(48, 400)),
    "bnb_fp4_nested": dict(kind="fp4", nested=True, shape=(40, 56), block=128),
    "bnb_nf4_block128_bf16": dict(block=128, dtype=torch.bfloat16, shape=(10, 256)),
    "bnb_fp4_f16": dict(kind="fp4", dtype=torch.float16, shape=(12, 128)),
    "bnb_nf4_rows": dict(shape=(12, 128)),
    "bnb_fp4_rows": dict(kind="fp4", shape=(12, 128)),
    "bnb_nf4_odd": dict(shape=(7, 33)),
    "bnb_nf4_storage_bf16": dict(storage=torch.bfloat16, dtype=torch.bfloat16, nested=True, shape=(24, 64)),
    "bnb_nf4_storage_f32": dict(storage=torch.float32, module=EXPERT, shape=(24, 64)),
}, *BNB)(bnb4_case)


@case(*BNB)
def bnb_int8_rows():
    import bitsandbytes as bnb

    codes, stats, _ = bnb.functional.int8_vectorwise_quant(weights(20, 50).half())
    exact = bnb.functional.int8_vectorwise_dequant(codes, stats)
    tensors = {f"{MODULE}.weight": codes, f"{MODULE}.SCB": stats, f"{MODULE}.weight_format": torch.tensor(0, dtype=torch.uint8)}
    quantisation = {"quant_method": "bitsandbytes", "load_in_4bit": False, "load_in_8bit": True, "llm_int8_threshold": 6.0}
    return model_config(quantisation), tensors, {f"{MODULE}.weight": Result(exact, "bitsandbytes int8_vectorwise_dequant()")}


# HQQ: HQQLinear's own state_dict; Quantizer.dequantize() with compute_dtype float32.
# ------------------------------------------------------------------------------------------------


def hqq_case(bits=4, axis=1, group=32, dtype=torch.float16, shape=(40, 48), as_float=False, module=MODULE):
    from hqq.core.quantize import BaseQuantizeConfig, HQQLinear, Quantizer

    linear = torch.nn.Linear(shape[1], shape[0], bias=False)
    linear.weight.data = weights(*shape)
    config = BaseQuantizeConfig(nbits=bits, group_size=group, axis=axis, view_as_float=as_float)
    layer = HQQLinear(linear, config, compute_dtype=dtype, device="cpu")
    narrow = layer.dequantize()
    meta = {**layer.meta, "compute_dtype": torch.float32, "scale": layer.meta["scale"].float(), "zero": layer.meta["zero"].float()}
    exact = Quantizer.dequantize(layer.W_q.data, meta)
    tensors = {f"{module}.{key}": value for key, value in layer.state_dict().items() if value is not None}
    quantisation = {"quant_method": "hqq", "quant_config": {"weight_quant_params": config["weight_quant_params"], "scale_quant_params": None, "zero_quant_params": None, "offload_meta": False},
                    "skip_modules": ["lm_head"]}
    return model_config(quantisation), tensors, {f"{module}.weight": Result(exact, "hqq Quantizer.dequantize(), compute_dtype float32", narrow if dtype != torch.float32 else None)}


HQQ = ("hqq",)
family({f"hqq_int{bits}_axis1": dict(bits=bits) for bits in (3, 5, 6)}, *HQQ)(hqq_case)
family({f"hqq_int{bits}_axis0": dict(bits=bits, axis=0) for bits in (1, 2, 3, 4, 8)}, *HQQ)(hqq_case)
family({
    "hqq_int3_ragged": dict(bits=3, shape=(21, 64)),
    "hqq_int4_rows": dict(group=None, dtype=torch.bfloat16, shape=(22, 50)),
    "hqq_int4_cols": dict(group=None, axis=0, dtype=torch.float32, shape=(22, 50), module=EXPERT),
    "hqq_int158_axis1": dict(bits=1.58),
    "hqq_int4_as_float": dict(as_float=True, dtype=torch.float16),
    "hqq_int3_as_float": dict(bits=3, as_float=True, dtype=torch.bfloat16),
}, *HQQ)(hqq_case)


# transformers: BitNet, fp8, gpt-oss
# ------------------------------------------------------------------------------------------------


def bitnet_case(linear_class=None, dtype=torch.bfloat16, shape=(44, 50)):
    from transformers.integrations import bitnet

    w = weights(*shape)
    scale = 1.0 / w.abs().mean().clamp_(min=1e-5)
    codes = (w * scale).round().clamp(-1, 1)
    packed = bitnet.pack_weights(codes.clone())
    plain = bitnet.unpack_weights.__wrapped__ if hasattr(bitnet.unpack_weights, "__wrapped__") else bitnet.unpack_weights
    values = plain(packed, torch.float32)
    quantisation = {"quant_method": "bitnet", "modules_to_not_convert": None}
    if linear_class == "autobitlinear":
        stored = (1.0 / scale).to(dtype).reshape(1)
        exact = values * stored.float()
        quantisation |= {"linear_class": "autobitlinear", "quantization_mode": "offline"}
        peer = "transformers unpack_weights(); AutoBitLinear multiplies by weight_scale"
    else:
        stored = scale.to(dtype).reshape(1)
        exact = values / stored.float()
        quantisation |= {"linear_class": "bitlinear", "quantization_mode": "offline"} if linear_class else {}
        peer = "transformers unpack_weights(); BitLinear divides by weight_scale"
    tensors = {f"{MODULE}.weight": packed, f"{MODULE}.weight_scale": stored}
    return model_config(quantisation, model_type="bitnet"), tensors, {f"{MODULE}.weight": Result(exact, peer)}


family({"bitnet": dict(), "bitnet_bitlinear_f32": dict(linear_class="bitlinear", dtype=torch.float32), "bitnet_autobitlinear": dict(linear_class="autobitlinear")}, "transformers")(bitnet_case)


def fine_grained_case(block=(16, 32), shape=(32, 64), scale_fmt=None, nested=False, module=EXPERT):
    from transformers import FineGrainedFP8Config
    from transformers.integrations.finegrained_fp8 import Fp8Dequantize, Fp8Quantize

    class Quantizer:
        quantization_config = FineGrainedFP8Config(weight_block_size=block, **({"scale_fmt": scale_fmt} if scale_fmt else {}))

    tensors = Fp8Quantize(Quantizer()).convert({f"{module}.weight": weights(*shape)})
    exact = Fp8Dequantize(Quantizer())._dequantize_one(tensors[f"{module}.weight"], tensors[f"{module}.weight_scale_inv"], torch.float32)
    quantisation = Quantizer.quantization_config.to_dict()
    quantisation = json.loads(json.dumps(quantisation, default=str))
    config = model_config(quantisation, model_type="deepseek_v3")
    if nested:
        config = {"model_type": "kimi_k25", "text_config": config}
    return config, tensors, {f"{module}.weight": Result(exact, "transformers Fp8Dequantize, float32")}


family({
    "fp8_block": dict(),
    "fp8_ue8m0": dict(scale_fmt="ue8m0"),
    "fp8_text_config": dict(nested=True, block=(24, 48), shape=(24, 96), module="language_model." + EXPERT),
    "fp8_tensor": dict(block=None, shape=(20, 50)),
}, "transformers")(fine_grained_case)


@case("transformers")
def fp8_fp4_experts():
    """FP4 experts with E8M0 scales beside fp8 blocks, as DeepSeek-V4 stores them, read by transformers."""
    from transformers.integrations.finegrained_fp8 import Fp8Dequantize

    generator = torch.Generator().manual_seed(5)
    codes = torch.randint(-128, 128, (32, 48), generator=generator).to(torch.int8)
    scales = torch.randint(100, 132, (32, 3), generator=generator).to(torch.uint8).view(torch.float8_e8m0fnu)
    exact = Fp8Dequantize(None)._dequantize_one(codes, scales, torch.float32)
    name = "layers.1.ffn.experts.3.w1"
    config = {"model_type": "deepseek_v4", "quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "scale_fmt": "ue8m0", "weight_block_size": [128, 128]}, "expert_dtype": "fp4"}
    return config, {f"{name}.weight": codes, f"{name}.scale": scales}, {f"{name}.weight": Result(exact, "transformers Fp8Dequantize (E2M1 table), float32")}


@case("transformers")
def gptoss_mxfp4_experts():
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    generator = torch.Generator().manual_seed(3)
    base = "model.layers.0.mlp.experts"
    tensors, results = {}, {}
    for name, rows, groups in (("gate_up_proj", 16, 2), ("down_proj", 12, 3)):
        blocks = torch.randint(0, 256, (2, rows, groups, 16), generator=generator).to(torch.uint8)
        scales = torch.randint(96, 160, (2, rows, groups), generator=generator).to(torch.uint8)
        scales[0, 0, 0], scales[1, 1, 1] = 1, 250
        tensors |= {f"{base}.{name}_blocks": blocks, f"{base}.{name}_scales": scales, f"{base}.{name}_bias": torch.zeros(2, rows, dtype=torch.bfloat16)}
        exact = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32).transpose(1, 2).contiguous()
        rounded = convert_moe_packed_tensors(blocks, scales).transpose(1, 2).contiguous()
        results[f"{base}.{name}"] = Result(exact, "transformers convert_moe_packed_tensors(), float32, rows as stored", rounded)
    return model_config({"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "model.embed_tokens", "lm_head"]}, model_type="gpt_oss"), tensors, results


@case("transformers")
def metal_int4():
    from transformers.integrations.metal_quantization import _affine_dequantize_tensor, _affine_quantize_tensor

    codes, scales, biases = _affine_quantize_tensor(weights(24, 128), 64, 4)
    exact = _affine_dequantize_tensor(codes, scales, biases, 64, 4)
    tensors = {f"{MODULE}.weight": codes, f"{MODULE}.scales": scales, f"{MODULE}.qbiases": biases}
    return model_config({"quant_method": "metal", "bits": 4, "group_size": 64, "modules_to_not_convert": ["lm_head"]}), tensors, {f"{MODULE}.weight": Result(exact, "transformers _affine_dequantize_tensor()")}


def float8_case(dtype):
    """Every finite code of torch's 8-bit floats, a scale per row."""
    codes = torch.arange(256).to(torch.uint8).view(dtype)
    codes = codes[torch.isfinite(codes.float())]
    codes = codes[: codes.numel() // 4 * 4].reshape(4, -1)
    scales = torch.tensor([[0.0123], [3.0e-5], [-1.7], [0.25]])
    config = model_config({"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}}})
    return config, {f"{MODULE}.weight": codes, f"{MODULE}.weight_scale": scales}, {f"{MODULE}.weight": Result(codes.float() * scales, f"torch {dtype}.float() times the scale")}


family({f"float8_{name}": dict(dtype=dtype) for name, dtype in (("e5m2", torch.float8_e5m2), ("e4m3fnuz", torch.float8_e4m3fnuz), ("e5m2fnuz", torch.float8_e5m2fnuz))}, "torch")(float8_case)


# NVIDIA ModelOpt
# ------------------------------------------------------------------------------------------------


def modelopt_config(algorithm, group=None):
    return model_config({"config_groups": {"group_0": {"input_activations": {"dynamic": False, "num_bits": 4, "type": "float", "group_size": group}, "weights": {"dynamic": False, "num_bits": 4,
                         "type": "float", "group_size": group}, "targets": ["Linear"]}}, "ignore": ["lm_head"], "quant_algo": algorithm, "producer": {"name": "modelopt"}, "quant_method": "modelopt"})


@case("nvidia-modelopt")
def modelopt_nvfp4_linear():
    from modelopt.torch.quantization.qtensor import NVFP4QTensor

    w = weights(24, 80)
    packed, scale, double = NVFP4QTensor.quantize(w.clone(), 16)
    exact = packed.dequantize(torch.float32, scale=scale, double_scale=double, block_sizes={-1: 16})
    # ModelOpt's table has +0 for code 8, vindex and every other package -0.
    negative = torch.stack([packed._quantized_data & 15, packed._quantized_data >> 4], -1).reshape(w.shape) == 8
    exact = torch.where(negative, -torch.zeros_like(exact), exact)
    tensors = {f"{EXPERT}.weight": packed._quantized_data, f"{EXPERT}.weight_scale": scale, f"{EXPERT}.weight_scale_2": double, f"{EXPERT}.input_scale": torch.tensor(0.01)}
    return modelopt_config("NVFP4", 16), tensors, {f"{EXPERT}.weight": Result(exact, "ModelOpt NVFP4QTensor.dequantize(), with -0 for E2M1 code 8")}


@case("nvidia-modelopt")
def modelopt_fp8():
    from modelopt.torch.quantization.qtensor import FP8QTensor

    w = weights(20, 50)
    packed, scale = FP8QTensor.quantize(w)
    exact = packed.dequantize(torch.float32, scale=scale)
    tensors = {f"{MODULE}.weight": packed._quantized_data, f"{MODULE}.weight_scale": scale.reshape(()), f"{MODULE}.input_scale": torch.tensor(0.01)}
    return modelopt_config("FP8"), tensors, {f"{MODULE}.weight": Result(exact, "ModelOpt FP8QTensor.dequantize()")}


@case("nvidia-modelopt")
def modelopt_mxfp8():
    from modelopt.torch.quantization.qtensor import MXFP8QTensor

    w = weights(24, 96)
    packed, scale = MXFP8QTensor.quantize(w)
    exact = packed.dequantize(torch.float32, scale=scale)
    tensors = {f"{MODULE}.weight": packed._quantized_data, f"{MODULE}.weight_scale": scale}
    return modelopt_config("MXFP8", 32), tensors, {f"{MODULE}.weight": Result(exact, "ModelOpt MXFP8QTensor.dequantize()")}


@case("nvidia-modelopt")
def modelopt_mxfp4():
    from modelopt.torch.quantization.qtensor import MXFP4QTensor

    w = weights(24, 96)
    packed, scale = MXFP4QTensor.quantize(w.clone(), 32)
    exact = packed.dequantize(torch.float32, scale=scale, block_sizes={-1: 32})
    tensors = {f"{MODULE}.weight": packed._quantized_data, f"{MODULE}.weight_scale": scale.reshape(24, 3)}
    return modelopt_config("MXFP4", 32), tensors, {f"{MODULE}.weight": Result(exact, "ModelOpt MXFP4QTensor.dequantize()")}


# MLX
# ------------------------------------------------------------------------------------------------


def mlx_array(x):
    """An array of MLX as a tensor of the type that MLX writes it as."""
    import mlx.core as mx

    if x.dtype == mx.bfloat16:
        return torch.from_numpy(np.array(x.view(mx.uint16)).view(np.int16)).view(torch.bfloat16)
    if x.dtype == mx.uint32:
        return torch.from_numpy(np.array(x)).view(torch.uint32)
    return torch.from_numpy(np.array(x))


def mlx_case(bits=4, group=32, dtype="bfloat16", mode="affine", shape=(10, 128), module=MODULE):
    import mlx.core as mx

    w = mx.array(weights(*shape[-2:]).numpy() if len(shape) == 2 else np.stack([weights(*shape[1:], seed=i).numpy() for i in range(shape[0])])).astype(getattr(mx, dtype))
    codes, scales, *biases = mx.quantize(w, group_size=group, bits=bits, mode=mode)
    tensors = {f"{module}.weight": mlx_array(codes), f"{module}.scales": mlx_array(scales)}
    if biases:
        tensors[f"{module}.biases"] = mlx_array(biases[0])
        exact = mx.dequantize(codes, scales.astype(mx.float32), biases[0].astype(mx.float32), group_size=group, bits=bits)
        narrow = mx.dequantize(codes, scales, biases[0], group_size=group, bits=bits)
    else:
        exact = mx.dequantize(codes, scales, group_size=group, bits=bits, mode=mode, dtype=mx.float32)
        narrow = mx.dequantize(codes, scales, group_size=group, bits=bits, mode=mode, dtype=mx.bfloat16)
    quantisation = {"group_size": group, "bits": bits, "mode": mode}
    config = {"model_type": "llama", "quantization": quantisation, "quantization_config": quantisation}
    return config, tensors, {f"{module}.weight": Result(mlx_array(exact), "mlx dequantize(), float32 scales and biases", mlx_array(narrow) if dtype != "float32" else None)}


MLX = ("mlx",)
family({f"mlx_int{bits}_g{group}": dict(bits=bits, group=group) for bits, group in ((2, 64), (3, 64), (4, 32), (5, 128), (6, 64), (8, 32))}, *MLX)(mlx_case)
family({
    "mlx_int4_f16": dict(dtype="float16", module=EXPERT),
    "mlx_int3_f32": dict(bits=3, dtype="float32"),
    "mlx_int8_f32": dict(bits=8, dtype="float32"),
    "mlx_int4_experts": dict(shape=(3, 16, 64), module="model.layers.1.mlp.switch_mlp.up_proj"),
    "mlx_mxfp4": dict(mode="mxfp4"),
    "mlx_mxfp8": dict(bits=8, mode="mxfp8"),
    "mlx_nvfp4": dict(group=16, mode="nvfp4"),
}, *MLX)(mlx_case)


# ------------------------------------------------------------------------------------------------


# Cases whose narrow result is kept, one per package and type.
NARROW = ("hqq_int4_axis0", "hqq_int4_rows", "mlx_int4_g32", "mlx_int4_f16")


def digest(x):
    return hashlib.sha256(x.contiguous().float().numpy().astype("<f4").tobytes()).hexdigest()


def write(folder, name, expected):
    make, packages = CASES[name]
    for package in packages:
        wanted = package.partition("==")[2]
        if wanted and importlib.metadata.version(package.partition("==")[0]) != wanted:
            return None
    packages = [package.partition("==")[0] for package in packages]
    torch.manual_seed(0)
    config, tensors, results = make()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.config.json").write_text(json.dumps(config) + "\n")
    save_file({key: value.contiguous().clone() for key, value in tensors.items()}, str(folder / f"{name}.safetensors"), metadata={"format": "pt"})
    entry = {"made_by": {package: importlib.metadata.version(package) for package in packages if package != "autoawq"} or {"autoawq": "0.2.9"}, "tensors": {}}
    narrow = {}
    for key, result in results.items():
        row = {"peer": result.peer, "shape": list(result.exact.shape), "sha256": digest(result.exact)}
        if result.rounded is not None:
            to = str(result.rounded.dtype).split(".")[1]
            if torch.equal(result.exact.to(result.rounded.dtype), result.rounded):
                row["rounded"] = {"to": to, "sha256": digest(result.rounded)}
            else:  # rounded between its steps too
                row["narrow"] = to
                narrow[key] = result.rounded.contiguous().clone()
        entry["tensors"][key] = row
    narrow_file = folder / f"{name}.narrow.safetensors"
    narrow_file.unlink(missing_ok=True)
    if narrow and name in NARROW:
        save_file(narrow, str(narrow_file))
    if expected:
        save_file({key: result.exact.float().contiguous().clone() for key, result in results.items()}, str(folder / f"{name}.expected.safetensors"))
    return entry


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--expected", action="store_true", help="write the expected values too")
    options = parser.parse_args()
    index_file = options.out / "index.json"
    index = json.loads(index_file.read_text()) if index_file.exists() else {}
    failed, skipped = [], []
    for name in options.cases or CASES:
        try:
            entry = write(options.out, name, options.expected)
            if entry is None:
                skipped.append(name)
            else:
                index[name] = entry
        except Exception:
            failed.append(name)
            print(f"{name}:\n{traceback.format_exc(limit=-4)}", file=sys.stderr)
    options.out.mkdir(parents=True, exist_ok=True)
    index_file.write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(index.items())) + "\n}\n")
    if skipped:
        print(f"another version is needed for: {' '.join(skipped)}")
    print(f"{len(index)} cases" + (f", failed: {' '.join(failed)}" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
