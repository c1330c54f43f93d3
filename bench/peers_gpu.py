#!/usr/bin/env python3
"""GPU peers of spectra.default, in the form vindex-bench/1: what a user would otherwise call on the same matrices.

Each peer gets the same seeded noise in float32, 7168 x 2048; CUDA events around the call after one warm-up; errors of
var@64 and of the largest and smallest value against float64 LAPACK on one matrix go to standard error.
Peers that are not installed are left out by name.
"""
import argparse
import datetime
import json
import os
import sys


def timed(torch, call, samples):
    call()
    torch.cuda.synchronize()
    out = []
    for _ in range(samples):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        out.append(start.elapsed_time(end))
    return out


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rows", type=int, default=7168)
    arguments.add_argument("--cols", type=int, default=2048)
    arguments.add_argument("--batch", type=int, default=16)
    arguments.add_argument("--samples", type=int, default=5)
    arguments.add_argument("--commit", default="unknown")
    options = arguments.parse_args()

    import numpy
    import torch

    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = False
    one = torch.randn(options.rows, options.cols, device="cuda")
    many = torch.randn(options.batch, options.rows, options.cols, device="cuda")
    exact = numpy.linalg.svd(one.double().cpu().numpy(), compute_uv=False)
    energy = (exact[:64] ** 2).sum() / (exact**2).sum()

    def squares_of(values):
        return torch.sqrt(torch.clamp(values, min=0)).flip(-1)

    def gram(matrices):
        return matrices.transpose(-1, -2) @ matrices

    peers = {
        "torch.svdvals.gesvd": (1, lambda m: torch.linalg.svdvals(m[0], driver="gesvd")),
        "torch.svdvals.gesvda": (1, lambda m: torch.linalg.svdvals(m[0], driver="gesvda")),
        "torch.eigvalsh.gram32": (options.batch, lambda m: squares_of(torch.linalg.eigvalsh(gram(m)))),
    }
    try:
        import cupy

        def cupy_gram(matrices):
            array = cupy.from_dlpack(matrices)
            return cupy.linalg.eigvalsh(array.transpose(0, 2, 1) @ array)

        peers["cupy.eigvalsh.gram32"] = (options.batch, cupy_gram)
    except ImportError as error:
        print(f"cupy is left out: {error}", file=sys.stderr)

    rows = []
    for name, (batch, call) in peers.items():
        matrices = many[:batch].contiguous()
        try:
            milliseconds = timed(torch, lambda: call(matrices), options.samples)
            if name.startswith("torch"):
                values = call(one[None]).double().cpu().numpy().ravel()
                error = abs((values[:64] ** 2).sum() / (values**2).sum() - energy)
                print(f"{name}: var@64 off by {error:.2e}, s_1 by {abs(values[0] / exact[0] - 1):.2e}, "
                      f"s_p by {abs(values[-1] / exact[-1] - 1):.2e}", file=sys.stderr)
        except RuntimeError as error:
            print(f"{name} failed: {error}", file=sys.stderr)
            continue
        rows.append({"name": "spectra.default", "route": name.split(".")[-1], "backend": "cuda", "rows": options.rows,
                     "cols": options.cols, "batch": batch, "encoding": "F32", "unit": "ms_per_matrix",
                     "samples": [value / batch for value in milliseconds], "limit": None, "peer": name})

    driver = os.popen("nvidia-smi --query-gpu=driver_version --format=csv,noheader").read().strip()
    json.dump({"schema": "vindex-bench/1", "commit": options.commit,
               "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
               "host": {"cpu": open("/proc/cpuinfo").read().split("model name\t: ")[1].split("\n")[0],
                        "cores": os.cpu_count(), "memory_gib": round(os.sysconf("SC_PAGE_SIZE") *
                                                                    os.sysconf("SC_PHYS_PAGES") / 2**30), "blas": "cuBLAS"},
               "gpu": {"name": torch.cuda.get_device_name(), "driver": driver, "cuda": torch.version.cuda},
               "command": " ".join(sys.argv), "rows": rows}, sys.stdout, indent=1)
    print()


main()
