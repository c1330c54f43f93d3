"""Our CPU back end against numpy and scipy in one run, samples interleaved so that a busy machine
slows all alike. Prints the form vindex-bench/1.

    python3 bench/compare_cpu.py --program build/cpu/bench/spectra_bench > bench/results/cpu.json
"""
import argparse
import datetime
import json
import os
import subprocess
import sys

PEERS = ("scipy.linalg.svdvals", "numpy.gram+eigvalsh", "scipy.gram+eigvalsh")
DEFAULT_CASES = ("default:7168:2048:F32", "default:2048:7168:BF16", "default:7168:2048:F8")


def clean_environment():
    """OPENBLAS_* variables choose kernels and threads: nobody gets any."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("OPENBLAS_", "OMP_", "GOTO_"))}


def run_ours(program, case, workers):
    done = subprocess.run(
        [program, "--samples", "1", "--workers", str(workers), "--case", case],
        env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return json.loads(done.stdout)


def run_peer(process, peer, case):
    _, rows, cols, encoding = case.split(":")
    process.stdin.write(f"{peer} {rows} {cols} {encoding}\n")
    process.stdin.flush()
    answer = process.stdout.readline()
    if not answer:
        sys.exit(f"compare_cpu: peer {peer} died on {case}")
    return json.loads(answer)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True)
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2, help="our matrices at a time, peers' threads")
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--case", action="append", dest="cases")
    arguments = parser.parse_args()

    folder = os.path.dirname(os.path.abspath(__file__))
    peers = subprocess.Popen(
        [sys.executable, os.path.join(folder, "peers_cpu.py"), "--threads", str(arguments.workers)],
        env=clean_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    rows, host, blas = [], None, ""
    for case in arguments.cases or DEFAULT_CASES:
        _, row_count, col_count, encoding = case.split(":")
        ours, theirs = None, {peer: [] for peer in PEERS}
        for peer in PEERS:  # warms caches, dropped
            run_peer(peers, peer, case)
        for _ in range(arguments.samples):
            report = run_ours(arguments.program, case, arguments.workers)
            host = report["host"]
            if ours is None:
                ours = report["rows"][0]
            else:
                ours["samples"] += report["rows"][0]["samples"]
            for peer in PEERS:
                answer = run_peer(peers, peer, case)
                blas = answer["blas"]
                theirs[peer].append(answer["ms"])
        rows.append(ours)
        for peer, samples in theirs.items():
            rows.append({**ours, "route": "library", "batch": 1, "peer": peer, "samples": samples})
        best = ", ".join(f"{peer} {min(s):.0f}" for peer, s in theirs.items())
        print(f"{case}: ours {min(ours['samples']):.0f} ms, {best}", file=sys.stderr)
    peers.stdin.close()
    peers.wait()
    host["blas"] += "; peers " + blas
    json.dump({
        "schema": "vindex-bench/1",
        "commit": arguments.commit,
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "host": host,
        "gpu": None,
        "command": " ".join(sys.argv),
        "rows": rows,
    }, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
