"""Owns the processes that bench/peers/peers.py and bench/peers/measure_times.py time: our program, and bench/peers/peer_calls.py for the peers.
None of them inherits a choice of kernels or threads.
"""
import contextlib
import json
import os
import queue
import shutil
import subprocess
import threading


def clean_environment():
    """OPENBLAS_* and their like choose kernels and threads: nobody gets any."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("OPENBLAS_", "OMP_", "GOTO_", "MKL_"))}


def run(command):
    done = subprocess.run(command, env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise RuntimeError(f"{' '.join(command[:3])} ended with {done.returncode}: {last}")
    return done.stdout


def machine(program):
    """A report of the form vindex-bench/1 without rows, where our own program is not asked to measure."""
    report = json.loads(run([program, "bench", "--json", "-q", "--backend", "cpu", "--sections", "decode", "--shapes", "16x256",
                             "--encodings", "F32", "--samples", "1"]))
    query = "nvidia-smi --query-gpu=name,driver_version --format=csv,noheader"
    said = subprocess.run(query.split(), stdout=subprocess.PIPE, text=True, check=False) if shutil.which("nvidia-smi") else None
    if said is not None and said.returncode == 0:
        name, driver = said.stdout.splitlines()[0].split(", ")
        report["gpu"] = {"name": name, "driver": driver, "cuda": "unknown"}
    return {**report, "rows": []}


class Child:
    """The process of bench/peers/peer_calls.py, started again after it was killed."""

    def __init__(self, command, answer_seconds):
        self.command, self.answer_seconds, self.process = command, answer_seconds, None

    def start(self):
        self.process = subprocess.Popen(self.command, env=clean_environment(), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.lines = queue.Queue()

        def read(stream=self.process.stdout, lines=self.lines):
            with stream:
                for line in stream:
                    lines.put(line)
            lines.put(None)

        threading.Thread(target=read, daemon=True).start()

    def ask(self, **wanted):
        if self.process is None or self.process.poll() is not None:
            self.start()
        try:
            self.process.stdin.write(json.dumps(wanted) + "\n")
            self.process.stdin.flush()
            line = self.lines.get(timeout=self.answer_seconds)
            return json.loads(line) if line is not None else {"failure": "the peer's process ended"}
        except BrokenPipeError:
            return {"failure": "the peer's process ended"}
        except ValueError:
            return {"failure": f"no JSON: {line.strip()[:100]}"}
        except queue.Empty:
            self.stop()
            return {"failure": f"no answer within {self.answer_seconds:.0f} s"}

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
            self.process = None


class Children:
    """A process for every package, or with `one_each` for every peer: nobody's threads wait in another's, and one that hangs or
    breaks its GPU context costs only its own figures."""

    def __init__(self, command, answer_seconds, one_each=False):
        self.command, self.answer_seconds, self.one_each, self.children = command, answer_seconds, one_each, {}

    def name_of(self, peer):
        return peer if self.one_each else peer.split(".")[0]

    def ask(self, **wanted):
        name = self.name_of(wanted["peer"])
        if name not in self.children:
            self.children[name] = Child(self.command, self.answer_seconds)
        return self.children[name].ask(**wanted)

    def stop_others(self, peer):
        """What they hold of the device's memory is free then."""
        for name, child in self.children.items():
            if name != self.name_of(peer):
                child.stop()

    def stop(self):
        for child in self.children.values():
            child.stop()
