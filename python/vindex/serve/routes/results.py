"""Routes of results: outputs of jobs, rows, spectra, files."""

from __future__ import annotations

import functools
import io
import re
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.parquet as pq
from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Header, Path, Query, Request
from pydantic_core import to_json
from starlette.responses import JSONResponse, Response

from vindex.serve.context import Context
from vindex.serve.jobs.inputs import result_name
from vindex.serve.problems import Problem
from vindex.serve.results import files, tables
from vindex.serve.routes.schemas import JobId, ResultForm, Rows, SpectrumForm, answers

JSON = "application/json"
ARROW = "application/vnd.apache.arrow.stream"
PARQUET = "application/vnd.apache.parquet"
MAX_ROWS = 1_000_000
MAX_JSON_ROWS = 10_000
READERS = 2
Id = Annotated[str, Path(json_schema_extra={"pattern": JobId}, description="id of the job")]
# The document says it by the media types of the answers, as it has to.
Accept = Annotated[str, Header(include_in_schema=False)]
_NAMES = r"^[A-Za-z0-9_.-]{1,64}(,[A-Za-z0-9_.-]{1,64}){0,255}$"
Names = Annotated[str | None, Query(pattern=_NAMES, description="names, with commas")]


def accepted(accept: str) -> str:
    """The media type to answer with. Raises Problem (406).

    It is the one of the highest weight that is known; JSON where anything will do.
    """
    best, weight = "", 0.0
    for item in accept.split(","):
        kind, *parameters = (part.strip().lower() for part in item.split(";"))
        quality = 1.0
        for parameter in parameters:
            if parameter.startswith("q="):
                try:
                    quality = float(parameter[2:])
                except ValueError:
                    quality = 0.0
        if kind in ("*/*", "application/*"):
            kind = JSON
        if kind in (JSON, ARROW, PARQUET) and quality > weight:
            best, weight = kind, quality
    if not best:
        raise Problem(406, "E-SERVE-ACCEPT", f"there are {JSON}, {ARROW} and {PARQUET}")
    return best


def _documented(form: str) -> dict[int | str, dict[str, Any]]:
    binary = {"schema": {"type": "string", "format": "binary"}}
    content = {
        JSON: {"schema": {"$ref": f"#/components/schemas/{form}"}},
        ARROW: binary,
        PARQUET: binary,
    }
    return {200: {"description": "By the Accept header", "content": content}}


def encoded(table: pa.Table, kind: str) -> bytes:
    """A table as an Arrow stream or a Parquet file."""
    sink = io.BytesIO()
    if kind == ARROW:
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    else:
        pq.write_table(table, sink)
    return sink.getvalue()


def _cursor(text: str | None, identity: tables.Identity) -> int:
    """Place of a cursor among the filtered rows. Raises Problem: 422, 409."""
    if text is None:
        return 0
    found = re.fullmatch(r"([0-9]{1,12})-([0-9a-f]{16})", text)
    if found is None:
        raise Problem(422, "E-USAGE", "cursor: take it from next_cursor")
    if found[2] != _mark(identity):
        raise Problem(409, "E-SERVE-CHANGED", "the file was published anew; begin again")
    return int(found[1])


def _mark(identity: tables.Identity) -> str:
    return f"{hash(identity) & (2**64 - 1):016x}"


def rows_answer(
    table: tables.Table,
    layer: str | None,
    role: str | None,
    block: str | None,
    columns: str | None,
    limit: int,
    cursor: str | None,
    kind: str,
) -> bytes:
    """One page of rows in a media type. Raises Problem: 422, 409."""
    start = _cursor(cursor, table.identity)
    names = tables.chosen(table, columns.split(",") if columns else [])
    found = tables.filtered(
        table, layer, role.split(",") if role else [], block.split(",") if block else []
    )
    end = start + (min(limit, MAX_JSON_ROWS) if kind == JSON else limit)
    rows = found[start:end]
    if kind != JSON:
        return encoded(pa.table({name: table.columns[name].arrow(rows) for name in names}), kind)
    cells = zip(*(table.columns[name].cells(rows) for name in names), strict=True)
    body = {
        "table": table.name,
        "status": table.status,
        "total": len(found),
        "columns": names,
        "rows": [dict(zip(names, row, strict=True)) for row in cells],
        "next_cursor": f"{end}-{_mark(table.identity)}" if end < len(found) else None,
    }
    return to_json(body, inf_nan_mode="null")


def router(server: Context) -> APIRouter:
    """The routes below /v1/results."""
    routes = APIRouter(prefix="/v1/results", tags=["results"])
    jobs = server.jobs

    @functools.cache
    def readers() -> CapacityLimiter:
        # More threads would only take the interpreter from each other, and from the event loop.
        return CapacityLimiter(READERS)

    @routes.get("/{id}", response_model=ResultForm, responses=answers(404), summary="Outputs")
    def one(id: Id) -> Response:
        job = jobs.get(id)
        found: dict[str, Any] = {"attributes": None, "tables": {}, "spectra": []}
        outputs = files.outputs(job)
        if any(output["name"] == result_name(job) for output in outputs):
            found = tables.summary(job)
        return JSONResponse(
            {"id": id, "verb": job.request.verb, "state": job.now.state, "files": outputs, **found}
        )

    @routes.get(
        "/{id}/matrix",
        response_model=Rows,
        responses={**answers(404, 406, 409), **_documented("Rows")},
        summary="Rows of a results file, statistics beside their nulls",
    )
    async def matrix(
        id: Id,
        layer: Annotated[
            str | None,
            Query(pattern=r"^-?[0-9]{1,9}(-[0-9]{1,9})?(,-?[0-9]{1,9}(-[0-9]{1,9})?){0,63}$"),
        ] = None,
        role: Names = None,
        block: Names = None,
        columns: Names = None,
        limit: Annotated[int, Query(ge=1, le=MAX_ROWS)] = 100,
        cursor: Annotated[str | None, Query(pattern="^[0-9]{1,12}-[0-9a-f]{16}$")] = None,
        table: Annotated[str | None, Query(pattern="^[a-z_]{1,32}$")] = None,
        accept: Accept = "*/*",
    ) -> Response:
        kind = accepted(accept)
        job = jobs.get(id)
        asked = (layer, role, block, columns, limit, cursor, kind)

        def answer() -> bytes:
            return rows_answer(server.tables.get(job, table), *asked)

        # What was asked before needs no thread.
        identity = tables.identity_now(job)
        content = server.answers.get((identity, table, asked))
        if content is None:
            content = await to_thread.run_sync(answer, limiter=readers())
            if identity == tables.identity_now(job):
                server.answers.keep((identity, table, asked), content)
        return Response(content, headers={"Vary": "Accept"}, media_type=kind)

    @routes.get(
        "/{id}/spectrum",
        response_model=SpectrumForm,
        responses={**answers(404, 406, 409), **_documented("SpectrumForm")},
        summary="Singular values of one matrix beside those of noise",
    )
    def spectrum(
        id: Id,
        tensor: Annotated[str, Query(min_length=1, max_length=1024)],
        slice: Annotated[int | None, Query(ge=-1, le=2**31 - 1)] = None,
        accept: Accept = "*/*",
    ) -> Response:
        kind = accepted(accept)
        job = jobs.get(id)
        found = tables.spectrum(job, server.tables.get(job), tensor, slice)
        if kind != JSON:
            values = {name: found.pop(name) for name in ("sigma", "sigma_null")}
            about = {name: str(value) for name, value in found.items()}
            return Response(
                encoded(pa.table(values).replace_schema_metadata(about), kind),
                headers={"Vary": "Accept"},
                media_type=kind,
            )
        found |= {name: found[name].tolist() for name in ("sigma", "sigma_null")}
        content = to_json(found, inf_nan_mode="null")
        return Response(content, headers={"Vary": "Accept"}, media_type=JSON)

    binary = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    for kind in sorted({*files.TYPES.values(), "text/plain; charset=utf-8"}):
        binary[kind] = {"schema": {}}

    @routes.get(
        "/{id}/file",
        response_class=Response,
        responses={
            **answers(404, 416),
            200: {"description": "The whole file", "content": binary},
            206: {"description": "The bytes of the Range header", "content": binary},
            304: {"description": "The ETag is that of If-None-Match"},
        },
        summary="An output, by default the main one; ranges are answered",
    )
    def file(
        request: Request,
        id: Id,
        name: Annotated[str | None, Query(min_length=1, max_length=1024)] = None,
        range: Annotated[str | None, Header(description="bytes=FIRST-LAST")] = None,
    ) -> Response:
        descriptor, found = files.open_output(jobs.get(id), name)
        return files.respond(request, descriptor, found)

    routes.add_api_route("/{id}/file", file, methods=["HEAD"], include_in_schema=False)
    return routes
