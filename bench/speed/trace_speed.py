#!/usr/bin/env python3
"""Times `vindex trace` of a mixture of experts against transformers (float32, as many threads) on the same tokens, in turn, in one run.

    python3 bench/speed/trace_speed.py PROGRAM FOLDER [--layers 6] [--prompts 32] [--length 128] [--repeats 3] > bench/results/MACHINE/NAME.json

FOLDER gets a random model of Mixtral's shape in BF16 (hidden 1024, 8 experts of 1792 neurons, 2 a token; 0.6 GB at the defaults)
and is emptied at the end. The program's time is that of its whole process: it reads and decodes the weights and writes the residual
stream behind every layer. transformers gets the weights in memory as float32, all prompts of one length in batches of 8, and
nothing to write; its time to load them is a row of its own. Neither process inherits OPENBLAS_* variables.

The limit is the larger of the stored bytes at the rate that `vindex bench --sections read` measures from the page cache, and the
products that the tokens need (attention's scores left out) at the rate of torch's float32 product of 2048 x 1024 x 1792, both on
all cores in the same run. Needs torch, transformers and safetensors (scripts/python_env.sh --models).
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

from organ_speed import cpu_name

HIDDEN, NEURONS, EXPERTS, CHOSEN, HEADS, GROUPS, VOCABULARY = 1024, 1792, 8, 2, 16, 4, 8192
PEER = """
import json, sys, time
import torch, transformers
torch.set_num_threads(int(sys.argv[2]))
transformers.utils.logging.disable_progress_bar()
start = time.perf_counter()
model = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32).eval()
loaded = time.perf_counter()
ids = torch.tensor([json.loads(line)["ids"] for line in open(sys.argv[3])])
with torch.inference_mode():
    model.model(input_ids=ids[:1, :8])  # threads and buffers are there
    begun = time.perf_counter()
    for first in range(0, len(ids), 8):
        model.model(input_ids=ids[first:first + 8], use_cache=False, output_hidden_states=True)
done = time.perf_counter()
a, b = torch.randn(2048, 1024), torch.randn(1792, 1024)
rates = []
for _ in range(10):
    at = time.perf_counter()
    a @ b.T
    rates.append(2 * 2048 * 1024 * 1792 / (time.perf_counter() - at))
print(json.dumps({"load": loaded - start, "forward": done - begun, "flops": max(rates)}))
"""


def write_model(folder, layers):
    """Random BF16 weights under Mixtral's names, a file per layer."""
    import torch
    from safetensors.torch import save_file

    folder.mkdir(parents=True)
    generator = torch.Generator().manual_seed(1)
    head = HIDDEN // HEADS
    weight_map = {}

    def save(name, tensors):
        save_file(tensors, folder / name, metadata={"format": "pt"})
        weight_map.update(dict.fromkeys(tensors, name))

    def draw(rows, cols):
        return (torch.randn(rows, cols, generator=generator) / cols**0.5).bfloat16()

    ones = lambda: torch.ones(HIDDEN, dtype=torch.bfloat16)
    save("ends.safetensors", {"model.embed_tokens.weight": draw(VOCABULARY, HIDDEN), "model.norm.weight": ones(),
                              "lm_head.weight": draw(VOCABULARY, HIDDEN)})
    for layer in range(layers):
        of = f"model.layers.{layer}."
        tensors = {of + "input_layernorm.weight": ones(), of + "post_attention_layernorm.weight": ones(),
                   of + "block_sparse_moe.gate.weight": draw(EXPERTS, HIDDEN)}
        for part, rows in (("q", HIDDEN), ("k", GROUPS * head), ("v", GROUPS * head), ("o", HIDDEN)):
            tensors[f"{of}self_attn.{part}_proj.weight"] = draw(rows, HIDDEN)
        for expert in range(EXPERTS):
            for part, shape in (("w1", (NEURONS, HIDDEN)), ("w2", (HIDDEN, NEURONS)), ("w3", (NEURONS, HIDDEN))):
                tensors[f"{of}block_sparse_moe.experts.{expert}.{part}.weight"] = draw(*shape)
        save(f"layer-{layer}.safetensors", tensors)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_size": HIDDEN, "intermediate_size": NEURONS,
        "num_hidden_layers": layers, "num_attention_heads": HEADS, "num_key_value_heads": GROUPS, "num_local_experts": EXPERTS,
        "num_experts_per_tok": CHOSEN, "vocab_size": VOCABULARY, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5,
        "rope_theta": 1e6, "hidden_act": "silu", "tie_word_embeddings": False, "torch_dtype": "bfloat16"}))


def token_flops(layers):
    """Of the products that one token needs, without the output matrix."""
    attention = HIDDEN * (2 * HIDDEN + 2 * GROUPS * HIDDEN // HEADS)
    return 2.0 * layers * (attention + EXPERTS * HIDDEN + CHOSEN * 3 * HIDDEN * NEURONS)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--prompts", type=int, default=32)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OPENBLAS_", "OMP_"))}
    environment["HF_HUB_OFFLINE"] = "1"
    cores = len(os.sched_getaffinity(0))
    model, ids, dump = arguments.folder / "model", arguments.folder / "ids.jsonl", arguments.folder / "dump"
    write_model(model, arguments.layers)
    with open(ids, "w", encoding="utf-8") as file:
        for prompt in range(arguments.prompts):
            file.write(json.dumps({"ids": [(7 + 31 * prompt + 101 * at) % VOCABULARY for at in range(arguments.length)]}) + "\n")
    size = sum(path.stat().st_size for path in model.glob("*.safetensors"))
    tokens = arguments.prompts * arguments.length

    def run(*command):
        return subprocess.run([*map(str, command)], check=True, capture_output=True, text=True, env=environment).stdout

    def trace():
        shutil.rmtree(dump, ignore_errors=True)
        start = time.perf_counter()
        run(arguments.program, "-q", "trace", model, "--ids", ids, "-o", dump, "--keep", "hidden", "--backend", "cpu",
            "--threads", cores)
        return time.perf_counter() - start

    trace()  # the files are in the page cache
    read = json.loads(run(arguments.program, "bench", "--sections", "read", "--model", model, "--samples", 3, "--json"))["rows"]
    read = max(max(row["samples"]) for row in read if row["route"].startswith("page-cache")) * 1e9
    samples = {"vindex": [], "forward": [], "load": []}
    flops = []
    for _ in range(arguments.repeats):
        samples["vindex"].append(trace())
        peer = json.loads(run(sys.executable, "-c", PEER, model, cores, ids))
        samples["forward"].append(peer["forward"])
        samples["load"].append(peer["load"])
        flops.append(peer["flops"])
    work, rate = token_flops(arguments.layers) * tokens, statistics.median(flops)
    limit = max(size / read, work / rate)
    medians = {name: statistics.median(values) for name, values in samples.items()}
    import torch
    import transformers
    libraries = f"transformers {transformers.__version__}, torch {torch.__version__}"
    notes = {"vindex": f"vindex trace --keep hidden, whole process: {medians['vindex'] / medians['forward']:.2f} of the time of the "
                       f"library's pass, {medians['vindex'] / (medians['forward'] + medians['load']):.2f} of it with loading, "
                       f"{medians['vindex'] / limit:.2f} of the limit ({work * 1e-9:.0f} GFLOP at {rate * 1e-9:.0f} GFLOP/s; "
                       f"{size * 1e-9:.2f} GB at {read * 1e-9:.2f} GB/s)",
             "forward": f"the pass alone, weights in memory as float32, batches of 8 prompts: {libraries}",
             "load": f"loading the weights as float32: {libraries}"}
    rows = [{"name": "end_to_end", "route": {"vindex": "trace", "forward": "forward", "load": "from_pretrained"}[name],
             "backend": "cpu", "rows": tokens, "cols": HIDDEN, "batch": arguments.prompts, "encoding": "BF16", "unit": "seconds",
             "samples": [round(value, 3) for value in samples[name]], "limit": round(limit, 3) if name != "load" else None,
             "peer": None if name == "vindex" else "transformers",
             "note": f"{notes[name]}; load average after {os.getloadavg()[0]:.1f}"} for name in samples]
    version = run(arguments.program, "--version")
    commit = version.split("(", 1)[1].split(",")[0] if "(" in version else "unknown"
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    print(json.dumps({"schema": "vindex-bench/1", "commit": commit, "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                      "host": {"cpu": cpu_name(), "cores": cores, "memory_gib": memory,
                               "blas": f"torch's own ({libraries}); vindex: as vindex bench says"}, "gpu": None,
                      "command": f"bench/speed/trace_speed.py vindex FOLDER --layers {arguments.layers} --prompts {arguments.prompts} "
                                 f"--length {arguments.length} --repeats {arguments.repeats}",
                      "rows": rows}, indent=1))
    shutil.rmtree(arguments.folder)


if __name__ == "__main__":
    main()
