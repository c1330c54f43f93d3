#!/usr/bin/env python3
"""Models on a real web server: remote_nginx.py PROGRAM FOLDER.

nginx serves a small model over http and, where the command openssl is there, over https with HTTP/2."""

import os
import sys

from servers import NGINX, certificate, nginx

if NGINX is None:
    print("skipped: no nginx; on Debian: apt-get install nginx-light")
    sys.exit(77)

from remote_server import FOLDER, MODEL, SHARD, WEIGHTS, decoded, end, expect, run  # pylint: disable=wrong-import-position


def read_from(url, environment):
    scheme = url.partition(":")[0]
    done, weights = decoded(f"{url}/{SHARD}", f"{scheme}.f32", **environment)
    expect(url, done.returncode == 0 and weights == WEIGHTS, done.stderr)
    done = run("measure", f"{url}/{SHARD}", "-o", os.path.join(FOLDER, f"{scheme}.h5"), "--backend", "cpu", **environment)
    expect(url, done.returncode == 0, done.stderr)
    done = run("inspect", f"{url}/none.gguf", **environment)
    expect(url, done.returncode == 66 and "E-FILE-MISSING" in done.stderr, done.stderr)


if __name__ == "__main__":
    pem = certificate(FOLDER)
    if pem is None:
        print("no openssl: nothing is tried over https")
    with nginx(os.path.join(FOLDER, "nginx"), MODEL, pem) as addresses:
        for address in filter(None, addresses):
            read_from(address, {"SSL_CERT_FILE": pem} if pem else {})
    end()
