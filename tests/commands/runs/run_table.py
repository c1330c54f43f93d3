"""Owns the rows of run_properties.py: every command that works for a while, with each kind of thing that it writes.

A row that is added here is tested (`ctest -R runs`); which properties it has follows from the command's options."""

from typing import NamedTuple

# Commands with --threads whose outcome is no result: estimates and measurements of this machine.
LEFT_OUT = {"plan", "bench"}
# Edits of matrices as small as these begin in any memory.
TAKE_LITTLE = {"edit.delete", "edit.insert", "edit.memit", "edit.apply"}


class Row(NamedTuple):
    """{input}: made by run_inputs.py. {out}: the output, where the flag is not -o; without an output, standard output is compared."""
    name: str
    command: str
    flags: str = ""
    out: str = "out.h5"
    part: str = None    # flags in place of `flags` for a run of a part, which the whole then goes on from
    other: str = None   # flags that make it another run: refused beside what is there,
    told: str = ""      # by this word
    unit: str = None    # what a run counts, and keeps when it is stopped
    near: float = 0.0   # by how much numbers may differ where workers or a run that goes on divide the rows: they group sums otherwise
    variant: bool = False  # of a command that has another row: it takes the same way through its run
    stops: bool = True     # SIGTERM is a request to stop, which one without a unit may be too quick for


OF_EXPERTS = r"--tensors .*experts\.[0-4]\..*"
ROWS = [
    Row("measure", "measure {experts_fp8}", part=OF_EXPERTS, other="--mode strict", told="mode was", unit="matrices"),
    Row("measure-fast", "measure {packed}", "--mode fast --vectors 2", part="--mode fast --vectors 2 " + OF_EXPERTS, other="--mode fast --vectors 3",
        unit="matrices", variant=True),
    Row("measure-derived", "measure {llama}", "--heads --imatrix {imatrix.dat} --layers 0-1", part="--heads --layers 1", unit="matrices", variant=True),
    Row("measure-signflip", "measure {experts_fp8}", "--null signflip=3 " + OF_EXPERTS, part="--null signflip=3 --tensors .*experts\\.0\\..*",
        other="--null signflip=2 " + OF_EXPERTS, told="null was 'signflip=3', now 'signflip=2'", unit="matrices", variant=True),
    Row("measure-lora", "measure {adapter}", "--lora", part="--lora --layers 1", unit="matrices", variant=True),
    Row("measure-sample", "measure {packed}", "--sample 5:3 --order sampled", part="--sample 2:3", other="--sample 5:4", told="sample seed was",
        unit="matrices", variant=True),
    Row("organ-measure", "organ measure {mini_q8}/kimi-k2-mini-Q8_0.gguf", "--layers 0-1", part="--layers 1", unit="matrices"),
    Row("compare", "compare {experts_fp8} {experts}", part=OF_EXPERTS, unit="pairs"),
    Row("compare-delta", "compare {experts_fp8} {experts}", "--delta --k 2", part="--delta --k 2 " + OF_EXPERTS, other="--k 3", unit="pairs"),
    Row("experts", "experts {mixture.safetensors}", "--k 2", part="--k 2 --roles down_proj", other="--k 3", unit="groups"),
    Row("cka-rows", "cka {hidden} {other_hidden}", "--permutations 10", other="--permutations 11", unit="layers", near=1e-6),
    Row("cka-features", "cka {long_hidden} {long_hidden}", "--permutations 0", other="--permutations 1", unit="layers", near=1e-6, variant=True),
    Row("activations", "activations {activations}", "--model {llama}", unit="layers"),
    Row("routing", "routing {activations}", "--top-k 2 --scoring softmax", other="--top-k 3 --scoring softmax", unit="layers"),
    Row("lookup", "lookup {wide}", "--vector {queries.npy} --json --top 2 --tokens-out 0", out=None),
    Row("lookup-store", "lookup {wide}", other="--dtype f16"),
    Row("trace", "trace {mini}", "--ids {ids.jsonl} --keep hidden,router_logits,logits", out="out", unit="layers"),
    Row("trace-statistics", "trace {llama}", "--ids {ids.jsonl} --statistics {out} --effective-rank", unit="layers"),
    Row("trace-loss", "trace {llama}", "--ids {ids.jsonl} --loss --json", out=None),
    Row("edit-insert", "edit insert {llama}", "--tensor model.layers.1.mlp.down_proj.weight --key {key.npy} --value {direction.npy}", out="out"),
    Row("edit-memit", "edit memit {llama}", "--tensor model.layers.1.mlp.down_proj.weight --keys {keys.npy} --values {values.npy}", out="out"),
    Row("edit-apply", "edit apply {llama}", "--patch {adapter}", out="out"),
    Row("edit-patch", "edit delete {llama}", "--tensor model.layers.1.mlp.down_proj.weight --direction singular 0 --save-patch {out}",
        out="out.safetensors"),
    Row("edit-lora", "edit delete {llama}", "--tensor model.layers.1.mlp.down_proj.weight --direction singular 0 --as lora", out="out"),
    Row("edit-delete", "edit delete {llama}", "--tensors .*down_proj.* --direction {direction.npy} --side left --save-patch {out}.safetensors -o {out}",
        out="out"),
    Row("organ-extract", "organ extract {mini_q8}/kimi-k2-mini-Q8_0.gguf", out="out"),
    Row("organ-assemble", "organ assemble {organs}", out="out.gguf"),
    Row("organ-graft", "organ graft", "--source {organs} --target {mini_q8}/kimi-k2-mini-Q8_0.gguf --type organ", out="out.gguf"),
    Row("organ-purify", "organ purify {mini_q8}/kimi-k2-mini-Q8_0.gguf", "--type ffn --layers 0 --method laser --accept-findings --cap 1", out="out.gguf"),
    Row("organ-diff", "organ diff {organs} {mini_q8}/kimi-k2-mini-Q8_0.gguf", "--json", out=None, stops=False),
    Row("organ-verify", "organ verify {mini_q8}/kimi-k2-mini-Q8_0.gguf", "--json", out=None, stops=False),
    Row("decode", "decode {llama}", "--tensor model.layers.1.mlp.up_proj.weight", out="out.f32", stops=False),
]
