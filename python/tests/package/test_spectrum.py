"""The typed objects around the native module, which has tests of its own (tests/native)."""

from __future__ import annotations

import html
import pickle
from pathlib import Path

import numpy as np
import pytest

import vindex

pytest.importorskip("vindex._native", reason="the package is not installed as a wheel")


@pytest.fixture(scope="module")
def weights() -> np.ndarray:
    return np.random.default_rng(5).normal(size=(120, 80)).astype(np.float32)


def test_a_spectrum_has_its_figures_as_attributes(weights: np.ndarray) -> None:
    found = vindex.spectrum(weights)
    assert (found.rows, found.cols, found.status) == (120, 80, "measured")
    wanted = np.linalg.svd(weights.astype(float), compute_uv=False)
    assert np.allclose(found.sigma, wanted, rtol=1e-5)
    assert found.sigma.dtype == np.float64
    assert np.isclose(found.stable_rank, (wanted**2).sum() / wanted[0] ** 2, rtol=1e-5)
    for name, value in found.figures.items():
        assert np.array_equal(getattr(found, name), value, equal_nan=True)
    assert found.var_at_k.shape == found.var_at_k_null.shape == (9,)
    assert found.var_at_k[6] == found.var_at_64
    assert {"stable_rank", "sigma", "to_dict"} <= set(dir(found))
    with pytest.raises(AttributeError, match="did you mean 'stable_rank'"):
        found.stabel_rank  # noqa: B018
    row = found.to_dict()
    assert row["gini_null"] == found.gini_null
    assert "sigma" not in row


def test_it_is_what_the_program_measures(files: Path) -> None:
    results = vindex.open(files / "mini.h5")
    for _, row in results.matrix.iloc[::40].iterrows():
        weights = vindex.decode(files / "mini", row["tensor"])
        assert weights.shape == (row["rows"], row["cols"])
        found = vindex.spectrum(weights, backend="cpu")
        assert np.array_equal(found.sigma, results.spectrum(row["tensor"]))
        for name, value in found.figures.items():
            assert np.isclose(value, row[name], rtol=1e-12, atol=1e-300, equal_nan=True), name


def test_null(weights: np.ndarray) -> None:
    noise = vindex.null(120, 80)
    found = vindex.spectrum(weights)
    assert noise.stable_rank == noise.stable_rank_null == found.stable_rank_null
    assert np.array_equal(noise.var_at_k, found.var_at_k_null)
    assert vindex.null(80, 120).to_dict() == noise.to_dict()
    with pytest.raises(vindex.Error) as caught:
        vindex.null(0, 1)
    assert (caught.value.code, caught.value.id) == (64, "E-SHAPE")


def test_what_cannot_be_measured_says_so() -> None:
    zero = vindex.spectrum(np.zeros((4, 3), np.float32))
    assert zero.reason == "zero matrix"
    assert np.isnan(zero.stable_rank)
    assert zero.rank_90 == 0
    broken = vindex.spectrum(np.full((4, 3), np.nan, np.float32))
    assert broken.status == "not_finite"
    assert "not_finite" in repr(broken)


def test_a_masked_array_is_refused_where_it_masks(weights: np.ndarray) -> None:
    mask = np.zeros(weights.shape, bool)
    whole = vindex.spectrum(np.ma.MaskedArray(weights, mask))
    assert np.array_equal(whole.sigma, vindex.spectrum(weights).sigma)
    assert np.array_equal(whole.sigma, vindex.spectrum(np.ma.MaskedArray(weights)).sigma)
    mask[3, 4] = mask[5, 6] = True
    with pytest.raises(vindex.Error, match=r"2 of 9600 elements masked.*filled\(0\)") as caught:
        vindex.spectrum(np.ma.MaskedArray(weights, mask))
    assert (caught.value.code, caught.value.id) == (64, "E-ARRAY")


def test_a_notebook_shows_a_table(weights: np.ndarray) -> None:
    found = vindex.spectrum(weights)
    shown = html.unescape(found._repr_html_())
    assert f"<td>stable_rank</td><td>{found.stable_rank:.6g}</td>" in shown
    assert shown.index("<td>var_at_2<") < shown.index("<td>var_at_16<")
    assert "<script" not in shown


def test_it_can_be_stored_and_sent_to_a_process(weights: np.ndarray) -> None:
    found = pickle.loads(pickle.dumps(vindex.spectrum(weights)))
    assert found.stable_rank == vindex.spectrum(weights).stable_rank
    error = pickle.loads(pickle.dumps(vindex.Error(66, "E-X", "text")))
    assert (error.code, error.id, error.text, str(error)) == (66, "E-X", "text", "E-X: text")


def test_plots_take_it(weights: np.ndarray) -> None:
    found = vindex.spectrum(weights)
    ax = vindex.plot.spectrum(found)
    assert [one for one in ax.lines if one.get_gid() == "null"]
    fast = vindex.spectrum(weights, mode="fast")
    assert len(vindex.plot.spectrum(fast, kind="values").lines[0].get_xdata()) == 64
