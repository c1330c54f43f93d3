"""Routes of jobs: queue, list, follow, cancel, resume."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response, StreamingResponse

from vindex.serve.context import Context, json_body
from vindex.serve.jobs import commands, events, requests
from vindex.serve.jobs.records import FINISHED, STATES, Job
from vindex.serve.problems import Problem
from vindex.serve.routes.schemas import JobForm, JobId, JobList, answers, write_answers
from vindex.serve.settings import MAX_EVENT_STREAMS

Id = Annotated[str, Path(json_schema_extra={"pattern": JobId}, description="id of a job")]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        description="the same key with the same body gives the same job, also after a restart",
    ),
]
LastEventId = Annotated[
    str | None, Header(alias="Last-Event-ID", description="of the last event seen: go on there")
]


def request_body(table: dict[str, commands.Command]) -> dict[str, Any]:
    """OpenAPI of the body of a new job: one schema for each command."""
    schemas = [command.request_schema() for command in table.values()]
    return {
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"oneOf": schemas}}},
        }
    }


def router(server: Context) -> APIRouter:
    """The routes below /v1/jobs."""
    routes = APIRouter(prefix="/v1/jobs", tags=["jobs"])
    jobs = server.jobs

    def submit(body: Any, key: str | None) -> Job:
        request = requests.check(server.commands, body, server.inputs.locate, server.inputs.budget)
        return jobs.submit(request, key, body)[0]

    def accepted(job: Job) -> JSONResponse:
        return JSONResponse(jobs.describe(job), 202, {"Location": f"/v1/jobs/{job.id}"})

    @routes.post(
        "",
        status_code=202,
        response_model=JobForm,
        responses=write_answers(404, 409, 429, 507),
        openapi_extra=request_body(dict(server.commands)),
        summary="Queue a job",
    )
    async def create(request: Request, key: Key = None) -> Response:
        body = await json_body(request)
        job = await run_in_threadpool(submit, body, key)
        return accepted(job)

    @routes.get("", response_model=JobList, responses=answers(), summary="Jobs, the latest first")
    def listing(
        state: Annotated[str | None, Query(json_schema_extra={"enum": list(STATES)})] = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
        cursor: Annotated[str | None, Query(pattern=JobId)] = None,
    ) -> Response:
        if state is not None and state not in STATES:
            raise Problem(422, "E-USAGE", f"state is one of: {', '.join(STATES)}")
        found = [
            job
            for job in jobs.all()
            if (state is None or job.now.state == state) and (cursor is None or job.id < cursor)
        ]
        more = found[limit - 1].id if len(found) > limit else None
        shown = [jobs.describe(job) for job in found[:limit]]
        return JSONResponse({"jobs": shown, "next_cursor": more})

    @routes.get("/{id}", response_model=JobForm, responses=answers(404), summary="One job")
    def one(id: Id) -> Response:
        return JSONResponse(jobs.describe(jobs.get(id)))

    @routes.delete(
        "/{id}",
        status_code=202,
        response_model=JobForm,
        responses=write_answers(404, 409),
        summary="Cancel a job: SIGTERM, then what is finished is published",
    )
    def cancel(id: Id) -> Response:
        return JSONResponse(jobs.describe(jobs.cancel(id)), 202)

    @routes.post(
        "/{id}/resume",
        status_code=202,
        response_model=JobForm,
        responses=write_answers(404, 409, 429),
        summary="Queue a job again that ended early; it goes on where it stopped",
    )
    def resume(id: Id) -> Response:
        return accepted(jobs.resume(id))

    @routes.get(
        "/{id}/events",
        response_class=StreamingResponse,
        responses={
            **answers(404),
            200: {
                "description": "Server-sent events: state, progress, message, end",
                "content": {"text/event-stream": {}},
            },
            204: {"description": "The job has ended and the client has seen its end"},
        },
        summary="Follow a job",
    )
    async def follow(id: Id, last: LastEventId = None) -> Response:
        job = jobs.get(id)
        known = last is not None and re.fullmatch(r"[0-9]{1,15}", last) is not None
        after = int(last) if last is not None and known else None
        if after is not None and job.now.state in FINISHED:
            size = (job.folder / "stderr").stat().st_size
            if after >= size:
                return Response(status_code=204)
        if server.streams >= MAX_EVENT_STREAMS:
            raise Problem(503, "E-SERVE-BUSY", "too many clients follow jobs", {"Retry-After": "5"})
        return StreamingResponse(
            counted(job, after),
            media_type="text/event-stream",
            headers={"X-Accel-Buffering": "no"},
        )

    async def counted(job: Job, after: int | None) -> AsyncIterator[bytes]:
        server.streams += 1
        server.metrics.streams.inc()
        try:
            async for event in events.stream(jobs, job, after, lambda: server.stopping):
                yield event
        finally:
            server.streams -= 1
            server.metrics.streams.dec()

    return routes
