"""The page at / with its files, signing in, health, figures."""

from __future__ import annotations

import shutil
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from vindex.serve import metrics
from vindex.serve.context import Context
from vindex.serve.guard import COOKIE, Access
from vindex.serve.problems import Problem, not_found
from vindex.serve.routes.schemas import Health, Session, answers, write_answers

_FOLDER = Path(__file__).parents[1] / "page"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
LEAST_ROOM_BYTES = 1 << 20


def router(server: Context) -> APIRouter:
    """The routes beside /v1."""
    routes = APIRouter(tags=["server"])
    access = Access(server.settings)
    # Read once: what is served cannot be anything else than these files.
    page = {path.name: path.read_bytes() for path in _FOLDER.iterdir() if path.suffix in _TYPES}

    def shown(name: str) -> Response:
        if name not in page:
            raise not_found("page")
        return Response(
            page[name], headers={"Cache-Control": "no-cache"}, media_type=_TYPES[Path(name).suffix]
        )

    @routes.get("/", include_in_schema=False)
    def index() -> Response:
        return shown("index.html")

    @routes.get("/page/{name}", include_in_schema=False)
    def part(name: str) -> Response:
        return shown(name)

    @routes.get(
        "/health", response_model=Health, responses=answers(), summary="State; needs no token"
    )
    def health() -> Response:
        room = shutil.disk_usage(server.settings.work).free >= LEAST_ROOM_BYTES
        return JSONResponse(
            {
                "status": "ok" if room else "no_room",
                "version": server.version,
                "jobs": server.jobs.counts(),
            }
        )

    @routes.get(
        "/metrics",
        response_class=Response,
        responses={
            **answers(),
            200: {"description": "Prometheus text", "content": {metrics.TYPE: {}}},
        },
        summary="Figures for Prometheus; needs no token and holds no names",
    )
    def figures() -> Response:
        return Response(server.metrics.text(), media_type=metrics.TYPE)

    @routes.get(
        "/session", response_model=Session, responses=answers(), summary="Whether a token is needed"
    )
    def session(request: Request) -> Response:
        signed_in = True
        try:
            access.check_token(request.headers)
        except Problem:
            signed_in = False
        return JSONResponse(
            {"token_needed": server.settings.token is not None, "signed_in": signed_in}
        )

    @routes.post(
        "/session",
        status_code=204,
        response_class=Response,
        responses=write_answers(),
        summary="Exchange the bearer token for a cookie, which a browser sends with links",
    )
    def sign_in(request: Request) -> Response:
        access.check_token(request.headers)
        answer = Response(status_code=204)
        if server.settings.token is not None:
            answer.set_cookie(
                COOKIE, access.session(), httponly=True, samesite="strict",
                secure=request.url.scheme == "https",
            )  # fmt: skip
        return answer

    @routes.delete(
        "/session", status_code=204, response_class=Response, responses=write_answers(),
        summary="Forget the cookie",
    )  # fmt: skip
    def sign_out() -> Response:
        answer = Response(status_code=204)
        answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return answer

    return routes
