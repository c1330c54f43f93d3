"""The program, and what it makes of one matrix."""

from __future__ import annotations

import pathlib
import subprocess
from collections.abc import Callable
from typing import Any

import h5py
import numpy.typing as npt
import pytest

from model_files import TENSOR, save
from vindex import _program


@pytest.fixture(scope="session")
def run() -> Callable[..., subprocess.CompletedProcess[str]]:
    def call(*arguments: str | pathlib.Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [_program.path(), *map(str, arguments)], check=True, capture_output=True, text=True
        )

    return call


@pytest.fixture
def measured(run: Callable[..., Any], tmp_path: pathlib.Path) -> Callable[..., dict[str, Any]]:
    """What the program finds of one matrix: its columns by name, and `sigma`."""

    def measure(array: npt.NDArray[Any], *flags: str) -> dict[str, Any]:
        model = save(tmp_path / "model.safetensors", {TENSOR: array})
        out = tmp_path / "out.h5"
        run("measure", model, "-o", out, "--threads", "1", "--backend", "cpu", "-q", *flags)
        with h5py.File(out) as file:
            found = {
                name: column[0]
                for name, column in file["matrix"].items()
                if isinstance(column, h5py.Dataset) and len(column.shape) and len(column) == 1
            }
            for group in file["spectra"].values():  # none, or one
                found["sigma"] = group["sigma"][0]
        return found

    return measure
