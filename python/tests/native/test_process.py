"""What a call does to the process: threads, memory, signals, other parts' BLAS."""

from __future__ import annotations

import multiprocessing
import pathlib
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from model_files import weights
from vindex import _native

HERE = pathlib.Path(__file__).parent


def run_python(code: str, *arguments: str) -> str:
    """Standard output of `code` in an interpreter of its own."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        capture_output=True,
        text=True,
        cwd=HERE,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def thread_ids() -> set[str]:
    return {path.name for path in pathlib.Path("/proc/self/task").iterdir()}


def memory(field: str) -> int:
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def test_threads_measure_side_by_side() -> None:
    arrays = [weights(150 + 10 * i, 100, i) for i in range(12)]
    alone = [_native.spectrum(array)["sigma"] for array in arrays]
    with ThreadPoolExecutor(4) as pool:
        for expected, found in zip(alone, pool.map(_native.spectrum, arrays * 3), strict=False):
            assert (found["sigma"] == expected).all()


def test_no_thread_outlives_a_call() -> None:
    before = thread_ids()
    _native.spectrum(weights(300, 200))
    assert thread_ids() <= before


def test_the_lock_is_free_meanwhile() -> None:
    # While one thread measures, this one runs: it sees the other one's work under way.
    array = weights(1500, 1500)
    done = threading.Event()

    def measure() -> None:
        _native.spectrum(array, mode="strict")
        done.set()

    thread = threading.Thread(target=measure)
    steps = 0
    thread.start()
    while not done.is_set():
        steps += 1
        time.sleep(0.001)
    thread.join()
    assert steps > 20


def test_an_exception_of_a_handler_ends_a_call() -> None:
    class EnoughError(Exception):
        pass

    def handler(_number: int, _frame: Any) -> None:
        raise EnoughError

    array = weights(3000, 3000)
    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        began = time.process_time()  # others may keep this process waiting
        with pytest.raises(EnoughError):
            _native.spectrum(array, mode="strict")  # a minute of work
        assert time.process_time() - began < 15
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(_native.spectrum(weights(30, 20))["sigma"]) == 20


def test_a_handler_that_returns_ends_nothing() -> None:
    seen = []
    before = signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        found = _native.spectrum(weights(1200, 1200), mode="strict")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert found["status"] == "measured"
    assert seen == [1]


def test_ctrl_c_is_a_keyboard_interrupt() -> None:
    child = subprocess.Popen(
        [
            sys.executable,
            "-c",
            textwrap.dedent("""
                from model_files import weights
                from vindex import _native
                array = weights(3000, 3000)
                try:
                    print("begun", flush=True)
                    _native.spectrum(array, mode="strict")
                    print("not ended", flush=True)
                except KeyboardInterrupt:
                    print(len(_native.spectrum(weights(30, 20))["sigma"]), flush=True)
            """),
        ],
        stdout=subprocess.PIPE,
        text=True,
        cwd=HERE,
    )
    assert child.stdout is not None
    with child:
        assert child.stdout.readline() == "begun\n"
        time.sleep(0.5)
        child.send_signal(signal.SIGINT)
        assert child.stdout.read() == "20\n"
    assert child.returncode == 0


def test_float32_is_not_copied() -> None:
    # The highest memory of two processes: the one whose array has gaps needs a second one.
    code = """
        import sys
        from model_files import weights
        from test_process import memory
        from vindex import _native
        array = weights(256, 80000)  # 78 MiB
        if sys.argv[1] == "gaps":
            array = weights(256, 80001)[:, :-1]
        _native.spectrum(weights(256, 256))
        before = memory("VmRSS")
        open("/proc/self/clear_refs", "w").write("5")  # VmHWM begins anew
        _native.spectrum(array)
        print(memory("VmHWM") - before)
    """
    without, with_gaps = (int(run_python(code, which)) for which in ("none", "gaps"))
    size = 256 * 80000 * 4
    assert 0.9 * size < with_gaps - without < 1.5 * size


def test_memory_does_not_grow() -> None:
    array = weights(256, 256).astype(np.float64).T
    for _ in range(30):
        _native.spectrum(array)
    before = memory("VmRSS")
    for _ in range(300):
        _native.spectrum(array)
        _native.null(256, 256)
    assert memory("VmRSS") - before < 8 << 20  # the converted arrays alone are 75 MiB


def child_sigma(queue: Any) -> None:
    queue.put(_native.spectrum(weights(120, 80))["sigma"])


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_measures_too() -> None:
    expected = _native.spectrum(weights(120, 80))["sigma"]
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=child_sigma, args=(queue,))
    child.start()
    found = queue.get(timeout=120)
    child.join(60)
    assert (found == expected).all()


def test_numpys_blas_keeps_its_threads() -> None:
    # In one process, side by side: neither's results nor numbers of threads change.
    out = run_python("""
        import ctypes, glob, os, pathlib, threading
        import numpy as np
        from model_files import weights
        from vindex import _native
        environment = dict(os.environ)
        a = weights(600, 500)
        product, sigma = a @ a.T, _native.spectrum(a)["sigma"]
        lines = pathlib.Path("/proc/self/maps").read_text().splitlines()
        names = {l.split()[-1] for l in lines if "openblas" in l and "numpy" in l}
        threads = None
        for name in names:
            library = ctypes.CDLL(name)
            get = getattr(library, "scipy_openblas_get_num_threads64_", None)
            threads = get() if get else None
        failures = []
        def multiply():
            for _ in range(20):
                if not ((a @ a.T) == product).all():
                    failures.append("numpy")
        def measure():
            for _ in range(20):
                if not (_native.spectrum(a)["sigma"] == sigma).all():
                    failures.append("vindex")
        workers = [threading.Thread(target=f) for f in (multiply, measure) * 3]
        for worker in workers: worker.start()
        for worker in workers: worker.join()
        if threads is not None and get() != threads:
            failures.append("threads of numpy's OpenBLAS")
        print(failures, dict(os.environ) == environment)
    """)
    assert out == "[] True\n"


def test_a_blas_for_all_to_see_is_not_taken(tmp_path: pathlib.Path) -> None:
    # As some packages load theirs: with RTLD_GLOBAL. In place of ours it would end the process.
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler to make such a library with")
    names = ["dgemm_", "sgemm_", "dsyrk_", "ssyrk_", "dsytrd_", "cblas_dgemm", "cblas_ssyrk"]
    names += ["cblas_dsyrk", "openblas_set_num_threads", "blas_memory_alloc", "dlatrd_", "dsyr2k_"]
    names += ["dgemv_", "dsymv_", "dlarfg_", "dnrm2_", "dscal_", "ddot_", "daxpy_", "xerbla_"]
    source = tmp_path / "other.c"
    source.write_text(
        "#include <stdlib.h>\n" + "".join(f"void {name}(void) {{ abort(); }}\n" for name in names)
    )
    library = tmp_path / "libother.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    out = run_python(
        """
        import ctypes, sys
        ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
        from model_files import weights
        from vindex import _native
        print(_native.spectrum(weights(300, 200), mode="strict")["status"])
        print(_native.spectrum(weights(300, 200))["status"])
        """,
        str(library),
    )
    assert out == "measured\nmeasured\n"
