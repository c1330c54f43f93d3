#!/usr/bin/env python3
"""Load on vindex-serve: rows of a file of 69,120 matrices, asked for by many clients at once.

    bench/speed/serve_load.py VINDEX [--clients 32] [--repeats 5] [--seconds 4] [--kills 200] > RESULTS.json

VINDEX is the program; the server is the Python of this script (`pip install 'python/[serve]'`). The file has the columns of
`vindex measure`, of a small model, its rows repeated with h5py. Every client keeps one connection and asks again as soon as
it is answered. Clients and server share the cores of this machine. Prints the form of bench/records/check_form.py: a sample is
the time between two answers, or the time that 99 % of the answers stayed below, of one repeat. With --kills also the share
of jobs that are lost when the server is killed that often (python/tests/serve/kill_walk.py).
"""
import argparse
import asyncio
import datetime
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

import h5py
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python" / "tests" / "serve"))
from organ_speed import cpu_name  # pylint: disable=wrong-import-position
import kill_walk  # pylint: disable=wrong-import-position
from serving import Server, synthesize  # pylint: disable=wrong-import-position

ROWS = 69120


def enlarge(small, large, rows=ROWS):
    """Writes the results file `large`: attributes and columns of `small`, its rows repeated."""
    with h5py.File(small) as source, h5py.File(large, "w", libver=("earliest", "v110")) as target:
        for name, value in source.attrs.items():
            target.attrs[name] = value
        count = len(source["matrix/matrix"])
        places = np.arange(rows) % count
        for name, data in source["matrix"].items():
            if name == "k":
                target[f"matrix/{name}"] = data[()]
            else:
                values = np.arange(rows) if name == "matrix" else data[()][places]
                options = {} if values.dtype == object else {"shuffle": True, "compression": "gzip", "fletcher32": True}
                target.create_dataset(f"matrix/{name}", data=values, dtype=data.dtype, chunks=True, **options)
            for key in ("flag_values", "flag_meanings", "long_name", "units"):
                if key in data.attrs:
                    target[f"matrix/{name}"].attrs[key] = data.attrs[key]
        target["matrix/matrix"].make_scale("matrix")
        target["matrix/k"].make_scale("k")


async def answers(host, port, clients, seconds, path_of):
    """Seconds of every answer to `clients` that ask for `seconds`; seconds of all of it; bytes of all bodies."""
    times, sizes = [], []
    streams = [await asyncio.open_connection(host, port) for _ in range(clients)]
    begin = time.perf_counter()

    async def client(number, reader, writer):
        draws = random.Random(number)
        while (start := time.perf_counter()) < begin + seconds:
            writer.write(f"GET {path_of(draws)} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            size = int(head.partition(b"content-length: ")[2].split(b"\r\n")[0])
            body = await reader.readexactly(size)
            times.append(time.perf_counter() - start)
            sizes.append(size)
            assert head.startswith(b"http/1.1 200 "), body
        writer.close()

    await asyncio.gather(*(client(number, *stream) for number, stream in enumerate(streams)))
    return times, time.perf_counter() - begin, sum(sizes)


def load(*arguments):
    return asyncio.run(answers(*arguments))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vindex")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--kills", type=int, default=0)
    arguments = parser.parse_args()
    os.environ["VINDEX_PROGRAM"] = arguments.vindex
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        models = pathlib.Path(folder, "models")
        models.mkdir()
        synthesize("kimi-k2-mini", models / "model")
        server = Server(models, pathlib.Path(folder, "work"))
        job = server.run("measure", "model")["id"]
        result = server.work / "jobs" / job / "out" / "model.h5"
        enlarge(result, result.with_name("large.h5"))
        result.with_name("large.h5").rename(result)
        path = f"/v1/results/{job}/matrix"
        start = time.perf_counter()
        first = server.client.get(path).json()
        opening = time.perf_counter() - start
        assert first["total"] == ROWS
        cases = {
            "the first 100 rows, every column": lambda draws: path,
            "100 rows from anywhere, every column":
                lambda draws: f"{path}?cursor={draws.randrange(ROWS - 100)}-{first['next_cursor'].partition('-')[2]}",
            "100 rows from anywhere, of one role, two statistics":
                lambda draws: f"{path}?role=down_proj&columns=tensor,layer,stable_rank,effective_rank"
                              f"&cursor={draws.randrange(20000)}-{first['next_cursor'].partition('-')[2]}",
        }
        host, port = server.url.removeprefix("http://").split(":")
        for what, path_of in cases.items():
            between, slow, count, size, longest = [], [], 0, 0, 0.0
            load(host, int(port), arguments.clients, 1, path_of)
            for _ in range(arguments.repeats):
                times, seconds, bytes_sent = load(host, int(port), arguments.clients, arguments.seconds, path_of)
                between.append(round(1e6 * seconds / len(times), 1))
                slow.append(round(1e6 * float(np.quantile(times, 0.99)), 1))
                count, size, longest = count + len(times), size + bytes_sent, max(longest, *times)
            rate = 1e6 / float(np.median(between))
            shared = {"route": f"GET .../matrix, {what}", "backend": "cpu", "rows": ROWS, "cols": len(first["columns"]),
                      "batch": arguments.clients, "encoding": "JSON", "unit": "microseconds", "limit": None, "peer": None}
            load_average = f"load average {os.getloadavg()[0]:.1f}"
            rows.append({"name": "probe.serve.between_answers", **shared, "samples": between,
                         "note": f"{rate:.0f} answers a second of {size / count / 1000:.0f} kB; {load_average}"})
            rows.append({"name": "probe.serve.p99", **shared, "samples": slow,
                         "note": f"the longest of {count} answers took {1000 * longest:.0f} ms; {load_average}"})
        rows.append({"name": "probe.serve.first_answer", **shared, "route": "GET .../matrix, the file read for the first time",
                     "batch": 1, "samples": [round(1e6 * opening, 1)]})
        server.stop()
        if arguments.kills:
            counts = kill_walk.walk(models, pathlib.Path(folder, "walk"), arguments.kills)
            assert not kill_walk.failed(counts), counts
            lost = 1 - counts["states"]["done"] / counts["answered"]
            rows.append({"name": "probe.serve.lost_jobs", "route": "kill -9 of the server at random moments", "backend": "cpu",
                         "rows": 0, "cols": 0, "batch": arguments.kills, "encoding": "JSON", "unit": "share", "samples": [lost],
                         "limit": None, "peer": None, "note": json.dumps(counts)})
    print(json.dumps({
        "schema": "vindex-bench/1",
        "commit": subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], cwd=ROOT, capture_output=True, text=True,
                                 check=True).stdout.strip(),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "host": {"cpu": cpu_name(), "cores": len(os.sched_getaffinity(0)),
                 "memory_gib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, "blas": "none used"},
        "gpu": None,
        "command": f"bench/speed/serve_load.py vindex --clients {arguments.clients} --repeats {arguments.repeats} "
                   f"--seconds {arguments.seconds:g} --kills {arguments.kills}",
        "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
