#!/usr/bin/env python3
"""Times the spectra of every kind of weights, with a program before a change (OLD) and after it (NEW) in turn, one thread.

    python3 bench/speed/kinds_speed.py OLD NEW [--shapes 2048x1024,7168x2048] [--kinds noise,trained,...] [--rounds 2] > bench/results/MACHINE/NAME.json

The record holds wall clock and processor time per matrix in the mode `default`; a table with the ratio of each kind to noise of its shape goes to
standard error, from the least processor time (machines are shared). Standard library alone.
"""
import argparse
import datetime
import json
import os
import subprocess
import sys

KINDS = "noise,trained,powerlaw,spiked,rowscale,geometric,steep,cluster,dead"


def spectra_of(program, shape, kinds, encoding, samples):
    """Rows of one `vindex bench`, and its document without them."""
    words = [program, "-q", "bench", "--sections", "spectra", "--modes", "default", "--shapes", shape, "--spectra", ",".join(kinds),
             "--encodings", encoding, "--batch", "1", "--threads", "1", "--samples", str(samples), "--backend", "cpu", "--json"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPENBLAS_")}
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)} ends with {done.returncode}: {done.stderr}")
    document = json.loads(done.stdout)
    return document.pop("rows"), document


def add_samples(kept, rows, shape, which):
    """Samples of wall clock and of processor time, by shape, kind, program."""
    spectrum = None
    for row in rows:
        if row["name"] == "spectra.default":
            spectrum = row["spectrum"]
            one = kept.setdefault((shape, spectrum, which), {"row": row, "wall": [], "busy": []})
            one["wall"] += row["samples"]
        elif row["name"] == "probe.cpu_time" and spectrum:
            kept[shape, spectrum, which]["busy"] += row["samples"]


def table(kept, shape, kinds):
    for kind in kinds:
        texts = []
        for which in ("before", "after"):
            least, noise = min(kept[shape, kind, which]["busy"]), min(kept[shape, "noise", which]["busy"])
            texts.append(f"{which} {least:8.1f} ms, {least / noise:.2f} of noise, {kept[shape, kind, which]['row']['route']}")
        print(f"{shape} {kind:9} " + "; ".join(texts), file=sys.stderr)


def rows_of(kept):
    for (_, _, which), one in kept.items():
        for what, unit_note in (("wall", "wall clock"), ("busy", "processor time")):
            row = dict(one["row"])
            row.update(samples=one[what], note=f"{which}: {unit_note}")
            if what == "busy":
                row.update(name="probe.cpu_time", limit=None)
            yield row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--shapes", default="2048x1024,2048x2048,7168x2048")
    parser.add_argument("--kinds", default=KINDS)
    parser.add_argument("--encoding", default="BF16")
    parser.add_argument("--samples", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    kinds = arguments.kinds.split(",")
    if "noise" not in kinds:
        parser.error("--kinds needs noise: every kind is a ratio to it")
    kept, document = {}, {}
    for shape in arguments.shapes.split(","):
        for _ in range(arguments.rounds):
            for which, program in (("before", arguments.old), ("after", arguments.new)):
                rows, document = spectra_of(program, shape, kinds, arguments.encoding, arguments.samples)
                add_samples(kept, rows, shape, which)
        table(kept, shape, kinds)
    document.update(date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                    command="python3 bench/speed/kinds_speed.py OLD NEW " + " ".join(sys.argv[3:]) + f" (load {os.getloadavg()[0]:.1f})")
    document["rows"] = list(rows_of(kept))
    json.dump(document, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
