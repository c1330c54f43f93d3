"""Answers as /openapi.json describes them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from vindex.serve import problems
from vindex.serve.jobs import commands

JobId = f"^{commands.JOB_ID}$"


class _Form(BaseModel):
    model_config = ConfigDict(extra="allow")


class ProblemForm(BaseModel):
    """RFC 9457, with the error id of the program."""

    type: str
    title: str
    status: int
    detail: str
    id: str = Field(pattern="^E-[A-Z0-9-]+$")


class Health(BaseModel):
    """State of the server."""

    status: str = Field(description="ok, or no_room where the work folder's disk is full")
    version: str
    jobs: dict[str, int] = Field(description="jobs by state")


class Session(BaseModel):
    """What a browser asks before it shows anything."""

    token_needed: bool
    signed_in: bool


class ErrorForm(BaseModel):
    """Why a job ended, in the program's terms."""

    id: str
    text: str | None


class JobForm(BaseModel):
    """A job. Times are seconds since 1970."""

    id: str = Field(pattern=JobId)
    verb: str
    model: str | None
    options: dict[str, Any]
    state: str = Field(description="queued, running, done, failed, cancelled or lost")
    cancel_requested: bool
    resumable: bool = Field(description="whether POST /v1/jobs/{id}/resume goes on with it now")
    attempt: int
    created: float
    started: float | None
    finished: float | None
    exit_code: int | None = Field(description="of the program; 128 + N after signal N")
    error: ErrorForm | None
    progress: dict[str, Any] | None


class JobList(BaseModel):
    """Jobs, the latest first."""

    jobs: list[JobForm]
    next_cursor: str | None


class ModelEntry(BaseModel):
    """One model or folder of dumped activations; of a split GGUF its first part."""

    id: str
    kind: str = Field(description="folder, safetensors, gguf or dump")
    files: int
    bytes: int


class ModelList(BaseModel):
    """Everything below --models."""

    models: list[ModelEntry]


class ModelForm(_Form):
    """`vindex inspect --json`, with the identifier."""

    id: str


class TensorList(BaseModel):
    """Tensors as `vindex inspect --tensors --json` lists them."""

    id: str
    total: int
    tensors: list[dict[str, Any]]
    next_cursor: str | None


class OutputForm(BaseModel):
    """One output of a job."""

    name: str
    bytes: int
    media_type: str


class ResultForm(BaseModel):
    """Outputs of a job; of a results file also its attributes and tables."""

    id: str = Field(pattern=JobId)
    verb: str
    state: str
    files: list[OutputForm]
    attributes: dict[str, Any] | None
    tables: dict[str, Any]
    spectra: list[str]


class Rows(BaseModel):
    """Rows of a table. NaN and infinite values are null; `reason` says why."""

    table: str
    status: str
    total: int = Field(description="rows that pass the filters")
    columns: list[str]
    rows: list[dict[str, Any]]
    next_cursor: str | None


class SpectrumForm(BaseModel):
    """Singular values, descending, and those that noise of that shape and bulk would have."""

    tensor: str
    slice: int
    rows: int
    cols: int
    scale_null: float | None
    sigma: list[float | None]
    sigma_null: list[float | None]


_ABOUT = {
    400: "The body is no JSON that is accepted",
    401: "A token is needed",
    403: "A request of another page, or for more memory than a job may have",
    404: "Missing, or not to be seen",
    406: "No media type that is accepted",
    408: "The body took too long",
    409: "The state or an earlier request does not allow it",
    413: "More than 1 MB",
    415: "Not application/json",
    416: "No such bytes",
    421: "The Host header is not this server's",
    422: "Refused: the arguments, or by the program",
    431: "Headers and address of more than 16 KB",
    429: "The queue is full; Retry-After says when to ask again",
    500: "An error of the server",
    502: "The program was killed",
    503: "Too many clients",
    504: "The program took too long",
    507: "The disk is full",
}


def answers(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Documentation of problems that a route can answer with, with those of every route."""
    content = {problems.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemForm"}}}
    every = sorted({400, 401, 421, 422, 431, 500, 503, *statuses})
    return {status: {"description": _ABOUT[status], "content": content} for status in every}


def write_answers(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The same for requests that change something."""
    return answers(403, 408, 413, 415, *statuses)
