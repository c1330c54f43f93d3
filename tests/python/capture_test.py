"""What scripts/capture.py writes beside numpy's own arithmetic on the same weights, for every kind of feed-forward: small models
of random weights made here, the trained mixture of experts and the GGUF model of the shared data where they are there.

Usage: capture_test.py SCRIPT DATA FOLDER."""

import contextlib
import importlib.util
import io
import os
import shutil
import sys
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
import numpy as np
import torch
import transformers
from safetensors.numpy import load_file

SCRIPT, DATA, FOLDER = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
sys.path.insert(0, os.path.dirname(os.path.abspath(SCRIPT)))
spec = importlib.util.spec_from_file_location("capture", SCRIPT)
capture = importlib.util.module_from_spec(spec)
spec.loader.exec_module(capture)
checks = 0
PROMPTS = [[1, 5, 9, 30, 2], [7], [11, 12, 13, 14, 15, 16, 17, 18]]


def check(condition, *what):
    global checks
    checks += 1
    if not condition:
        print("FAILED:", *what)
        sys.exit(1)


def run(*arguments, code=0):
    """What the command line says at its end; within this process, since importing torch takes seconds."""
    said = io.StringIO()
    ended, text = 0, ""
    with contextlib.redirect_stderr(said):
        try:
            capture.run([str(argument) for argument in arguments])
        except capture.CaptureError as error:
            ended, text = error.args
    check(ended == code, arguments, "ended with", ended, "not", code, ":", text, said.getvalue()[-2000:])
    return text or said.getvalue()


def silu(x):
    return x / (1 + np.exp(-x))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


SMALL = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=32)
MIXTURE = dict(num_experts_per_tok=2, pad_token_id=0, bos_token_id=1, eos_token_id=2)


def families():
    """Name -> (model, activation). Every kind of feed-forward that the script knows."""
    t = transformers
    return {
        "llama": (t.LlamaForCausalLM, t.LlamaConfig(**SMALL), silu),
        "gemma2": (t.Gemma2ForCausalLM, t.Gemma2Config(**SMALL, head_dim=8), gelu_tanh),
        "phi3": (t.Phi3ForCausalLM, t.Phi3Config(**SMALL, pad_token_id=0), silu),
        "mixtral": (t.MixtralForCausalLM, t.MixtralConfig(**SMALL, num_local_experts=4, **MIXTURE), silu),
        "qwen2_moe": (t.Qwen2MoeForCausalLM, t.Qwen2MoeConfig(**SMALL, num_experts=4, moe_intermediate_size=24, shared_expert_intermediate_size=40,
                                                                decoder_sparse_step=1, **MIXTURE), silu),
        "qwen3_moe": (t.Qwen3MoeForCausalLM, t.Qwen3MoeConfig(**SMALL, num_experts=4, moe_intermediate_size=24, head_dim=8, mlp_only_layers=[0], **MIXTURE), silu),
        "olmoe": (t.OlmoeForCausalLM, t.OlmoeConfig(**SMALL, num_experts=4, **MIXTURE), silu),
        "deepseek_v3": (t.DeepseekV3ForCausalLM, t.DeepseekV3Config(**{**SMALL, "num_key_value_heads": 4}, n_routed_experts=4, n_shared_experts=2, moe_intermediate_size=24, first_k_dense_replace=1,
                                                                    n_group=1, topk_group=1, q_lora_rank=16, kv_lora_rank=16, qk_nope_head_dim=8,
                                                                    qk_rope_head_dim=8, v_head_dim=8, **MIXTURE), silu),
        "gpt_oss": (t.GptOssForCausalLM, t.GptOssConfig(**SMALL, num_local_experts=4, head_dim=8, **MIXTURE), None),
    }


def made(make, config):
    torch.manual_seed(17)
    model = make(config).eval()
    with torch.no_grad():
        for name, values in [*model.named_parameters(), *model.named_buffers()]:
            # Biases that selection adds must not be zero, or forgetting to leave them out would not show.
            if "bias" in name:
                values.copy_(torch.randn_like(values))
    return model


def check_choice(name, router, x, logits):
    """The experts that the module itself chooses are those of the captured logits: nothing but raw logits does that."""
    with torch.no_grad():
        outputs = [values for values in router(torch.tensor(x, dtype=torch.float32)) if values.dtype == torch.int64]
    if len(outputs) != 1:
        return
    scores = 1 / (1 + np.exp(-logits)) if hasattr(router, "e_score_correction_bias") else logits
    if hasattr(router, "e_score_correction_bias"):
        scores = scores + router.e_score_correction_bias.numpy()
    top = np.argsort(-scores, axis=1)[:, :outputs[0].shape[1]]
    check(np.array_equal(np.sort(top, axis=1), np.sort(outputs[0].numpy(), axis=1)), name, "chosen experts")


def captured(model, folder, keep, container="npy", dtype="f32", wanted=None):
    """The arrays of a dump, by name, and what each feed-forward of the model was given."""
    target = folder / "dump"
    shutil.rmtree(target, ignore_errors=True)
    inputs = {}
    handles = []
    for number, layer in enumerate(capture.find_layers(model)):
        down = capture.find_down(layer)
        holder = layer.get_submodule(down[0].rpartition(".")[0]) if down else None
        router = capture.find_router(layer)
        for kind, module in (("mlp", holder), ("router", router and router[1])):
            if module is not None:
                handles.append(module.register_forward_pre_hook(
                    lambda module, given, key=(kind, number): inputs.setdefault(key, []).append(given[0].reshape(-1, given[0].shape[-1]))))
    dump = capture.Dump(target, container, dtype, sum(map(len, PROMPTS)))
    capture.capture(model, PROMPTS, dump, keep, wanted, lambda line: None)
    dump.finish()
    for handle in handles:
        handle.remove()
    inputs = {key: torch.cat(rows).double().numpy() for key, rows in inputs.items()}
    if container == "npy":
        return {path.stem: np.load(path) for path in target.iterdir()}, inputs
    return {path.stem: path for path in target.iterdir()}, inputs


def double(values):
    return values.detach().double().numpy()


def check_family(name, make, config, activation):
    model = made(make, config)
    arrays, inputs = captured(model, FOLDER / name, capture.KINDS)
    tokens = sum(map(len, PROMPTS))
    check(arrays["token_ids"].tolist() == sum(PROMPTS, []) and arrays["prompt"].tolist() == [0] * 5 + [1] + [2] * 8, name, "ids")
    check(all(values.shape[0] == tokens for values in arrays.values()))
    with torch.no_grad():
        outputs = [model(input_ids=torch.tensor([ids]), output_hidden_states=True) for ids in PROMPTS]
    check(np.allclose(arrays["logits"], torch.cat([out.logits[0] for out in outputs]).numpy(), atol=1e-5), name, "logits")
    # The library's states: the embedding, then what each layer returns; the last of them is normalised.
    check(np.allclose(arrays["hidden.0"], torch.cat([out.hidden_states[1][0] for out in outputs]).numpy(), atol=1e-5), name, "hidden")
    last = torch.tensor(arrays["hidden.1"])
    with torch.no_grad():
        check(np.allclose(model.model.norm(last).numpy(), torch.cat([out.hidden_states[-1][0] for out in outputs]).numpy(), atol=1e-4), name, "last")
    for number, layer in enumerate(capture.find_layers(model)):
        down, router = capture.find_down(layer), capture.find_router(layer)
        check((f"mlp.{number}" in arrays) == (down is not None) and (f"router_logits.{number}" in arrays) == (router is not None), name, number)
        if down:
            holder, x = layer.get_submodule(down[0].rpartition(".")[0]), inputs["mlp", number]
            if hasattr(holder, "gate_up_proj"):
                gate, up = np.split(x @ double(holder.gate_up_proj.weight).T, 2, axis=1)
            else:
                gate, up = x @ double(holder.gate_proj.weight).T, x @ double(holder.up_proj.weight).T
            want = activation(gate) * up
            check(np.allclose(arrays[f"mlp.{number}"], want, atol=1e-5 * np.abs(want).max()), name, f"mlp.{number}")
        if router:
            want = inputs["router", number] @ double(router[1].weight).T
            if isinstance(getattr(router[1], "bias", None), torch.nn.Parameter):
                want = want + double(router[1].bias)
            check(np.allclose(arrays[f"router_logits.{number}"], want, atol=1e-5 * np.abs(want).max()), name, f"router_logits.{number}")
            check_choice(name, router[1], inputs["router", number], arrays[f"router_logits.{number}"].astype(np.float64))
    return arrays


def small_models():
    seen = {}
    for name, (make, config, activation) in families().items():
        seen[name] = check_family(name, make, config, activation)
    check("mlp.0" not in seen["mixtral"] and "router_logits.0" in seen["mixtral"])
    check("router_logits.0" not in seen["qwen3_moe"] and "router_logits.1" in seen["qwen3_moe"])
    check(seen["deepseek_v3"]["mlp.0"].shape[1] == 48 and seen["deepseek_v3"]["mlp.1"].shape[1] == 48)
    check(seen["qwen2_moe"]["mlp.1"].shape[1] == 40)


def containers():
    make, config, _ = families()["llama"]
    model = made(make, config)
    plain, _ = captured(model, FOLDER / "types", ["hidden"])
    for dtype, container in (("f32", "safetensors"), ("f16", "safetensors"), ("f16", "npy"), ("bf16", "safetensors")):
        arrays, _ = captured(model, FOLDER / "types", ["hidden"], container, dtype)
        check(set(arrays) == set(plain))
        if dtype == "bf16":
            from safetensors.torch import load_file as load
            got = load(arrays["hidden.1"])["hidden.1"]
            check(torch.equal(got, torch.tensor(plain["hidden.1"]).to(torch.bfloat16)), "bf16")
            continue
        got = arrays["hidden.1"] if container == "npy" else load_file(arrays["hidden.1"])["hidden.1"]
        check(np.array_equal(got, plain["hidden.1"].astype(np.float16 if dtype == "f16" else np.float32)), dtype, container)
    only, _ = captured(model, FOLDER / "types", ["hidden", "mlp"], wanted={1})
    check(set(only) == {"hidden.1", "mlp.1", "token_ids", "prompt"})
    # A router that answers with something else than its logits: they are computed from its weights.
    class Chooser(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(4, 8))
    chooser, x = Chooser(), torch.randn(3, 8)
    own = x @ chooser.weight.T
    check(torch.allclose(capture.raw_logits(chooser, x, (torch.ones(3, 2), own.sigmoid())), own, atol=1e-5), "scores taken for logits")
    check(capture.raw_logits(chooser, x, (torch.ones(3, 2), own)) is not None)


def command_line():
    folder = FOLDER / "command"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    make, config, _ = families()["deepseek_v3"]
    made(make, config).save_pretrained(folder / "model")
    ids, out = folder / "prompts.jsonl", folder / "dump"
    ids.write_text('{"ids": [1, 2, 3, 4, 5, 6, 7]}\n\n[8, 9]\n')
    run(folder / "model", "--ids", ids, "-o", out, "--window", 4, "--layers", 1)
    arrays = {path.stem: np.load(path) for path in out.iterdir()}
    check(set(arrays) == {"hidden.1", "mlp.1", "router_logits.1", "token_ids", "prompt"}, set(arrays))
    # Cut into windows: no token is dropped, each window is a prompt.
    check(arrays["token_ids"].tolist() == list(range(1, 10)) and arrays["prompt"].tolist() == [0] * 4 + [1] * 3 + [2] * 2)
    check("--force" in run(folder / "model", "--ids", ids, "-o", out, code=73))
    run(folder / "model", "--ids", ids, "-o", out, "--force", "--dtype", "bf16")
    check((out / "hidden.0.safetensors").exists() and not (out / "hidden.1.npy").exists())
    check("no dump" in run(folder / "model", "--ids", ids, "-o", folder / "model", "--force", code=73))
    for bad, code in (("[1, 64]", 65), ("[-1]", 65), ("nonsense", 65), ("", 65), ("[1.5]", 65)):
        ids.write_text(bad + "\n")
        run(folder / "model", "--ids", ids, "-o", folder / "none", code=code)
    check(not (folder / "none").exists() and not (folder / "none.partial").exists(), "something is left of a failed capture")
    ids.write_text("[1]\n")
    run(folder / "model", "--ids", ids, "-o", folder / "none", "--layers", "7", code=64)
    run(folder / "model", "--ids", ids, "-o", folder / "none", "--keep", "everything", code=64)
    run(folder / "absent", "--ids", ids, "-o", folder / "none", code=66)


def real_models():
    """The trained mixture predicts what it was trained on; a GGUF file is run as far as the library loads it."""
    moe, tiny = DATA / "moe", DATA / "stories260k" / "stories260K.gguf"
    folder = FOLDER / "real"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    text = folder / "text.txt"
    text.write_text("In the beginning God created the heaven and the earth.\nAnd the earth was without form, and void;\n")
    for model, arguments in ((moe, ["--text", text, "--tokenizer", "bytes"]), (tiny, ["--ids", folder / "ids.jsonl"])):
        if not model.exists():
            print("not there:", model)
            continue
        (folder / "ids.jsonl").write_text("[1, 403, 407, 261, 378]\n")
        out = folder / model.stem
        run(model, *arguments, "-o", out, "--keep", "hidden,mlp,router_logits,logits")
        logits, ids, prompt = (np.load(out / f"{name}.npy") for name in ("logits", "token_ids", "prompt"))
        if model == moe:
            shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
            chances = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
            same = prompt[1:] == prompt[:-1]
            loss = -chances[:-1][same][np.arange(same.sum()), ids[1:][same]].mean()
            check(loss < 1.6, "nats per byte", loss)
            check(sorted(path.stem for path in out.glob("router_logits.*")) == ["router_logits.1", "router_logits.2", "router_logits.3"])
        else:
            check(len(list(out.glob("mlp.*.npy"))) == 5 and np.isfinite(logits).all())


def main():
    small_models()
    containers()
    command_line()
    real_models()
    print(checks, "checks with transformers", transformers.__version__)
    return 0


sys.exit(main())
