#!/usr/bin/env python3
"""Samples of experts end to end: sample_runs.py PROGRAM PAGE FOLDER [SPEC].

What is drawn, what raising N measures, what a run by workers or a stopped one says of the whole, beside numpy; and over HTTP, how many
bytes move. PAGE (docs/measuring/sampling.md) has an example that is run as it stands there.
With SPEC, a layer of `vindex synth` in bf16, only its figures are printed: bytes and seconds of the sample and of the whole, over HTTP."""

import functools
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

import h5py
import numpy as np

from same_results_files import hdf5_differences
from servers import RangeServer
from test_script import call, fresh_folder

PROGRAM, PAGE, FOLDER = map(os.path.abspath, sys.argv[1:4])
SPEC = sys.argv[4] if len(sys.argv) > 4 else "layer:384x160x96:bf16:trained"
METRICS = ("var_at_64", "stable_rank", "effective_rank", "sigma_ratio_1_2")
QUIET = ("--backend", "cpu", "--progress", "none")
fresh_folder(FOLDER)


def at(name):
    return os.path.join(FOLDER, name)


def check(condition, what):
    if not condition:
        sys.exit(f"wrong: {what}")


def measure(model, out, *flags, code=0):
    return call(PROGRAM, "measure", model, "-o", at(out), *QUIET, *flags, code=code)


# ---- the draw, written down once more from docs/measuring/sampling.md

def philox(counter, key):
    words, low, high = list(counter), key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        one, two = 0xD2511F53 * words[0], 0xCD9E8D57 * words[2]
        words = [(two >> 32) ^ words[1] ^ low, two & 0xFFFFFFFF, (one >> 32) ^ words[3] ^ high, one & 0xFFFFFFFF]
        low, high = (low + 0x9E3779B9) & 0xFFFFFFFF, (high + 0xBB67AE85) & 0xFFFFFFFF
    return words


@functools.cache
def drawn_order(seed, layer, block, role, count):
    stream = int.from_bytes(hashlib.sha256(f"{layer} {block} {role}".encode()).digest()[:8], "little")
    order, block_number = list(range(count)), 0
    for i in range(count - 1):
        bound = count - i
        while True:
            words = philox((block_number & 0xFFFFFFFF, block_number >> 32, stream & 0xFFFFFFFF, stream >> 32), seed)
            block_number += 1
            product = (words[0] | words[1] << 32) * bound
            if product % 2**64 >= (2**64 - bound) % bound:
                break
        j = i + (product >> 64)
        order[i], order[j] = order[j], order[i]
    return order


# ---- what files hold

class Rows:
    """The columns of /matrix/ and of /layer/."""

    def __init__(self, path):
        with h5py.File(path) as file:
            self.attributes = dict(file.attrs)
            text = h5py.check_string_dtype
            self.matrix = {name: data.asstr()[:] if text(data.dtype) else data[:] for name, data in file["matrix"].items()}
            self.layer = {name: data.asstr()[:] if text(data.dtype) else data[:] for name, data in file["layer"].items()}
            self.k64 = list(self.matrix["k"]).index(64)

    def values(self, metric):
        return self.matrix["var_at_k"][:, self.k64] if metric == "var_at_64" else self.matrix[metric]


def expect_same(one, other, what):
    """Everything that may not depend on how a file came about."""
    found = [line for line in hdf5_differences(at(one), at(other)) if not line.startswith(("/run/", "@history"))]
    check(not found, f"{what}: {found[:5]}")


def expect_layers(out, seed):
    """/layer/ beside numpy: which rows are its sample, their mean and its error."""
    rows = Rows(at(out))
    columns = rows.matrix
    for g, total in enumerate(rows.layer["n_total"]):
        key = tuple(rows.layer[name][g] for name in ("layer", "block", "role"))
        members = np.flatnonzero((columns["layer"] == key[0]) & (columns["block"] == key[1]) & (columns["role"] == key[2]))
        order = drawn_order(seed, *key, int(total))
        for i in members:  # experts are numbered from 0 in these models, so that their places in the group are their numbers
            check(columns["draw_of"][i] == total and order[columns["draw"][i]] == max(columns["expert"][i], 0), f"{out}: {key}")
        tried = {columns["draw"][i] for i in members if columns["status"][i] != 5}
        first = next(place for place in range(total + 1) if place not in tried)
        sample = [i for i in members if columns["draw"][i] < first and columns["status"][i] == 0]
        check(rows.layer["n_measured"][g] == len(sample), f"{out}: {key} {rows.layer['n_measured'][g]} {len(sample)}")
        check(rows.layer["count"][g] == sum(columns["status"][i] == 0 for i in members), f"{out}: count {key}")
        for metric in METRICS:
            values = rows.values(metric)[sample]
            n = len(values)
            got = [rows.layer[f"{metric}_{name}"][g] for name in ("mean", "mean_se", "median", "q25")]
            if n == 0:
                check(np.isnan(got).all(), f"{out}: {key} {metric} {got} of nothing")
                continue
            error = 0.0 if first == total else values.std(ddof=1) / np.sqrt(n) * np.sqrt(1 - n / total) if n > 1 else np.nan
            wanted = [values.mean(), error, np.median(values), np.quantile(values, 0.25)]
            check(np.allclose(got, wanted, rtol=1e-12, atol=1e-15, equal_nan=True), f"{out}: {key} {metric} {got} {wanted}")
            if first == total:
                ends = [rows.layer[f"{metric}_{name}"][g] for name in ("mean_low", "mean_high", "median_se", "q25_se", "q75_se")]
                check(ends == [got[0], got[0], 0.0, 0.0, 0.0], f"{out}: {key} {metric} whole, and {ends}")
            elif n > 1:
                low, high = (rows.layer[f"{metric}_mean_{end}"][g] for end in ("low", "high"))
                is_open = metric == "sigma_ratio_1_2"  # one expert's may be as large as it likes
                check(low <= got[0] and np.isnan(high) == is_open and not high < got[0], f"{out}: {metric} {low} {high}")
                check((f"mean of {metric}" in rows.layer["interval_reason"][g]) == is_open, rows.layer["interval_reason"][g])
    return rows


# ---- cases

call(PROGRAM, "synth", "layer:12x96x80:bf16:trained", "-o", at("layer"))
call(PROGRAM, "synth", "layer:12x128x96:int4", "-o", at("packed"))


def raising_n_measures_what_is_missing():
    measure(at("layer"), "raised.h5", "--sample", "2:7")
    first = expect_layers("raised.h5", 7)
    check(first.attributes["sample"] == "2:7" and first.attributes["status"] == "complete", first.attributes)
    groups = len(first.layer["role"])
    before = len(first.matrix["matrix"])
    again = measure(at("layer"), "raised.h5", "--sample", "2:7")
    check(f"{before} of {before} matrices" in again.stdout and f"{before} of them from an earlier run" in again.stdout, again.stdout)
    routed = int((first.layer["block"] == "routed_expert").sum())
    check(before == groups + routed, f"{before} rows of {groups} groups")
    more = measure(at("layer"), "raised.h5", "--sample", "4:7")
    check(f"{before + 2 * routed} of {before + 2 * routed} matrices" in more.stdout and
          f"{before} of them from an earlier run" in more.stdout, more.stdout)
    measure(at("layer"), "fresh.h5", "--sample", "4:7")
    expect_layers("fresh.h5", 7)
    expect_same("raised.h5", "fresh.h5", "2 raised to 4, and 4")
    text = call(PROGRAM, "show", at("fresh.h5")).stdout
    check("4 of 12" in text and "+-" in text and "a sample: " in text, text)
    check(max(map(len, text.splitlines()[1:])) <= 80, text)  # the first has the path
    for flags in (("--sample", "4:8"), ("--sample", "4"), ("--order", "sampled")):
        done = measure(at("layer"), "fresh.h5", *flags, code=78)
        check("E-RESUME-FINGERPRINT" in done.stderr and "sample seed was '7'" in done.stderr, done.stderr)
        check(len(done.stderr.splitlines()) == 1, done.stderr)
    # A sample becomes the whole, by whatever order: nothing is an estimate any more.
    measure(at("layer"), "fresh.h5")
    whole = expect_layers_of_whole("fresh.h5")
    check((whole.layer["n_measured"] == whole.layer["n_total"]).all(), "the whole is a sample")
    for out in ("raised.h5", "fresh.h5"):
        call(PROGRAM, "validate", at(out))


def expect_layers_of_whole(out):
    """Rows without a draw are in the file too."""
    rows = Rows(at(out))
    for metric in METRICS:
        for name in ("mean_se", "median_se", "q25_se", "q75_se"):
            check((rows.layer[f"{metric}_{name}"] == 0.0).all(), f"{out}: {metric}_{name}")
    return rows


def orders_agree():
    for order in ("stored", "sampled"):
        measure(at("packed"), f"one_{order}.h5", "--sample", "5:3", "--order", order)
        expect_layers(f"one_{order}.h5", 3)
    expect_same("one_stored.h5", "one_sampled.h5", "orders")


def unfinished_runs_say_what_they_know():
    """One of three workers is what a run has after a third of its way, in both orders of writing."""
    measure(at("layer"), "third.h5", "--order", "sampled", "--worker", "0/3")
    status = json.loads(call(PROGRAM, "status", at("third.h5"), "--json").stdout)
    check(status["n_total"] == status["matrices_total"] and status["left"] > 0, status)
    shown = json.loads(call(PROGRAM, "show", at("third.h5"), "--json").stdout)  # of parts alone
    call(PROGRAM, "merge", "--partial", at("third.h5.parts"), "-o", at("third.h5"))
    rows = expect_layers("third.h5", 0)
    check(rows.attributes["status"] == "partial", rows.attributes["status"])
    partial = [group for group in shown["groups"] if group["n_measured"] < group["n_total"]]
    check(partial and [g["n_measured"] for g in shown["groups"]] == list(rows.layer["n_measured"]), shown["groups"])
    check(any(g["n_measured"] < g["count"] for g in partial), "no row lies behind a gap")
    call(PROGRAM, "validate", at("third.h5"))
    # Without a draw nothing is said to be an estimate.
    measure(at("layer"), "stored.h5", "--worker", "0/3")
    call(PROGRAM, "merge", "--partial", at("stored.h5.parts"), "-o", at("stored.h5"))
    stored = Rows(at("stored.h5"))
    check("n_measured" not in stored.layer and "sample" not in stored.attributes and "draw" not in stored.matrix, "a draw")
    # Rows of another selection are in no estimate: the first experts stand there before the draw.
    measure(at("layer"), "later.h5", "--tensors", r".*experts\.[0-3]\..*")
    measure(at("layer"), "later.h5", "--sample", "3:1")
    later = Rows(at("later.h5"))
    routed = later.layer["block"] == "routed_expert"
    check((later.layer["n_measured"][routed] == 3).all() and (later.layer["count"][routed] > 3).any(), "the count")


def exports_do_not_pass_for_the_whole():
    measure(at("layer"), "vectors.h5", "--sample", "3", "--vectors", "2")
    done = call(PROGRAM, "export", at("vectors.h5"), "--format", "gate-vectors", "-o", at("gates"), code=64)
    check("E-EXPORT-SAMPLE" in done.stderr and "3 of 12 experts" in done.stderr and not os.path.exists(at("gates")), done.stderr)
    for form in ("csv", "json", "weightwatcher", "phase-json"):
        done = call(PROGRAM, "export", at("vectors.h5"), "--format", form, "-o", at(f"sample_{form}"))
        check("is a sample, " in done.stderr, f"{form}: {done.stderr}")
    with open(at("sample_phase-json/phase1_moe_svd.json"), encoding="utf-8") as file:
        phase = json.load(file)
    layer = next(iter(phase["layers"].values()))
    check(phase["sample"]["seed"] == "0" and (layer["n_measured"], layer["n_total"]) == (3, 12), layer)
    check(layer["median_var64_se"] is not None, layer)
    with open(at("sample_phase-json/phase1_moe_svd_agg.json"), encoding="utf-8") as file:
        check(json.load(file)["C4"]["greatest_layer_median_se"] > 0, "C4 has no error")
    with open(at("sample_phase-json/moe_config.json"), encoding="utf-8") as file:
        config = next(iter(json.load(file)["layers"].values()))
    check(config["routed_sample"]["down_proj"] == {"n_measured": 3, "n_total": 12}, config)


class CountingServer(RangeServer):
    """Counts bytes and requests. After `most` requests it holds its answers until `release`."""

    def __init__(self, folder):
        super().__init__(folder)
        self.fault, self.bytes, self.requests, self.most = self.count, 0, 0, None
        self.held, self.release = threading.Event(), threading.Event()

    def count(self, handler, name, _):
        path = os.path.join(self.folder, name)
        if not os.path.isfile(path):
            return
        size = os.path.getsize(path)
        first, last = handler.range(size) or (0, size - 1)
        with self.lock:
            self.bytes += last - first + 1
            self.requests += 1
            hold = self.most is not None and self.requests > self.most
        if hold:
            self.held.set()
            self.release.wait(100)


def shard_of(folder):
    return next(name for name in os.listdir(folder) if name.endswith(".safetensors"))


def bytes_over_http():
    """384 experts of which 16 of each role travel: the bytes are those of the plan, and the intervals hold the whole run's figures."""
    call(PROGRAM, "synth", SPEC, "-o", at("wide"))
    server = CountingServer(at("wide"))
    address = f"{server.url}/{shard_of(at('wide'))}"
    plan = json.loads(call(PROGRAM, "plan", address, "--sample", "16", "--json", "--backend", "cpu").stdout)
    opening = server.bytes
    begin = time.monotonic()
    measure(address, "wide.h5", "--sample", "16")
    seconds, moved = time.monotonic() - begin, server.bytes - 2 * opening
    rows = expect_layers("wide.h5", 0)
    weights = int((rows.matrix["rows"] * rows.matrix["cols"]).sum()) * 2
    check(plan["read_bytes"] == weights and plan["matrices"] == len(rows.matrix["matrix"]) < plan["n_total"], plan)
    # What lies in the first request of a file is not asked for again; a check whether the file is the same takes a byte; neighbours
    # with less than 64 KiB between them share a request, and of these small ones a drawn one is sometimes next but one.
    check(weights - 131072 <= moved <= 1.25 * weights, f"{moved} bytes moved, {weights} planned")
    before, begin = server.bytes, time.monotonic()
    measure(address if len(sys.argv) > 4 else at("wide"), "all.h5")  # a thousand requests are no test of it
    whole, held, stated = Rows(at("all.h5")), 0, 0
    print(f"16 of 384 experts of {SPEC}: {moved:,} bytes of weights in {seconds:.1f} s; all: {server.bytes - before:,} in "
          f"{time.monotonic() - begin:.1f} s")
    for g, role in enumerate(rows.layer["role"]):
        own = (whole.matrix["role"] == role) & (whole.matrix["block"] == rows.layer["block"][g])
        for metric in METRICS:
            for name, value in (("mean", np.mean), ("median", np.median)):
                low, high = (rows.layer[f"{metric}_{name}_{end}"][g] for end in ("low", "high"))
                stated += not (np.isnan(low) or np.isnan(high))
                truth = value(whole.values(metric)[own])
                held += low <= truth <= high
                print(f"  {role} {metric} {name}: {rows.layer[f'{metric}_{name}'][g]:.5g} in {low:.5g} to {high:.5g}, all: {truth:.5g}")
    check(held >= 0.85 * stated, f"{held} of {stated} intervals hold")
    print(f"{held} of {stated} intervals hold the figure of the whole")
    return server


def a_stopped_run_is_a_sample(server):
    server.most = server.requests + 200
    out = at("stopped.h5")
    with subprocess.Popen([PROGRAM, "measure", f"{server.url}/{shard_of(at('wide'))}", "-o", out, "--order", "sampled", *QUIET],
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as run:
        check(server.held.wait(100), "the server was not asked often enough")
        run.send_signal(signal.SIGTERM)
        server.release.set()
        _, said = run.communicate(timeout=60)
    check(run.returncode == 75, said)
    rows = expect_layers("stopped.h5", 0)
    routed = rows.layer["block"] == "routed_expert"
    n = rows.layer["n_measured"][routed]
    check(rows.attributes["status"] == "partial" and n.min() > 8 and n.max() < 384 and n.max() - n.min() < 32, n)
    text = call(PROGRAM, "show", out).stdout
    check(f"{n[0]} of 384" in text, text)
    status = call(PROGRAM, "status", out).stdout
    check("drawn in random order" in status, status)


def the_example_of_the_page():
    with open(PAGE, encoding="utf-8") as file:
        blocks = re.findall(r"```(\w*)\n(.*?)```", file.read(), re.DOTALL)
    said, commands = [], 0
    fresh_folder(at("page"))
    for kind, text in blocks:
        if kind == "sh" and text.startswith("vindex") and "--order" not in text and "hf://" not in text:
            for line in text.splitlines():
                said += [row.split() for row in call(PROGRAM, *line.split("#")[0].split()[1:], cwd=at("page")).stdout.splitlines()]
                commands += 1
        elif kind == "":
            for row in text.splitlines():
                check(row.split() in said, f"{PAGE}: not printed: {row}\n" + "\n".join(map(" ".join, said)))
    check(commands >= 3 and said, "the page has no example")


if len(sys.argv) > 4:
    bytes_over_http()
    sys.exit(0)
raising_n_measures_what_is_missing()
orders_agree()
unfinished_runs_say_what_they_know()
exports_do_not_pass_for_the_whole()
a_stopped_run_is_a_sample(bytes_over_http())
the_example_of_the_page()
print("all cases as they should be")
