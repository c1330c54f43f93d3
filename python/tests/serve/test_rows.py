"""Results over HTTP are those of the file: rows, spectra, bytes; with their nulls."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from serving import Server, assert_problem

from vindex.serve.results.files import parse_range
from vindex.serve.results.marchenko_pastur import noise_spectrum
from vindex.serve.results.tables import numbers
from vindex.serve.routes.results import ARROW, JSON, PARQUET, accepted


@pytest.fixture(scope="session")
def file(server: Server, measured: str) -> Any:
    with h5py.File(server.work / "jobs" / measured / "out" / "kimi.h5") as opened:
        yield opened


def rows_of(server: Server, id: str, **parameters: Any) -> dict[str, Any]:
    answer = server.client.get(f"/v1/results/{id}/matrix", params=parameters)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_summary(server: Server, measured: str) -> None:
    found = server.client.get(f"/v1/results/{measured}").json()
    assert found["attributes"]["schema_name"] == "vindex-results"
    assert found["attributes"]["matrices_measured"] == 181
    assert found["tables"]["matrix"]["rows"] == 181
    assert found["files"][0]["name"] == "kimi.h5"
    assert "p64" in found["spectra"]
    assert "/tmp" not in json.dumps(found)


def test_every_row_is_that_of_the_file(server: Server, measured: str, file: Any) -> None:
    rows: list[dict[str, Any]] = []
    page = rows_of(server, measured, limit=50)
    rows += page["rows"]
    while page["next_cursor"]:
        page = rows_of(server, measured, limit=50, cursor=page["next_cursor"])
        rows += page["rows"]
    assert len(rows) == page["total"] == 181
    for name in page["columns"]:
        data = file["matrix"][name]
        values = data[()]
        if name == "status":
            meanings = data.attrs["flag_meanings"].split()
            values = np.array([meanings[value] for value in values])
        for row, value in zip(rows, values, strict=True):
            if value.dtype.kind == "f" if hasattr(value, "dtype") else False:
                expected = [x if math.isfinite(x) else None for x in np.atleast_1d(value).tolist()]
                assert np.atleast_1d(np.array(row[name], dtype=object)).tolist() == expected, name
            else:
                expected = value.decode() if isinstance(value, bytes) else value
                assert row[name] == expected, name


def test_every_statistic_stands_with_its_null(server: Server, measured: str, file: Any) -> None:
    nulls = {name for name in file["matrix"] if name.endswith("_null")}
    assert len(nulls) > 10
    assert nulls <= set(rows_of(server, measured, limit=1)["columns"])
    columns = rows_of(server, measured, limit=1, columns="layer,stable_rank,var_at_k")["columns"]
    assert columns == ["layer", "stable_rank", "stable_rank_null", "var_at_k", "var_at_k_null"]


def test_filters(server: Server, measured: str) -> None:
    found = rows_of(server, measured, role="down_proj,up_proj", layer="1-2", block="routed_expert",
                    columns="layer,role,block", limit=1000)  # fmt: skip
    assert found["total"] == len(found["rows"]) == 64
    assert {row["role"] for row in found["rows"]} == {"down_proj", "up_proj"}
    assert {row["layer"] for row in found["rows"]} == {1, 2}
    assert {row["block"] for row in found["rows"]} == {"routed_expert"}
    assert {row["layer"] for row in rows_of(server, measured, layer="-1,3")["rows"]} == {-1, 3}
    assert rows_of(server, measured, role="nosuch")["rows"] == []


def test_numbers() -> None:
    assert numbers("0,1,15-20") == [(0, 0), (1, 1), (15, 20)]
    assert numbers("-1,3") == [(-1, -1), (3, 3)]


@pytest.mark.parametrize(
    ("parameters", "status", "id"),
    [
        ({"columns": "nosuch"}, 422, "E-COLUMN"),
        ({"layer": "x"}, 422, "E-USAGE"),
        ({"limit": 0}, 422, "E-USAGE"),
        ({"cursor": "x"}, 422, "E-USAGE"),
        ({"cursor": "1-0000000000000000"}, 409, "E-SERVE-CHANGED"),
        ({"table": "nosuch"}, 404, "E-RESULTS-DATA"),
        ({"columns": "../x"}, 422, "E-USAGE"),
    ],
    ids=str,
)
def test_questions_that_are_refused(
    server: Server, measured: str, parameters: dict[str, Any], status: int, id: str
) -> None:
    answer = server.client.get(f"/v1/results/{measured}/matrix", params=parameters)
    assert_problem(answer, status, id)


def test_arrow_and_parquet(server: Server, measured: str, file: Any) -> None:
    path = f"/v1/results/{measured}/matrix"
    parameters = {"limit": 1000, "columns": "tensor,stable_rank,var_at_k"}
    for kind, read in (
        (ARROW, lambda data: pa.ipc.open_stream(data).read_all()),
        (PARQUET, lambda data: pq.read_table(io.BytesIO(data))),
    ):
        answer = server.client.get(path, params=parameters, headers={"Accept": kind})
        assert answer.headers["content-type"] == kind
        table = read(answer.content)
        assert table.num_rows == 181
        assert table["stable_rank"].to_numpy().tolist() == file["matrix/stable_rank"][()].tolist()
        names = [name.decode() for name in file["matrix/tensor"][()]]
        assert table["tensor"].to_pylist() == names
        assert table["var_at_k_null"].to_pylist() == file["matrix/var_at_k_null"][()].tolist()


def test_media_types_that_are_not_there(server: Server, measured: str) -> None:
    for path in (f"/v1/results/{measured}/matrix",
                 f"/v1/results/{measured}/spectrum?tensor=lm_head.weight"):  # fmt: skip
        answer = server.client.get(path, headers={"Accept": "text/html"})
        assert_problem(answer, 406, "E-SERVE-ACCEPT")
    assert accepted("text/html, application/vnd.apache.parquet;q=0.5, */*;q=0.1") == PARQUET
    assert accepted("*/*") == JSON
    assert accepted(f"{JSON};q=0.4, {ARROW};q=0.6") == ARROW


def test_spectrum(server: Server, measured: str, file: Any) -> None:
    path = f"/v1/results/{measured}/spectrum"
    found = server.client.get(path, params={"tensor": "lm_head.weight"}).json()
    names = [name.decode() for name in file["matrix/tensor"][()]]
    row = names.index("lm_head.weight")
    group = file[f"spectra/p{min(found['rows'], found['cols'])}"]
    at = group["matrix"][()].tolist().index(row)
    assert found["sigma"] == group["sigma"][at].tolist()
    assert found["scale_null"] == file["matrix/mp_scale"][row]
    assert len(found["sigma_null"]) == len(found["sigma"])
    assert np.all(np.diff(found["sigma_null"]) <= 0)
    answer = server.client.get(path, params={"tensor": "lm_head.weight"}, headers={"Accept": ARROW})
    table = pa.ipc.open_stream(answer.content).read_all()
    assert table["sigma"].to_pylist() == found["sigma"]
    assert_problem(server.client.get(path, params={"tensor": "no"}), 404, "E-FILE-MISSING")
    assert_problem(server.client.get(path), 422, "E-USAGE")


@pytest.mark.parametrize(("rows", "cols"), [(400, 400), (300, 600), (900, 300), (64, 2048)])
def test_noise_has_the_spectrum_of_its_null(rows: int, cols: int) -> None:
    """Singular values of Gaussian matrices lie where the null says, within their spread."""
    draws = np.random.default_rng(7)
    sigma = np.mean(
        [np.linalg.svd(draws.normal(0, 0.5, (rows, cols)), compute_uv=False) for _ in range(8)],
        axis=0,
    )
    null = noise_spectrum(rows, cols, 0.5, min(rows, cols))
    assert np.max(np.abs(sigma - null)) < 0.02 * sigma[0]
    assert np.isnan(noise_spectrum(rows, cols, math.nan, 3)).all()


def test_ranges_of_the_file(server: Server, measured: str) -> None:
    path = f"/v1/results/{measured}/file"
    whole = server.client.get(path)
    size = len(whole.content)
    assert whole.status_code == 200
    assert whole.content[:8] == b"\x89HDF\r\n\x1a\n"
    assert whole.headers["accept-ranges"] == "bytes"
    assert whole.headers["content-type"] == "application/x-hdf5"
    assert "attachment" in whole.headers["content-disposition"]
    tag = whole.headers["etag"]
    for text, first, last in (
        ("bytes=0-0", 0, 1), ("bytes=5-", 5, size), ("bytes=-7", size - 7, size),
        ("bytes=10-999999999999", 10, size), (f"bytes=-{size * 2}", 0, size),
    ):  # fmt: skip
        part = server.client.get(path, headers={"Range": text})
        assert part.status_code == 206
        assert part.headers["content-range"] == f"bytes {first}-{last - 1}/{size}"
        assert part.content == whole.content[first:last]
    for text in (f"bytes={size}-", "bytes=-0"):
        answer = server.client.get(path, headers={"Range": text})
        assert_problem(answer, 416, "E-SERVE-RANGE")
        assert answer.headers["content-range"] == f"bytes */{size}"
    for text in ("bytes=0-1,3-4", "lines=1-2", "bytes=9-3", "bytes=-", "x"):
        assert server.client.get(path, headers={"Range": text}).status_code == 200
    stale = {"Range": "bytes=0-0", "If-Range": '"other"'}
    assert server.client.get(path, headers=stale).status_code == 200
    fresh = {"Range": "bytes=0-0", "If-Range": tag}
    assert server.client.get(path, headers=fresh).status_code == 206
    assert server.client.get(path, headers={"If-None-Match": tag}).status_code == 304
    head = server.client.head(path)
    assert (head.headers["content-length"], head.content) == (str(size), b"")


def test_parts_of_ranges() -> None:
    assert parse_range("bytes=0-4", 10) == (0, 5)
    assert parse_range("bytes=-4", 10) == (6, 10)
    assert parse_range("bytes=4-2", 10) is None
    with pytest.raises(ValueError, match="nothing"):
        parse_range("bytes=0-", 0)


def test_files_by_name(server: Server, measured: str) -> None:
    path = f"/v1/results/{measured}/file"
    printed = server.client.get(path, params={"name": "stdout"})
    assert "lm_head" in printed.text
    assert printed.headers["content-security-policy"].startswith("sandbox")
    for name in ("../state.json", "../request.json", "/etc/passwd", "nosuch", "..", "stderr",
                 "kimi.h5/", "models/kimi/config.json"):  # fmt: skip
        answer = server.client.get(path, params={"name": name})
        assert_problem(answer, 404, "E-FILE-MISSING")


def test_links_among_outputs_are_not_followed(server: Server) -> None:
    id = server.run("export", server.run("measure", "kimi")["id"], format="csv")["id"]
    out = server.work / "jobs" / id / "out"
    (out / "link").symlink_to("/etc/passwd")
    (out / "folder").symlink_to("/etc")
    names = {file["name"] for file in server.client.get(f"/v1/results/{id}").json()["files"]}
    assert names == {"export.csv"}
    for name in ("link", "folder/passwd"):
        answer = server.client.get(f"/v1/results/{id}/file", params={"name": name})
        assert_problem(answer, 404, "E-FILE-MISSING")


def test_kinds_without_spectra(server: Server, measured: str) -> None:
    id = server.run("compare", "kimi", b="deeper/other")["id"]
    found = rows_of(server, id, limit=2)
    assert "cosine" in found["columns"]
    assert "cosine_null_sd" in found["columns"]
    answer = server.client.get(f"/v1/results/{id}/spectrum", params={"tensor": "x"})
    assert_problem(answer, 404, "E-RESULTS-KIND")
    printed = server.run("inspect", "kimi")["id"]
    answer = server.client.get(f"/v1/results/{printed}/matrix")
    assert_problem(answer, 404, "E-RESULTS-MISSING")
    with_experts = server.run("experts", "kimi")["id"]
    assert "cosine_mean" in rows_of(server, with_experts, limit=1)["columns"]


def test_a_file_that_is_none(server: Server, own_server: Callable[..., Server]) -> None:
    own = own_server()
    id = own.run("measure", "kimi")["id"]
    (own.work / "jobs" / id / "out" / "kimi.h5").write_bytes(b"no HDF5")
    for part in ("", "/matrix", "/spectrum?tensor=x"):
        answer = own.client.get(f"/v1/results/{id}{part}")
        assert_problem(answer, 422, "E-RESULTS-OPEN")
