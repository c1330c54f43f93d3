#!/usr/bin/env python3
"""vindex and its peers on the same matrices, in the form vindex-bench/1: milliseconds per matrix, and errors against float64
LAPACK as rows `probe.error.*` (unit share), for every spectrum asked for: weights as training leaves them, then noise.

    python3 bench/peers/peers.py --program build/cpu/apps/vindex -o bench/results/MACHINE/peers.json
    python3 bench/peers/peers.py --program build/cpu/apps/vindex --rows 4096 --cols 4096 --modes default --no-errors \\
        --peers scipy.svdvals,torch.svdvals
    python3 bench/peers/peers.py --program bundle/bin/vindex --device cuda --batch 16,64 -o peers-cuda.json

The peers and how they say which kernels of BLAS they took are packages of Python; a folder of their own keeps them apart:

    python3 -m venv peers && peers/bin/pip install -r bench/peers/requirements.txt && peers/bin/python bench/peers/peers.py ...

Kernels and threads are chosen by nobody's environment: OPENBLAS_* and the like are removed from ours and from the peers'.
`vindex synth` writes one layer per spectrum, `vindex decode` the float32 weights that the peers get for free. On a CPU a
round goes through every spectrum, ours and every peer's call on it one after the other, so that a busy machine slows all
alike. A peer that is not installed, fails or takes longer than its time is a row with a note; the others go on. The table
goes to standard error.
"""
import argparse
import datetime
import json
import os
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from peer_processes import Children, machine, run  # noqa: E402

# name, row it is a peer of, batches: "one" or "many"
CPU_PEERS = (("scipy.svdvals", "spectra.default", "one"), ("scipy.gram+eigvalsh", "spectra.default", "one"),
             ("numpy.svd", "spectra.default", "one"), ("numpy.gram+eigvalsh", "spectra.default", "one"),
             ("torch.svdvals", "spectra.default", "one"), ("torch.gram32+eigvalsh", "spectra.default", "one"),
             ("torch.svd_lowrank", "spectra.fast", "one"), ("weightwatcher-like", "end_to_end", "one"))
# Strongest first, as far as is known: the time limit may cut the rest. Stronger than all of them are cuSOLVER's batched solvers
# by themselves, groups of gpu_probe (values, svd).
CUDA_PEERS = (("torch.svdvals.gesvd", "spectra.default", "one"), ("torch.svdvals.gesvda", "spectra.default", "one"),
              ("torch.svdvals.gesvdj", "spectra.default", "one"), ("torch.gram32+eigvalsh", "spectra.default", "many"),
              ("jax.gram32+eigvalsh", "spectra.default", "many"), ("torch.gram64+eigvalsh", "spectra.strict", "many"),
              ("torch.svd_lowrank", "spectra.fast", "one"), ("weightwatcher-like", "end_to_end", "one"),
              ("torch.svdvals", "spectra.default", "one"), ("jax.svd", "spectra.default", "one"),
              ("cupy.gram32+eigvalsh", "spectra.default", "many"), ("cupy.gram64+eigvalsh", "spectra.strict", "many"),
              ("cupy.svd", "spectra.default", "one"))
DOWN = "model.layers.1.mlp.experts.0.down_proj.weight"


def synth_kind(spectrum):
    """`bench` calls noise what it is of a spectrum, `synth` what it is of weights."""
    return "gaussian" if spectrum == "noise" else spectrum


class Bench:
    """Inputs, our program and the peers of one shape."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.deadline = time.monotonic() + options.time_limit
        self.models, self.report, self.failed, self.kernels = {}, None, False, {}
        self.our_rows, self.peer_rows, self.time_rows, self.error_rows = [], [], [], []
        self.encoding = {"fp8": "F8_E4M3/128x128", "bf16": "BF16", "int4": "INT4/g32"}[options.encoding]

    def write_inputs(self):
        shape = f"{self.options.rows}x{self.options.cols}:{self.options.encoding}"
        os.mkdir(os.path.join(self.folder, "weights"))
        for spectrum in self.options.spectra:
            model = self.models[spectrum] = os.path.join(self.folder, spectrum)
            run([self.options.program, "synth", f"layer:1x{shape}:{synth_kind(spectrum)}", "-o", model])
            run([self.options.program, "decode", model, "--tensor", DOWN, "-o",
                 os.path.join(self.folder, "weights", spectrum + ".f32")])
        # Most notebooks meet unquantised weights.
        self.models["bf16"] = os.path.join(self.folder, "bf16")
        run([self.options.program, "synth", f"layer:{self.options.files}x{self.options.rows}x{self.options.cols}:bf16",
             "-o", self.models["bf16"]])

    def peer_row(self, name, peer, spectrum, batch, unit="ms_per_matrix"):
        return {"name": name, "route": peer.split(".")[-1], "backend": self.options.device, "rows": self.options.rows,
                "cols": self.options.cols, "batch": batch, "encoding": self.encoding, "spectrum": spectrum, "unit": unit,
                "samples": [], "limit": None, "peer": peer}

    def ours(self, spectra, samples):
        """Rows of these spectra; a whole run where there is none."""
        command = [self.options.program, "bench", "--json", "-q", "--backend", self.options.device, "--samples",
                   str(samples), "--folder", self.folder]
        shape = ["--shapes", f"{self.options.rows}x{self.options.cols}", "--encodings", self.encoding]
        if self.options.device == "cpu":
            command += ["--threads", str(self.options.threads)]
        else:
            shape += ["--batch", ",".join(map(str, self.options.batches))]
        if spectra:
            return json.loads(run(command + ["--sections", "spectra", "--modes", ",".join(self.options.modes), "--spectra",
                                             ",".join(spectra)] + shape))
        report = json.loads(run(command + ["--sections", "end-to-end", "--model", self.models["bf16"]]))
        return {**report, "rows": [row for row in report["rows"] if row["name"] == "end_to_end"]}

    def add_ours(self, spectra, samples):
        if self.failed:
            return
        if self.options.no_ours:
            self.report = self.report or machine(self.options.program)
            return
        try:
            report = self.ours(spectra, samples)
        except RuntimeError as error:
            print(f"vindex is not measured: {error}", file=sys.stderr)
            self.failed = True
            self.report = self.report or machine(self.options.program)
            return
        self.report = self.report or report
        for more in report["rows"]:
            # Routes are in, so that a matrix that was measured otherwise this time does not pass as the same.
            same = next((row for row in self.our_rows if all(row.get(key) == more.get(key) for key in
                         ("name", "route", "spectrum", "batch", "encoding", "note"))), None)
            if same is None:
                self.our_rows.append(more)
            else:
                same["samples"] += more["samples"]

    def our_errors(self):
        """Of every mode, where our program measures here and time is left."""
        if self.failed or self.options.no_ours or time.monotonic() > self.deadline:
            return
        try:
            import h5py
            import numpy
        except ImportError as error:
            print(f"no errors of ours: {error}", file=sys.stderr)
            return
        from peer_calls import errors_of, reference_values
        for spectrum in self.options.spectra:
            weights = numpy.fromfile(os.path.join(self.folder, "weights", spectrum + ".f32"), dtype="<f4")
            exact = reference_values(os.path.join(self.folder, "weights"), spectrum + ".f32",
                                     weights.reshape(self.options.rows, self.options.cols))
            for mode in self.options.modes:
                out = os.path.join(self.folder, f"{spectrum}-{mode}.h5")
                run([self.options.program, "measure", self.models[spectrum], "-o", out, "--mode", mode, "--backend",
                     self.options.device, "--roles", "down_proj", "--progress", "none"])
                with h5py.File(out) as file:
                    values = next(iter(file["spectra"].values()))["sigma"][0]  # one matrix, one length
                self.add_errors("spectra." + mode, None, spectrum,
                                errors_of(values.astype(float), exact, float((exact**2).sum())))

    def add_errors(self, name, peer, spectrum, found):
        for error, value in found.items():
            self.error_rows.append({**self.peer_row("probe.error." + error, peer or name, spectrum, 1, "share"),
                                    "route": name, "peer": peer, "samples": [value], "note": "against float64 LAPACK"})

    def time_peers(self, children, peers):
        """Rounds over all peers and ours, so that a busy machine slows all alike; the first is a warm-up."""
        interleaved = self.options.device == "cpu"
        cases = [(spectrum, peer) for spectrum in self.options.spectra for peer in peers] if interleaved else \
            [(spectrum, peer) for peer in peers for spectrum in self.options.spectra]
        wanted = [(self.peer_row(name, peer, spectrum, batch), batch) for spectrum, (peer, name, kind) in cases
                  if name != "end_to_end" for batch in (self.options.batches if kind == "many" else [1])]
        whole_runs = [peer for peer, name, _ in peers if name == "end_to_end"]
        for peer in whole_runs:
            row = self.peer_row("end_to_end", peer, "noise", 1)
            wanted.append(({**row, "batch": self.options.files, "encoding": "BF16"}, 1))
        ours = [[spectrum] for spectrum in self.options.spectra] + ([[]] if whole_runs else [])
        self.peer_rows = [row for row, _ in wanted]
        self.time_rows = [{**row, "name": "probe.cpu_time", "samples": [],
                           "note": "processor time of all threads, " + row["name"]} for row in self.peer_rows]
        if not interleaved:
            for spectra in ours:
                self.add_ours(spectra, self.options.samples)
        spent = [0.0] * len(wanted)
        rounds = range(self.options.samples + 1)
        # On a GPU each peer's rounds follow each other, and its process ends before the next one's begins: its inputs are
        # gigabytes.
        order = [(r, i) for r in rounds for i in range(len(wanted))] if interleaved else \
            [(r, i) for i in range(len(wanted)) for r in rounds]
        before = peer_before = None
        for round_number, index in order:
            row, batch = wanted[index]
            group = (round_number, row["name"] == "end_to_end" or row["spectrum"])
            if interleaved and round_number > 0 and group != before:
                self.add_ours([] if row["name"] == "end_to_end" else [row["spectrum"]], 1)
            before = group
            if not interleaved and row["peer"] != peer_before:
                self.peer_errors(children, [one for one in peers if one[0] == peer_before])
                children.stop_others(row["peer"])
                peer_before = row["peer"]
            if "note" in row or spent[index] > self.options.peer_seconds:
                continue
            if time.monotonic() > self.deadline:
                if not row["samples"]:
                    row["note"] = "not run: the time limit was reached"
                continue
            start = time.monotonic()
            answer = children.ask(peer=row["peer"], spectrum=row["spectrum"] if row["name"] != "end_to_end" else
                               self.options.spectra[0], batch=batch, what="time")
            spent[index] += time.monotonic() - start
            if "failure" in answer:
                row["note"] = answer["failure"]
                print(f"{row['peer']}: {answer['failure']}", file=sys.stderr)
            elif round_number > 0 or spent[index] > self.options.peer_seconds:
                self.kernels[row["peer"]] = answer.get("kernels")
                row["samples"].append(answer["ms"] / row["batch"])
                self.time_rows[index]["samples"].append(answer["cpu_ms"] / row["batch"])
            if not interleaved:
                self.write(False)  # a run that is ended from outside keeps what it has
        self.write(False)
        self.peer_errors(children, peers if interleaved else [one for one in peers if one[0] == peer_before])

    def peer_errors(self, children, peers):
        for peer, name, _ in peers:
            if name == "end_to_end" or self.options.no_errors:
                continue
            for spectrum in self.options.spectra:
                rows = [row for row in self.peer_rows if (row["peer"], row["spectrum"]) == (peer, spectrum)]
                if "note" in rows[0] or time.monotonic() > self.deadline:
                    continue
                answer = children.ask(peer=peer, spectrum=spectrum, batch=1, what="errors")
                if "failure" in answer:
                    print(f"{peer}: no errors: {answer['failure']}", file=sys.stderr)
                else:
                    self.add_errors(name, peer, spectrum, answer["errors"])

    def rows(self):
        """Everything so far; a peer that was not reached says so."""
        def explained(row):
            kernels = self.kernels.get(row["peer"])
            if row["samples"]:
                return {**row, "note": f"{kernels}; threads: {self.options.threads}"} if kernels else row
            return row if "note" in row else {**row, "note": "not run"}

        times = [row for row in self.time_rows if row["samples"] and self.options.device == "cpu"]
        return self.our_rows + [explained(row) for row in self.peer_rows] + times + self.error_rows

    def write(self, is_whole):
        """The document so far; to standard output only the whole one."""
        document = {**self.report, "command": " ".join(["bench/peers/peers.py"] + sys.argv[1:]), "rows": self.rows(),
                    "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")}
        text = json.dumps(document, indent=1) + "\n"
        if self.options.output:
            with open(self.options.output, "w", encoding="utf-8") as file:
                file.write(text)
        elif is_whole:
            sys.stdout.write(text)


def table(rows):
    """Median and best of every timing, how often ours fits into it, and the errors of the same peer."""
    def middle(samples):
        ordered = sorted(samples)
        return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2

    def kind(row):
        return row.get("spectrum") or "-"

    errors = {(row["peer"], row["route"], kind(row), row["name"][12:]): max(row["samples"])
              for row in rows if row["name"].startswith("probe.error.")}
    times = {(row["peer"], row["note"].split()[-1], kind(row)): middle(row["samples"])
             for row in rows if row["name"] == "probe.cpu_time"}
    ours = {}
    for row in rows:
        if row["peer"] is None and row["samples"] and row["unit"] == "ms_per_matrix":
            key = "end_to_end" if row["name"] == "end_to_end" else (row["name"], kind(row))
            ours[key] = min(ours.get(key, float("inf")), middle(row["samples"]))
    lines = [f"{'row':<16} {'spectrum':<9} {'who':<24} {'batch':>5} {'median ms':>10} {'best ms':>10} {'/ ours':>7} "
             f"{'CPU ms':>9} {'var@64':>8} {'relative':>9} {'of s_1':>8}"]
    for row in rows:
        if not row["name"].startswith(("spectra.", "end_to_end")):
            continue
        head = f"{row['name']:<16} {kind(row):<9} {row['peer'] or 'vindex':<24} {row['batch']:>5} "
        if not row["samples"]:
            lines.append(head + row.get("note", ""))
            continue
        value = middle(row["samples"])
        base = ours.get("end_to_end" if row["name"] == "end_to_end" else (row["name"], kind(row)))
        ratio = f"{value / base:7.1f}" if base else "      -"
        texts = [f"{errors[key]:.1e}" if key in errors else "-" for key in
                 [(row["peer"], row["name"], kind(row), error) for error in
                  ("var_64", "sigma_max_relative", "sigma_max_absolute")]]
        spent = times.get((row["peer"], row["name"], kind(row)))
        lines.append(head + f"{value:10.3f} {min(row['samples']):10.3f} {ratio} "
                     f"{f'{spent:9.1f}' if spent else '        -'} {texts[0]:>8} {texts[1]:>9} {texts[2]:>8}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="vindex")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--rows", type=int, default=7168)
    parser.add_argument("--cols", type=int, default=2048)
    parser.add_argument("--encoding", choices=("fp8", "bf16", "int4"), default="bf16",
                        help="bf16 keeps a condition of 5000 in a tall matrix, the others do not")
    parser.add_argument("--spectra", type=lambda text: text.split(","), default=["trained", "noise"],
                        help="trained, noise, powerlaw, spiked, rowscale; timed and compared in this order")
    parser.add_argument("--modes", type=lambda text: text.split(","), default=["default", "strict", "fast"], help="of ours")
    parser.add_argument("--batch", dest="batches", type=lambda text: [int(word) for word in text.split(",")],
                        default=[16, 64], help="matrices per call of the batched peers on a GPU, and of ours there")
    parser.add_argument("--files", type=int, default=4, help="matrices of the model measured end to end")
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of the peers on the host, and our workers there")
    parser.add_argument("--peer-seconds", type=float, default=30.0, help="no further sample of a peer after this")
    parser.add_argument("--answer-seconds", type=float, default=120.0, help="a call longer than this is given up")
    parser.add_argument("--time-limit", type=float, default=3600.0, help="no further call after this")
    parser.add_argument("--peers", type=lambda text: text.split(","), help="only these")
    parser.add_argument("--no-errors", action="store_true", help="times only")
    parser.add_argument("--no-ours", action="store_true", help="the peers only")
    parser.add_argument("-o", "--output", help="standard output without it")
    options = parser.parse_args()
    options.program = os.path.abspath(options.program)
    if options.device == "cpu":
        options.batches = [1]
    peers = [peer for peer in (CPU_PEERS if options.device == "cpu" else CUDA_PEERS)
             if options.peers is None or peer[0] in options.peers]

    with tempfile.TemporaryDirectory(prefix="vindex-peers-") as folder:
        bench = Bench(options, folder)
        bench.write_inputs()
        bf16 = [os.path.join(bench.models["bf16"], name) for name in sorted(os.listdir(bench.models["bf16"]))
                if name.endswith(".safetensors")]
        command = [sys.executable, os.path.join(HERE, "peer_calls.py"), "--folder", os.path.join(folder, "weights"),
                   "--rows", str(options.rows), "--cols", str(options.cols), "--device", options.device,
                   "--threads", str(options.threads)] + [word for path in bf16 for word in ("--model-file", path)]
        children = Children(command, options.answer_seconds, options.device == "cuda")
        try:
            bench.time_peers(children, peers)
            if not options.no_errors:
                bench.our_errors()
        finally:
            children.stop()
        bench.write(True)
    print(table(bench.rows()), file=sys.stderr)
    return 1 if bench.failed or not any(row["peer"] and row["samples"] for row in bench.rows()) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RuntimeError as error:
        sys.exit(f"peers: {error}")
