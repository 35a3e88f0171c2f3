"""Requests a minute of a key, counted in Redis for all processes of the API, and shown in the headers `RateLimit` and
`RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers-10).

Where there are cells, one of them has the count of a key.  While it is lost, the next one counts, from 0 on."""

from __future__ import annotations

import asyncio

from chorale_client.keys import RATE
from redis.asyncio import Redis
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.problems import MEDIA_TYPE, Problem, response_of
from api.redis_cells import RedisCells
from records.keys.grant import Grant

REFUSED_AFTER_S = 0.2
"""The API refuses a call without a valid key, or with too large a body, only after this time.  So a caller that repeats such
calls has to wait."""
WINDOW_S = 60
POLICY = "minute"
QUOTA_EXCEEDED = "https://iana.org/assignments/http-problem-types#quota-exceeded"


async def count(request: Request, grant: Grant, cells: RedisCells, calls: int = 1) -> None:
    """Count this call of the key as so many.  Raises Problem if the key has no more calls in its window, and ServiceUnavailable.

    The window begins with the first call and lasts a minute.
    """
    quota = grant.requests_per_minute
    if quota is None:
        return
    key = RATE + grant.key_id

    async def add(redis: Redis) -> tuple[int, int]:
        async with redis.pipeline() as trip:
            trip.set(key, 0, px=WINDOW_S * 1000, nx=True)
            trip.incrby(key, calls)
            trip.pttl(key)
            _, used, remaining_ms = await trip.execute()
        return used, remaining_ms

    used, remaining_ms = await cells.first(grant.key_id, add)
    remaining_s = max(1, -(-remaining_ms // 1000))
    request.state.rate_limit = {
        "RateLimit-Policy": f'"{POLICY}";q={quota};w={WINDOW_S}',
        "RateLimit": f'"{POLICY}";r={max(0, quota - used)};t={remaining_s}',
    }
    if used > quota:
        problem = Problem(
            "rate_limited",
            f"this key may call {quota} times a minute; call again in {remaining_s} s",
            headers={"Retry-After": str(remaining_s)},
            type=QUOTA_EXCEEDED,
        )
        problem.document["violated-policies"] = [POLICY]
        raise problem


async def count_cost(request: Request, grant: Grant, cells: RedisCells, calls: int) -> None:
    """Count a costly call as `calls` calls.  `count` has counted the call once already.  A single call never counts for more than
    the whole window.  Raises the errors of `count`."""
    quota = grant.requests_per_minute
    if quota is not None and calls > 1:
        await count(request, grant, cells, min(calls, quota) - 1)


class RateLimitHeaders:
    """Puts the headers on every response to a counted call, on errors too."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(scope.get("state", {}).get("rate_limit", {}))
            await send(message)

        await self._app(scope, receive, send_with_headers if scope["type"] == "http" else send)


class TooLargeAsProblem:
    """Replaces the plain text with which Starlette refuses a body whose `Content-Length` is over the limit."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_plain = False

        async def send_problem(message: Message) -> None:
            nonlocal is_plain
            if message["type"] == "http.response.start":
                is_plain = message["status"] == 413 and not _is_problem(message)
                if is_plain:
                    await asyncio.sleep(REFUSED_AFTER_S)
                    return
            elif is_plain:
                response = response_of(Problem("too_large", "the body is larger than this resource takes"))
                await response(scope, receive, send)
                return
            await send(message)

        await self._app(scope, receive, send_problem if scope["type"] == "http" else send)


def _is_problem(message: Message) -> bool:
    return MutableHeaders(scope=message).get("content-type") == MEDIA_TYPE
