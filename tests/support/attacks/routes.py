"""Every route of the HTTP API: the scopes that reach it, and a valid call of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx
from fastapi import FastAPI

PUBLIC = frozenset({"GET /openapi.json", "GET /healthz", "GET /readyz"})
"""The routes that need no key."""
NAMESPACE = "shared"
"""The namespace with documents of several tenants."""
JSONL = {"Content-Type": "application/jsonl"}
BREAD: Mapping[str, Any] = {"questions": ["bread"], "namespace": NAMESPACE}


@dataclass(frozen=True)
class Route:
    scopes: frozenset[str]
    """Each of these, or `admin`, reaches it; with none, only `admin` for every namespace."""
    call: Mapping[str, Any] = field(default_factory=dict)
    """What a valid call has besides its path; `{name}` stands for an id."""


_READ, _RUN, _JOBS, _WRITE = "search:read", "search:run", "jobs:write", "documents:write"


def _route(*scopes: str, **call: Any) -> Route:
    return Route(frozenset(scopes), call)


ROUTES: Mapping[str, Route] = {
    "POST /v1/searches": _route(_RUN, json=BREAD),
    "GET /v1/searches/{search_id}": _route(_RUN, _READ),
    "DELETE /v1/searches/{search_id}": _route(_RUN),
    "GET /v1/searches/{search_id}/events": _route(_RUN, _READ),
    "POST /v1/feedback": _route(
        _RUN, json={"request_id": "t.acme.0", "action": "click", "document_id": "ours"}
    ),
    "POST /v1/jobs": _route(
        _JOBS, content=b'{"text": "bread"}', headers=JSONL, params={"namespace": NAMESPACE}
    ),
    "GET /v1/jobs": _route(_READ, _JOBS),
    "DELETE /v1/jobs": _route(_JOBS, params={"ended_before": "2020-01-01T00:00:00Z"}),
    "GET /v1/jobs/{job_id}": _route(_READ, _JOBS),
    "DELETE /v1/jobs/{job_id}": _route(_JOBS),
    "POST /v1/jobs/{job_id}/pause": _route(_JOBS),
    "POST /v1/jobs/{job_id}/resume": _route(_JOBS),
    "POST /v1/jobs/{job_id}/cancel": _route(_JOBS),
    "POST /v1/jobs/{job_id}/retry": _route(_JOBS, json={}),
    "GET /v1/jobs/{job_id}/comparison": _route(_READ, _JOBS, params={"other": "{job_id}"}),
    "GET /v1/jobs/{job_id}/results": _route(_READ, _JOBS),
    "GET /v1/namespaces": _route(_RUN, _READ, _WRITE),
    "GET /v1/namespaces/{namespace}": _route(_RUN, _READ, _WRITE),
    "DELETE /v1/namespaces/{namespace}": _route("admin"),
    "GET /v1/namespaces/{namespace}/rules": _route(_WRITE),
    "PUT /v1/namespaces/{namespace}/rules": _route(
        _WRITE, json={"block": {"new": {"documents": ["nothing"]}}}
    ),
    "GET /v1/namespaces/{namespace}/rules/history": _route(_WRITE),
    "POST /v1/namespaces/{namespace}/documents": _route(
        _WRITE, json={"documents": [{"id": "new", "text": "bread"}]}
    ),
    "DELETE /v1/namespaces/{namespace}/documents": _route(_WRITE, params={"id": "ours"}),
    "GET /v1/namespaces/{namespace}/tickets/{ticket}": _route(_WRITE),
    "GET /v1/audit": _route("audit:read"),
    "GET /v1/audit/{request_id}": _route("audit:read"),
    "GET /metrics": _route(),
}
WITH_IDS = tuple((route, name) for route in ROUTES for name in re.findall(r"{(\w+)}", route))
"""Each route with each of its ids."""


def routes_of(app: FastAPI) -> set[str]:
    """`METHOD path` of each route, whether or not the OpenAPI document shows it."""
    routes = set()
    for outer in app.routes:
        for route in getattr(getattr(outer, "original_router", None), "routes", [outer]):
            routes |= {f"{method} {route.path}" for method in route.methods - {"HEAD"}}
    return routes


def call(client: httpx.Client, route: str, ids: Mapping[str, str], **more: Any) -> httpx.Response:
    """A valid call of a route with these ids; `more` takes the place of what the table says."""
    method, path = route.split()
    arguments = dict(ROUTES[route].call)
    if "params" in arguments:
        arguments["params"] = {name: value.format(**ids) for name, value in arguments["params"].items()}
    quoted = {name: quote(value, safe="") for name, value in ids.items()}
    return client.request(method, path.format(**quoted), **{**arguments, **more})


def seen(response: httpx.Response) -> tuple[int, bytes, tuple[tuple[str, str], ...]]:
    """All that a caller sees of a response, except the date."""
    headers = tuple(sorted((name, value) for name, value in response.headers.items() if name != "date"))
    return response.status_code, response.content, headers
