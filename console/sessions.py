"""Logging in: a key becomes a session, whose random id stands in a cookie.

Redis has the session under a hash of its id.  The key is looked up for each page, so that a session ends with its key.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass

from anyio import to_thread
from chorale_client.keys import SESSION
from pydantic_core import from_json, to_json
from starlette.requests import Request
from starlette.responses import Response

from api.services import Services
from records.keys.grant import Grant

COOKIE = "chorale_session"
PATH = "/console"
LASTS_S = 8 * 3_600


@dataclass(frozen=True, slots=True)
class Session:
    grant: Grant
    key_name: str
    token: str
    """What every form has to send (CSRF)."""

    def has(self, *scopes: str) -> bool:
        """Whether the key has one of these scopes."""
        return bool({*scopes, "admin"} & self.grant.scopes)


async def begin(request: Request, services: Services, key_text: str, response: Response) -> bool:
    """Sets the cookie of a new session on `response`; False for a text that is no valid key.  Raises KeysUnavailable."""
    grant = await to_thread.run_sync(services.keys.find, key_text, limiter=services.few_threads)
    if grant is None:
        return False
    id_ = secrets.token_urlsafe(32)
    record = {"key_id": grant.key_id, "token": secrets.token_urlsafe(32)}
    await services.redis.set(_name(id_), to_json(record), ex=LASTS_S)
    response.set_cookie(
        COOKIE,
        id_,
        max_age=LASTS_S,
        path=PATH,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return True


async def current(request: Request, services: Services) -> Session | None:
    """The session of the cookie; None without one, and when it or its key has ended.  Raises RedisError, KeysUnavailable."""
    id_ = request.cookies.get(COOKIE)
    record = await services.redis.get(_name(id_)) if id_ else None
    if record is None:
        return None
    fields = from_json(record)
    key = await to_thread.run_sync(services.keys.active, fields["key_id"], limiter=services.few_threads)
    return None if key is None else Session(key.grant(), key.name or key.key_id, fields["token"])


async def end(request: Request, services: Services, response: Response) -> None:
    if id_ := request.cookies.get(COOKIE):
        await services.redis.delete(_name(id_))
    response.delete_cookie(COOKIE, path=PATH)


def is_token(session: Session, token: str) -> bool:
    """Compares in constant time."""
    return hmac.compare_digest(session.token.encode(), token.encode())


def _name(session_id: str) -> str:
    return SESSION + hashlib.sha256(session_id.encode()).hexdigest()
