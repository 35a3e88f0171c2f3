"""Who calls: the key in `Authorization: Bearer …` becomes a grant before the body is read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import aclosing, suppress
from typing import Annotated, Any, TypeVar

from anyio import to_thread
from fastapi import HTTPException, Request, Response, Security
from fastapi.responses import StreamingResponse
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from python_multipart.multipart import parse_options_header

from api.limits import REFUSED_AFTER_S, count
from api.problems import Problem, not_found
from api.services import Services
from api.waiting import with_pauses
from records.keys.grant import Forbidden, Grant
from records.keys.key_store import KeysUnavailable

T = TypeVar("T")

KEY_CHECKED_EVERY_S = 0.5
"""While a response is streamed."""
BODY_S = 60.0
"""Seconds in which a body of JSON must arrive."""
SMALL_BODY = 64_000
"""Bytes of JSON that are read on the event loop; more are read in a thread."""
MOST_BRACKETS = 1_000_000
"""Lists and objects of a body; brackets in texts count too.  An empty list costs half a microsecond and 80 bytes of memory."""
_BEARER = HTTPBearer(
    auto_error=False, scheme_name="key", description="A key of `chorale keys create`: `Bearer chorale_…`"
)


class Caller:
    """A dependency: the grant of the key that calls, which must have one of these scopes.

    Its `check` has run before the body is read (`KeyFirst`).
    """

    def __init__(self, *scopes: str) -> None:
        self._scopes = scopes

    async def __call__(
        self,
        request: Request,
        _: Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)],
    ) -> Grant:
        grant: Grant = request.state.grant
        return grant

    async def check(self, request: Request) -> None:
        """Raises Problem (401 without a valid key, 404 for a null character in the path, 429 for too many calls) and
        Forbidden without a scope."""
        services: Services = request.app.state.services
        grant = await _grant_of(request)
        if grant is None:
            await asyncio.sleep(REFUSED_AFTER_S)
            raise Problem(
                "unauthenticated",
                "give a valid key: `Authorization: Bearer chorale_…`",
                headers={"WWW-Authenticate": "Bearer"},
            )
        await count(request, grant, services.redis)
        if not {*self._scopes, "admin"} & grant.scopes:
            raise Forbidden(" or ".join(self._scopes))
        if any("\0" in str(value) for value in request.path_params.values()):
            raise not_found()  # nothing has such a name, and PostgreSQL refuses it
        request.state.grant = grant


async def _grant_of(request: Request) -> Grant | None:
    services: Services = request.app.state.services
    credentials = await _BEARER(request)
    text = credentials.credentials if credentials else ""
    # A key that is in use needs neither the database nor a thread.
    return services.keys.recall(text) or await to_thread.run_sync(
        services.keys.find, text, limiter=services.few_threads
    )


async def while_valid(is_valid: Callable[[], Awaitable[bool]], parts: AsyncIterator[T]) -> AsyncIterator[T]:
    """The parts of a response, which ends early when its key is revoked or expires."""
    loop = asyncio.get_running_loop()
    checked_at_s = loop.time()
    async with aclosing(with_pauses(parts, KEY_CHECKED_EVERY_S)) as coming:
        async for part in coming:
            if loop.time() - checked_at_s >= KEY_CHECKED_EVERY_S:
                with suppress(KeysUnavailable):  # then nothing is known of the key
                    if not await is_valid():
                        return
                checked_at_s = loop.time()
            if part is not None:
                yield part


class KeyFirst(APIRoute):
    """A route that checks the key, its scope and the content type before it reads the body.  FastAPI reads the body first.

    A response that is streamed ends within a second after its key was revoked.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle: Any = super().get_route_handler()
        callers = [
            dependency.call
            for dependency in self.dependant.dependencies
            if isinstance(dependency.call, Caller)
        ]
        reads_json = self.body_field is not None

        async def checked(request: Request) -> Response:
            for caller in callers:
                await caller.check(request)
            if reads_json:
                _check_json(request)
            response: Response = await handle(
                _Json(request.scope, request.receive) if reads_json else request
            )
            if callers and isinstance(response, StreamingResponse):

                async def is_valid() -> bool:
                    return await _grant_of(request) is not None

                response.body_iterator = while_valid(is_valid, aiter(response.body_iterator))
            return response

        return checked


class _Json(Request):
    """Reads a large body as JSON in a thread."""

    async def json(self) -> Any:
        try:
            async with asyncio.timeout(BODY_S):
                body = await self.body()
        except TimeoutError:
            raise HTTPException(400, f"the body did not arrive within {BODY_S:.0f} s") from None
        if len(body) <= SMALL_BODY:
            return await super().json()
        if body.count(b"[") + body.count(b"{") > MOST_BRACKETS:
            # FastAPI passes only its own exceptions on.
            raise HTTPException(413, f"the body has more than {MOST_BRACKETS:,} lists and objects")
        return await to_thread.run_sync(json.loads, body)


def _check_json(request: Request) -> None:
    kind = parse_options_header(request.headers.get("content-type"))[0].decode("latin-1").lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise Problem("unsupported_media_type", "Content-Type: send application/json", field="Content-Type")
