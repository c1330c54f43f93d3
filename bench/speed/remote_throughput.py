#!/usr/bin/env python3
"""Times reading a model from nginx on this machine by `vindex bench read` against curl for the same bytes, in turn, in one run,
over http and over https.

    python3 bench/speed/remote_throughput.py PROGRAM FOLDER [--model layer:320x2048x1408:bf16] [--repeats 5] > bench/results/MACHINE/NAME.json

FOLDER gets the model (1.8 GB at the default; in the page cache where memory allows) and is emptied at the end. curl writes to
/dev/null, once with one connection and once with eight ranges side by side, which is how the program reads: the better one of the
two is the peer. Server and client share the processor. None of them inherits OPENBLAS_* variables. Needs nginx, curl and openssl.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

from organ_speed import cpu_name

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "support"))
from servers import NGINX, certificate, nginx  # pylint: disable=wrong-import-position

CONNECTIONS = 8


def curl_seconds(address, names, sizes, connections, pem, environment):
    """Of fetching every file of `names`, each in `connections` ranges at once."""
    begin = time.perf_counter()
    for name in names:
        command = ["curl", "--parallel", "--parallel-max", str(connections)]
        share = -(-sizes[name] // connections)
        for i in range(connections):
            command += [*(["--next"] if i else []), *(["--cacert", pem] if pem else []), "--fail", "--range",
                        f"{i * share}-{min((i + 1) * share, sizes[name]) - 1}", "--output", "/dev/null", f"{address}/{name}"]
        subprocess.run(command, check=True, env=environment, stderr=subprocess.DEVNULL)  # a progress meter that --silent leaves
    return time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--model", default="layer:320x2048x1408:bf16")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    if NGINX is None or shutil.which("curl") is None:
        sys.exit("nginx or curl is missing; on Debian: apt-get install nginx-light curl")
    folder = arguments.folder.resolve()
    root = folder / "model"
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("OPENBLAS_") and not name.lower().endswith("_proxy")}
    folder.mkdir(parents=True)
    pem = certificate(folder)
    if pem is None:
        sys.exit("openssl is missing")
    subprocess.run([arguments.program, "-q", "synth", arguments.model, "-o", str(root)], check=True, env=environment)
    names = sorted(path.name for path in root.glob("*.safetensors"))
    sizes = {name: (root / name).stat().st_size for name in names}
    total = sum(sizes.values())
    header = json.loads(subprocess.run([arguments.program, "inspect", str(root), "--json"], check=True, capture_output=True,
                                       text=True, env=environment).stdout)
    first = header["by_block"][0]

    def vindex_rate(address):
        # One file names the model: a web server lists no folder.
        index = root / "model.safetensors.index.json"
        name = index.name if index.exists() else names[0]
        done = subprocess.run([arguments.program, "-q", "bench", "--sections", "read", "--model", f"{address}/{name}",
                               "--samples", "1", "--json", "--backend", "cpu"], check=True, capture_output=True, text=True,
                              env=environment | {"SSL_CERT_FILE": pem})
        return max(sample for row in json.loads(done.stdout)["rows"] if row["name"] == "read" for sample in row["samples"])

    rows = []
    with nginx(str(folder / "nginx"), str(root), pem) as addresses:
        for address in addresses:
            scheme = address.partition(":")[0]
            samples = {"curl": [], f"curl, {CONNECTIONS} ranges at once": [], None: []}
            for _ in range(arguments.repeats):
                for peer, connections in (("curl", 1), (f"curl, {CONNECTIONS} ranges at once", CONNECTIONS)):
                    samples[peer].append(total * 1e-9 / curl_seconds(address, names, sizes, connections, pem, environment))
                samples[None].append(vindex_rate(address))
            medians = {peer: statistics.median(values) for peer, values in samples.items()}
            best = max(value for peer, value in medians.items() if peer)
            for peer, values in samples.items():
                rows.append({"name": "read", "route": f"{scheme}, nginx on this machine", "backend": "cpu", "rows": first["rows"],
                             "cols": first["cols"], "batch": header["matrices"], "encoding": first["encoding"], "unit": "gb_per_s",
                             "samples": [round(value, 3) for value in values], "limit": None, "peer": peer,
                             "note": f"{medians[peer] / best:.2f} of the better curl; {total * 1e-9:.1f} GB; load average "
                                     f"{os.getloadavg()[0]:.1f}"})
    version = subprocess.run([arguments.program, "--version"], check=True, capture_output=True, text=True).stdout
    print(json.dumps({"schema": "vindex-bench/1", "commit": version.split("(", 1)[1].split(",")[0] if "(" in version else "unknown",
                      "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                      "host": {"cpu": cpu_name(), "cores": len(os.sched_getaffinity(0)),
                               "memory_gib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, "blas": "none used"},
                      "gpu": None,
                      "command": f"bench/speed/remote_throughput.py vindex FOLDER --model {arguments.model} --repeats {arguments.repeats}",
                      "rows": rows}, indent=1))
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
