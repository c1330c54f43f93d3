#!/usr/bin/env python3
"""Lets one call after another of short runs go wrong, and looks at what each run leaves.

    walk.py --program VINDEX --library vindex_faults.so --work FOLDER [--sample | --stride N]
            [--scenario NAME ...] [--fault NAME ...] [--table]

A scenario is a short run from a prepared folder: measure, more (with an earlier output of fewer
matrices), worker (a part; the other one is there), claim (the shares of a process that claims them), merge, export, report, decode; remote (measure, of a server of
this script); trace (a folder of arrays), statistics (of `trace`); extract, assemble, graft, purify (of
`organ`; all but the first over an earlier file); edit-folder, edit-file, edit-patch, edit-lora. Run once, it tells how many calls there are that a
fault may hit; then it is run once for each of them (--sample: for a few, always the same ones), with
the fault at that call. After every run:
  - it ended with an exit code that the contract has for this fault, and said why where that is not 0;
  - the output is what it was before, or a valid file, or a whole folder; inputs are what they were;
  - the same command again (and what belongs behind it: the merge of a worker's parts) ends with 0,
    the output equals that of a run without faults, byte by byte or but for what /run/ tells, and no
    other file is left.
Runs that leave the same files are followed by one rerun: what it finds in temporary files, locks and
heartbeats is not looked at by it.

Only the standard library is used. Exit code 1 where something was found, 0 where not.
"""
import argparse
import collections
import concurrent.futures
import hashlib
import http.server
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time

OPENING = "open,openat,creat"
READING = "read,pread,readv"
WRITING = "write,pwrite,writev,copy_file_range"
CHANGING = (OPENING + "," + WRITING + ",fsync,fdatasync,ftruncate,fallocate,rename,renameat2,link,unlink,"
            "unlinkat,mkdir,rmdir,close")
LOOKING = "opendir,readdir,stat,lstat,fstat,fstatat,statx,statvfs"
NAMING = "rename,renameat,renameat2,link,linkat,unlink,unlinkat,remove,mkdir,rmdir"
WAITING = OPENING + "," + READING + "," + WRITING + ",fsync,fdatasync,ftruncate,fallocate,close,fcntl,flock"
NETWORK = "socket,connect,send,recv,poll"
KILLED, CRASHED = -9, -11
# A run that is still there then is ended, and found fault with, as coreutils' timeout says it.
HUNG, PATIENCE_SECONDS = 124, 60

Fault = collections.namedtuple("Fault", "name calls do times exits step environment")


def fault(name, calls, do, exits, times="1", step=1, **environment):
    return Fault(name, calls, do, times, set(exits), step, environment)


FAULTS = [
    fault("EIO", ",".join([CHANGING, READING, LOOKING, "truncate,utimensat,futimens,fcntl,flock"]), "EIO", [0, 74]),
    fault("EIO from there on", CHANGING, "EIO", [0, 74], times="all"),
    fault("EIO of reads from there on", READING, "EIO", [0, 74], times="all", step=7),
    fault("ENOSPC", CHANGING, "ENOSPC", [0, 74]),
    fault("ENOSPC from there on", WRITING + ",fsync,ftruncate,fallocate", "ENOSPC", [0, 74], times="all"),
    fault("EDQUOT", CHANGING, "EDQUOT", [0, 74], step=5),
    fault("EACCES", ",".join([OPENING, LOOKING, NAMING]), "EACCES", [0, 77]),
    fault("EAGAIN", READING + "," + WRITING, "EAGAIN", [0, 74], step=5),
    fault("lock held", "fcntl,flock", "EAGAIN", [0, 78]),
    fault("EINTR", WAITING, "EINTR", [0, 74]),
    fault("short", READING + "," + WRITING, "short", [0]),
    fault("connection reset", NETWORK, "ECONNRESET", [0, 69]),
    fault("connection reset from there on", NETWORK, "ECONNRESET", [0, 69], times="all", step=5),
    fault("short, of a connection", "send,recv", "short", [0]),
    fault("killed before", "*", "kill-before", [KILLED]),
    fault("killed after", CHANGING, "kill-after", [KILLED]),
    fault("no thread", "pthread_create", "EAGAIN", [0, 70]),
    fault("no thread from there on", "pthread_create", "EAGAIN", [0, 70], times="all"),
    # libhdf5 crashes at some allocations of its own, and leaves out a filter at others.
    fault("no memory", "malloc,mmap", "ENOMEM", [0, 70, CRASHED], VINDEX_FAULT_BYTES="65536"),
    fault("no memory from there on", "malloc,mmap", "ENOMEM", [0, 70, CRASHED], times="all", VINDEX_FAULT_BYTES="65536"),
    # At some it does not tell that it was memory: 65.
    fault("no memory, small pieces too", "malloc,mmap", "ENOMEM", [0, 65, 70, CRASHED], step=997),
]
SCENARIOS = ["measure", "more", "worker", "claim", "merge", "export", "report", "decode", "remote", "trace", "statistics", "extract", "assemble", "graft", "purify",
             "edit-folder", "edit-file", "edit-patch", "edit-lora"]
# A folder that is whole is not written again: the rerun says so.
FOLDERS = {"extract": 73, "trace": 73, "edit-folder": 73, "edit-lora": 73}


def gguf_bytes(value):
    """A model of one block whose weights differ: five tensors, F32."""
    def text(string):
        return struct.pack("<Q", len(string)) + string.encode()

    names = {"token_embd.weight": (32, 8), "blk.0.attn_norm.weight": (32,), "blk.0.ffn_gate.weight": (32, 32),
             "blk.0.ffn_down.weight": (32, 32), "output_norm.weight": (32,)}
    keys = [text("general.architecture") + struct.pack("<I", 8) + text("llama"),
            text("llama.block_count") + struct.pack("<II", 4, 1),
            text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 300) + b"".join(text(str(i)) for i in range(300))]
    table, data = b"", b""
    for name, sides in names.items():
        table += text(name) + struct.pack(f"<I{len(sides)}QIQ", len(sides), *sides, 0, len(data))
        count = sides[0] * (sides[1] if len(sides) > 1 else 1)
        data += struct.pack(f"<{count}f", *(value * ((7 * i * i + 3 * i) % 31 - 15) / 16 for i in range(count)))
    head = b"GGUF" + struct.pack("<IQQ", 3, len(names), len(keys)) + b"".join(keys) + table
    return head + bytes(-len(head) % 32) + data


class Failure(Exception):
    pass


class Server(http.server.BaseHTTPRequestHandler):
    """Files below `root`, and ranges of them."""
    protocol_version = "HTTP/1.1"
    root = ""

    def log_message(self, *arguments):
        pass

    def do_HEAD(self):
        self.answer(False)

    def do_GET(self):
        self.answer(True)

    def answer(self, has_body):
        path = os.path.join(self.root, os.path.basename(self.path))
        if not os.path.isfile(path):
            self.send_response(404)
            self.send_header("Content-Length", "0")
            return self.end_headers()
        with open(path, "rb") as file:
            body = file.read()
        asked = re.match(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if asked:
            first, last = int(asked[1]), min(int(asked[2] or len(body) - 1), len(body) - 1)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(body)}")
            body = body[first:last + 1]
        else:
            self.send_response(200)
        for name, value in (("Accept-Ranges", "bytes"), ("ETag", '"1"'), ("Content-Length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        if has_body:
            self.wfile.write(body)


def serve(folder):
    """The address of a server of `folder`, for as long as this process lives."""
    handler = type("Handler", (Server,), {"root": folder})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    server.handle_error = lambda *arguments: None  # a client that was killed
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}"


class Scenario:
    """One short run: the folder it starts from, its command, and what completes it; of one worker of the pool."""

    def __init__(self, name, options):
        self.name = name
        self.program = options.program
        self.library = options.library
        self.date = options.date
        self.root = os.path.join(options.work, f"{name}-{os.getpid()}")
        self.folder = os.path.join(self.root, "run")
        self.template = os.path.join(self.root, "template")
        self.model = os.path.join(self.root, "model")
        self.log = os.path.join(self.root, "calls")
        self.seen = set()
        self.counts = {}
        shutil.rmtree(self.root, ignore_errors=True)
        os.makedirs(self.folder)
        self.must(["synth", "layer:2x48x32:bf16", "-o", self.model])
        out = self.file("out.h5")
        measure = ["measure", self.model, "-o", out, "--threads", "1", "--ram-budget", "1GiB"]
        tensor = "model.layers.1.mlp.experts.{}.down_proj.weight"
        self.outputs = ["out.h5"]
        self.behind = []
        self.inputs = [self.model]
        if name == "measure":
            self.command = measure
        elif name == "more":
            self.must(measure + ["--tensors", tensor.format("0")])
            self.command = measure
        elif name == "worker":
            self.must(measure + ["--worker", "1/2"])
            self.command = measure + ["--worker", "0/2"]
            self.behind = [["merge", out + ".parts", "-o", out]]
        elif name == "claim":
            self.command = measure + ["--claim"]
            self.behind = [["merge", out + ".parts", "-o", out]]
        elif name == "merge":
            self.must(measure + ["--worker", "0/2"])
            self.must(measure + ["--worker", "1/2"])
            self.command = ["merge", out + ".parts", "-o", out]
        elif name == "export":
            self.must(measure)
            self.write("out.csv", "an earlier table\n")
            self.command = ["export", out, "--format", "csv", "--force", "-o", self.file("out.csv")]
            self.outputs = ["out.csv", "out.h5"]
        elif name == "report":
            self.must(measure)
            self.write("page.html", "an earlier page\n")
            self.command = ["report", out, "--force", "-o", self.file("page.html")]
            self.outputs = ["out.h5", "page.html"]
        elif name == "decode":
            self.write("out.f32", "earlier weights\n")
            self.command = ["decode", self.model, "--tensor", tensor.format("0"), "--force", "-o",
                            self.file("out.f32")]
            self.outputs = ["out.f32"]
        elif name == "remote":
            self.command = ["measure", serve(self.model) + "/model.safetensors"] + measure[2:]
        elif name in ("trace", "statistics"):
            self.prepare_trace(name)
        else:
            self.prepare_model_command(name)
        shutil.copytree(self.folder, self.template)
        self.earlier = self.contents()
        self.read = self.digest_of_inputs()
        for command in [self.command] + self.behind:
            self.must(command)
        self.reference = self.contents()
        self.values = self.table() if "out.h5" in self.outputs else None
        self.names = sorted(os.listdir(self.folder))
        if self.names != self.outputs:
            raise Failure(f"{name}: a run without faults leaves {self.names}")

    def prepare_trace(self, name):
        """Of a pass through a model of four layers."""
        shutil.rmtree(self.model)
        self.must(["synth", "kimi-k2-mini", "-o", self.model])
        prompts = os.path.join(self.root, "prompts.jsonl")
        with open(prompts, "w") as file:
            file.write('{"ids": [1, 5, 9, 2, 7]}\n{"ids": [3, 1, 4]}\n')
        self.command = ["trace", self.model, "--ids", prompts, "--threads", "1", "--ram-budget", "1GiB"]
        self.inputs = [self.model, prompts]
        if name == "trace":
            self.command += ["-o", self.file("out")]
            self.outputs = ["out"]
        else:
            self.command += ["--statistics", self.file("out.h5")]

    def prepare_model_command(self, name):
        """Of the commands that write models."""
        gguf, other, organs = (os.path.join(self.root, part) for part in ("a.gguf", "b.gguf", "organs"))
        for path, value in ((gguf, 1.0), (other, 2.0)):
            with open(path, "wb") as file:
                file.write(gguf_bytes(value))
        self.must(["organ", "extract", gguf, "-o", organs])
        folder, out = self.file("out"), self.file("out.gguf")
        edit = ["edit", "delete", self.model, "--tensor", "model.layers.1.mlp.experts.0.down_proj.weight",
                "--direction", "singular", "0", "--threads", "1", "--ram-budget", "1GiB"]
        self.outputs = ["out"] if name in FOLDERS else ["out.gguf"]
        if name == "extract":
            self.command = ["organ", "extract", gguf, "-o", folder, "--threads", "2"]
        elif name == "assemble":
            self.command = ["organ", "assemble", organs, "-o", out, "--force", "--threads", "2"]
        elif name == "graft":
            self.command = ["organ", "graft", "--source", other, "--target", organs, "--type", "organ", "-o", out,
                            "--force", "--threads", "2"]
        elif name == "purify":
            self.command = ["organ", "purify", gguf, "--method", "laser", "--rho", "0.5", "--accept-findings", "--cap", "1",
                            "--type", "ffn", "-o", out, "--factors", self.file("out.safetensors"), "--force",
                            "--threads", "1", "--ram-budget", "1GiB"]
            self.outputs = ["out.gguf", "out.safetensors"]
        elif name == "edit-folder":
            self.command = edit + ["-o", folder]
        elif name == "edit-lora":
            self.command = edit + ["--as", "lora", "-o", folder]
        elif name == "edit-patch":
            self.command = edit + ["--save-patch", self.file("out.safetensors"), "--force"]
            self.outputs = ["out.safetensors"]
        else:
            self.command = ["edit", "delete", gguf, "--tensor", "blk.0.ffn_down.weight", "--direction", "singular", "0",
                            "--threads", "1", "--ram-budget", "1GiB", "-o", out, "--force"]
        for output in self.outputs if name not in FOLDERS else []:
            self.write(output, "an earlier file\n")
        self.inputs = [self.model, gguf, other, organs]

    def digest_of_inputs(self):
        digest = hashlib.sha256()
        for root in self.inputs:
            for path in [root] + sorted(os.path.join(folder, name) for folder, _, names in os.walk(root)
                                        for name in names):
                digest.update(path.encode())
                if os.path.isfile(path):
                    with open(path, "rb") as file:
                        digest.update(file.read())
        return digest.digest()

    def file(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.file(name), "w") as file:
            file.write(text)

    def contents(self):
        found = {}
        for output in self.outputs:
            names = [output] + [os.path.relpath(os.path.join(folder, name), self.folder)
                                for folder, _, names in os.walk(self.file(output)) for name in names]
            for name in names:
                if os.path.isfile(self.file(name)):
                    with open(self.file(name), "rb") as file:
                        found[name] = file.read()
        return found

    @staticmethod
    def part(contents, output):
        return {name: text for name, text in contents.items() if name == output or name.startswith(output + "/")}

    def run(self, arguments, environment=None):
        command = [self.program, "-q"] + arguments
        try:
            return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                  env=dict(os.environ, LD_PRELOAD=self.library, VINDEX_FAULT_DATE=self.date,
                                           **(environment or {})), errors="replace", timeout=PATIENCE_SECONDS)
        except subprocess.TimeoutExpired as error:
            said = (error.stderr or b"").decode(errors="replace")
            return subprocess.CompletedProcess(command, HUNG, "", said)

    def must(self, arguments):
        result = self.run(arguments)
        if result.returncode != 0:
            raise Failure(f"{' '.join(arguments)}: {result.returncode}: {result.stderr}")

    def begin(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.template, self.folder)

    def faulted(self, fault, at):
        """The run with `fault` at call `at`; its result, and "NAME PATH" of the call (None: never made)."""
        self.begin()
        if os.path.exists(self.log):
            os.remove(self.log)
        result = self.run(self.command, {
            "VINDEX_FAULT_CALLS": fault.calls, "VINDEX_FAULT_DO": fault.do,
            "VINDEX_FAULT_TIMES": fault.times, "VINDEX_FAULT_AT": str(at), "VINDEX_FAULT_LOG": self.log,
            **fault.environment})
        calls = []
        if os.path.exists(self.log):
            with open(self.log, errors="replace") as file:
                calls = file.read().splitlines()
        if at == 0:
            return result, calls
        hit = next((line.split(" ", 2)[2] for line in calls if line.startswith("! ")), None)
        return result, hit

    def state(self):
        """What a rerun can tell apart: contents of results, names of the rest."""
        parts = []
        for folder, _, names in sorted(os.walk(self.folder)):
            for name in sorted(names):
                whole = os.path.relpath(os.path.join(folder, name), self.folder)
                text = re.sub(r"\.tmp\.[^/]*", ".tmp", whole)
                if text == whole and not name.endswith((".lock", ".progress")):
                    with open(os.path.join(folder, name), "rb") as file:
                        text += " " + hashlib.sha256(file.read()).hexdigest()
                parts.append(text)
            parts.append(re.sub(r"\.tmp\.[^/]*", ".tmp", os.path.relpath(folder, self.folder)) + "/")
        return "\n".join(parts)

    def inspect(self, fault, result):
        """What is wrong with how the run ended and what it left."""
        wrong = []
        # What keeps a remote run from its server is no error of a disk.
        if result.returncode not in fault.exits | ({69} if self.name == "remote" else set()):
            wrong.append(f"exit {result.returncode}")
        last = result.stderr.rstrip().rsplit("\n", 1)[-1]
        if result.returncode not in (0, HUNG, KILLED, CRASHED) and not re.match(r"vindex: E-[A-Z0-9-]+: ", last):
            wrong.append("no reason on standard error")
        now = self.contents()
        if fault.name.startswith("no memory") and result.returncode in (0, CRASHED):
            # A filter that found no memory is left out: other bytes, the same values.
            return wrong + [f"{name} is not valid" for name in now if name.endswith(".h5") and
                            self.run(["validate", self.file(name)]).returncode != 0]
        if result.returncode == 0 and not self.behind and not self.is_equal(now):
            wrong.append("ended with 0, and the output is another one")
        if self.digest_of_inputs() != self.read:
            wrong.append("an input is another one")
        for name in self.outputs:
            if self.part(now, name) not in (self.part(self.earlier, name), self.part(self.reference, name)):
                valid = name.endswith(".h5") and self.run(["validate", self.file(name)]).returncode == 0
                if not valid:
                    wrong.append(f"{name} is neither what it was nor valid")
        state = self.state()
        if state not in self.seen:
            wrong += self.inspect_rerun(now)
            if not wrong:
                self.seen.add(state)
        return wrong

    def is_equal(self, now):
        """Byte by byte; or valid and with the same values: /run/ also tells how files were read."""
        if now == self.reference:
            return True
        if "out.h5" not in self.outputs or "out.h5" not in now or {**now, "out.h5": b""} != {**self.reference, "out.h5": b""}:
            return False
        return self.run(["validate", self.file("out.h5")]).returncode == 0 and self.table() == self.values

    def table(self):
        path = os.path.join(self.root, "values.csv")
        self.must(["export", self.file("out.h5"), "--format", "csv", "--force", "-o", path])
        with open(path, "rb") as file:
            return file.read()

    def inspect_rerun(self, before):
        for command in [self.command] + self.behind:
            again = self.run(command)
            done = again.returncode == {"merge": 66, **FOLDERS}.get(self.name) and before == self.reference
            if again.returncode != 0 and not done:
                return [f"the rerun ended with {again.returncode}: {again.stderr.strip()}"]
        if not self.is_equal(self.contents()):
            return ["the rerun's output is another one"]
        names = sorted(os.listdir(self.folder))
        return [] if names == self.names else [f"left behind: {sorted(set(names) - set(self.names))}"]


PIECES = 8  # of the calls of a scenario and a fault: none keeps the pool waiting at the end
prepared = {}  # of this process of the pool


def call_numbers(count, fault, options, salt):
    if not options.sample:
        return range(1, count + 1, fault.step * options.stride)
    # Spread over the run by the golden ratio: another one for each scenario and fault.
    return [1 + int(count * (salt * 0.6180339887 % 1.0))] if count else []


def walk(name, number, piece, options):
    """Lines about what was found, and outcomes[fault, call][outcome] = how many."""
    if name not in prepared:
        prepared[name] = Scenario(name, options)
    scenario, fault = prepared[name], FAULTS[number]
    if number not in scenario.counts:
        scenario.counts[number] = len(scenario.faulted(fault, 0)[1])
    numbers = call_numbers(scenario.counts[number], fault, options, number + len(FAULTS) * SCENARIOS.index(name))
    outcomes = collections.defaultdict(collections.Counter)
    found = []
    for at in numbers if piece is None else numbers[piece::PIECES]:
        result, hit = scenario.faulted(fault, at)
        if hit is None:  # threads: there were fewer calls this time
            wrong = scenario.inspect(fault._replace(exits={0}), result)
        else:
            wrong = scenario.inspect(fault, result)
            outcomes[fault.name, hit.split(" ")[0]][result.returncode] += 1
        if wrong:
            found.append(f"{name}: {fault.name} at call {at} ({hit}): {'; '.join(wrong)} [{result.stderr.strip()}]")
            print(found[-1], flush=True)
    return found, outcomes


def print_table(outcomes):
    codes = sorted({code for counts in outcomes.values() for code in counts} - {HUNG, KILLED, CRASHED})
    heads = [f"ended with {code}" for code in codes] + ["killed", "crashed in a library", "never"]
    print("| fault | call | injected | " + " | ".join(heads) + " |")
    print("|---" * (3 + len(heads)) + "|")
    order = {fault.name: number for number, fault in enumerate(FAULTS)}
    for (fault_name, call), counts in sorted(outcomes.items(), key=lambda item: (order[item[0][0]], item[0][1])):
        cells = [sum(counts.values())] + [counts[code] for code in codes]
        cells += [counts[KILLED], counts[CRASHED], counts[HUNG]]
        print(f"| {fault_name} | `{call}` | " + " | ".join(str(cell) if cell else "" for cell in cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("--work", required=True, help="folder to make runs in")
    parser.add_argument("--sample", action="store_true", help="one call for each fault in place of all")
    parser.add_argument("--stride", type=int, default=1, help="every N-th call in place of all")
    parser.add_argument("--scenario", action="append", choices=SCENARIOS)
    parser.add_argument("--fault", action="append", choices=[fault.name for fault in FAULTS])
    parser.add_argument("--table", action="store_true", help="print how the runs ended")
    options = parser.parse_args()
    os.makedirs(options.work, exist_ok=True)
    options.date = str(int(time.time()))
    pieces = [None] if options.sample else range(PIECES)
    tasks = [(name, number, piece) for number, fault in enumerate(FAULTS) for name in options.scenario or SCENARIOS
             for piece in pieces if fault.name in (options.fault or [fault.name])]
    totals = collections.defaultdict(collections.Counter)
    found = []
    processes = min(len(options.scenario or SCENARIOS if options.sample else tasks), len(os.sched_getaffinity(0)))
    with tempfile.TemporaryDirectory(dir=os.path.abspath(options.work)) as options.work, \
            concurrent.futures.ProcessPoolExecutor(processes) as pool:
        for done in [pool.submit(walk, *task, options) for task in tasks]:
            trouble, outcomes = done.result()
            found += trouble
            for key, counts in outcomes.items():
                totals[key].update(counts)
    if options.table:
        print_table(totals)
    count = sum(sum(counts.values()) for counts in totals.values())
    print(f"{count} faults injected, {len(found)} ended otherwise than they should")
    return 1 if found or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
