"""Results files beside h5py, which reads what is in them by itself."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import threading
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from package_files import HOSTILE, call, write_safetensors

import vindex
from vindex._text import printable, without_secrets

K = [1, 2, 4, 8, 16, 32, 64, 128, 256]


def test_matrix_has_every_column_of_the_file(files: Path) -> None:
    frame = vindex.open(files / "mini.h5").matrix
    with h5py.File(files / "mini.h5") as file:
        group = file["matrix"]
        assert len(frame) == len(group["matrix"])
        for name, data in group.items():
            if data.dtype.kind == "O":
                assert list(frame[name]) == list(data.asstr()[:]), name
            elif data.ndim == 2:
                for position, k in enumerate(K):
                    column = name.replace("_k", f"_{k}")
                    assert np.array_equal(frame[column], data[:, position], equal_nan=True), column
            elif name not in ("matrix", "k", "status"):
                values = data[:].astype(float)
                if "_FillValue" in data.attrs:
                    values[values == -1] = np.nan
                assert np.array_equal(frame[name].astype(float), values, equal_nan=True), name
        words = group["status"].attrs["flag_meanings"].split()
    assert list(frame["status"].cat.categories) == words
    assert set(frame["status"]) == {"measured"}
    for name in ("block", "role", "status"):
        assert isinstance(frame[name].dtype, pd.CategoricalDtype)
    assert list(frame.columns[:6]) == ["tensor", "slice", "layer", "expert", "block", "role"]
    assert (frame.loc[frame["block"] == "attention", "expert"] == -1).all()
    assert frame.index.name == "matrix"


def test_it_agrees_with_the_csv_of_the_program(files: Path, tmp_path: Path) -> None:
    for name, table in [("mini", "matrix"), ("heads", "product"), ("pairs", "matrix")]:
        target = tmp_path / f"{name}.csv"
        call("export", files / f"{name}.h5", "--format", "csv", "--table", table, "-o", target)
        theirs = pd.read_csv(target, index_col=0, keep_default_na=False, na_values=[""])
        results = vindex.open(files / f"{name}.h5")
        ours = results.product if table == "product" else results.rows
        assert set(theirs.columns) == set(ours.columns)
        for column in theirs.columns:
            if pd.api.types.is_numeric_dtype(ours[column]):
                pd.testing.assert_series_equal(
                    theirs[column].astype(float), ours[column].astype(float),
                    check_index=False, check_names=False, rtol=1e-15,
                )  # fmt: skip
            else:
                texts = theirs[column].astype(object).where(theirs[column].notna(), "")
                assert list(texts) == list(ours[column].astype(str)), column


def test_an_integer_that_is_missing_is_nan_and_no_layer_is_minus_one(hostile: Path) -> None:
    frame = vindex.open(hostile).matrix
    broken = frame[frame["tensor"] == "broken"].iloc[0]
    assert broken["status"] == "not_finite"
    assert broken["reason"]
    assert np.isnan(broken["rank_90"])
    assert np.isnan(broken["stable_rank"])
    assert broken["layer"] == -1


def test_other_tables(files: Path) -> None:
    results = vindex.open(files / "mini.h5")
    assert list(results.tables) == ["layer", "matrix", "null", "tensor"]
    layer = results.layer
    experts = results.matrix.query("block == 'routed_expert' and role == 'down_proj'")
    wanted = experts.groupby("layer")["stable_rank"].median()
    found = layer.query("block == 'routed_expert' and role == 'down_proj'").set_index("layer")
    assert np.allclose(found["stable_rank_median"], wanted, rtol=1e-12)
    assert (results.tensor["count"] > 0).all()
    with pytest.raises(vindex.Error) as caught:
        results.product  # noqa: B018
    assert (caught.value.code, caught.value.id) == (64, "E-TABLE")
    assert len(vindex.open(files / "heads.h5").product) == 16
    assert "nothing" not in results.tables
    assert results.tables.get("nothing") is None


def test_dataset_is_what_xarray_reads(files: Path) -> None:
    ours = vindex.open(files / "mini.h5").dataset
    theirs = xr.open_dataset(files / "mini.h5", engine="h5netcdf", group="/matrix").load()
    assert set(ours.coords) == set(theirs.coords)
    assert dict(ours.sizes) == dict(theirs.sizes)
    for name in ("stable_rank", "rank_90", "var_at_k", "layer", "tensor", "rows"):
        assert ours[name].dims == theirs[name].dims
        assert (ours[name].values == theirs[name].values).all(), name
    ratio = ours.var_at_k.sel(k=64) / ours.var_at_k_null.sel(k=64)
    assert ratio.groupby("role").median().sizes["role"] > 5


def test_spectra_are_those_of_the_file(files: Path) -> None:
    results = vindex.open(files / "mini.h5")
    frame = results.matrix
    with h5py.File(files / "mini.h5") as file:
        for group in file["spectra"].values():
            rows, sigma = group["matrix"][:], group["sigma"][:]
            for row, values in list(zip(rows, sigma, strict=True))[:5]:
                assert np.array_equal(results.spectrum(frame["tensor"][row]), values)
    many = results.spectra(
        block="routed_expert", role=["gate_proj", "down_proj"], layer=range(1, 3)
    )
    rows = frame.query("block == 'routed_expert' and role != 'up_proj' and layer < 3")
    assert many.shape == (len(rows), 192)
    assert np.allclose(many[:, 0], rows["spectral_norm"], rtol=1e-14)
    assert np.allclose((many**2).sum(axis=1), rows["frobenius_norm"] ** 2, rtol=1e-5)
    assert results.spectra(role="router", layer=2).shape == (1, 16)


def test_spectra_of_other_files(files: Path) -> None:
    fast = vindex.open(files / "fast.h5")
    assert fast.spectra(block="routed_expert").shape == (144, 64)
    assert np.isnan(fast.matrix["nuclear_norm"]).all()
    heads = vindex.open(files / "heads.h5")
    product = heads.spectra(table="product", role="qk_head")
    assert np.allclose(
        product[:, 0], heads.product.query("role == 'qk_head'")["spectral_norm"], rtol=1e-12
    )
    with pytest.raises(vindex.Error, match="--no-spectra") as caught:
        vindex.open(files / "none.h5").spectra(role="router")
    assert caught.value.id == "E-NO-SPECTRUM"


def test_slices_of_a_stack(tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    name = "model.layers.0.mlp.experts.down_proj"
    stack = random.normal(size=(4, 6, 8))
    write_safetensors(tmp_path / "model.safetensors", {name: stack})
    config = {"model_type": "qwen3_moe", "num_experts": 4, "num_hidden_layers": 1}
    (tmp_path / "config.json").write_text(json.dumps(config))
    results = vindex.measure(tmp_path, tmp_path / "out.h5", progress=False)
    assert results.matrix["slice"].tolist() == [0, 1, 2, 3]
    for number in range(4):
        wanted = np.linalg.svd(stack[number].astype("f4").astype(float), compute_uv=False)
        assert np.allclose(results.spectrum(name, number), wanted, rtol=1e-5)
    with pytest.raises(vindex.Error, match="several: 0 to 3") as caught:
        results.spectrum(name)
    assert caught.value.id == "E-SLICE"
    with pytest.raises(vindex.Error, match="none of number 4"):
        results.spectrum(name, 4)
    assert vindex.plot.spectrum(results, name, 2).get_title() == f"{name} #2"


def test_a_lora_pair(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    a, b = random.normal(size=(3, 20)), random.normal(size=(12, 3))
    prefix = "base_model.model.model.layers.0.self_attn.q_proj"
    (tmp_path / "peft").mkdir()
    pairs = {f"{prefix}.lora_A.weight": a, f"{prefix}.lora_B.weight": b}
    write_safetensors(tmp_path / "peft/adapter_model.safetensors", pairs)
    settings = {"peft_type": "LORA", "r": 3, "lora_alpha": 6, "target_modules": ["q_proj"]}
    (tmp_path / "peft/adapter_config.json").write_text(json.dumps(settings))
    results = vindex.measure(tmp_path / "peft", tmp_path / "out.h5", lora=True, progress=False)
    (row,) = results.product.to_dict("records")
    assert (row["role"], row["rank"], row["rows"], row["cols"]) == ("q_proj", 3, 12, 20)
    sigma = results.spectrum(row["tensor"], table="product")
    wanted = 2 * np.linalg.svd(b.astype("f4").astype(float) @ a.astype("f4"), compute_uv=False)[:3]
    assert np.allclose(sigma, wanted, rtol=1e-9)
    results.export(tmp_path / "out.parquet", table="product", spectra=True)


def test_a_partial_file_has_gaps_in_place_of_what_is_not_there(files: Path) -> None:
    results = vindex.open(files / "partial.h5")
    assert results.status == "partial"
    chosen = results.matrix["block"] == "routed_expert"
    measured = results.matrix.loc[chosen, "status"] == "measured"
    assert 0 < measured.sum() < len(measured)
    sigma = results.spectra(block="routed_expert")
    assert sigma.shape == (chosen.sum(), 192)
    assert np.array_equal(np.isfinite(sigma).all(axis=1), measured)
    assert np.array_equal(np.isnan(sigma).all(axis=1), ~measured)
    skipped = results.matrix.loc[chosen, "tensor"][~measured].iloc[0]
    with pytest.raises(vindex.Error, match="skipped"):
        results.spectrum(skipped)


def test_a_selection_that_is_wrong_says_what_there_is(files: Path) -> None:
    results = vindex.open(files / "mini.h5")
    with pytest.raises(vindex.Error, match=r"of length 16.*of length 192") as caught:
        results.spectra()
    assert caught.value.id == "E-SPECTRA-SHAPE"
    with pytest.raises(vindex.Error, match="did you mean 'down_proj'"):
        results.spectra(role="down_prj")
    with pytest.raises(vindex.Error, match="no row"):
        results.spectra(layer=99)
    with pytest.raises(vindex.Error, match="did you mean") as caught:
        results.spectrum("model.layers.1.mlp.gate.weigt")
    assert caught.value.id == "E-TENSOR"
    with pytest.raises(vindex.Error) as caught:
        results.spectrum("model.layers.1.mlp.gate.weight", slice=3)
    assert caught.value.id == "E-SLICE"


def test_files_of_other_commands(files: Path) -> None:
    pairs = vindex.open(files / "pairs.h5")
    assert pairs.kind == "compare"
    assert pairs.rows is pairs.tables["pair"]
    assert {"cosine", "angles_right_2", "delta_var_at_64_null"} <= set(pairs.rows.columns)
    assert len(pairs.tables["unpaired"]) == 0
    assert pairs.dataset.sizes["angle"] == 2
    experts = vindex.open(files / "experts.h5")
    assert experts.dataset["cosine"].dims == ("group", "expert", "expert_other")
    assert experts.rows["experts"].tolist() == [16] * 9
    with pytest.raises(vindex.Error) as caught:
        experts.matrix  # noqa: B018
    assert (caught.value.code, caught.value.id) == (65, "E-RESULTS-KIND")


def test_files_of_dumps(files: Path) -> None:
    cka = vindex.open(files / "cka.h5")
    assert list(cka.tables) == ["layer", "matched"]
    assert cka.layer["best_cka"].tolist() == pytest.approx([1, 1, 1])
    data = cka.dataset
    assert data["cka"].dims == ("layers_a", "layers_b")
    assert np.allclose(data["cka"].sel(layers_a=1, layers_b=1), 1)
    assert data["adjacent_cka"].dims == ("entry",)
    activations = vindex.open(files / "activations.h5")
    sparsity = activations.dataset["sparsity"]
    assert sparsity.dims == ("entry", "threshold")
    columns = [name for name in activations.rows if name.startswith("sparsity_")]
    assert len(columns) == 2 * sparsity.sizes["threshold"]
    routing = vindex.open(files / "routing.h5")
    assert np.allclose(routing.dataset["load"].sum("expert"), 1)
    assert routing.rows["load_cv"].notna().all()


def test_run_and_attributes(files: Path) -> None:
    results = vindex.open(files / "mini.h5")
    assert set(results.run) == {"command", "settings", "inputs", "environment", "config"}
    assert results.run["config"]["experts"] == 16
    assert results.attributes["matrices_total"] == len(results.matrix)
    assert results.schema_version.startswith("1.")
    assert "181 of 181 measured" in repr(results)


def test_it_stays_what_it_was_and_closes(files: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.h5"
    path.write_bytes((files / "mini.h5").read_bytes())
    with vindex.open(path) as results:
        other = tmp_path / "other.h5"
        other.write_bytes((files / "fast.h5").read_bytes())
        other.rename(path)
        assert np.isfinite(results.matrix["nuclear_norm"]).all()
        matrix = results.matrix
    assert results.matrix is matrix
    with pytest.raises(vindex.Error, match="was closed"):
        results.layer  # noqa: B018
    results.close()
    assert pickle.loads(pickle.dumps(vindex.open(path))).attributes["mode"] == "fast"


def test_it_does_not_keep_files_open(files: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        vindex.open(files / "mini.h5").spectra(role="router")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_from_several_threads(files: Path) -> None:
    results = vindex.open(files / "mini.h5")
    found: list[np.ndarray] = []
    threads = [
        threading.Thread(target=lambda: found.append(results.spectra(role="o_proj")))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert all(np.array_equal(found[0], other) for other in found)


def test_hostile_names_are_data(hostile: Path) -> None:
    results = vindex.open(hostile)
    names = results.matrix["tensor"].tolist()
    assert HOSTILE[0] in names
    for name in names:
        if name != "broken":
            assert results.spectrum(name).shape == (5,)
    shown = results._repr_html_() + repr(results)
    assert "<script" not in shown
    with pytest.raises(vindex.Error) as caught:
        results.spectrum("x\x1b[2J\n")
    assert "\x1b" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "code", "id"),
    [
        (None, 66, "E-RESULTS-MISSING"),
        (b"hello", 65, "E-RESULTS-HDF5"),
        (b"", 65, "E-RESULTS-HDF5"),
        ("folder", 66, "E-RESULTS-KIND"),
        ("cut", 65, "E-RESULTS-HDF5"),
        ("newer", 65, "E-RESULTS-VERSION"),
        ("foreign", 65, "E-RESULTS-SCHEMA"),
        ("attribute", 65, "E-RESULTS-DATA"),
    ],
)
def test_errors_are_those_of_the_program(
    files: Path, tmp_path: Path, content: bytes | str | None, code: int, id: str
) -> None:
    path = tmp_path / "out.h5"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content == "folder":
        path.mkdir()
    elif content == "foreign":
        h5py.File(path, "w").close()
    elif content is not None:
        whole = (files / "mini.h5").read_bytes()
        path.write_bytes(whole[:5000] if content == "cut" else whole)
    if content in ("newer", "attribute"):
        with h5py.File(path, "r+") as file:
            if content == "newer":
                file.attrs["schema_version"] = "2.0"
                del file.attrs["attributes_sha256"]
            else:
                file.attrs["model"] = "another"
    with pytest.raises(vindex.Error) as caught:
        vindex.open(path)
    assert (caught.value.code, caught.value.id) == (code, id)
    theirs = subprocess.run(
        [vindex._program.path(), "show", path], capture_output=True, text=True, check=False
    )
    assert (theirs.returncode, id in theirs.stderr) == (code, True), theirs.stderr


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("https://host/a@b.gguf", "https://host/a@b.gguf"),
        ("hf://org/repo@main/a.gguf", "hf://org/repo@main/a.gguf"),
        ("https://user:SECRET@host:80/a?X-Amz-Signature=SECRET", "https://host:80/a"),
        ("http://user:SE/C?R@ET@host/a", "http://host/a"),
        ("https://user:SECRET", "https://..."),
        ("s3://KEY:SECRET@bucket/a?b", "s3://bucket/a?b"),
        ("s3://bucket/a?X-Amz-Signature=SECRET", "s3://bucket/a"),
        ('at https://u:S@h/a?b: no, "http://h/c?SECRET".', 'at https://h/a: no, "http://h/c".'),
        ("a ? b # c @ d", "a ? b # c @ d"),
    ],
)
def test_no_secret_of_an_address_is_shown(given: str, shown: str) -> None:
    """As tests/core/secrets_test.cpp has it for the program."""
    assert without_secrets(given) == printable(given) == shown
    assert without_secrets(shown) == shown
    with pytest.raises(vindex.Error) as caught:
        vindex.open(given)
    assert "SECRET" not in str(caught.value)


def test_paths_are_texts_bytes_or_path_objects(files: Path, tmp_path: Path) -> None:
    for path in (files / "mini.h5", str(files / "mini.h5"), os.fsencode(files / "mini.h5")):
        with vindex.open(path) as results:
            assert results.path == files / "mini.h5"
            assert len(results.matrix) > 0
    strange = tmp_path / os.fsdecode(b"a\xff.h5")
    shutil.copy(files / "mini.h5", strange)
    with vindex.open(os.fsencode(strange)) as results:
        assert results.path == strange
    with pytest.raises(vindex.Error, match="E-RESULTS-MISSING"):
        vindex.open(b"nosuch.h5")
    for what in (3, None, ["a.h5"], bytearray(b"a.h5")):
        with pytest.raises(TypeError, match=r"str, bytes or os\.PathLike"):
            vindex.open(what)  # type: ignore[arg-type]


def test_unreadable_and_strange_paths(files: Path, tmp_path: Path) -> None:
    with pytest.raises(vindex.Error) as caught:
        vindex.open(tmp_path / "a\0b")
    assert caught.value.code == 66
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(vindex.Error, match="not a regular file"):
        vindex.open(pipe)
