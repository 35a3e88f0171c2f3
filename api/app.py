"""The application: its routes, limits and errors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from chorale_client.limits import MAX_REQUEST_BYTES
from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.routing import APIRoute
from starlette.types import ASGIApp

from api import audit, feedback, health, namespaces, rules, searches
from api.jobs import routes as jobs
from api.limits import RateLimitHeaders, TooLargeAsProblem
from api.problems import MEDIA_TYPE, Problem, ProblemDocument, answer_with_problems, response_of
from api.services import open_services
from api.waiting import Closing
from config.settings import Settings, load_settings

ROUTERS = tuple(part.router for part in (searches, feedback, jobs, namespaces, rules, audit, health))

LARGEST_BODY = MAX_REQUEST_BYTES
"""Bytes of a request's body, unless its route has a limit of its own (`max_body_size`)."""

DESCRIPTION = """\
A moment is RFC 3339 in UTC with milliseconds, such as `2026-11-26T05:46:24.123Z`.  A request may \
write it in any form of ISO 8601.  The name of a duration ends with its unit: `took_ms`, `timeout_s`.  What belongs to documents and \
filters, such as `published_at`, stays as it was handed in."""


class Api(FastAPI):
    """FastAPI whose every error is a problem document."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            self.openapi_schema = _with_problem_types(super().openapi())
        return self.openapi_schema

    def build_middleware_stack(self) -> ASGIApp:
        # The headers wrap the handling of unexpected errors, so that a 500 has them too.
        return RateLimitHeaders(TooLargeAsProblem(super().build_middleware_stack()))


def create_app(settings: Settings | None = None) -> FastAPI:
    """The API of this installation; settings of the environment by default.

    Redis and the database are opened when the server starts.  CORS is off: keys do not belong into browsers.
    """
    settings = settings or load_settings()
    closing = Closing()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with open_services(settings, closing) as services:
            app.state.services = services
            yield

    app = Api(
        title="Chorale",
        summary="Hybrid retrieval: every search ends on time with the best answer there is.",
        description=DESCRIPTION,
        version="1",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        max_body_size=LARGEST_BODY,
        generate_unique_id_function=lambda route: route.name,
        responses={"default": {"model": ProblemDocument, "description": "An error"}},
        dependencies=[Depends(refuse_unknown_parameters)],
    )
    app.state.closing = closing
    app.state.readiness_cache = health.ReadinessCache()
    answer_with_problems(app)
    name_allowed_methods(app, ROUTERS)
    for router in ROUTERS:
        app.include_router(router)
    return app


def _with_problem_types(document: dict[str, Any]) -> dict[str, Any]:
    """The API's description, in which every error has the media type of problems: FastAPI has no option for it."""
    problem = {"$ref": f"#/components/schemas/{ProblemDocument.__name__}"}
    for path in document["paths"].values():
        for operation in path.values():
            for response in operation["responses"].values():
                content = response.get("content", {})
                if content.get("application/json", {}).get("schema") == problem:
                    response["content"] = {MEDIA_TYPE: content["application/json"]}
    return document


async def refuse_unknown_parameters(request: Request) -> None:
    """A dependency of every route: a misspelt parameter is an error.  FastAPI would use the default without a word."""
    operation = request.app.openapi()["paths"][request.scope["route"].path_format][request.method.lower()]
    known = [parameter["name"] for parameter in operation.get("parameters", ()) if parameter["in"] == "query"]
    for name, value in request.query_params.multi_items():
        if name not in known:
            allowed = ", ".join(known) or "none"
            raise Problem("invalid", f"{name[:80]}: unknown parameter; there are: {allowed}", field=name[:80])
        if "\0" in value:  # PostgreSQL refuses it in a text
            raise Problem("invalid", f"{name}: the character U+0000 is not allowed", field=name)


def name_allowed_methods(app: FastAPI, routers: Sequence[APIRouter]) -> None:
    """Name all methods of a resource in the response to a method that it lacks (RFC 9110, 15.5.6)."""
    routes = [route for router in routers for route in router.routes if isinstance(route, APIRoute)]

    async def answer(request: Request, _: Exception) -> Response:
        matching = [route for route in routes if route.path_regex.match(request.scope["path"])]
        allowed = {method for route in matching for method in route.methods or ()} or {"GET", "HEAD"}
        methods = ", ".join(sorted(allowed))
        return response_of(Problem("method_not_allowed", f"there are: {methods}", headers={"Allow": methods}))

    app.add_exception_handler(405, answer)
