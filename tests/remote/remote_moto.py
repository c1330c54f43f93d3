#!/usr/bin/env python3
"""Models in S3 as the package moto imitates it: remote_moto.py PROGRAM FOLDER."""

import os
import urllib.request

from moto.server import ThreadedMotoServer

from remote_server import FOLDER, MODEL, WEIGHTS, decoded, end, expect, run, run_all

BUCKET, OTHERS = "models", 1001  # more than a page of the listing holds


def put(url, body=b""):
    request = urllib.request.Request(url, data=body, method="PUT")
    request.add_header("Content-Type", "application/octet-stream")
    request.add_header("Authorization", "AWS4-HMAC-SHA256 Credential=k/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, "
                                        "Signature=0")
    with urllib.request.urlopen(request, timeout=60):
        pass


def read_from_moto():
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        put(f"{endpoint}/{BUCKET}")
        for name in sorted(os.listdir(MODEL)):
            with open(os.path.join(MODEL, name), "rb") as file:
                put(f"{endpoint}/{BUCKET}/set/{name}", file.read())
        for i in range(OTHERS):
            put(f"{endpoint}/{BUCKET}/set/a{i:05}.txt")
        environment = {"AWS_ENDPOINT_URL_S3": endpoint, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
        done, weights = decoded(f"s3://{BUCKET}/set", "moto.f32", **environment)
        expect("folder", done.returncode == 0 and weights == WEIGHTS, done.stderr)
        out = os.path.join(FOLDER, "moto.h5")
        done = run("measure", f"s3://{BUCKET}/set/", "-o", out, "--backend", "cpu", **environment)
        expect("measure", done.returncode == 0, done.stderr)
        done = run("inspect", f"s3://{BUCKET}/set/none.gguf", **environment)
        expect("missing", done.returncode == 66 and "E-FILE-MISSING" in done.stderr, done.stderr)
    finally:
        server.stop()


if __name__ == "__main__":
    run_all([(read_from_moto,)])
    end()
