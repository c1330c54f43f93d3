"""Owns what the tests of remote models share: a model to serve, the servers on loopback that serve it and misbehave, calls of the
program against them, and the list of what went wrong.

A script that imports this is called with the program and an empty folder: SCRIPT PROGRAM FOLDER."""

import concurrent.futures
import hashlib
import json
import os
import subprocess
import sys
import urllib.parse

from servers import RangeServer
from test_script import call, fresh_folder

PROGRAM, FOLDER = map(os.path.abspath, sys.argv[1:3])
failures = []
fresh_folder(FOLDER)
MODEL = os.path.join(FOLDER, "model")
CLEAN = {key: value for key, value in os.environ.items()
         if not key.startswith(("HF_", "AWS_")) and not key.lower().endswith("_proxy")}
CLEAN["HOME"] = FOLDER


class Server(RangeServer):
    def __init__(self, folder=MODEL, certificate=None):
        super().__init__(folder, certificate)


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
with open(os.path.join(MODEL, SHARD), "rb") as model_file:
    SHARD_SHA256 = hashlib.sha256(model_file.read()).hexdigest()
assert WEIGHTS and os.path.getsize(os.path.join(MODEL, SHARD)) > 400_000, "the model is too small to test with"


def redirect(to):
    return lambda handler, name, number: handler.answer(302, Location=to(handler))


COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_secret"


class Hub:
    """Imitates the Hub's list of files, and its redirect of weights to another host whose signed addresses expire."""

    def __init__(self, pem=None):
        self.front, self.store = Server(certificate=pem), Server(certificate=pem)
        self.front.fault, self.store.fault, self.signed, self.lives = self.ask, self.fetch, 0, 1 << 30
        self.digests, self.commit = {SHARD: SHARD_SHA256}, COMMIT
        self.environment = {"HF_ENDPOINT": self.front.url, "HF_TOKEN": TOKEN, "HF_HUB_DOWNLOAD_TIMEOUT": "5"}
        if pem:
            self.environment["SSL_CERT_FILE"] = pem

    def ask(self, handler, name, _):
        if handler.server.etag == "private" and handler.headers.get("Authorization") != f"Bearer {TOKEN}":
            return handler.answer(401, b"Invalid username or password.", X_Error_Code="GatedRepo")
        if name in ("api/models/org/repo/revision/main", "api/models/org/repo/revision/refs/pr/1"):
            files = [{"rfilename": file} for file in [*os.listdir(MODEL), "more/README.md"]]
            return handler.answer(200, json.dumps({"sha": self.commit, "siblings": files}).encode())
        if name == f"api/models/org/repo/revision/{self.commit}" and handler.path.endswith("?blobs=true"):
            files = [{"rfilename": file, "blobId": "0" * 40} | ({"lfs": {"sha256": digest, "size": 1, "pointerSize": 1}} if digest
                                                                else {}) for file, digest in self.digests.items()]
            return handler.answer(200, json.dumps({"sha": self.commit, "siblings": files}).encode())
        prefix = f"org/repo/resolve/{self.commit}/"
        if not name.startswith(prefix):
            return handler.answer(404, X_Error_Code="RepoNotFound")
        file = name[len(prefix):]
        if not file.endswith(".safetensors"):
            return handler.file(os.path.join(MODEL, file)) or True
        self.signed += 1
        return handler.answer(302, Location=f"{self.store.url}/{file}?signature={self.signed}", X_Repo_Commit=self.commit,
                              X_Linked_ETag='"sha"')

    def fetch(self, handler, _, number):
        signature = int(urllib.parse.urlsplit(handler.path).query.partition("=")[2])
        if number >= self.lives and signature == 1:
            return handler.answer(403, b"expired")
        return None


def run_all(tasks):
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        for future in [pool.submit(*task) for task in tasks]:
            try:
                future.result()
            except Exception as error:  # a case that cannot run has failed
                failures.append(repr(error))


def end():
    """Says what went wrong, and ends the script."""
    print("\n".join(failures) or "all cases as they should be")
    sys.exit(1 if failures else 0)
