"""What tokens cost and what an edit costs: `vindex trace --loss`, `--against` and `--statistics` beside numpy on the logits and
activations of the same runs. Usage: trace_losses.py VINDEX SHARED_DATA WORK_FOLDER"""

import json
import os
import sys

import h5py
import numpy as np
from test_script import call, fresh_folder, need

VINDEX, SHARED, WORK = sys.argv[1:4]
MODEL = os.path.join(SHARED, "moe")
need(MODEL)
fresh_folder(WORK)
os.chdir(WORK)

# The end of the book was held out when this model was trained: 1.2115 nats a byte (meta.json).
TEXT = [
    "And I saw a new heaven and a new earth: for the first heaven and the first earth were passed away; and there was no more "
    "sea. And I John saw the holy city, new Jerusalem, coming down from God out of heaven, prepared as a bride adorned",
    "And I heard a great voice out of heaven saying, Behold, the tabernacle of God is with men, and he will dwell with them, "
    "and they shall be his people, and God himself shall be with them, and be their God. And God shall wipe away all tears",
    "And he that sat upon the throne said, Behold, I make all things new. And he said unto me, Write: for these words are true "
    "and faithful. And he said unto me, It is done. I am Alpha and Omega, the beginning and the end.",
    "Beloved, let us love one another: for love is of God; and every one that loveth is born of God, and knoweth God. He that "
    "loveth not knoweth not God; for God is love. In this was manifested the love of God toward us, because that God sent",
    "This then is the message which we have heard of him, and declare unto you, that God is light, and in him is no darkness "
    "at all. If we say that we have fellowship with him, and walk in darkness, we lie, and do not the truth:",
    "I Jesus have sent mine angel to testify unto you these things in the churches. I am the root and the offspring of David, "
    "and the bright and morning star. And the Spirit and the bride say, Come. And let him that heareth say, Come.",
]
PROMPTS = [list(text.encode()) for text in TEXT]
with open("text.jsonl", "w", encoding="utf-8") as file:
    file.writelines(json.dumps({"ids": ids}) + "\n" for ids in PROMPTS)


def trace(*arguments, code=0):
    return call(VINDEX, "trace", *arguments, "--ids", "text.jsonl", "--progress", "none", "--backend", "cpu", code=code)


def summary(*arguments):
    return json.loads(trace(*arguments, "--json").stdout)


def near(what, ours, theirs, relative=0.0, absolute=0.0):
    if not np.allclose(ours, theirs, rtol=relative, atol=absolute, equal_nan=True):
        sys.exit(f"{what}: {ours} is not {theirs}")


def log_softmax(logits):
    logits = logits.astype(np.float64)
    largest = logits.max(axis=1, keepdims=True)
    return logits - largest - np.log(np.exp(logits - largest).sum(axis=1, keepdims=True))


def by_prompt(values):
    """Mean over tokens of all prompts, and its error as a ratio of sums over prompts."""
    count = sum(len(one) for one in values)
    mean = sum(one.sum() for one in values) / count
    off = [one.sum() - mean * len(one) for one in values]
    groups = len(values)
    return mean, np.sqrt(groups / (groups - 1) * np.square(off).sum()) / count


def of_prompts(per_token):
    """The rows before each token that was predicted, prompt by prompt."""
    cut, first = [], 0
    for ids in PROMPTS:
        cut.append(per_token[first : first + len(ids) - 1])
        first += len(ids)
    return cut


def losses_of(log_p):
    targets = np.concatenate([[*ids[1:], 0] for ids in PROMPTS])
    return -log_p[np.arange(len(targets)), targets]


# --- a loss, with a dump and without one --------------------------------------------------------

alone = summary(MODEL, "--loss")
dumped = summary(MODEL, "--loss", "-o", "dump", "--keep", "hidden,mlp,router_logits,logits", "--statistics", "statistics.h5")
assert alone["loss"] == dumped["loss"], (alone["loss"], dumped["loss"])
assert alone["against"] is None and alone["dump"] is None
log_p = log_softmax(np.load("dump/logits.npy"))
mean, error = by_prompt(of_prompts(losses_of(log_p)))
loss = alone["loss"]
near("loss", loss["loss"], mean, relative=1e-9)
near("its error", loss["loss_se"], error, relative=1e-7)
near("perplexity", loss["perplexity"], np.exp(mean), relative=1e-9)
near("null", loss["loss_null"], np.log(256), relative=1e-12)
entropy = -(np.exp(log_p) * log_p).sum(axis=1)
near("entropy", loss["entropy"], by_prompt(of_prompts(entropy))[0], relative=1e-9)
assert loss["tokens"] == sum(len(ids) - 1 for ids in PROMPTS) and loss["prompts"] == len(PROMPTS)
with open(os.path.join(MODEL, "meta.json"), encoding="utf-8") as file:
    held_out = json.load(file)["val"]
assert abs(mean - held_out) < 0.25, f"{mean} nats a byte of the book that the model knows, {held_out} when it was trained"

# --- beside itself, and beside what an edit left ------------------------------------------------

same = summary(MODEL, "--against", MODEL)["against"]
assert same["kl_max"] < 1e-12 and same["same_first_choice"] == 1.0 and same["difference"] == 0.0, same
EDIT = [VINDEX, "edit", "delete", MODEL, "--tensor", "model.layers.1.self_attn.o_proj.weight", "--direction", "singular", "0"]
assert "what it cost" not in call(*EDIT).stdout  # nothing was written
told = call(*EDIT, "-o", "edited").stdout.replace("\n  ", " ").splitlines()[-1]
assert told == f"what it cost: vindex trace {MODEL} --ids FILE --against edited", told
both = summary(MODEL, "--against", "edited")
summary("edited", "-o", "dump-edited", "--keep", "logits")
log_q = log_softmax(np.load("dump-edited/logits.npy"))
against = both["against"]
assert both["loss"] == alone["loss"]
for name, values, absolute in [
    ("loss", losses_of(log_q), 1e-9),
    ("difference", losses_of(log_q) - losses_of(log_p), 1e-9),
    ("kl", (np.exp(log_p) * (log_p - log_q)).sum(axis=1), 1e-9),
    ("same_first_choice", (log_p.argmax(axis=1) == log_q.argmax(axis=1)).astype(float), 0.0),
    ("probability_change", np.exp(-losses_of(log_q)) - np.exp(-losses_of(log_p)), 1e-9),
]:
    mean, error = by_prompt(of_prompts(values))
    near(name, against[name], mean, absolute=absolute)
    near(f"{name}, error", against[f"{name}_se"], error, absolute=1e-8)
    if name == "kl":
        all_of_them = np.concatenate(of_prompts(values))
        for key, share in (("kl_median", 0.5), ("kl_q90", 0.9), ("kl_q99", 0.99), ("kl_max", 1.0)):
            near(key, against[key], np.quantile(all_of_them, share), absolute=1e-9)
assert against["kl"] > 1e-4 and against["same_first_choice"] < 1.0
text = trace(MODEL, "--against", "edited").stdout
assert "same first choice" in text and "nats a token" in text and max(map(len, text.splitlines())) <= 80, text

# --- statistics beside the commands that read the dump ------------------------------------------

call(VINDEX, "-q", "routing", "dump", "--model", MODEL, "-o", "routing.h5")
call(VINDEX, "-q", "activations", "dump", "-o", "mlp.h5", "--no-effective-rank")
call(VINDEX, "-q", "activations", "dump", "--hidden", "-o", "hidden.h5", "--no-effective-rank")
call(VINDEX, "-q", "cka", "dump", "dump", "--pool", "mean", "-o", "cka.h5")
call(VINDEX, "validate", "statistics.h5")
call(VINDEX, "show", "statistics.h5")
with h5py.File("statistics.h5") as own:
    table = own["layer"]
    place = {name.decode(): i for i, name in enumerate(table["tensor"][:])}
    compared = 0
    for path in ("routing.h5", "mlp.h5", "hidden.h5"):
        with h5py.File(path) as other:
            theirs = other["layer"]
            for row, name in enumerate(theirs["tensor"][:]):
                for column in theirs:
                    values = theirs[column]
                    if values.shape[:1] != (len(theirs["tensor"]),) or values.dtype.kind != "f" or column.startswith("effective"):
                        continue
                    slack = 1e-6 if name == b"logits" else 0.0  # exp of float32 there
                    near(f"{path}, {name}, {column}", table[column][place[name.decode()]], values[row], relative=slack)
                    compared += 1
    assert compared > 100, compared
    row = place["logits"]
    near("loss of the file", table["loss"][row], loss["loss"], absolute=0.0)
    with h5py.File("cka.h5") as other:
        cka = own["cka"]
        for a, b, value, biased in zip(cka["layer"][:], cka["layer_other"][:], cka["cka"][:], cka["cka_biased"][:], strict=True):
            near(f"cka of {a} and {b}", value, other["cka"][a, b], absolute=1e-5)
            near(f"biased cka of {a} and {b}", biased, other["cka_biased"][a, b], absolute=1e-5)
trace(MODEL, "--statistics", "alone.h5")
with h5py.File("alone.h5") as one, h5py.File("statistics.h5") as other:
    names = [name for name in other["layer"]["tensor"][:] if name != b"logits"]
    assert list(one["layer"]["tensor"][:]) == names
    near("without a dump", one["layer"]["load"][:], other["layer"]["load"][len(other["layer"]["tensor"]) - len(names) :])

# --- refusals -----------------------------------------------------------------------------------

assert "nothing is asked for" in trace(MODEL, code=64).stderr
print(f"loss {loss['loss']:.4f} +- {loss['loss_se']:.4f} (held out {held_out:.4f}); edit: {against['difference']:+.4f} +- "
      f"{against['difference_se']:.4f}, KL {against['kl']:.4f}, same {against['same_first_choice']:.3f}; {compared} columns")
