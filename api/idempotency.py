"""`Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header): a call that is made twice does its work once."""

from __future__ import annotations

import hashlib
import re
from typing import Annotated

from fastapi import Header

from access.grant import Grant
from api.problems import Problem

IdempotencyKey = Annotated[
    str | None,
    Header(
        description="The same key with the same body is the same call: it gets the same answer, and its work is done once.  "
        "Keys of other API keys, other routes and other namespaces are other keys."
    ),
]

_GIVEN = re.compile(r'"(?P<quoted>[ !#-\[\]-~]{1,255})"|(?P<bare>[!#-~]{1,255})')


def id_for(key: str | None, route: str, namespace: str, grant: Grant) -> str:
    """An id of the grant's tenant.  The same key on the same route and namespace always gives the same id; without a key the id
    is new.

    `key` is the header's value: a string of structured fields, or bare.  Raises Problem.
    """
    if key is None:
        return grant.new_id()
    found = _GIVEN.fullmatch(key.strip())
    if found is None:
        raise Problem(
            "malformed",
            "Idempotency-Key: 1-255 visible ASCII characters, in quotes or without; a UUID is a good choice",
            field="Idempotency-Key",
        )
    scoped = "\n".join((grant.key_id, route, namespace, found["quoted"] or found["bare"]))
    return grant.new_id(hashlib.sha256(scoped.encode()).hexdigest()[:32])
