#!/usr/bin/env python3
"""Models over HTTP: remote_models.py PROGRAM FOLDER.

A server on loopback serves a small model and misbehaves as a case wants. What passes equals the local run; what does not ends
with the exit code and id of its cause, in bounded time, and leaves nothing. The standard library is enough."""

import concurrent.futures
import email.utils
import gzip
import http.server
import json
import os
import ssl
import subprocess
import sys
import threading
import time
import urllib.parse

from test_script import call, fresh_folder

PROGRAM, FOLDER = map(os.path.abspath, sys.argv[1:])
PROBE = "bytes=0-0"  # whether a file is there, and the same
failures = []
fresh_folder(FOLDER)
MODEL = os.path.join(FOLDER, "model")
CLEAN = {key: value for key, value in os.environ.items() if not key.startswith("HF_") and not key.lower().endswith("_proxy")}
CLEAN["HOME"] = FOLDER


class Server(http.server.ThreadingHTTPServer):
    """Serves files of a folder by range. `fault(handler, name, number, range)` may answer itself (True) or change the answer."""
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, folder=MODEL, certificate=None):
        super().__init__(("127.0.0.1", 0), Handler)
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.folder, self.fault, self.seen, self.lock, self.etag = folder, None, [], threading.Lock(), '"one"'
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        self.url = f"{'https' if certificate else 'http'}://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request, client_address):
        pass  # connections that the client or a fault breaks off


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", **fields):
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in fields:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        return True

    def is_read(self, name):
        return name.endswith(".safetensors") and self.headers.get("Range") != PROBE

    def range(self, size):
        text = self.headers.get("Range", "")
        if not text.startswith("bytes="):
            return None
        first, last = text[6:].split("-")
        return int(first), min(int(last), size - 1)

    def do_GET(self):
        server = self.server
        name = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path).lstrip("/")
        with server.lock:
            number = sum(1 for seen, fields in server.seen if seen == name and fields.get("Range") != PROBE)
            server.seen.append((name, dict(self.headers)))
        if server.fault and server.fault(self, name, number):
            return
        self.file(os.path.join(server.folder, name))

    def file(self, path, **fields):
        if not os.path.isfile(path):
            return self.answer(404, b"no such file")
        with open(path, "rb") as file:
            content = file.read()
        fields.setdefault("ETag", self.server.etag)
        wanted = self.headers.get("If-Match")
        if wanted and wanted != fields["ETag"]:
            return self.answer(412)
        span = self.range(len(content))
        if span is None:
            return self.answer(200, content, **fields)
        if span[0] >= len(content):
            return self.answer(416, Content_Range=f"bytes */{len(content)}")
        return self.answer(206, content[span[0]:span[1] + 1], Content_Range=f"bytes {span[0]}-{span[1]}/{len(content)}", **fields)


def run(*command, **environment):
    return subprocess.run([PROGRAM, *map(str, command)], capture_output=True, text=True, check=False, timeout=200,
                          env=CLEAN | environment)


def expect(case, condition, detail=""):
    if not condition:
        failures.append(f"{case}: {detail}")


def decoded(address, out, **environment):
    path = os.path.join(FOLDER, out)
    done = run("decode", address, "--tensor", TENSOR, "-o", path, **environment)
    content = None
    if os.path.exists(path):
        with open(path, "rb") as file:
            content = file.read()
    return done, content


# ---- what is served

call(PROGRAM, "synth", "layer:6x256x192:bf16", "-o", MODEL)
SHARD = sorted(name for name in os.listdir(MODEL) if name.endswith(".safetensors"))[0]
with open(os.path.join(MODEL, SHARD), "rb") as model_file:
    HEADER_BYTES = int.from_bytes(model_file.read(8), "little")
    HEADER = json.loads(model_file.read(HEADER_BYTES))
# The last one: not within the first 128 KiB, which come with the opening.
TENSOR = max((name for name in HEADER if name != "__metadata__"), key=lambda name: HEADER[name]["data_offsets"][0])
_, WEIGHTS = decoded(os.path.join(MODEL, SHARD), "local.f32")
assert WEIGHTS and os.path.getsize(os.path.join(MODEL, SHARD)) > 400_000, "the model is too small to test with"


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


def redirect(to):
    return lambda handler, name, number: handler.answer(302, Location=to(handler))


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
    expect(case, seconds < 60, f"took {seconds:.0f} s")
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


# ---- the Hub

COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_secret"


def certificate():
    """A key and its own certificate, in one file; None where the command openssl is absent."""
    path = os.path.join(FOLDER, "server.pem")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=loopback", "-addext",
               "subjectAltName=IP:127.0.0.1", "-days", "2", "-keyout", path + ".key", "-out", path + ".crt"]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        return None
    with open(path, "wb") as out:
        for part in (path + ".key", path + ".crt"):
            with open(part, "rb") as file:
                out.write(file.read())
    return path


class Hub:
    """Imitates the Hub's list of files, and its redirect of weights to another host whose signed addresses expire."""

    def __init__(self, pem=None):
        self.front, self.store = Server(certificate=pem), Server(certificate=pem)
        self.front.fault, self.store.fault, self.signed, self.lives = self.ask, self.fetch, 0, 1 << 30
        self.environment = {"HF_ENDPOINT": self.front.url, "HF_TOKEN": TOKEN, "HF_HUB_DOWNLOAD_TIMEOUT": "5"}
        if pem:
            self.environment["SSL_CERT_FILE"] = pem

    def ask(self, handler, name, _):
        if handler.server.etag == "private" and handler.headers.get("Authorization") != f"Bearer {TOKEN}":
            return handler.answer(401, b"Invalid username or password.", X_Error_Code="GatedRepo")
        if name in ("api/models/org/repo/revision/main", "api/models/org/repo/revision/refs/pr/1"):
            files = [{"rfilename": file} for file in [*os.listdir(MODEL), "more/README.md"]]
            return handler.answer(200, json.dumps({"sha": COMMIT, "siblings": files}).encode())
        prefix = f"org/repo/resolve/{COMMIT}/"
        if not name.startswith(prefix):
            return handler.answer(404, X_Error_Code="RepoNotFound")
        file = name[len(prefix):]
        if not file.endswith(".safetensors"):
            return handler.file(os.path.join(MODEL, file)) or True
        self.signed += 1
        return handler.answer(302, Location=f"{self.store.url}/{file}?signature={self.signed}", X_Repo_Commit=COMMIT,
                              X_Linked_ETag='"sha"')

    def fetch(self, handler, _, number):
        signature = int(urllib.parse.urlsplit(handler.path).query.partition("=")[2])
        if number >= self.lives and signature == 1:
            return handler.answer(403, b"expired")
        return None


def hub_over_https():
    pem = certificate()
    if pem is None:
        print("no openssl: the Hub over https is not tried")
        return
    hub = Hub(pem)
    hub.front.etag = "private"
    done, weights = decoded("hf://org/repo", "hub.f32", **hub.environment)
    expect("hub", done.returncode == 0 and weights == WEIGHTS, done.stderr)
    expect("hub", all(fields.get("Authorization") == f"Bearer {TOKEN}" for _, fields in hub.front.seen), "no token was sent")
    expect("hub", hub.store.seen and not any("Authorization" in fields for _, fields in hub.store.seen),
           "the token went to another host")
    expect("hub", hub.signed == 1, f"the Hub was asked {hub.signed} times where the weights are")
    listings = sum(1 for name, _ in hub.front.seen if name.startswith("api/"))
    expect("hub", listings == 1, f"{listings} listings")
    for address in (f"hf://org/repo@refs/pr/1/{SHARD}", f"hf://org/repo@main/{SHARD}"):
        done, weights = decoded(address, f"{len(address)}.f32", **hub.environment)
        expect(address, done.returncode == 0 and weights == WEIGHTS, done.stderr)
    token_file = os.path.join(FOLDER, "token")
    with open(token_file, "w", encoding="utf-8") as file:
        file.write(TOKEN + "\n")
    by_file = {key: value for key, value in hub.environment.items() if key != "HF_TOKEN"} | {"HF_TOKEN_PATH": token_file}
    expect("HF_TOKEN_PATH", run("inspect", "hf://org/repo", **by_file).returncode == 0)
    done = run("inspect", "hf://org/repo", **(hub.environment | {"HF_TOKEN": "hf_wrong"}))
    expect("wrong token", done.returncode == 69 and "GatedRepo" in done.stderr and "hf_" not in done.stderr, done.stderr)
    done = run("inspect", "hf://org/repo", **{key: value for key, value in hub.environment.items() if key != "SSL_CERT_FILE"})
    expect("unknown authority", done.returncode == 69 and "E-REMOTE-READ" in done.stderr, done.stderr)
    plain = Server()
    hub.front.fault = redirect(lambda handler: plain.url + handler.path)
    done = run("inspect", "hf://org/repo", **hub.environment)
    expect("https to http", done.returncode == 69 and "E-REMOTE-REDIRECT" in done.stderr and not plain.seen, done.stderr)


def hub_over_http():
    hub = Hub()
    hub.lives = 1
    done, weights = decoded("hf://org/repo", "expired.f32", **hub.environment)
    expect("expired address", done.returncode == 0 and weights == WEIGHTS, done.stderr)
    expect("expired address", hub.signed == 2, f"resolved {hub.signed} times")
    expect("http", not any("Authorization" in fields for _, fields in hub.front.seen), "the token went over http")
    out = os.path.join(FOLDER, "hub.h5")
    done = run("measure", "hf://org/repo", "-o", out, "--backend", "cpu", **hub.environment)
    expect("hub measure", done.returncode == 0, done.stderr)
    with open(out, "rb") as file:
        expect("commit", COMMIT.encode() in file.read(), "the results do not name the commit")
    for address, code, text in (("hf://org/none", 66, "E-FILE-MISSING"), ("hf://org/repo/none.gguf", 66, "E-FILE-MISSING"),
                                ("hf://org/repo/none", 66, "E-FOLDER-EMPTY"), ("hf://org/repo/more", 66, "E-FOLDER-EMPTY")):
        done = run("inspect", address, **hub.environment)
        expect(address, done.returncode == code and text in done.stderr, f"{done.returncode}: {done.stderr}")


def the_shared_cache_is_read_first():
    hub, cache = Hub(), os.path.join(FOLDER, "hub cache")
    snapshot = os.path.join(cache, "models--org--repo", "snapshots", COMMIT)
    os.makedirs(snapshot)
    os.makedirs(os.path.join(cache, "models--org--repo", "refs"))
    for name in os.listdir(MODEL):
        os.symlink(os.path.join(MODEL, name), os.path.join(snapshot, name))
    with open(os.path.join(cache, "models--org--repo", "refs", "main"), "w", encoding="utf-8") as file:
        file.write(COMMIT)
    before = sorted(os.walk(cache))
    environment = hub.environment | {"HF_HUB_CACHE": cache}
    done, weights = decoded("hf://org/repo", "cached.f32", **environment)
    expect("cache", done.returncode == 0 and weights == WEIGHTS, done.stderr)
    expect("cache", len(hub.front.seen) == 1 and not hub.store.seen, "more than the list was asked for")
    done, weights = decoded("hf://org/repo", "offline.f32", **(environment | {"HF_HUB_OFFLINE": "1"}))
    expect("offline", done.returncode == 0 and weights == WEIGHTS, done.stderr)
    expect("offline", len(hub.front.seen) == 1, "the Hub was asked")
    done = run("inspect", "hf://org/other", **(environment | {"HF_HUB_OFFLINE": "yes"}))
    expect("offline", done.returncode == 66 and "HF_HUB_OFFLINE" in done.stderr, done.stderr)
    expect("cache", sorted(os.walk(cache)) == before, "the cache was written")


def run_all(tasks):
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        for future in [pool.submit(*task) for task in tasks]:
            try:
                future.result()
            except Exception as error:  # a case that cannot run has failed
                failures.append(repr(error))


if __name__ == "__main__":
    run_all([(same_as_local,), (index_names_the_set,), (redirects_lead_elsewhere,), (changed_between_reads,),
             (hub_over_https,), (hub_over_http,), (the_shared_cache_is_read_first,),
             *((fault, case) for case in FAULTS)])
    print("\n".join(failures) or "all cases as they should be")
    sys.exit(1 if failures else 0)
