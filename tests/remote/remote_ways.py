#!/usr/bin/env python3
"""Ways to remote models: remote_ways.py PROGRAM FOLDER.

Through a proxy, in splits of GGUF, and of a size that only headers can be read of. The standard library is enough."""

import http.server
import json
import os
import socketserver
import struct
import threading
import time
import urllib.error
import urllib.request

from remote_server import COMMIT, FOLDER, SHARD, WEIGHTS, Hub, Server, decoded, end, expect, run, run_all


class Proxy(http.server.ThreadingHTTPServer):
    """Passes requests for absolute addresses on, and notes them."""
    daemon_threads = True

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_GET(self):
            self.server.seen.append(self.path)
            fields = {name: value for name, value in self.headers.items() if not name.lower().startswith(("proxy-", "connection"))}
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            try:
                with opener.open(urllib.request.Request(self.path, headers=fields), timeout=30) as answer:
                    status, head, body = answer.status, answer.headers, answer.read()
            except urllib.error.HTTPError as error:
                status, head, body = error.code, error.headers, error.read()
            self.send_response(status)
            for name in ("Content-Range", "ETag", "Content-Type"):
                if head.get(name):
                    self.send_header(name, head[name])
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def __init__(self):
        super().__init__(("127.0.0.1", 0), self.Handler)
        self.seen = []
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


def proxies():
    proxy, server = Proxy(), Server()
    address = f"{server.url}/{SHARD}"
    done, weights = decoded(address, "proxy.f32", http_proxy=proxy.url)
    expect("proxy", done.returncode == 0 and weights == WEIGHTS, done.stderr)
    expect("proxy", address in proxy.seen, "the proxy was not asked")
    asked = len(proxy.seen)
    done, weights = decoded(address, "no_proxy.f32", http_proxy=proxy.url, no_proxy="127.0.0.1")
    expect("no_proxy", done.returncode == 0 and weights == WEIGHTS, done.stderr)
    expect("no_proxy", len(proxy.seen) == asked, "the proxy was asked")
    with socketserver.TCPServer(("127.0.0.1", 0), None) as dead:
        port = dead.server_address[1]
    done = run("inspect", "https://127.0.0.1:1/model.safetensors", https_proxy=f"http://127.0.0.1:{port}")
    expect("dead proxy", done.returncode == 69 and "E-REMOTE-READ" in done.stderr, done.stderr)


def gguf_text(text):
    return struct.pack("<Q", len(text)) + text.encode()


def gguf_split(number, count, tensors):
    """One split: keys, then tensors of zeros and ones, float32, 32 x 32."""
    keys = [gguf_text("general.architecture") + struct.pack("<I", 8) + gguf_text("llama")]
    for name, kind, form, value in (("split.no", 2, "<H", number), ("split.count", 2, "<H", count),
                                    ("split.tensors.count", 5, "<i", 3)):
        keys.append(gguf_text(name) + struct.pack("<I", kind) + struct.pack(form, value))
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(keys)
    for i, name in enumerate(tensors):
        head += gguf_text(name) + struct.pack("<IQQIQ", 2, 32, 32, 0, i * 4096)
    head += b"\0" * (-len(head) % 32)
    return head + b"".join(struct.pack("<1024f", *([float(number + 1)] * 1024)) for _ in tensors)


def splits_of_gguf():
    folder = os.path.join(FOLDER, "splits")
    os.makedirs(folder)
    parts = [["blk.0.ffn_up.weight"], ["blk.0.ffn_down.weight"], ["blk.1.ffn_up.weight"]]
    for number, tensors in enumerate(parts):
        with open(os.path.join(folder, f"model-{number + 1:05}-of-00003.gguf"), "wb") as file:
            file.write(gguf_split(number, 3, tensors))
    address = Server(folder).url + "/model-00001-of-00003.gguf"
    out = os.path.join(FOLDER, "split.f32")
    done = run("decode", address, "--tensor", "blk.1.ffn_up.weight", "-o", out)
    expect("splits", done.returncode == 0, done.stderr)
    if done.returncode == 0:
        with open(out, "rb") as file:
            expect("splits", set(struct.unpack("<1024f", file.read())) == {3.0}, "another split's weights")
    os.remove(os.path.join(folder, "model-00002-of-00003.gguf"))
    done = run("inspect", address)
    expect("a split is missing", done.returncode != 0 and "model-00002-of-00003.gguf" in done.stderr, done.stderr)


class HugeHub(Hub):
    """A repository of a terabyte: headers are there, weights are zeros, and what is sent is counted."""
    LAYERS, EXPERTS, ROWS, COLS = 48, 256, 2048, 7168

    def __init__(self):
        super().__init__()
        self.sent, self.headers, mapped = 0, {}, {}
        for layer in range(self.LAYERS):
            name, header, at = f"model-{layer + 1:05}-of-{self.LAYERS:05}.safetensors", {}, 0
            for expert in range(self.EXPERTS):
                for role, shape in (("gate_proj", [self.ROWS, self.COLS]), ("up_proj", [self.ROWS, self.COLS]),
                                    ("down_proj", [self.COLS, self.ROWS])):
                    tensor = f"model.layers.{layer}.mlp.experts.{expert}.{role}.weight"
                    header[tensor] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + 2 * self.ROWS * self.COLS]}
                    at += 2 * self.ROWS * self.COLS
                    mapped[tensor] = name
            text = json.dumps(header).encode()
            self.headers[name] = (struct.pack("<Q", len(text)) + text, 8 + len(text) + at)
        self.total = sum(size for _, size in self.headers.values())
        self.small = {"config.json": json.dumps({"model_type": "deepseek_v3", "num_hidden_layers": self.LAYERS,
                                                 "n_routed_experts": self.EXPERTS}).encode(),
                      "model.safetensors.index.json": json.dumps({"weight_map": mapped}).encode()}

    def ask(self, handler, name, number):
        if name == "api/models/org/huge/revision/main":
            files = [{"rfilename": file} for file in [*self.small, *self.headers]]
            return handler.answer(200, json.dumps({"sha": COMMIT, "siblings": files}).encode())
        file = name.rpartition("/")[2]
        if file in self.headers:
            self.signed += 1
            return handler.answer(302, Location=f"{self.store.url}/{file}?signature={self.signed}")
        if file in self.small:
            return self.part(handler, self.small[file], len(self.small[file]))
        return handler.answer(404)

    def fetch(self, handler, name, number):
        return self.part(handler, *self.headers[name])

    def part(self, handler, head, size):
        first, last = handler.range(size)
        body = head[first:last + 1].ljust(last - first + 1, b"\0")
        self.sent += len(body)
        return handler.answer(206, body, ETag='"huge"', Content_Range=f"bytes {first}-{last}/{size}")


def a_terabyte():
    hub = HugeHub()
    begin = time.monotonic()
    done = run("inspect", "hf://org/huge", "--json", **hub.environment)
    print(f"inspect: {hub.total / 1e12:.2f} TB, {hub.sent / 1e6:.1f} MB sent, {time.monotonic() - begin:.1f} s")
    expect("huge", done.returncode == 0, done.stderr)
    shown = json.loads(done.stdout) if done.returncode == 0 else {}
    expect("huge", hub.total > 1e12 and shown.get("matrices") == hub.LAYERS * hub.EXPERTS * 3, shown.get("matrices"))
    # One answer of 128 KiB holds the header of a file.
    most = sum(map(len, hub.small.values())) + len(hub.headers) * (128 << 10)
    expect("huge", hub.sent <= most, f"{hub.sent} bytes were sent where {most} are enough")
    done = run("plan", "hf://org/huge", "--layers", "0", "--json", **hub.environment)
    expect("huge plan", done.returncode == 0, done.stderr)
    plan = json.loads(done.stdout) if done.returncode == 0 else {}
    expect("huge plan", plan.get("read_bytes") == hub.EXPERTS * 3 * 2 * hub.ROWS * hub.COLS, plan)


if __name__ == "__main__":
    run_all([(a_terabyte,), (proxies,), (splits_of_gguf,)])
    end()
