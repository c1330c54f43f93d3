"""The application: routes, errors, the document of the interface."""

from __future__ import annotations

import importlib.metadata
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match

from vindex import _program
from vindex.serve.context import Context
from vindex.serve.guard import Guard
from vindex.serve.jobs import commands
from vindex.serve.jobs.inputs import Inputs
from vindex.serve.jobs.queue import Jobs
from vindex.serve.metrics import Metrics
from vindex.serve.models import Models
from vindex.serve.problems import Problem
from vindex.serve.results.tables import Tables
from vindex.serve.routes import jobs as routes_jobs
from vindex.serve.routes import models as routes_models
from vindex.serve.routes import page as routes_page
from vindex.serve.routes import results as routes_results
from vindex.serve.routes.schemas import ProblemForm
from vindex.serve.settings import Settings

log = logging.getLogger("vindex.serve")


def package_version() -> str:
    """Version of the installed package; of a source tree "0"."""
    try:
        return importlib.metadata.version("vindex-spectra")
    except importlib.metadata.PackageNotFoundError:
        return "0"


def context(settings: Settings) -> Context:
    """Everything behind the routes. Raises vindex.Error where there is no program."""
    program = _program.path()
    table = commands.table(_program.commands())
    jobs = Jobs(settings, program, table)
    return Context(
        settings=settings,
        version=package_version(),
        commands=table,
        jobs=jobs,
        models=Models(settings, program),
        inputs=Inputs(settings, jobs),
        tables=Tables(),
        metrics=Metrics(jobs),
    )


def _allowed(routes: Iterable[BaseRoute], request: Request) -> str:
    """Methods of every route of a path; Starlette names those of the first one alone."""
    methods: set[str] = set()
    for route in routes:
        if route.matches(request.scope)[0] is not Match.NONE:
            methods |= getattr(route, "methods", None) or set()
    return ", ".join(sorted(methods))


async def _problem(_: Request, error: Exception) -> Response:
    if isinstance(error, Problem):
        return error.response()
    if isinstance(error, RequestValidationError):
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][1:]) or "request"
        return Problem(422, "E-USAGE", f"{where}: {first['msg']}").response()
    if isinstance(error, HTTPException):
        known = {404: ("E-SERVE-ROUTE", "no such route"), 405: ("E-SERVE-METHOD", "not here")}
        id, text = known.get(error.status_code, ("E-SERVE-HTTP", str(error.detail)))
        return Problem(error.status_code, id, text, error.headers).response()
    return Problem(500, "E-INTERNAL", "an error of the server; its log has more").response()


def build(server: Context) -> Guard:
    """The application of one server."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        server.jobs.close()

    app = FastAPI(
        title="vindex-serve",
        version=server.version,
        summary="Singular-value spectra of language-model weights: models, jobs, results",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
    )
    modules = (routes_page, routes_models, routes_jobs, routes_results)
    routers = [module.router(server) for module in modules]
    for router in routers:
        app.include_router(router)

    async def refused(request: Request, error: Exception) -> Response:
        answer = await _problem(request, error)
        if answer.status_code == 405:
            routes = [route for router in routers for route in router.routes]
            answer.headers["Allow"] = _allowed(routes, request)
        return answer

    for kind in (Problem, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, refused)

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = described(app, server)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]
    return Guard(app, server.settings, server.metrics)


def described(app: FastAPI, server: Context) -> dict[str, Any]:
    """The OpenAPI document: FastAPI's, with our problems in place of its validation errors."""
    result = get_openapi(
        title=app.title, version=app.version, summary=app.summary, routes=app.routes
    )
    schemas = result["components"]["schemas"]
    schemas["ProblemForm"] = ProblemForm.model_json_schema()
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    for path in result["paths"].values():
        for operation in path.values():
            operation["responses"] = {
                status: {key: value for key, value in answer.items() if key != "model"}
                for status, answer in operation["responses"].items()
            }
    if server.settings.token is not None:
        result["components"]["securitySchemes"] = {
            "token": {"type": "http", "scheme": "bearer"},
            "session": {"type": "apiKey", "in": "cookie", "name": "vindex_session"},
        }
        open_paths = {"/health", "/metrics", "/session"}
        for name, path in result["paths"].items():
            for operation in path.values():
                if name not in open_paths:
                    operation["security"] = [{"token": []}, {"session": []}]
    return result
