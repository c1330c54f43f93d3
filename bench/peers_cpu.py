"""Peers of the CPU back end: what a user would call from Python, milliseconds per matrix.

Reads one line "peer rows cols encoding" per sample from standard input and answers with one line of
JSON, so that compare_cpu.py can interleave peers with our own program. The process uses the threads
it is given by the caller's --threads (BLAS pools are limited through the library's own entry points,
not through the environment).
"""
import argparse
import ctypes
import glob
import json
import os
import sys
import time

import numpy
import scipy
import scipy.linalg


def blas_pools():
    """Handles, names and core types of the OpenBLAS copies inside numpy and scipy."""
    pools = []
    for package in (numpy, scipy):
        folder = os.path.join(os.path.dirname(package.__file__), "..", package.__name__ + ".libs")
        for path in glob.glob(os.path.join(folder, "lib*openblas*")):
            library = ctypes.CDLL(path)
            for prefix, suffix in (("scipy_", "64_"), ("scipy_", ""), ("", "64_"), ("", "")):
                try:
                    core = getattr(library, f"{prefix}openblas_get_corename{suffix}")
                    limit = getattr(library, f"{prefix}openblas_set_num_threads{suffix}")
                except AttributeError:
                    continue
                core.restype = ctypes.c_char_p
                pools.append((package.__name__, core().decode(), limit))
                break
    return pools


def weights(rows, cols, encoding):
    """Noise rounded as the encoding rounds; peers get float32, already decoded."""
    noise = numpy.random.default_rng(1).standard_normal((rows, cols), dtype=numpy.float32)
    if encoding != "F32":  # both others are exact in bfloat16
        noise = (noise.view(numpy.uint32) & numpy.uint32(0xFFFF0000)).view(numpy.float32)
    return noise


def gram(matrix):
    return matrix.T @ matrix if matrix.shape[0] >= matrix.shape[1] else matrix @ matrix.T


PEERS = {
    "scipy.linalg.svdvals": lambda a: scipy.linalg.svdvals(a, check_finite=False),
    "numpy.gram+eigvalsh": lambda a: numpy.sqrt(numpy.abs(numpy.linalg.eigvalsh(gram(a)))),
    "scipy.gram+eigvalsh": lambda a: numpy.sqrt(
        numpy.abs(scipy.linalg.eigvalsh(gram(a), check_finite=False))
    ),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    threads = parser.parse_args().threads
    pools = blas_pools()
    for _, _, limit in pools:
        limit(threads)
    blas = ", ".join(f"{name}: OpenBLAS {core}" for name, core, _ in pools) or "unknown"
    cache = {}
    for line in sys.stdin:
        peer, rows, cols, encoding = line.split()
        key = (int(rows), int(cols), encoding)
        if key not in cache:
            cache = {key: weights(*key)}
        start = time.perf_counter()
        PEERS[peer](cache[key])
        elapsed = 1e3 * (time.perf_counter() - start)
        print(json.dumps({"ms": elapsed, "blas": blas, "threads": threads}), flush=True)


if __name__ == "__main__":
    main()
