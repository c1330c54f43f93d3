#!/usr/bin/env python3
"""Models over HTTP: remote_models.py PROGRAM FOLDER.

A server on loopback serves a small model and misbehaves as a case wants. What passes equals the local run; what does not ends
with the exit code and id of its cause, in bounded time, and leaves nothing. The standard library is enough."""

import email.utils
import gzip
import json
import os
import time

from remote_server import (FOLDER, HEADER, HEADER_BYTES, MODEL, SHARD, WEIGHTS, Server, decoded, end, expect, redirect, run, run_all)
from servers import PROBE


def same_as_local():
    server = Server()
    address = f"{server.url}/{SHARD}"
    done, weights = decoded(address, "remote.f32")
    expect("decode", done.returncode == 0 and weights == WEIGHTS, done.stderr)
    texts = [run("inspect", where) for where in (address, os.path.join(MODEL, SHARD))]
    expect("inspect", texts[0].returncode == 0, texts[0].stderr)
    bodies = [text.stdout.replace(address, "MODEL").replace(os.path.join(MODEL, SHARD), "MODEL") for text in texts]
    expect("inspect", len(bodies[0].splitlines()) == len(bodies[1].splitlines()), "another number of lines")
    shown = []
    for where, out in ((address, "remote.h5"), (os.path.join(MODEL, SHARD), "local.h5")):
        out = os.path.join(FOLDER, out)
        done = run("measure", where, "-o", out, "--backend", "cpu")
        expect("measure", done.returncode == 0, done.stderr)
        csv = out + ".csv"
        done = run("export", out, "--format", "csv", "-o", csv)
        expect("export", done.returncode == 0, done.stderr)
        with open(csv, encoding="utf-8") as file:
            shown.append(file.read())
    expect("measure", shown[0] == shown[1] and len(shown[0]) > 500, "figures differ from the local run's")
    expect("identity asked for", all(fields.get("Accept-Encoding") == "identity" for _, fields in server.seen))


def index_names_the_set():
    folder = os.path.join(FOLDER, "set of two")
    os.makedirs(folder)
    with open(os.path.join(MODEL, SHARD), "rb") as file:
        data = file.read()[8 + HEADER_BYTES:]
    names, mapped = sorted(name for name in HEADER if name != "__metadata__"), {}
    for part in (0, 1):
        header, body = {}, b""
        for name in names[part::2]:
            begin, end = HEADER[name]["data_offsets"]
            header[name] = HEADER[name] | {"data_offsets": [len(body), len(body) + end - begin]}
            body += data[begin:end]
            mapped[name] = f"model-{part + 1:05}-of-00002.safetensors"
        text = json.dumps(header).encode()
        with open(os.path.join(folder, f"model-{part + 1:05}-of-00002.safetensors"), "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text + body)
    with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="utf-8") as file:
        json.dump({"metadata": {"total_size": len(data)}, "weight_map": mapped}, file)
    done, weights = decoded(os.path.join(folder, "model.safetensors.index.json"), "local_set.f32")
    expect("local index", done.returncode == 0 and weights == WEIGHTS, done.stderr)
    done, weights = decoded(Server(FOLDER).url + "/set%20of%20two/model.safetensors.index.json", "set.f32")
    expect("index", done.returncode == 0 and weights == WEIGHTS, done.stderr)


def changed_between_runs():
    server, out = Server(), os.path.join(FOLDER, "between.h5")
    command = ["measure", f"{server.url}/{SHARD}", "-o", out, "--backend", "cpu"]
    done = run(*command)
    expect("between runs", done.returncode == 0, done.stderr)
    with open(out, "rb") as file:
        before = file.read()
    server.etag = '"two"'
    done = run(*command)
    expect("between runs", done.returncode == 78 and "E-RESUME-FINGERPRINT" in done.stderr, f"{done.returncode}: {done.stderr}")
    with open(out, "rb") as file:
        expect("between runs", file.read() == before, "the results were changed")


# ---- faults: name -> (what the server does, exit code, text of the error; None: it passes)

def once(status, **fields):
    return lambda handler, name, number: number == 1 and handler.is_read(name) and handler.answer(
        status, b"busy", **{key: value() if callable(value) else value for key, value in fields.items()})


def always(status, **fields):
    return lambda handler, name, number: handler.is_read(name) and handler.answer(status, b"x", **fields)


def at_weights(act):
    return lambda handler, name, number: handler.is_read(name) and number > 0 and act(handler)


def whole(handler):
    with open(os.path.join(MODEL, SHARD), "rb") as file:
        return handler.answer(200, file.read(), ETag='"one"')


def span_of(handler):
    return handler.range(os.path.getsize(os.path.join(MODEL, SHARD)))


def partial(handler, body, shift=0, size=None, **fields):
    first, last = span_of(handler)
    size = size or os.path.getsize(os.path.join(MODEL, SHARD))
    return handler.answer(206, body, Content_Range=f"bytes {first + shift}-{last + shift}/{size}", **({"ETag": '"one"'} | fields))


def zeros(handler):
    first, last = span_of(handler)
    return b"\0" * (last - first + 1)


def cut(handler):
    first, last = span_of(handler)
    partial(handler, b"\0" * 1000, Content_Length=str(last - first + 1))
    handler.close_connection = True
    handler.connection.close()
    return True


def reset(handler):
    handler.connection.close()
    handler.close_connection = True
    return True


def stall(handler):
    first, last = span_of(handler)
    partial(handler, b"\0" * 10, Content_Length=str(last - first + 1))
    handler.wfile.flush()
    time.sleep(30)
    return True


def drip(handler):
    first, last = span_of(handler)
    partial(handler, b"", Content_Length=str(last - first + 1))
    for _ in range(60):
        handler.wfile.write(b"\0")
        handler.wfile.flush()
        time.sleep(0.5)
    return True


def endless(handler):
    handler.send_response(200)
    handler.send_header("ETag", '"one"')
    handler.end_headers()
    handler.close_connection = True
    while True:
        handler.wfile.write(b"\0" * 65536)


def endless_head(handler):
    handler.send_response(206)
    while True:
        handler.send_header("X-Field", "x" * 1000)
        handler.flush_headers()


FAULTS = {
    "429 once, seconds": (once(429, Retry_After="1"), 0, None),
    "503 once, date": (once(503, Retry_After=lambda: email.utils.formatdate(time.time() + 2, usegmt=True)), 0, None),
    "429 once, RateLimit": (once(429, RateLimit='"resolvers";r=0;t=1'), 0, None),
    "500 once": (once(500), 0, None),
    "reset once": (lambda handler, name, number: number == 1 and handler.is_read(name) and reset(handler), 0, None),
    "cut once": (lambda handler, name, number: number == 1 and handler.is_read(name) and cut(handler), 0, None),
    "stall once": (lambda handler, name, number: number == 1 and handler.is_read(name) and stall(handler), 0, None),
    "503 always": (always(503), 69, "E-REMOTE-BUSY"),
    "429 for an hour": (always(429, Retry_After="3600"), 69, "E-REMOTE-BUSY"),
    "resets always": (at_weights(reset), 69, "E-REMOTE-READ"),
    "1 B/s": (at_weights(drip), 69, "E-REMOTE-READ"),
    "cut always": (at_weights(cut), 69, "E-REMOTE-READ"),
    "401": (always(401), 69, "E-REMOTE-DENIED"),
    "403": (always(403), 69, "E-REMOTE-DENIED"),
    "404": (always(404), 66, "E-FILE-MISSING"),
    "200 for a range": (at_weights(whole), 69, "E-REMOTE-ANSWER"),
    "another range": (at_weights(lambda handler: partial(handler, zeros(handler), shift=-1)), 69, "E-REMOTE-ANSWER"),
    "short range": (at_weights(lambda handler: partial(handler, zeros(handler)[:-1])), 69, "E-REMOTE-READ"),
    "long range": (at_weights(lambda handler: partial(handler, zeros(handler) + b"\0")), 69, "E-REMOTE-ANSWER"),
    "no Content-Range": (at_weights(lambda handler: handler.answer(206, zeros(handler), ETag='"one"')), 69, "E-REMOTE-ANSWER"),
    "another tag": (at_weights(lambda handler: partial(handler, zeros(handler), ETag='"two"')), 74, "E-INPUT-CHANGED"),
    "412": (at_weights(lambda handler: handler.answer(412)), 74, "E-INPUT-CHANGED"),
    "another size": (at_weights(lambda handler: partial(handler, zeros(handler), size=1 << 30)), 74, "E-INPUT-CHANGED"),
    "gzip": (at_weights(lambda handler: partial(handler, gzip.compress(zeros(handler)), Content_Encoding="gzip")), 69,
             "E-REMOTE-ANSWER"),
    "HTML page": (lambda handler, name, number: handler.answer(200, b"<html>", Content_Type="text/html"), 69, "HTML"),
    "endless body": (lambda handler, name, number: endless(handler), 69, "E-REMOTE-ANSWER"),
    "endless head": (lambda handler, name, number: endless_head(handler), 69, "E-REMOTE-READ"),
    "redirects in a circle": (redirect(lambda handler: handler.path), 69, "E-REMOTE-REDIRECT"),
    "redirect to a file": (redirect(lambda handler: "file:///etc/passwd"), 69, "E-REMOTE-REDIRECT"),
    "redirect to nowhere": (redirect(lambda handler: ""), 69, "E-REMOTE-REDIRECT"),
}


def fault(case):
    act, code, text = FAULTS[case]
    server = Server()
    server.fault = act
    out = f"fault {case}".replace("/", " ") + ".f32"
    begin = time.monotonic()
    done, weights = decoded(f"{server.url}/{SHARD}?secret=1", out, HF_HUB_DOWNLOAD_TIMEOUT="2")
    seconds = time.monotonic() - begin
    expect(case, done.returncode == code, f"ended with {done.returncode}: {done.stderr}")
    expect(case, weights == (WEIGHTS if code == 0 else None), "wrong numbers, or an output after a failure")
    expect(case, seconds < 150, f"took {seconds:.0f} s")
    if text:
        expect(case, text in done.stderr and "secret" not in done.stderr, done.stderr)
        expect(case, len(done.stderr.splitlines()) == 1, done.stderr)
    print(f"{case}: {done.returncode} after {seconds:.1f} s")


def redirects_lead_elsewhere():
    store, front = Server(), Server()
    front.fault = redirect(lambda handler: store.url + handler.path)
    done, weights = decoded(f"{front.url}/{SHARD}", "redirected.f32")
    expect("redirect", done.returncode == 0 and weights == WEIGHTS, done.stderr)
    # The address behind it is used again: the front is asked where it leads when a file is opened, and whether it is the same.
    asked = sum(1 for name, fields in front.seen if name == SHARD and fields.get("Range") != PROBE)
    expect("redirect", asked == 1, f"the front was asked {asked} times")


def changed_between_reads():
    server = Server()

    def change(handler, name, number):
        if handler.headers.get("Range") == PROBE:
            server.etag = '"two"'
    server.fault = change
    done, weights = decoded(f"{server.url}/{SHARD}", "changed.f32")
    expect("changed", done.returncode == 74 and weights is None, done.stderr)


def a_dry_run_keeps_no_copies():
    out = os.path.join(FOLDER, "dry.h5")
    os.mkdir(out + ".copies")  # as a run that was killed leaves it
    done = run("measure", f"{Server().url}/{SHARD}", "-o", out, "--backend", "cpu", "--dry-run", "--disk-budget", "1GiB")
    expect("dry run", done.returncode == 0 and "read at both ends" in done.stdout, done.stderr)
    expect("dry run", not os.path.exists(out) and not os.listdir(out + ".copies"), "something is left")


if __name__ == "__main__":
    run_all([(same_as_local,), (a_dry_run_keeps_no_copies,), (index_names_the_set,), (redirects_lead_elsewhere,),
             (changed_between_reads,), (changed_between_runs,), *((fault, case) for case in FAULTS)])
    end()
