"""The numbers are the program's, for every type that it measures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from model_files import TYPES, weights
from vindex import _native

K = [1, 2, 4, 8, 16, 32, 64, 128, 256]


def same_bits(ours: Any, stored: Any) -> bool:
    stored = np.asarray(stored)
    if stored.dtype.kind == "i":  # -1: not defined
        ours = np.where(np.isnan(ours), -1, ours)
    return bool(np.array_equal(np.asarray(ours, stored.dtype), stored, equal_nan=True))


def compare(ours: _native.Spectrum, theirs: dict[str, Any]) -> None:
    assert ours["method"] == theirs["method"].decode()
    assert ours["status"] == "measured"
    assert ours["backend"] == "cpu"
    assert same_bits(ours["sigma"], theirs["sigma"])
    assert same_bits(ours["sigma_error"], theirs["sigma_error"])
    compared = 0
    for name, value in ours["figures"].items():
        if name in theirs:
            assert same_bits(value, theirs[name]), name
            compared += 1
    for suffix in ("", "_null"):
        values = [ours["figures"][f"var_at_{k}{suffix}"] for k in K]
        assert same_bits(values, theirs[f"var_at_k{suffix}"])
    assert compared >= 20


@pytest.mark.parametrize("shape", [(96, 160), (160, 96), (64, 64), (300, 7), (1, 40), (40, 1)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_bits_are_the_programs(
    measured: Callable[..., Any], shape: tuple[int, int], dtype: Any
) -> None:
    array = weights(*shape).astype(dtype)
    compare(_native.spectrum(array, backend="cpu"), measured(array))


@pytest.mark.parametrize("mode", ["fast", "default", "strict"])
def test_modes_are_the_programs(measured: Callable[..., Any], mode: str) -> None:
    array = weights(640, 512)
    compare(_native.spectrum(array, mode=mode, backend="cpu"), measured(array, "--mode", mode))


def test_the_first_route_can_be_kept(measured: Callable[..., Any]) -> None:
    array = weights(96, 64) @ np.diag(10.0 ** -np.linspace(0, 7, 64)).astype(np.float32)
    ours = _native.spectrum(array, escalate=False, backend="cpu")
    assert not ours["escalated"]
    compare(ours, measured(array, "--no-escalate"))


@pytest.mark.parametrize("dtype", TYPES)
def test_types_are_those_of_a_model(measured: Callable[..., Any], dtype: Any) -> None:
    # A model's 16-bit weights may go through products of their own, the module's are float32.
    array = weights(200, 120).astype(dtype)
    ours, theirs = _native.spectrum(array, backend="cpu"), measured(array)
    if ours["method"] == theirs["method"].decode():
        compare(ours, theirs)
    else:
        error = ours["sigma_error"] + theirs["sigma_error"] + 1e-12
        assert np.abs(ours["sigma"] - theirs["sigma"]).max() <= error


def test_float64_is_rounded_as_a_model_of_it() -> None:
    array = weights(80, 50).astype(np.float64) * (1 + 2.0**-40)
    rounded = _native.spectrum(array.astype(np.float32))
    assert (_native.spectrum(array)["sigma"] == rounded["sigma"]).all()


def test_float64_beyond_float32_is_not_finite(measured: Callable[..., Any]) -> None:
    array = weights(8, 8).astype(np.float64)
    array[3, 4] = 1e300
    ours = _native.spectrum(array)
    assert ours["status"] == "not_finite"
    assert ours["reason"] != ""
    assert np.isnan(ours["figures"]["stable_rank"])
    assert len(ours["sigma"]) == 0
    assert np.isnan(measured(array)["stable_rank"])


def test_nulls_are_those_of_the_shape() -> None:
    ours = _native.spectrum(weights(96, 160))["figures"]
    null = _native.null(160, 96)
    for name, value in ours.items():
        if name.endswith("_null"):
            assert same_bits(null[name], value), name
            assert same_bits(null[name.removesuffix("_null")], value), name


def test_numpy_agrees() -> None:
    array = weights(120, 90)
    exact = np.linalg.svd(array.astype(np.float64), compute_uv=False)
    ours = _native.spectrum(array)
    assert np.abs(ours["sigma"] - exact).max() <= ours["sigma_error"] + 1e-9 * exact[0]
    assert ours["sigma"].dtype == np.float64
    assert ours["figures"]["stable_rank"] == pytest.approx((exact**2).sum() / exact[0] ** 2)
