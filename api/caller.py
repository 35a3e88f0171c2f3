"""Who calls: the key in `Authorization: Bearer …` becomes a grant."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

from anyio import to_thread
from fastapi import Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from access.grant import Forbidden, Grant
from api.limits import count
from api.problems import Problem, not_found
from api.services import Own

_BEARER = HTTPBearer(
    auto_error=False, scheme_name="key", description="A key of `chorale keys create`: `Bearer chorale_…`"
)


def caller(*scopes: str) -> Callable[..., Awaitable[Grant]]:
    """A dependency: the grant of the key that calls, which must have one of these scopes.

    401 without a valid key, 403 without a scope, 404 for a null character in the path, 429 for too many calls.
    """

    async def grant(
        request: Request,
        given: Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)],
        own: Own,
    ) -> Grant:
        text = given.credentials if given else ""
        # A key that is in use needs neither the database nor a thread.
        found = own.keys.recall(text) or await to_thread.run_sync(
            own.keys.find, text, limiter=own.few_threads
        )
        if found is None:
            raise Problem(
                "unauthenticated",
                "give a valid key: `Authorization: Bearer chorale_…`",
                headers={"WWW-Authenticate": "Bearer"},
            )
        await count(request, found, own.redis)
        if not {*scopes, "admin"} & found.scopes:
            raise Forbidden(" or ".join(scopes))
        if any("\0" in str(one) for one in request.path_params.values()):
            raise not_found()  # nothing has such a name, and PostgreSQL refuses it
        return found

    return grant
