"""Headers of a call: `Prefer: wait=3`, `Prefer: respond-async` (RFC 7240), and `Idempotency-Key`
(draft-ietf-httpapi-idempotency-key-header), with which a call that is made twice does its work once.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Annotated

from fastapi import Header
from starlette.requests import Request

from api.problems import Problem
from records.keys.grant import Grant

LONGEST_WAIT_S = 60


@dataclass(frozen=True, slots=True)
class Preferences:
    wait_s: float | None = None
    """How long the caller waits for an answer; None: until the search ends."""
    applied: str | None = None
    """The value of `Preference-Applied`."""


async def preferences(request: Request) -> Preferences:
    """The caller's preferences.  As the RFC says, one that is unknown or cannot be read is ignored."""
    values: dict[str, str] = {}
    for line in request.headers.getlist("prefer"):
        for preference in _without_quotes(line).split(","):
            name, _, value = preference.partition(";")[0].partition("=")
            values.setdefault(name.strip().lower(), value.strip())
    applied = ["respond-async"] if "respond-async" in values else []
    wait_s: float | None = 0.0 if applied else None
    if re.fullmatch(r"\d{1,6}", values.get("wait", ""), re.ASCII):
        wait_s = min(LONGEST_WAIT_S, int(values["wait"]))
        applied.append(f"wait={wait_s:g}")
    return Preferences(wait_s, ", ".join(applied) or None)


def _without_quotes(line: str) -> str:
    """The line without quotation marks.  Commas and semicolons within quoted texts are removed too."""
    texts = re.sub(r"\\.", "", line).split('"')
    texts[1::2] = [text.translate({ord(","): None, ord(";"): None}) for text in texts[1::2]]
    return "".join(texts)


IdempotencyKey = Annotated[
    str | None,
    Header(
        description="The same key with the same body is the same call: it gets the same answer, and its work is done once.  "
        "Keys of other API keys, other routes and other namespaces are other keys."
    ),
]

_KEY = re.compile(r'"(?P<quoted>[ !#-\[\]-~]{1,255})"|(?P<bare>[!#-~]{1,255})')


def id_for(key: str | None, route: str, namespace: str, grant: Grant) -> str:
    """An id of the grant's tenant.  The same key on the same route and namespace always gives the same id; without a key the id
    is new.

    `key` is the header's value: a string of structured fields, or bare.  Raises Problem.
    """
    if key is None:
        return grant.new_id()
    match = _KEY.fullmatch(key.strip())
    if match is None:
        raise Problem(
            "malformed",
            "Idempotency-Key: 1-255 visible ASCII characters, in quotes or without; a UUID is a good choice",
            field="Idempotency-Key",
        )
    scoped = "\n".join((grant.key_id, route, namespace, match["quoted"] or match["bare"]))
    return grant.new_id(hashlib.sha256(scoped.encode()).hexdigest()[:32])
