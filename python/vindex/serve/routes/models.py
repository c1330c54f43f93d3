"""Routes of models."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import JSONResponse, Response

from vindex.serve.context import Context
from vindex.serve.routes.schemas import ModelForm, ModelList, TensorList, answers

Id = Annotated[
    str, Path(description="name of a model below --models; it may have slashes", min_length=1)
]


def router(server: Context) -> APIRouter:
    """The routes below /v1/models."""
    routes = APIRouter(prefix="/v1/models", tags=["models"])

    @routes.get("", response_model=ModelList, responses=answers(), summary="Models and dumps")
    def listing() -> Response:
        return JSONResponse({"models": [asdict(entry) for entry in server.models.all()]})

    @routes.get(
        "/{id:path}/tensors",
        response_model=TensorList,
        responses=answers(404, 502, 504),
        summary="Tensors of a model, from its headers",
    )
    def tensors(
        id: Id,
        limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
        cursor: Annotated[int, Query(ge=0, le=2**31)] = 0,
    ) -> Response:
        found = server.models.inspect(id, tensors=True)["tensor_list"]
        more = str(cursor + limit) if cursor + limit < len(found) else None
        page = found[cursor : cursor + limit]
        return JSONResponse({"id": id, "total": len(found), "tensors": page, "next_cursor": more})

    @routes.get(
        "/{id:path}",
        response_model=ModelForm,
        responses=answers(404, 502, 504),
        summary="What a model is made of, from its headers",
    )
    def one(id: Id) -> Response:
        return JSONResponse({"id": id, **server.models.inspect(id)})

    return routes
