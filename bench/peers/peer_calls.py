"""What a user would call instead of vindex: the process that bench/peers/peers.py asks for one timing or one set of errors at a
time, so that a peer that hangs or breaks its GPU context takes nothing else along.

Reads a JSON object per line, {"peer", "spectrum", "batch", "what": "time" | "errors"}, and answers with one line each. Inputs
are float32 files in the folder given, SPECTRUM.f32 each, as `vindex decode` writes them. Times end after a synchronisation; inputs are in
the device's memory before, except for peers end to end.
"""
import argparse
import importlib
import json
import os
import re
import sys
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the peers share one GPU
import numpy  # noqa: E402

try:
    import threadpoolctl
except ImportError:
    threadpoolctl = None

TOP = 64


def openblas_of(package):
    """"numpy 2.1.0: openblas 0.3.27 SkylakeX" by the libraries that came with the package."""
    module = importlib.import_module(package)
    folder = os.path.realpath(os.path.dirname(module.__file__))
    said = [f"{library['internal_api']} {library['version']} {library.get('architecture', '')}".strip()
            for library in (threadpoolctl.threadpool_info() if threadpoolctl else [])
            if library["user_api"] == "blas" and
            os.path.realpath(library["filepath"]).startswith((folder + os.sep, folder + ".libs" + os.sep))]
    return f"{package} {module.__version__}: {', '.join(said) or 'BLAS unknown'}"


def mkl_of_torch():
    """The same of torch, whose BLAS is linked in: what its configuration says."""
    torch = importlib.import_module("torch")
    text = torch.__config__.show()
    said = re.findall(r"Math Kernel Library Version (\S+)|CPU capability usage: (\S+)|(OpenBLAS[^\s,;]*)", text)
    words = ["MKL " + mkl if mkl else capability or openblas for mkl, capability, openblas in said]
    return f"torch {torch.__version__}: {', '.join(words) or 'BLAS unknown'}"


def kernels_of(peer):
    """Which BLAS computes for a peer. scipy's Gram matrix is numpy's product."""
    package = peer.split(".")[0]
    if package in ("torch", "weightwatcher-like"):
        return mkl_of_torch()
    return ", ".join(openblas_of(name) for name in (("numpy", "scipy") if package == "scipy" else (package,)))


def limit_threads(threads):
    """Thread pools of numpy, scipy and torch."""
    for package in ("scipy.linalg", "torch"):  # loaded first: a limit reaches what is there
        try:
            module = importlib.import_module(package)
        except ImportError:
            continue
        if package == "torch":
            module.set_num_threads(threads)
    if threadpoolctl:
        threadpoolctl.threadpool_limits(limits=threads)


def roots(values):
    """Descending singular values of ascending eigenvalues of Gram matrices, over the last axis."""
    return numpy.sqrt(numpy.maximum(numpy.asarray(values, dtype=numpy.float64), 0.0))[..., ::-1]


class NumpyPeer:
    """One matrix after the other on the host, with all threads."""

    def __init__(self, values):
        self.values = values

    def put(self, matrices):
        return matrices

    def call(self, matrices):
        return [self.values(matrix) for matrix in matrices]

    def timed(self, matrices):
        start = time.perf_counter()
        self.call(matrices)
        return 1e3 * (time.perf_counter() - start)

    def get(self, result):
        return numpy.stack([numpy.asarray(values, dtype=numpy.float64) for values in result])


class TorchPeer(NumpyPeer):
    """`values` gets a batch on the device; times by CUDA events there, by the clock on the host."""

    def __init__(self, values, device):
        super().__init__(values)
        import torch
        self.torch, self.device = torch, device
        torch.backends.cuda.matmul.allow_tf32 = False
        if device == "cuda" and not torch.cuda.is_available():
            raise RuntimeError("torch finds no GPU")

    def put(self, matrices):
        return self.torch.from_numpy(numpy.ascontiguousarray(matrices)).to(self.device)

    def call(self, matrices):
        return self.values(self.torch, matrices)

    def timed(self, matrices):
        if self.device == "cpu":
            return super().timed(matrices)
        start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.torch.cuda.synchronize()
        start.record()
        self.call(matrices)
        end.record()
        self.torch.cuda.synchronize()
        return start.elapsed_time(end)

    def get(self, result):
        return result.double().cpu().numpy()


class CupyPeer(NumpyPeer):
    def __init__(self, values):
        super().__init__(values)
        import cupy
        self.cupy = cupy
        cupy.cuda.runtime.getDeviceCount()

    def put(self, matrices):
        return self.cupy.asarray(matrices)

    def call(self, matrices):
        return self.values(self.cupy, matrices)

    def timed(self, matrices):
        start, end = self.cupy.cuda.Event(), self.cupy.cuda.Event()
        start.record()
        self.call(matrices)
        end.record()
        end.synchronize()
        return self.cupy.cuda.get_elapsed_time(start, end)

    def get(self, result):
        return self.cupy.asnumpy(result).astype(numpy.float64)


class JaxPeer(NumpyPeer):
    def __init__(self, values):
        super().__init__(values)
        import jax
        jax.config.update("jax_default_matmul_precision", "highest")
        if jax.default_backend() != "gpu":
            raise RuntimeError("jax finds no GPU")
        self.jax = jax
        self.compiled = jax.jit(lambda matrices: values(jax.numpy, matrices))

    def put(self, matrices):
        return self.jax.device_put(matrices)

    def call(self, matrices):
        return self.compiled(matrices).block_until_ready()

    def get(self, result):
        return numpy.asarray(result, dtype=numpy.float64)


class WeightWatcherPeer(TorchPeer):
    """The path of WeightWatcher and of most notebooks: a mapped file, one tensor to float32, its singular values."""

    def __init__(self, files, device):
        super().__init__(None, device)
        import safetensors
        self.open, self.files = safetensors.safe_open, files

    def put(self, matrices):
        return None

    def call(self, matrices):
        values = []
        for path in self.files:
            with self.open(path, framework="pt") as file:
                for name in sorted(file.keys()):
                    if not name.endswith("weight"):
                        continue
                    weights = file.get_tensor(name).to(self.torch.float32).to(self.device)
                    values.append(self.torch.linalg.svdvals(weights))
        return self.torch.stack(values)


def gram(array):
    """Over the shorter side, of a batch or of one matrix."""
    turned = array.swapaxes(-1, -2)
    return turned @ array if array.shape[-2] >= array.shape[-1] else array @ turned


def numpy_eigvalsh(matrix):
    return roots(numpy.linalg.eigvalsh(gram(matrix)))


def scipy_call(name):
    linalg = importlib.import_module("scipy.linalg")
    if name == "svdvals":
        return lambda matrix: linalg.svdvals(matrix, check_finite=False)
    return lambda matrix: roots(linalg.eigvalsh(gram(matrix), check_finite=False))


def torch_eigvalsh(wide):
    def values(torch, matrices):
        found = torch.linalg.eigvalsh(gram(matrices.double() if wide else matrices))
        return torch.sqrt(torch.clamp(found, min=0)).flip(-1)
    return values


def torch_svdvals(driver):
    return lambda torch, matrices: torch.linalg.svdvals(matrices, driver=driver)


def cupy_eigvalsh(wide):
    def values(cupy, matrices):
        found = cupy.linalg.eigvalsh(gram(matrices.astype(cupy.float64) if wide else matrices))
        return cupy.sqrt(cupy.maximum(found, 0))[..., ::-1]
    return values


def jax_eigvalsh(jnp, matrices):
    return jnp.sqrt(jnp.maximum(jnp.linalg.eigvalsh(gram(matrices)), 0))[..., ::-1]


def make(name, device, model_files):
    """The peer `name`. Errors: ImportError where its package is not installed, RuntimeError without its GPU."""
    on = {"cpu": "cpu", "cuda": "cuda"}[device]
    makers = {
        "numpy.svd": lambda: NumpyPeer(lambda a: numpy.linalg.svd(a, compute_uv=False)),
        "numpy.gram+eigvalsh": lambda: NumpyPeer(numpy_eigvalsh),
        "scipy.svdvals": lambda: NumpyPeer(scipy_call("svdvals")),
        "scipy.gram+eigvalsh": lambda: NumpyPeer(scipy_call("eigvalsh")),
        "torch.svdvals": lambda: TorchPeer(torch_svdvals(None), on),
        "torch.svdvals.gesvd": lambda: TorchPeer(torch_svdvals("gesvd"), on),
        "torch.svdvals.gesvdj": lambda: TorchPeer(torch_svdvals("gesvdj"), on),
        "torch.svdvals.gesvda": lambda: TorchPeer(torch_svdvals("gesvda"), on),
        "torch.gram32+eigvalsh": lambda: TorchPeer(torch_eigvalsh(False), on),
        "torch.gram64+eigvalsh": lambda: TorchPeer(torch_eigvalsh(True), on),
        "torch.svd_lowrank": lambda: TorchPeer(
            lambda torch, a: torch.svd_lowrank(a, q=min(TOP, *a.shape[-2:]))[1], on),
        "cupy.gram32+eigvalsh": lambda: CupyPeer(cupy_eigvalsh(False)),
        "cupy.gram64+eigvalsh": lambda: CupyPeer(cupy_eigvalsh(True)),
        "cupy.svd": lambda: CupyPeer(lambda cupy, a: cupy.linalg.svd(a, compute_uv=False)),
        "jax.svd": lambda: JaxPeer(lambda jnp, a: jnp.linalg.svd(a, compute_uv=False)),
        "jax.gram32+eigvalsh": lambda: JaxPeer(jax_eigvalsh),
        "weightwatcher-like": lambda: WeightWatcherPeer(model_files, on),
    }
    return makers[name]()


def reference_values(folder, file_name, matrix):
    """Float64 LAPACK, kept beside the input: it takes longer than any peer."""
    path = os.path.join(folder, file_name + ".sigma.npy")
    if not os.path.exists(path):
        numpy.save(path + ".new.npy", numpy.linalg.svd(matrix.astype(numpy.float64), compute_uv=False))
        os.rename(path + ".new.npy", path)
    return numpy.load(path)


def errors_of(values, exact, total):
    """Departures from the reference; `values` may be the largest ones only (then no tail)."""
    top = min(TOP, len(values))
    relative = numpy.abs(values / exact[: len(values)] - 1.0)
    energy = (exact[:top] ** 2).sum() / total
    found = {"var_64": abs((values[:top] ** 2).sum() / total - energy), "sigma_1": relative[0],
             "sigma_max_absolute": (numpy.abs(values - exact[: len(values)]) / exact[0]).max(),
             "sigma_64": relative[top - 1], "stable_rank": abs(total / values[0] ** 2 / (total / exact[0] ** 2) - 1.0)}
    if len(values) == len(exact):
        def effective_rank(sigma):
            share = sigma[sigma > 0] / sigma.sum()
            return numpy.exp(-(share * numpy.log(share)).sum())
        found["sigma_min"] = relative[-1]
        found["sigma_max_relative"] = relative.max()
        found["effective_rank"] = abs(effective_rank(values) / effective_rank(exact) - 1.0)
    return {name: float(value) for name, value in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--cols", type=int, required=True)
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--model-file", action="append", default=[])
    options = parser.parse_args()
    limit_threads(options.threads)
    matrices = {name: numpy.fromfile(os.path.join(options.folder, name), dtype="<f4").reshape(options.rows, options.cols)
                for name in os.listdir(options.folder) if name.endswith(".f32")}
    peers, inputs = {}, {}
    for line in sys.stdin:
        wanted = json.loads(line)
        name, batch, file_name = wanted["peer"], wanted["batch"], wanted["spectrum"] + ".f32"
        try:
            if name not in peers:
                peers[name] = make(name, options.device, options.model_file)
            peer = peers[name]
            if wanted["what"] == "time":
                key = (name, batch, file_name)
                if key not in inputs:  # one at a time: batches are gigabytes
                    inputs = {key: peer.put(numpy.stack([matrices[file_name]] * batch))}
                start = time.process_time()
                answer = {"ms": peer.timed(inputs[key])}
                answer["cpu_ms"] = 1e3 * (time.process_time() - start)
                if options.device == "cpu":
                    answer["kernels"] = kernels_of(name)
            else:
                exact = reference_values(options.folder, file_name, matrices[file_name])
                values = peer.get(peer.call(peer.put(matrices[file_name][None])))[0]
                answer = {"errors": errors_of(values, exact, float((exact**2).sum()))}
        except ImportError as error:
            answer = {"failure": f"not installed: {error}"}
        except Exception as error:  # a peer's failure is a finding, whatever its kind
            answer = {"failure": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
