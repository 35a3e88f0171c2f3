"""Refuses query parameters that are unknown or unreadable, and names all methods in `Allow`; FastAPI does neither."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.routing import APIRoute

from api.problems import Problem, response_of


async def refuse_unknown_parameters(request: Request) -> None:
    """A dependency of every route: a misspelt parameter is an error.  FastAPI would use the default without a word."""
    operation = request.app.openapi()["paths"][request.scope["route"].path_format][request.method.lower()]
    known = [one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"]
    for name, value in request.query_params.multi_items():
        if name not in known:
            there = ", ".join(known) or "none"
            raise Problem("invalid", f"{name[:80]}: unknown parameter; there are: {there}", field=name[:80])
        if "\0" in value:  # PostgreSQL refuses it in a text
            raise Problem("invalid", f"{name}: the character U+0000 is not allowed", field=name)


def name_allowed_methods(app: FastAPI, routers: Sequence[APIRouter]) -> None:
    """Name all methods of a resource in the response to a method that it lacks (RFC 9110, 15.5.6)."""
    routes = [route for router in routers for route in router.routes if isinstance(route, APIRoute)]

    async def answer(request: Request, _: Exception) -> Response:
        path = request.scope["path"]
        allowed = {method for one in routes if one.path_regex.match(path) for method in one.methods or ()}
        shown = ", ".join(sorted(allowed or {"GET", "HEAD"}))
        detail = f"there are: {shown}"
        return response_of(Problem("method_not_allowed", detail, headers={"Allow": shown}))

    app.add_exception_handler(405, answer)
