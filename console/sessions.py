"""Logging in: a key becomes a session, whose random id stands in a cookie.

The key is looked up for each page, so that a session ends with its key.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response

from api.services import Services
from records.keys import sessions
from records.keys.grant import Grant

COOKIE = "chorale_session"
PATH = "/console"


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
    """Sets the cookie of a new session on `response`; False for a text that is no valid key.  Raises KeysUnavailable, SQLAlchemyError."""

    def new_session() -> str | None:
        grant = services.keys.find(key_text)
        return None if grant is None else sessions.begin(services.database, grant.key_id)

    id_ = await to_thread.run_sync(new_session, limiter=services.few_threads)
    if id_ is None:
        return False
    response.set_cookie(
        COOKIE,
        id_,
        max_age=sessions.LASTS_S,
        path=PATH,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return True


async def current(request: Request, services: Services) -> Session | None:
    """The session of the cookie; None without one, and when it or its key has ended.  Raises KeysUnavailable, SQLAlchemyError."""
    id_ = request.cookies.get(COOKIE)
    if not id_:
        return None

    def find() -> Session | None:
        login = sessions.find(services.database, id_)
        key = None if login is None else services.keys.active(login.key_id)
        return (
            None
            if login is None or key is None
            else Session(key.grant(), key.name or key.key_id, login.token)
        )

    return await to_thread.run_sync(find, limiter=services.few_threads)


async def end(request: Request, services: Services, response: Response) -> None:
    if id_ := request.cookies.get(COOKIE):
        await to_thread.run_sync(sessions.end, services.database, id_, limiter=services.few_threads)
    response.delete_cookie(COOKIE, path=PATH)


def is_token(session: Session, token: str) -> bool:
    """Compares in constant time."""
    return hmac.compare_digest(session.token.encode(), token.encode())
