"""Owns what scripts/same_results.py runs: cases of commands, and the files that they read beside models."""

import json
import os
import struct
from typing import NamedTuple

import numpy as np

# Words of commands in capitals are these, seen from the folder of a case.
NAMES = {
    "STORIES": "../data/stories260k/stories260K.gguf", "STORIES_Q4": "../data/gguf/full/stories260K-Q4_K_M.gguf",
    "MOE": "../data/moe", "MOE_GGUF": "../data/moe/kjv-moe-7.6M-BF16.gguf", "MOE_Q4": "../data/gguf/full/kjv-moe-Q4_K_M.gguf",
    "MOE_Q8": "../data/gguf/split/kjv-moe-Q8_0-00001-of-00005.gguf", "SILERO": "../data/silero/silero_vad_16k.safetensors",
    "IMATRIX": "../data/gguf/variants/moe.imatrix.gguf",
    "FP8": "../synth/kimi-k2-mini", "MINI": "../synth/kimi-k2-mini-bf16", "Q8": "../synth/kimi-k2-mini-q8_0", "OTHER": "../synth/other",
    "LAYER": "../synth/layer_4x256x128_fp8_trained", "RESULTS": "../measure.layer_4x256x128_fp8_trained/o.h5",
    "DUMP_A": "../inputs/dump_a", "DUMP_B": "../inputs/dump_b",
    "DOWN": "model.layers.0.mlp.down_proj.weight", "EXPERT": "model.layers.1.mlp.experts.0.down_proj.weight",
}
SYNTH = ("layer:4x256x128:fp8:trained", "layer:3x96x64:int4:spiked", "layer:2x64x80:bf16:powerlaw", "layer:2x64x64:fp8:rowscale",
         "kimi-k2-mini", "kimi-k2-mini-int4", "kimi-k2-mini-bf16", "kimi-k2-mini-q8_0")
METRICS = ("var@8", "var_at_64_top128", "rank_90", "stable_rank", "participation_ratio", "effective_rank", "effective_rank_sigma",
           "spectral_entropy", "gini", "spectral_norm", "sigma_min", "nuclear_norm", "sigma_ratio_1_2", "condition_number",
           "numerical_rank", "trace_log", "hill_alpha", "pl_alpha", "mp_outliers", "mp_ks", "theta", "signal", "rank_gd")
# Of `measure`: name -> flags, model, what else is looked at. The first ones belong to --quick.
MODES = {
    "fast": ("--mode fast", "LAYER"), "strict": ("--mode strict", "LAYER"), "signflip": ("--null signflip=10", "LAYER"),
    "vectors": ("--vectors 4", "LAYER", "export o.h5 --format gate-vectors -o gates"),
    "heads": ("--heads --layers 0-1", "FP8", "show o.h5 --table product --json", "export o.h5 --format csv --table product -o product.csv"),
    "config": ("--config ../inputs/flags.conf", "LAYER"), "selection": ("--blocks routed_expert --layers 1-2 --tensors '.*experts.[0-3].*'", "FP8"),
    "plain": ("--no-escalate --no-spectra", "FP8"), "one-thread": ("--threads 1", "FP8"), "small-budget": ("--ram-budget 24MiB", "FP8"),
    "proof": ("--mode fast --svd-route proof", "FP8"), "library": ("--svd-route library", "FP8"), "qr": ("--svd-route qr", "FP8"),
}
QUICK_MODES = tuple(MODES)[:7]
# Of `measure` of real models, the same. The first three belong to --quick.
REAL = {
    "stories": ("", "STORIES"), "stories.q4": ("", "STORIES_Q4"), "silero": ("--reshape out", "SILERO"),
    "stories.all": ("--heads --vectors 3 --null signflip=4", "STORIES", "show o.h5 --table product"), "moe": ("", "MOE"),
    "moe.fast": ("--mode fast", "MOE"), "moe.strict": ("--mode strict", "MOE"), "moe.flip": ("--null signflip", "MOE"),
    "moe.q4": ("", "MOE_Q4"), "moe.q8": ("--vectors 2 --read direct", "MOE_Q8"), "moe.heads": ("--heads", "MOE_GGUF", "show o.h5 --table product"),
    "moe.imatrix": ("--imatrix IMATRIX", "MOE_GGUF", "show o.h5 --table imatrix", "export o.h5 --format csv --table imatrix -o imatrix.csv"),
}
PURIFY = {"svd-shrink": "F16", "svd-gd": "Q8_0", "laser": "BF16", "fft": "F32", "fft-universal": "Q4_0", "haar": "Q5_1", "haar-bayes": "Q5_0",
          "haar-visu": "Q4_1"}
CONFORMANCE = ("random_bits.weight", "moe.blk.3.attn_output.weight", "silero.lstm_hh.weight", "silero.lstm_ih.weight",
               "stories260K.token_embd.weight")
QUICK_FORMATS = ("f64", "iq2_xs", "mxfp4", "q4_K", "bnb_nf4", "fp8_block128", "gptq_int4")

# Commands whose outputs are times (bench), the version (commands), or hold both packed (report: tests/report compares pages).
WITHOUT_CASE = {"bench", "commands", "report"}


class Case(NamedTuple):
    """Commands of vindex, one a line, that run in a folder `name` beside the folders `inputs`, `data` and those of `needs`."""
    name: str
    text: str
    quick: bool = True
    needs: tuple = ("synth",)

    def commands(self):
        lines = [line.split() for line in self.text.splitlines() if line.strip()]
        return [" ".join(NAMES.get(word, word) for word in line).removeprefix("vindex").strip() for line in lines]


def lines(*parts):
    return "\n".join(parts) + "\n"


def looks(file, *more):
    """Every way to read a results file that each kind of them has."""
    return lines(f"status {file}", f"status {file} --json", f"validate {file}", f"show {file}", f"show {file} --json",
                 f"export {file} --format csv -o {file}.csv", f"export {file} --format json -o {file}.json", *more)


def spectra(file, *more):
    """The same of a file of `measure`."""
    return looks(file, f"export {file} --format phase-json -o phases", f"export {file} --format weightwatcher -o {file}.ww.csv",
                 f"show {file} --experts", f"show {file} --top 10", f"show {file} --top 5 --by sigma_min --ascending --json", *more)


def shards(command, file, count):
    """A run by several workers, and their parts joined in joined.FILE."""
    return lines(*(f"{command} -o {file} --worker {i}/{count}" for i in range(count)), f"status {file}", f"merge {file}.parts -o joined.{file}")


def measured(prefix, table, quick):
    for name, (flags, model, *more) in table.items():
        planned = "" if "--ram-budget" in flags else f"plan {model} --ram-budget 1GiB {flags.split('--read')[0]}"
        yield Case(prefix + name, lines(f"inspect {model} --tensors", f"inspect {model} --json", planned, f"measure {model} {flags} -o o.h5") +
                   spectra("o.h5", *more), name in quick)


def synth_cases():
    folders = {spec: spec.replace(":", "_") for spec in SYNTH}
    yield Case("synth", lines("synth kimi-k2-mini-bf16 -o other --seed 2", *(f"synth {spec} -o {folder}" for spec, folder in folders.items())),
               needs=())
    plain = {folder: ("", "../synth/" + folder) for folder in folders.values()}
    yield from measured("measure.", plain, [folders[spec] for spec in SYNTH[:5]])
    yield from measured("measure.", MODES, QUICK_MODES)
    yield Case("measure.again", lines("measure LAYER -o o.h5", "measure LAYER -o o.h5", "measure LAYER -o o.h5 --null signflip --json") +
               spectra("o.h5"))
    yield Case("measure.workers", shards("measure LAYER --null signflip --vectors 2", "w.h5", 3) + spectra("joined.w.h5"))
    file = "../measure.kimi-k2-mini/o.h5"
    yield Case("show", lines(*(f"show {file} --metric {metric}" for metric in METRICS), f"show {file} --block attention --json",
               f"show {file} --metric var_at_k --k 8 --role down_proj --layer 1-2", f"show {file} --metric stable_rank --experts --json"),
               needs=("synth", "measure.kimi-k2-mini"))
    yield Case("compare", lines("compare FP8 MINI -o o.h5") + looks("o.h5") + shards("compare MINI OTHER --roles down_proj", "w.h5", 2) +
               looks("joined.w.h5"))
    yield Case("compare.delta", lines("compare MINI OTHER -o o.h5 --delta --k 4 --layers 1", "compare MINI OTHER -o m.h5 --map 0-1:2-3 --json") +
               looks("o.h5"), False)
    yield Case("experts", lines("experts LAYER -o o.h5 --k 4") + looks("o.h5") + shards("experts FP8", "w.h5", 2) + looks("joined.w.h5"))
    yield Case("dumps", lines("activations DUMP_A -o a.h5 --model LAYER", "activations DUMP_A -o h.h5 --hidden",
               "cka DUMP_A DUMP_B -o c.h5 --permutations 20", "cka DUMP_A DUMP_A -o p.h5 --pool mean --json",
               "routing DUMP_A -o r.h5 --top-k 2 --scoring softmax --normalise", "export r.h5 --format phase-json -o routing",
               "export a.h5 --format phase-json -o all --cka c.h5 --routing r.h5") + "".join(looks(f"{kind}.h5") for kind in "ahcpr"))
    yield Case("dumps.workers", shards("activations DUMP_A", "a.h5", 2) + shards("cka DUMP_A DUMP_B", "c.h5", 2) +
               shards("routing DUMP_A --top-k 2 --scoring sigmoid", "r.h5", 2) + "".join(looks(f"joined.{kind}.h5") for kind in "acr"))
    yield Case("edit.synth", """
        edit delete FP8 --tensor EXPERT --direction singular 0 -o edited --save-patch p.safetensors --report r.json
        edit apply edited --patch p.safetensors --alpha -1 -o restored
        edit delete FP8 --tensor EXPERT --direction ../inputs/v256.npy --side left --as lora -o adapter --json
        organ diff FP8 edited
        decode FP8 --tensor EXPERT -o w.f32
        inspect adapter --lora
        measure adapter -o adapter.h5 --lora
        show adapter.h5 --table product --json
        """)
    yield Case("organ.synth", """
        organ verify Q8 --check-tensors
        organ purify Q8 --dry-run
        organ purify Q8 --accept-findings -o purified.gguf --report p.json
        organ diff Q8 purified.gguf --json
        organ extract Q8 -o organs
        organ assemble organs -o again.gguf
        """, False)
    yield Case("refusals", """
        vindex
        nothing
        measure
        measure missing -o o.h5
        measure ../inputs/wrong.safetensors -o o.h5
        measure ../inputs/wrong.gguf -o o.h5
        measure LAYER -o missing/o.h5
        measure LAYER -o o.h5 --ram-budget 1KiB
        measure LAYER -o o.h5 --layers 3-1
        measure LAYER -o o.h5 --mode fastest
        measure LAYER -o o.h5 --backend cuda
        measure LAYER -o o.h5 --worker 3/3
        measure LAYER -o RESULTS --mode strict
        measure LAYER -o o.h5 --tensors '['
        measure LAYER -o o.h5 --null signflip=x
        measure LAYER -o o.h5 --config ../inputs/wrong.conf
        measure FP8 -o o.h5 --lora
        plan LAYER --roles none
        inspect missing
        compare LAYER FP8 -o o.h5
        compare LAYER ../inputs/wrong.gguf -o o.h5
        experts LAYER -o o.h5 --k nan
        cka DUMP_A missing -o o.h5
        activations ../inputs/adapter -o o.h5
        routing DUMP_A -o o.h5
        routing DUMP_A -o RESULTS --top-k 2 --scoring softmax
        lookup LAYER --token x
        lookup LAYER --vector ../inputs/cube.npy
        decode LAYER --tensor missing -o o.f32
        show ../inputs/wrong.h5
        show RESULTS --metric nothing
        show RESULTS --table product
        validate ../inputs/wrong.h5
        status missing.h5
        merge ../inputs/wrong.h5 -o o.h5
        export RESULTS --format csv -o RESULTS
        export RESULTS --format gate-vectors -o x
        export RESULTS --format phase-json -o x --cka RESULTS
        synth nothing -o x
        synth layer:0x1x1:fp8 -o x
        synth kimi-k2-mini -o LAYER
        organ verify ../inputs/wrong.gguf
        organ verify missing.gguf
        organ measure Q8 -o m.h5 --mode fast
        organ extract ../inputs/wrong.gguf -o x
        organ assemble ../inputs/wrong.json -o x.gguf
        organ purify Q8 --rho nan
        organ graft --source ../inputs/wrong.gguf --target missing.gguf --type organ -o x.gguf
        organ diff LAYER missing
        edit delete LAYER --tensor missing --direction singular 0
        edit insert LAYER --tensor EXPERT --key ../inputs/cube.npy --value ../inputs/v256.npy
        edit apply LAYER --patch ../inputs/wrong.safetensors -o x
        edit apply LAYER --patch ../inputs/adapter -o x
        bench --shapes 3x
        """, needs=("synth", "measure.layer_4x256x128_fp8_trained"))


def help_case(names):
    """The help of the commands `names` ("organ.extract"), and of those that hold others. `commands` describes the program, not results."""
    names = set(names) - {"commands"}
    commands = sorted({name.split(".")[0] for name in names} | {name.replace(".", " ") for name in names})
    return Case("help", lines("--version", "--help", *(f"{command} --help" for command in commands)), needs=())


def real_cases(models):
    """Those of the folder of real weights and conformance data."""
    yield from measured("real.", REAL, tuple(REAL)[:3])
    yield Case("real.workers", shards("measure MOE", "w.h5", 3) + spectra("joined.w.h5"), False)
    yield Case("real.experts", lines("experts MOE -o o.h5 --k 8", "experts MOE_Q4 -o q.h5 --json") + looks("o.h5"), False)
    yield Case("real.compare", lines("compare STORIES STORIES_Q4 -o o.h5 --delta --k 4",
               "compare STORIES STORIES_Q4 -o s.h5 --spectra-a ../real.stories/o.h5 --spectra-b ../real.stories.q4/o.h5") +
               looks("o.h5") + looks("s.h5"),
               needs=("real.stories", "real.stories.q4"))
    yield Case("real.compare.moe", lines("compare MOE MOE_Q4 -o o.h5", "compare MOE MOE_GGUF -o d.h5 --delta") + looks("o.h5") + looks("d.h5"),
               False)
    yield Case("real.dumps", lines("routing DUMP_A -o r.h5 --model MOE", "activations DUMP_A -o a.h5 --model MOE") + looks("r.h5"))
    yield Case("trace", """
        trace STORIES --ids ../inputs/prompts.jsonl -o dump
        trace STORIES --ids ../inputs/prompts.jsonl --loss --against STORIES_Q4 --statistics s.h5 -q
        show s.h5 --json
        """)
    yield Case("lookup", """
        lookup STORIES --queries ../inputs/words.txt --top 5
        lookup STORIES --token-id 357 --json
        lookup STORIES --token-ids 357,265 --pool last
        lookup STORIES -o gates.h5
        lookup gates.h5 --token mom
        lookup STORIES --token mom --role up_proj --by cosine --tokens-out 0
        lookup MOE --vector ../inputs/queries.npy --by score
        lookup MOE_Q4 --token-id 65 --layers 1-2 --top 3
        """)
    for name, model in {"stories": "STORIES", "moe.q4": "MOE_Q4", "moe.q8": "MOE_Q8"}.items():
        yield Case("organ." + name, f"""
            organ verify {model} --check-tensors
            organ verify {model} --json
            organ extract {model} -o organs --json
            organ extract {model} -o references --by-reference --digests
            organ extract {model} -o part --type organ --layers 0-1
            organ verify organs
            organ assemble organs -o again.gguf --shards none
            organ assemble {model} -o sharded.gguf --shards 500KB --json
            organ diff {model} again.gguf
            organ measure {model} -o report
            organ measure {model} -o m.h5 --report r --mode strict --json
            """ + spectra("m.h5"), name == "stories")
        purify = f"organ purify {model} --accept-findings"
        yield Case("purify." + name, lines(f"organ purify {model} --dry-run --json", f"{purify} --factors f.safetensors",
                   *(f"{purify} --method {method} --out-type {kind} -o {method}.gguf --report {method}.json" for method, kind in PURIFY.items())),
                   name == "stories")
    yield Case("organ.fleet", lines("organ measure --fleet ../data/stories260k ../data/gguf/full -o report"), False)
    yield Case("graft", """
        organ graft --source STORIES --target STORIES_Q4 --type organ --layers 1-2 -o a.gguf --report a.json
        organ graft --source STORIES --target STORIES_Q4 --type skeleton,norm --map 0-1:2-3 -o b.gguf --json
        organ graft --source STORIES --target STORIES_Q4 --type all --dry-run
        organ graft --source MOE_GGUF --target STORIES --type organ -o x.gguf
        organ verify a.gguf
        organ diff STORIES_Q4 a.gguf --by-layer --top 3 --report d.json
        organ diff STORIES_Q4 b.gguf --exit-code
        organ assemble ../inputs/recipe.json -o chimera.gguf
        """)
    yield Case("edit", """
        edit delete MOE --tensor DOWN --direction ../inputs/v512.npy -o deleted --save-patch undo.safetensors --report d.json
        edit apply deleted --patch undo.safetensors --alpha -1 -o restored --json
        edit insert MOE --tensor DOWN --key ../inputs/v512.npy --value ../inputs/v256.npy -o inserted --probe ../inputs/probe.npy
        edit memit MOE --tensor DOWN --keys ../inputs/keys.npy --values ../inputs/values.npy --covariance ../inputs/covariance.npy -o memit --json
        edit apply MOE --patch ../inputs/adapter -o merged
        edit delete MOE --tensors .*o_proj.weight --direction ../inputs/v256.npy --side left --as lora -o lora
        edit delete STORIES --tensor blk.1.ffn_up.weight --direction feature 12 --side right -o feature.gguf
        edit delete STORIES_Q4 --tensor blk.1.attn_q.weight --direction singular 1 -o edited.gguf
        edit delete MOE_Q4 --tensor blk.1.attn_q_a.weight --direction singular 0 -o refused.gguf
        edit apply STORIES --patch undo.safetensors -o refused.gguf
        organ diff MOE restored
        """)
    yield Case("edit.gguf", """
        edit delete MOE_Q8 --tensor blk.1.ffn_down_exps.weight --slice 2 --direction singular 0 -o edited --save-patch p.safetensors
        edit delete MOE_Q4 --tensor blk.1.ffn_down_exps.weight --slice all --direction ../inputs/v256.npy --side left --as lora -o lora.gguf
        edit apply MOE_GGUF --patch lora.gguf -o merged.gguf
        inspect lora.gguf --lora
        """, False)
    for kind in sorted(name[:-5] for name in os.listdir(models + "/gguf/conformance") if name.endswith(".gguf")):
        file = f"../data/gguf/conformance/{kind}.gguf"
        yield Case("format." + kind, lines(f"inspect {file} --tensors", f"measure {file} -o o.h5", f"organ verify {file} --check-tensors",
                   *(f"decode {file} --tensor {tensor} -o -" for tensor in CONFORMANCE)), kind in QUICK_FORMATS, ())
    for file in sorted(os.listdir(models + "/gguf/variants")):
        yield Case("variant." + file, lines(*(f"{command} ../data/gguf/variants/{file}" for command in
                   ("inspect --tensors", "organ verify --json", "measure -o o.h5", "organ assemble -o o.gguf"))), needs=())
    for kind in sorted(name.removesuffix(".config.json") for name in os.listdir(models + "/st_quant") if name.endswith(".config.json")):
        file = f"../data/st_quant/{kind}.safetensors --model-config ../data/st_quant/{kind}.config.json"
        with open(f"{models}/st_quant/{kind}.expected.safetensors", "rb") as expected:
            tensors = json.loads(expected.read(struct.unpack("<Q", expected.read(8))[0])).keys() - {"__metadata__"}
        yield Case("format." + kind, lines(f"inspect {file} --json", f"measure {file} -o o.h5",
                   *(f"decode {file} --tensor {tensor} -o -" for tensor in sorted(tensors))), kind in QUICK_FORMATS, ())


def chosen_cases(models, quick, only, names):
    """The cases in an order in which each finds what it needs. `models`: folder of real ones, or nothing. `names`: commands of the program."""
    cases = [*synth_cases(), help_case(names), *(real_cases(models) if models else ())]
    run = {word for case in cases if case.name != "help" for line in case.commands() for word in [line.split(" ")[0], ".".join(line.split(" ")[:2])]}
    without = set(names) - run - WITHOUT_CASE
    if models and without:
        raise SystemExit(f"same_results: no case runs {', '.join(sorted(without))}: add one")
    wanted = {case.name for case in cases if (case.quick or not quick) and only in case.name}
    for case in reversed(cases):
        wanted |= set(case.needs) if case.name in wanted else set()
    return [case for case in cases if case.name in wanted]


def save_safetensors(path, tensors):
    header, at = {}, 0
    for name, array in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(array.tobytes() for array in tensors.values()))


def numbers(seed, *shape):
    """Numbers in [-1, 1): a hash of their places, so the same bits with every numpy."""
    words = np.arange(int(np.prod(shape)), dtype=np.uint64) + np.uint64(seed << 32)
    for factor in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB):
        words = (words ^ (words >> np.uint64(30))) * np.uint64(factor)
    return ((words >> np.uint64(48)).astype(np.float32) / 32768 - 1).reshape(shape)


def make_inputs(folder):
    """Vectors, dumps of activations, an adapter, a recipe, and files to refuse."""
    os.makedirs(folder + "/adapter")
    shapes = {"v256": (256,), "v512": (512,), "keys": (512, 3), "values": (256, 3), "probe": (40, 512), "queries": (2, 256), "cube": (7, 7, 7)}
    arrays = {name: numbers(seed, *shape) for seed, (name, shape) in enumerate(shapes.items())}
    arrays["covariance"] = np.diag(1 + numbers(9, 512) ** 2)
    for seed, dump in ((10, "dump_a"), (50, "dump_b")):
        os.makedirs(f"{folder}/{dump}")
        arrays |= {f"{dump}/token_ids": np.arange(96), f"{dump}/prompt": np.repeat(np.arange(12), 8), f"{dump}/logits": numbers(seed, 96, 30)}
        for layer in range(1, 4):
            place = seed + 10 * layer
            arrays |= {f"{dump}/hidden.{layer}": np.add.accumulate(numbers(place, 96, 12)),
                       f"{dump}/router_logits.{layer}": numbers(place + 1, 96, 8) * 4,
                       f"{dump}/mlp.{layer}": numbers(place + 2, 96, 20) * numbers(place + 3, 96, 20)}
    for name, array in arrays.items():
        np.save(f"{folder}/{name}.npy", array)
    module = "base_model.model.model.layers.0.mlp.down_proj.lora_"
    save_safetensors(folder + "/adapter/adapter_model.safetensors",
                     {module + "A.weight": numbers(90, 4, 512), module + "B.weight": numbers(91, 256, 4)})
    texts = {
        "adapter/adapter_config.json": json.dumps({"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["down_proj"]}),
        "recipe.json": json.dumps({"schema": "organ-recipe/1", "name": "chimera", "donors": {"a": NAMES["STORIES_Q4"], "b": NAMES["STORIES"]},
                                   "host": "a", "rules": [{"from": "b", "type": "organ", "layers": "1-2"}]}),
        "words.txt": " the\n mom\n", "prompts.jsonl": "[1, 5, 9, 357, 265]\n[1, 265, 9]\n", "flags.conf": "mode = strict\nvectors = 2\n", "wrong.conf": "nothing = 1\n", "wrong.json": "{",
        "wrong.safetensors": "x" * 64, "wrong.gguf": "GGUF" + "\x01" * 60, "wrong.h5": "\x01" * 64}
    for name, text in texts.items():
        with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
            file.write(text)
