"""Files that the tests read, written by the program once for all of them."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from package_files import HOSTILE, call, write_dump, write_safetensors

mpl.use("Agg")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A suite of which nothing could run is skipped, as CTest understands it."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = 77


@pytest.fixture(autouse=True)
def _quiet_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenBLAS names its kernels in a warning on some machines; it is not what is tested."""
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    warnings.filterwarnings("ignore", message="W-BLAS-KERNELS")


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model `mini`, another one `mini2`, and results of every kind."""
    folder = tmp_path_factory.mktemp("files")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

    def made(*words: str) -> None:
        call(*[word.replace("@", f"{folder}/") for word in words], "-q")

    made("synth", "kimi-k2-mini", "-o", "@mini")
    made("synth", "kimi-k2-mini", "--seed", "2", "-o", "@mini2")
    common = ("--backend", "cpu", "--progress", "none")
    made("measure", "@mini", "-o", "@mini.h5", *common)
    made("measure", "@mini2", "-o", "@mini2.h5", *common)
    made("measure", "@mini", "-o", "@fast.h5", "--mode", "fast", *common)
    made("measure", "@mini", "-o", "@none.h5", "--no-spectra", *common)
    made("measure", "@mini", "-o", "@heads.h5", "--heads", "--layers", "1", *common)
    made(
        "measure", "@mini", "-o", "@sample.h5", "--sample", "4:7", "--null", "signflip=10", *common
    )
    made("measure", "@mini", "-o", "@partial.h5", "--worker", "0/3", *common)
    made("merge", "@partial.h5.parts", "--partial", "-o", "@partial.h5")
    made("compare", "@mini", "@mini2", "-o", "@pairs.h5", "--k", "2", "--delta")
    made("experts", "@mini", "-o", "@experts.h5", "--k", "2")
    write_dump(folder / "dump")
    made("cka", "@dump", "@dump", "-o", "@cka.h5", "--permutations", "20")
    made("activations", "@dump", "-o", "@activations.h5")
    made("routing", "@dump", "-o", "@routing.h5", "--top-k", "2", "--scoring", "softmax")
    return folder


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of a model whose tensors have hostile names; one of them is not finite."""
    folder = tmp_path_factory.mktemp("hostile")
    random = np.random.default_rng(1)
    tensors = {name: random.normal(size=(6, 5)) for name in HOSTILE}
    tensors["broken"] = np.full((6, 5), np.nan)
    write_safetensors(folder / "model.safetensors", tensors)
    call("measure", folder / "model.safetensors", "-o", folder / "out.h5", "-q")
    return folder / "out.h5"
