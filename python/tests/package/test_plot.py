"""Plots: what is drawn is the data, and the null is in every one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

import vindex
from vindex.plot import _law


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    for number in plt.get_fignums():
        plt.figure(number).savefig("/dev/null", format="png")  # it can be drawn
    plt.close("all")


def line(ax: Axes, label: str) -> Line2D:
    found = [one for one in ax.lines if one.get_label() == label]
    assert len(found) == 1, [one.get_label() for one in ax.lines]
    return found[0]


def nulls(ax: Axes) -> list[Line2D]:
    return [one for one in ax.lines if one.get_gid() == "null"]


def y_of(one: Line2D) -> np.ndarray:
    return np.asarray(one.get_ydata(), dtype=float)


def test_layers(files: Path) -> None:
    results = vindex.open(files / "mini.h5")
    ax = vindex.plot.layers(results, "stable_rank")
    frame = results.matrix.query("block == 'routed_expert'")
    for role in ("gate_proj", "up_proj", "down_proj"):
        drawn = line(ax, f"routed_expert {role}")
        wanted = frame[frame["role"] == role].groupby("layer")["stable_rank"]
        assert list(drawn.get_xdata()) == [1, 2, 3]
        assert np.allclose(y_of(drawn), wanted.median())
        band = ax.collections[["gate_proj", "up_proj", "down_proj"].index(role)]
        reach = band.get_paths()[0].get_extents()
        assert np.isclose(reach.ymax, wanted.quantile(0.75).max())
        assert np.isclose(reach.ymin, wanted.quantile(0.25).min())
    # One shape, one null.
    assert len(nulls(ax)) == 1
    assert np.allclose(y_of(nulls(ax)[0]), frame["stable_rank_null"].iloc[0])
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert "noise of that shape" in labels


def test_layers_with_nulls_of_several_shapes(files: Path) -> None:
    results = vindex.open(files / "mini.h5")
    ax = vindex.plot.layers(results, block="attention")
    drawn = [one for one in ax.lines if one.get_gid() != "null"]
    assert len(drawn) == len(nulls(ax)) == 5
    assert len({one.get_color() for one in drawn}) == 5
    assert len({one.get_marker() for one in drawn}) == 5
    ratio = vindex.plot.layers(results, block="attention", ratio=True, ax=plt.figure().subplots())
    assert [set(y_of(one)) for one in nulls(ratio)] == [{1.0}]
    frame = results.matrix.query("role == 'o_proj'")
    assert np.allclose(
        y_of(line(ratio, "attention o_proj")), frame["var_at_64"] / frame["var_at_64_null"]
    )


def test_layers_have_gaps(files: Path, tmp_path: Path) -> None:
    results = vindex.measure(files / "mini", tmp_path / "out.h5", layers="1,3", progress=False)
    ax = vindex.plot.layers(results, role="down_proj")
    assert list(np.isnan(y_of(line(ax, "routed_expert down_proj")))) == [False, True, False]
    assert list(np.isnan(y_of(nulls(ax)[0]))) == [False, True, False]


def test_a_metric_without_a_null_is_not_drawn(files: Path) -> None:
    results = vindex.open(files / "mini.h5")
    for draw in (
        lambda: vindex.plot.layers(results, "mp_ks"),
        lambda: vindex.plot.experts(results, 1, metric="frobenius_norm"),
        lambda: vindex.plot.compare(results, results, metric="pl_alpha"),
        lambda: vindex.plot.compare(vindex.open(files / "pairs.h5"), metric="relative_error"),
    ):
        with pytest.raises(vindex.Error, match="no null") as caught:
            draw()
        assert caught.value.id == "E-METRIC"
    with pytest.raises(vindex.Error, match="did you mean 'stable_rank'"):
        vindex.plot.layers(results, "stabel_rank")


def test_spectrum_density(files: Path) -> None:
    results = vindex.open(files / "mini.h5")
    row = results.matrix.query("role == 'down_proj' and expert == 3 and layer == 1").iloc[0]
    sigma = results.spectrum(row["tensor"])
    ax = vindex.plot.spectrum(results, row["tensor"])
    p, n = 192, 256
    x = (sigma / row["mp_scale"]) ** 2 / n
    (steps,) = ax.patches
    values, edges, _ = steps.get_data()
    assert np.allclose(values * np.diff(edges) * p, np.histogram(x, edges)[0])
    (noise,) = nulls(ax)
    assert np.allclose(y_of(noise), _law.density(np.asarray(noise.get_xdata()), p / n))
    (marked,) = [one for one in ax.lines if one.get_gid() == "outliers"]
    assert len(marked.get_xdata()) == row["mp_outliers"] > 0
    assert np.allclose(np.sort(marked.get_xdata())[::-1], x[: int(row["mp_outliers"])])


def test_outliers_are_those_that_the_file_counts(files: Path) -> None:
    results = vindex.open(files / "mini.h5")
    for _, row in results.matrix.iloc[::7].iterrows():
        sigma = results.spectrum(row["tensor"])
        edge = row["mp_scale"] * _law.outlier_edge(len(sigma), max(row["rows"], row["cols"]))
        assert (sigma > edge).sum() == row["mp_outliers"], row["tensor"]
        assert np.isclose(
            _law.scale_of(sigma, max(row["rows"], row["cols"])), row["mp_scale"], rtol=1e-5
        )


def test_spectrum_values_and_arrays(files: Path) -> None:
    fast = vindex.open(files / "fast.h5")
    tensor = fast.matrix.query("role == 'down_proj' and expert == 3")["tensor"].iloc[0]
    with pytest.raises(vindex.Error, match="largest 64 of 192"):
        vindex.plot.spectrum(fast, tensor)
    ax = vindex.plot.spectrum(fast, tensor, kind="values")
    assert np.array_equal(y_of(line(ax, "singular values, the largest 64")), fast.spectrum(tensor))
    assert len(y_of(nulls(ax)[0])) == 192
    # Noise lies on its own null.
    noise = np.random.default_rng(1).normal(size=(300, 200))
    sigma = np.linalg.svd(noise, compute_uv=False)
    ax = vindex.plot.spectrum(sigma, rows=300, cols=200, kind="values")
    assert np.allclose(y_of(nulls(ax)[0]), sigma, rtol=0.05)
    with pytest.raises(TypeError, match="rows and cols"):
        vindex.plot.spectrum(sigma)
    with pytest.raises(TypeError, match="200 singular values"):
        vindex.plot.spectrum(np.ones(300), rows=300, cols=200)
    with pytest.raises(vindex.Error, match="no singular value"):
        vindex.plot.spectrum(np.zeros(200), rows=300, cols=200)
    for shape in ((50, 50), (1, 9), (2, 2)):
        sigma = np.linalg.svd(np.random.default_rng(2).normal(size=shape), compute_uv=False)
        assert nulls(vindex.plot.spectrum(sigma, rows=shape[0], cols=shape[1]))


def test_law_against_noise() -> None:
    for p, n in ((400, 400), (300, 900), (64, 4096)):
        g = p / n
        shares = np.linspace(0.01, 0.99, 50)
        x = _law.quantiles(shares, g)
        sigma = np.linalg.svd(np.random.default_rng(4).normal(size=(p, n)), compute_uv=False)
        assert np.allclose(np.quantile(sigma**2 / n, shares), x, rtol=0.06, atol=0.01)
        grid = np.linspace(*_law.support(g), 200_001)[1:]
        total = np.cumsum(_law.density(grid, g)) * (grid[1] - grid[0])
        assert np.allclose(np.interp(x, grid, total), shares, atol=5e-3)


def test_experts(files: Path) -> None:
    results = vindex.open(files / "mini.h5")
    ax = vindex.plot.experts(results, 1, "gate_proj", "stable_rank", threshold=1.0)
    rows = results.matrix.query("layer == 1 and role == 'gate_proj' and block == 'routed_expert'")
    values = np.sort(rows["stable_rank"])
    assert np.array_equal(y_of(ax.lines[0]), values)
    assert np.allclose(y_of(nulls(ax)[0]), rows["stable_rank_null"])
    middle = np.median(values)
    spread = 1.4826 * np.median(np.abs(values - middle))
    far = rows[np.abs(rows["stable_rank"] - middle) > spread]
    named = {int(text.get_text()) for text in ax.texts}
    assert named == set(far["expert"])
    assert named


def test_experts_that_were_not_measured(files: Path) -> None:
    results = vindex.open(files / "partial.h5")
    frame = results.matrix.query("role == 'up_proj' and block == 'routed_expert'")
    missing = frame[frame["status"] != "measured"].groupby("layer").size()
    layer = int(missing.index[0])
    ax = vindex.plot.experts(results, layer, "up_proj")
    assert np.isnan(y_of(ax.lines[0])).sum() == missing[layer]
    assert f"({missing[layer]} not measured)" in ax.get_xlabel()


def test_cosines_of_experts(files: Path) -> None:
    results = vindex.open(files / "experts.h5")
    ax = vindex.plot.experts(results, 2, "up_proj")
    (image,) = ax.images
    data = results.dataset.isel(
        group=list(results.rows.query("layer == 2")["role"]).index("up_proj") + 3
    )
    wanted = (data["cosine"] - data["cosine_null"]) / data["cosine_null_sd"]
    found = np.asarray(image.get_array().filled(np.nan))
    off = ~np.eye(16, dtype=bool)
    assert np.allclose(found[off], wanted.values[off], rtol=1e-5)
    assert np.isnan(found[~off]).all()
    low, high = image.get_clim()
    assert low == -high
    assert len([one for one in image.colorbar.ax.lines if one.get_gid() == "null"]) == 2


def test_compare_models(files: Path) -> None:
    both = [vindex.open(files / name) for name in ("mini.h5", "mini2.h5")]
    ax = vindex.plot.compare(*both, role="down_proj", labels=["first", "second"])
    for label, results in zip(("first", "second"), both, strict=True):
        rows = results.matrix.query("role == 'down_proj' and block == 'routed_expert'")
        assert np.allclose(y_of(line(ax, label)), rows.groupby("layer")["var_at_64"].median())
        assert np.allclose(line(ax, label).get_xdata(), [1 / 3, 2 / 3, 1])
    assert len(nulls(ax)) == 2
    with pytest.raises(TypeError, match="labels"):
        vindex.plot.compare(*both, labels=["one"])
    with pytest.raises(TypeError, match="at least one"):
        vindex.plot.compare()


def test_compare_pairs(files: Path) -> None:
    results = vindex.open(files / "pairs.h5")
    ax = vindex.plot.compare(results, block="attention", role="o_proj")
    rows = results.rows.query("role == 'o_proj'")
    assert np.allclose(y_of(line(ax, "attention o_proj")), rows["cosine"])
    assert set(y_of(nulls(ax)[0])) == {0.0}
    (band,) = [one for one in ax.collections if one.get_gid() == "null band"]
    assert np.isclose(band.get_paths()[0].get_extents().ymax, 2 * rows["cosine_null_sd"].max())
    other = vindex.plot.compare(
        results, metric="delta_stable_rank", block="attention", role="o_proj"
    )
    assert np.allclose(y_of(nulls(other)[0]), rows["delta_stable_rank_null"])


def test_hostile_names_are_data(hostile: Path) -> None:
    results = vindex.open(hostile)
    for name in results.matrix["tensor"]:
        if name != "broken":
            ax = vindex.plot.spectrum(results, name)
            assert "\x1b" not in ax.get_title()
            assert "\n" not in ax.get_title()


def test_a_dollar_in_a_name_is_no_formula(tmp_path: Path) -> None:
    from package_files import call, write_safetensors

    random = np.random.default_rng(1)
    write_safetensors(tmp_path / "model.safetensors", {"$\\frac{$": random.normal(size=(6, 5))})
    call("measure", tmp_path / "model.safetensors", "-o", tmp_path / "out.h5", "-q")
    ax = vindex.plot.spectrum(vindex.open(tmp_path / "out.h5"), "$\\frac{$")
    ax.figure.savefig(tmp_path / "out.png")


def test_without_matplotlib_it_says_what_installs_it(files: Path) -> None:
    code = (
        "import sys; sys.modules['matplotlib'] = None; sys.modules['matplotlib.pyplot'] = None\n"
        "import vindex\n"
        f"results = vindex.open({str(files / 'mini.h5')!r}); results.matrix\n"
        "vindex.plot.layers(results)\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert found.returncode == 1
    assert "pip install 'vindex-spectra[plot]'" in found.stderr
