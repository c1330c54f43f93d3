#!/usr/bin/env python3
"""Stops while a server keeps the program waiting: remote_stops.py PROGRAM FOLDER.

The server sends nothing for four minutes, or asks for them; the program is stopped meanwhile and has to end with 75 long before, with
what was finished in its output. The standard library is enough."""

import json
import os
import signal
import subprocess
import threading
import time

from remote_server import CLEAN, FOLDER, PROGRAM, SHARD, Server, end, expect, run, run_all

SILENT_SECONDS = 240  # of the server; below the program's own patience, which these tests raise
SOON_SECONDS = 100  # two on an idle machine
PATIENT = {"HF_HUB_DOWNLOAD_TIMEOUT": "3600"}


class Waiting:
    """A server that keeps its clients waiting where `applies(handler, name, number)`, as `keep(handler)` does."""

    def __init__(self, applies, keep):
        self.server, self.reached, self.applies, self.keep = Server(), threading.Event(), applies, keep
        self.server.fault = self.fault

    def fault(self, handler, name, number):
        if not self.applies(handler, name, number):
            return False
        self.reached.set()
        return self.keep(handler)


def silent(handler):
    first, last = handler.range(1 << 40)
    handler.send_response(206)
    handler.send_header("ETag", '"one"')
    handler.send_header("Content-Range", f"bytes {first}-{last}/{os.path.getsize(os.path.join(handler.server.folder, SHARD))}")
    handler.send_header("Content-Length", str(last - first + 1))
    handler.end_headers()
    time.sleep(SILENT_SECONDS)
    return True


def silent_before_the_head(handler):
    time.sleep(SILENT_SECONDS)
    handler.close_connection = True
    return True


def busy(handler):
    return handler.answer(429, b"busy", Retry_After=str(SILENT_SECONDS))


def stop_while_waiting(case, waiting, command, is_ready=None):
    """Runs `command` until the server keeps it waiting and, where asked for, a line of its progress is_ready(); stops it."""
    process = subprocess.Popen([PROGRAM, *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=CLEAN | PATIENT)
    lines, ready = [], threading.Event()
    if is_ready is None:
        ready.set()

    def listen():
        for line in process.stderr:
            lines.append(line)
            if is_ready and is_ready(line):
                ready.set()
    listener = threading.Thread(target=listen)
    listener.start()
    try:
        expect(case, waiting.reached.wait(SILENT_SECONDS / 2), "the server was not asked")
        expect(case, ready.wait(SILENT_SECONDS / 2), "no progress")
        begin = time.monotonic()
        process.send_signal(signal.SIGTERM)
        code = process.wait(SILENT_SECONDS)
        seconds = time.monotonic() - begin
    except subprocess.TimeoutExpired:
        process.kill()
        code, seconds = None, SILENT_SECONDS
    listener.join()
    text = "".join(lines)
    print(f"{case}: {code} after {seconds:.1f} s")
    expect(case, code == 75 and "E-STOPPED" in text, f"ended with {code}: {text}")
    expect(case, seconds < SOON_SECONDS, f"took {seconds:.1f} s")


def all_but_one(line):
    """Whether a line of --progress json says that one matrix is left."""
    try:
        progress = json.loads(line)
    except ValueError:
        return False
    return progress.get("done", 0) > 0 and progress["done"] + 1 >= progress["total"]


def finished_rows_are_kept():
    """One matrix never arrives; the others are measured, and are in the output of the run that was stopped."""
    last = os.path.getsize(os.path.join(Server().folder, SHARD)) - 1

    def is_last(handler, name, _):
        return handler.is_read(name) and (handler.range(1 << 40) or (0, 0))[1] >= last
    waiting = Waiting(is_last, silent)
    out = os.path.join(FOLDER, "stopped.h5")
    command = ["measure", f"{waiting.server.url}/{SHARD}", "-o", out, "--backend", "cpu", "--progress", "json"]
    stop_while_waiting("a silent server", waiting, command, all_but_one)
    status = json.loads(run("status", out, "--json").stdout)
    expect("kept", status["done"] == status["matrices_total"] - 1, status)
    waiting.applies = lambda *_: False
    done = run(*command)
    expect("resumed", done.returncode == 0 and f"resuming: {status['done']} of" in done.stderr, done.stderr)


def opening_is_stopped():
    for case, keep in {"a busy server": busy, "a server without an answer": silent_before_the_head}.items():
        waiting = Waiting(lambda handler, name, number: handler.is_read(name), keep)
        out = os.path.join(FOLDER, "nothing.h5")
        command = ["measure", f"{waiting.server.url}/{SHARD}", "-o", out, "--backend", "cpu"]
        stop_while_waiting(case, waiting, command)
        expect(case, not os.path.exists(out), "an output")


if __name__ == "__main__":
    run_all([(finished_rows_are_kept,), (opening_is_stopped,)])
    end()
