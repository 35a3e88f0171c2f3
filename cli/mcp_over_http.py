"""The MCP server over HTTP: a caller's key decides what its tools may search."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar

import uvicorn
from chorale_client.adapters.mcp import no_namespace
from chorale_client.request import Request
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from sqlalchemy.exc import SQLAlchemyError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request as HttpRequest
from starlette.types import ASGIApp, Receive, Scope, Send

from api.limits import RateLimitHeaders, count
from api.problems import Problem, problem_of, response_of
from api.redis_cells import RedisCells, redis_urls
from api.serving import uvicorn_config
from cli.local.ports import Address
from config.settings import Settings
from models.errors import ServiceError
from records.database import upgrade
from records.keys.grant import Grant, OutOfScope
from records.keys.key_store import KeyStore

log = logging.getLogger(__name__)

_GRANT: ContextVar[Grant] = ContextVar("chorale_grant")
"""The rights of the key in the present call."""


def within_the_key(request: Request) -> Request:
    """The request as the caller's key allows it; raises ToolError, InvalidRequest."""
    try:
        grant = _GRANT.get()
        grant.require("search:run")
        return grant.applied(request.model_copy(update={"request_id": grant.new_id()}))
    except OutOfScope:
        raise no_namespace(request.namespace) from None
    except ServiceError as error:
        raise ToolError(str(error)) from None


class _Keyed:
    """Serves only calls with a valid key, and counts them."""

    def __init__(self, app: ASGIApp, keys: KeyStore, cells: RedisCells) -> None:
        self._app, self._keys, self._cells = app, keys, cells

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            grant = await self._grant(HttpRequest(scope))
        except Exception as error:
            await response_of(problem_of(error))(scope, receive, send)
            return
        token = _GRANT.set(grant)
        try:
            await self._app(scope, receive, send)
        finally:
            _GRANT.reset(token)

    async def _grant(self, request: HttpRequest) -> Grant:
        kind, _, key = request.headers.get("authorization", "").partition(" ")
        grant = await run_in_threadpool(self._keys.find, key.strip()) if kind.lower() == "bearer" else None
        if grant is None:
            detail = "give a valid key: `Authorization: Bearer chorale_…`"
            raise Problem("unauthenticated", detail, headers={"WWW-Authenticate": "Bearer"})
        await count(request, grant, self._cells)
        return grant


def app_with_keys(server: MCPServer, address: Address, settings: Settings) -> Starlette:
    """The application of a server whose `allow` is `within_the_key`."""
    try:
        upgrade(settings.audit_database_url)
    except (ServiceError, SQLAlchemyError) as error:
        log.warning("the keys cannot be read yet: %s", error)
    keys = KeyStore(settings.audit_database_url)
    cells = RedisCells(redis_urls(settings))
    # Without sessions no call can use the rights of another call's key.
    app = server.streamable_http_app(stateless_http=True, host=address.host)
    inner = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        try:
            async with inner(app):
                yield
        finally:
            await cells.aclose()
            keys.close()

    app.router.lifespan_context = lifespan
    app.add_middleware(_Keyed, keys=keys, cells=cells)
    app.add_middleware(RateLimitHeaders)
    return app


def server_of(app: Starlette, address: Address, settings: Settings) -> uvicorn.Server:
    """Its `run` serves until SIGTERM or SIGINT."""
    return uvicorn.Server(uvicorn_config(app, settings, host=address.host, port=address.port))
