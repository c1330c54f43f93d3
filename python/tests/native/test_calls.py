"""Decoded weights, nulls, and the errors of all calls."""

from __future__ import annotations

import contextlib
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import h5py
import numpy as np
import pytest

from model_files import TENSOR, TYPES, save, weights
from vindex import _native
from vindex.errors import Error


@pytest.mark.parametrize("dtype", TYPES)
def test_decoded_weights_are_those_of_the_file(tmp_path: pathlib.Path, dtype: Any) -> None:
    array = weights(37, 53).astype(dtype)
    model = save(tmp_path / "größe 1.safetensors", {TENSOR: array})
    for address in (model, str(model), f"file://{model}".replace(" ", "%20")):
        decoded = _native.decode(address, TENSOR)
        assert decoded.dtype == np.float32
        assert decoded.flags.c_contiguous
        assert decoded.flags.writeable
        assert (decoded == array.astype(np.float32)).all()


def test_decoded_weights_are_the_programs(run: Callable[..., Any], tmp_path: pathlib.Path) -> None:
    model, out, raw = tmp_path / "model", tmp_path / "out.h5", tmp_path / "raw"
    run("synth", "layer:3x64x256:fp8", "-o", model, "-q")
    run("measure", model, "-o", out, "--threads", "1", "-q")
    with h5py.File(out) as file:
        names = file["matrix/tensor"].asstr()[:]
    assert len(names) == 3
    for name in names:
        run("decode", model, "--tensor", name, "-o", raw, "--force")
        assert (_native.decode(model, name).ravel() == np.fromfile(raw, np.float32)).all()


def test_slices_of_a_stack(tmp_path: pathlib.Path) -> None:
    name = "model.layers.0.mlp.experts.gate_up_proj"
    stack = np.stack([weights(24, 48, seed) for seed in range(4)])
    model = save(tmp_path / "model.safetensors", {name: stack})
    whole = _native.decode(model, name)
    assert whole.shape == stack.shape
    assert (whole == stack).all()
    assert (_native.decode(model, name, 2) == stack[2]).all()
    with pytest.raises(Error) as caught:
        _native.decode(model, name, 4)
    assert (caught.value.code, caught.value.id) == (64, "E-SLICE")


def test_decoded_weights_go_without_a_copy(tmp_path: pathlib.Path) -> None:
    model = save(tmp_path / "model.safetensors", {TENSOR: weights(64, 32)})
    decoded = _native.decode(model, TENSOR)
    assert decoded.base is not None  # numpy does not own it
    assert sys.getrefcount(decoded) <= 2
    assert (_native.spectrum(decoded)["sigma"] == _native.spectrum(weights(64, 32))["sigma"]).all()


def test_errors_have_the_programs_codes(tmp_path: pathlib.Path) -> None:
    model = save(tmp_path / "model.safetensors", {TENSOR: weights(8, 8)})
    damaged = tmp_path / "damaged.safetensors"
    damaged.write_bytes(model.read_bytes()[:100])
    cases: list[tuple[int, str, Callable[[], Any]]] = [
        (66, "E-", lambda: _native.decode(tmp_path / "absent.safetensors", TENSOR)),
        (65, "E-", lambda: _native.decode(damaged, TENSOR)),
        (64, "E-TENSOR", lambda: _native.decode(model, "absent")),
        (64, "E-SLICE", lambda: _native.decode(model, TENSOR, 3)),
        (64, "E-REMOTE-ADDRESS", lambda: _native.decode("gopher://host/model", TENSOR)),
        (64, "E-MODE", lambda: _native.spectrum(weights(4, 4), mode="quick")),
        (64, "E-BACKEND", lambda: _native.spectrum(weights(4, 4), backend="tpu")),
        (64, "E-SHAPE", lambda: _native.null(0, 4)),
        (64, "E-SHAPE", lambda: _native.null(4, -1)),
    ]
    for code, id, call in cases:
        with pytest.raises(Error) as caught:
            call()
        assert caught.value.code == code, id
        assert caught.value.id.startswith(id)
        assert not caught.value.text.startswith(caught.value.id)
        assert str(caught.value) == f"{caught.value.id}: {caught.value.text}"


def test_remote_models_follow_the_environment(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(Error) as caught:
        _native.decode("hf://organisation/repository", TENSOR)
    assert "HF_HUB_OFFLINE" in caught.value.text
    snapshot = tmp_path / "models--organisation--repository" / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text("0" * 40)
    save(snapshot / "model.safetensors", {TENSOR: weights(8, 8)})
    assert (_native.decode("hf://organisation/repository", TENSOR) == weights(8, 8)).all()


def test_a_gpu_is_never_replaced_in_silence() -> None:
    with contextlib.suppress(Error):
        assert _native.spectrum(weights(8, 8), backend="cuda")["backend"] == "cuda"
        return
    with pytest.raises(Error) as caught:
        _native.spectrum(weights(8, 8), backend="cuda")
    assert (caught.value.code, caught.value.id) == (70, "E-NO-GPU")


def test_arguments_of_other_kinds_are_type_errors() -> None:
    for call in (
        lambda: _native.null("a", 3),  # type: ignore[arg-type]
        lambda: _native.spectrum(weights(4, 4), "fast"),  # type: ignore[misc]
        lambda: _native.decode(3, TENSOR),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError):
            call()


def test_the_version_is_the_packages() -> None:
    from importlib.metadata import version

    assert _native.version() == version("vindex-spectra")
