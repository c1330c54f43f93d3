#!/usr/bin/env python3
"""Secrets in addresses: remote_secrets.py PROGRAM FOLDER.

Every command that takes an address is given one with a signature, and everything that it prints and writes is searched for it;
addresses, endpoints and proxies with passwords likewise. Names of servers that are none end at once. The standard library is
enough."""

import glob
import json
import os
import struct
import zlib

from remote_server import COMMIT, FOLDER, MODEL, SHARD, TENSOR, Hub, Server, end, expect, run, run_all

SECRET = "TOPSECRET"
SIGNED = f"X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={SECRET}&X-Amz-Signature={SECRET}"


def written(path):
    """What lies at a path, a file or a folder of them; whatever of it is deflated as it was before."""
    files = [path] if os.path.isfile(path) else glob.glob(path + "/**", recursive=True)
    content = b""
    for name in filter(os.path.isfile, files):
        with open(name, "rb") as file:
            content += file.read()
    for begin in (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda"):
        at = content.find(begin)
        while at >= 0:
            try:
                content += zlib.decompressobj().decompress(content[at:])
            except zlib.error:
                pass
            at = content.find(begin, at + 1) if len(content) < 1 << 26 else -1
    return content


def searched(case, done, *paths, code=0):
    expect(case, done.returncode == code, f"{done.returncode}: {done.stderr}")
    expect(case, SECRET not in done.stdout + done.stderr, f"shown: {done.stdout} {done.stderr}")
    for path in paths:
        expect(case, os.path.exists(path), f"{path} is not there")
        expect(case, SECRET.encode() not in written(path), f"written to {path}")


def out(name):
    return os.path.join(FOLDER, name)


def signed_addresses():
    address = f"{Server().url}/{SHARD}?{SIGNED}"
    local = os.path.join(MODEL, SHARD)
    for command in (["inspect", "--tensors", "--json"], ["inspect"], ["plan", "--json"], ["plan"]):
        searched(command, run(*command, address))
    results = out("signed.h5")
    for _ in range(2):  # and where it goes on
        searched("measure", run("-v", "measure", address, "-o", results, "--backend", "cpu", "--progress", "plain"), results)
    for what in ("show", "status", "validate"):
        searched(what, run(what, results))
        searched(what, run(what, results, "--json") if what != "validate" else run(what, results))
    for form in ("csv", "json", "weightwatcher", "phase-json"):
        run("export", results, "--format", form, "-o", out("signed." + form))
        if os.path.exists(out("signed." + form)):
            searched(form, run("--version"), out("signed." + form))
    searched("report", run("report", results, "-o", out("signed.html")), out("signed.html"))
    parts = out("signed_parts.h5")
    searched("worker", run("measure", address, "-o", parts, "--backend", "cpu", "--worker", "0/2"), parts + ".parts")
    for pair in ([address, local], [local, address], [address, address]):
        name = out(f"compare{len(pair[0])}{len(pair[1])}.h5")
        searched("compare", run("compare", *pair, "-o", name), name)
    searched("decode", run("decode", address, "--tensor", TENSOR, "-o", out("signed.f32")))
    searched("experts", run("experts", address, "-o", out("signed_experts.h5")), out("signed_experts.h5"))
    searched("extract", run("organ", "extract", address, "-o", out("signed_organs")), out("signed_organs"))
    searched("extract --json", run("organ", "extract", address, "--json", "-o", out("signed_organs2")))
    searched("organ measure", run("organ", "measure", address, "-o", out("signed_organ.h5"), "--report", out("signed_organ.json")),
             out("signed_organ.h5"), out("signed_organ.json"))
    searched("organ diff", run("organ", "diff", address, local))
    searched("edit", run("edit", "delete", address, "--tensor", TENSOR, "--direction", "singular", "0", "-o", out("signed_edited.safetensors"),
                         "--save-patch", out("signed_patch.safetensors")), out("signed_edited.safetensors"), out("signed_patch.safetensors"))
    searched("adapter", run("edit", "delete", address, "--tensor", TENSOR, "--direction", "singular", "0", "--as", "lora", "-o",
                            out("signed_adapter")), out("signed_adapter"))


def refusals():
    server = Server()
    server.fault = lambda handler, name, number: handler.answer(403, b"denied")
    host = server.url.removeprefix("http://")
    searched("denied", run("inspect", f"{server.url}/{SHARD}?{SIGNED}"), code=69)
    searched("redirected", run("inspect", f"{redirecting().url}/{SHARD}?{SIGNED}"), code=69)
    for address in (f"http://user:{SECRET}@{host}/{SHARD}", f"http://{SECRET}@{host}/{SHARD}", f"https://user:{SECRET}@{host}",
                    f"http://user:{SECRET} {SECRET}@{host}/a", f"s3://{SECRET}:{SECRET}@bucket/a", f"hf://user:{SECRET}@org/repo",
                    f"hf://org/repo?token={SECRET}", f"gs://user:{SECRET}@host/a", f"http://{host}/a b?{SIGNED}",
                    f"file://user:{SECRET}@host/a", "http://user:" + SECRET * 40 + "@host/a"):
        for command in (["inspect"], ["measure", "-o", out("none.h5")], ["compare", MODEL, "-o", out("none.h5")]):
            searched(address, run(*command, address), code=64)
    expect("refusals", not os.path.exists(out("none.h5")), "something was written")
    for endpoint in (f"http://user:{SECRET}@{host}", f"user:{SECRET}@{host}", f"http://{host}/?{SECRET}"):
        searched(endpoint, run("inspect", "hf://org/repo", HF_ENDPOINT=endpoint), code=78)
        searched(endpoint, run("inspect", "s3://bucket/a.gguf", AWS_ENDPOINT_URL=endpoint), code=78)
    proxy = f"http://user:{SECRET}@127.0.0.1:1"
    searched("proxy", run("-v", "inspect", f"http://example.invalid/{SHARD}", http_proxy=proxy), code=69)
    expect("refusals", not any("user" in name or SECRET in name for name, _ in server.seen), "a refused address was asked for")


def redirecting():
    server = Server()
    server.fault = lambda handler, name, number: handler.answer(302, Location=f"ftp://user:{SECRET}@host/a?{SIGNED}")
    return server


def the_hubs_signed_addresses():
    """Where the Hub sends a client to is its own secret."""
    hub, results = Hub(), out("hub.h5")
    done = run("-v", "measure", "hf://org/repo", "-o", results, "--backend", "cpu", **hub.environment)
    expect("hub", done.returncode == 0 and "signature=" not in done.stderr, done.stderr)
    expect("hub", b"signature=" not in written(results) and COMMIT.encode() in written(results), "in the results")


def names_that_choose_no_server():
    """The server that a bucket's text names is never asked, and ports that are none are refused at once."""
    server = Server()
    port = server.url.rpartition(":")[2]
    for address in (f"s3://127.0.0.1:{port}#/a.gguf", f"s3://127.0.0.1:{port}?/a.gguf", f"s3://localhost:{port}#/a",
                    f"s3://localhost:{port}?x/a", f"s3://a@127.0.0.1:{port}#/b", f"s3://127.0.0.1:{port}/a", "s3://localhost:1/a",
                    f"hf://127.0.0.1:{port}#/repo", f"hf://org@127.0.0.1:{port}/repo#", f"http://127.0.0.1:{port}0000/a",
                    "http://127.0.0.1:0/a", "https://127.0.0.1:65536/a", "https://127.0.0.1:99999999999/a", "http://127.0.0.1:x/a",
                    "http://127.0.0.1:/a", "https://[::1/a", "https://:80/a"):
        done = run("inspect", address)
        expect(address, done.returncode == 64 and "E-REMOTE-ADDRESS" in done.stderr, f"{done.returncode}: {done.stderr}")
    for endpoint in ("http://127.0.0.1:0", "http://127.0.0.1:70000", "https://127.0.0.1:x"):
        for address, name in (("hf://org/repo", "HF_ENDPOINT"), ("s3://bucket/a.gguf", "AWS_ENDPOINT_URL")):
            done = run("inspect", address, **{name: endpoint})
            expect(endpoint, done.returncode == 78, f"{done.returncode}: {done.stderr}")
    for proxy in ("http://127.0.0.1:99999", f"user:{SECRET}@127.0.0.1:0"):
        done = run("inspect", "http://example.invalid/a", http_proxy=proxy)
        expect(proxy, done.returncode == 78 and "E-PROXY" in done.stderr and SECRET not in done.stderr, done.stderr)
    expect("servers", not server.seen, "the server was asked")


def names_stay_what_they_are():
    """A tensor may be called like an address: nothing is taken from its name, or two would be one."""
    names = ["http://h/?a", "http://h/?b=c", "http://u:p@h/"]
    header = {name: {"dtype": "F32", "shape": [8, 8], "data_offsets": [256 * i, 256 * i + 256]} for i, name in enumerate(names)}
    text = json.dumps(header).encode()
    with open(out("names.safetensors"), "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + struct.pack("<192f", *(float(i * i % 97) for i in range(192))))
    done = run("measure", out("names.safetensors"), "-o", out("names.h5"), "--backend", "cpu")
    expect("names", done.returncode == 0, done.stderr)
    expect("names", run("validate", out("names.h5")).returncode == 0, "not valid")
    done = run("export", out("names.h5"), "--format", "csv", "-o", out("names.csv"))
    with open(out("names.csv"), encoding="utf-8") as file:
        shown = file.read()
    expect("names", all(name in shown for name in names), shown)


run_all([(names_stay_what_they_are,), (signed_addresses,), (refusals,), (the_hubs_signed_addresses,), (names_that_choose_no_server,)])
end()
