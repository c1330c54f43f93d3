#!/usr/bin/env python3
"""Models of the Hugging Face Hub: remote_hub.py PROGRAM FOLDER.

Its imitation on loopback lists the files of one commit and leads to another host for the weights, by addresses that expire. The
standard library is enough; without the command openssl nothing is tried over https."""

import json
import os
import shutil
import time

from remote_server import (COMMIT, FOLDER, MODEL, SHARD, SHARD_SHA256, TOKEN, WEIGHTS, Hub, Server, decoded, end, expect, redirect,
                           run, run_all)
from servers import certificate


def hub_over_https():
    pem = certificate(FOLDER)
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
    # A worker that has the commit in its cache, one that reads it from the Hub, and one for whom the branch has moved.
    out = os.path.join(FOLDER, "workers.h5")
    parts = ["measure", "hf://org/repo", "-o", out, "--backend", "cpu", "--worker"]
    for share, of_worker in (("0/2", environment | {"HF_HUB_OFFLINE": "1"}), ("1/2", hub.environment)):
        done = run(*parts, share, **of_worker)
        expect("worker " + share, done.returncode == 0, done.stderr)
    hub.commit = COMMIT[::-1]
    done = run(*parts, "1/2", **hub.environment)
    expect("moved", done.returncode == 78 and f"revision was '{COMMIT}', now '{COMMIT[::-1]}'" in done.stderr, done.stderr)
    done = run("merge", out + ".parts", "-o", out)
    expect("merge of one commit", done.returncode == 0, done.stderr)
    done = run("inspect", "hf://org/other", **(environment | {"HF_HUB_OFFLINE": "yes"}))
    expect("offline", done.returncode == 66 and "HF_HUB_OFFLINE" in done.stderr, done.stderr)
    expect("cache", sorted(os.walk(cache)) == before, "the cache was written")


def digests_are_compared():
    hub, wrong = Hub(), "f" * 64
    done = run("inspect", "hf://org/repo", "--verify", **hub.environment)
    expect("verify", done.returncode == 0 and "published" in done.stderr, done.stderr)
    out = os.path.join(FOLDER, "verified.h5")
    done = run("measure", "hf://org/repo", "-o", out, "--verify", "--backend", "cpu", **hub.environment)
    expect("verify", done.returncode == 0 and "SHA-256" in done.stderr, done.stderr)
    for digest, code, text in ((wrong, 65, "E-DIGEST"), (None, 64, "E-VERIFY"), ("short", 64, "E-VERIFY")):
        hub.digests = {SHARD: digest}
        out = os.path.join(FOLDER, f"{digest}.h5")
        done = run("measure", "hf://org/repo", "-o", out, "--verify", "--backend", "cpu", **hub.environment)
        expect(f"verify {digest}", done.returncode == code and text in done.stderr and not os.path.exists(out), done.stderr)
    done = run("inspect", f"{Server().url}/{SHARD}", "--verify")
    expect("verify https", done.returncode == 64 and "E-VERIFY" in done.stderr, done.stderr)
    # In a cache, names of blobs are digests.
    for digest, code in ((SHARD_SHA256, 0), (wrong, 65)):
        cache = os.path.join(FOLDER, f"blobs {code}")
        repository = os.path.join(cache, "models--org--repo")
        snapshot = os.path.join(repository, "snapshots", COMMIT)
        for folder in (snapshot, os.path.join(repository, "blobs"), os.path.join(repository, "refs")):
            os.makedirs(folder)
        shutil.copy(os.path.join(MODEL, SHARD), os.path.join(repository, "blobs", digest))
        os.symlink(f"../../blobs/{digest}", os.path.join(snapshot, SHARD))
        shutil.copy(os.path.join(MODEL, "config.json"), snapshot)
        done = run("inspect", f"hf://org/repo@{COMMIT}", "--verify", HF_HUB_CACHE=cache, HF_HUB_OFFLINE="1")
        expect(f"verify the cache: {code}", done.returncode == code, f"{done.returncode}: {done.stderr}")


def timeouts_and_quotas():
    """The last answer of a quota says when the next one may be asked for."""
    hub = Hub()
    asked, inner = [], hub.ask

    def ask(handler, name, number):
        if name.startswith("api/"):
            asked.append(time.monotonic())
            files = [{"rfilename": file} for file in os.listdir(MODEL)]
            return handler.answer(200, json.dumps({"sha": COMMIT, "siblings": files}).encode(), RateLimit='"api";r=0;t=2')
        asked.append(time.monotonic())
        return inner(handler, name, number)
    hub.front.fault = ask
    done = run("inspect", "hf://org/repo", **(hub.environment | {"HF_HUB_ENABLE_HF_TRANSFER": "1"}))
    expect("quota", done.returncode == 0, done.stderr)
    expect("quota", len(asked) > 1 and asked[1] - asked[0] >= 2, asked)
    expect("dead variable", "W-HF-TRANSFER" in done.stderr, done.stderr)


if __name__ == "__main__":
    run_all([(digests_are_compared,), (timeouts_and_quotas,), (hub_over_https,), (hub_over_http,), (the_shared_cache_is_read_first,)])
    end()
