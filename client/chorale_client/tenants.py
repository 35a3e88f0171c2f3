"""The owner of an id: requests, jobs and tickets made for an API key begin with `t.<tenant>.`.

The owner is part of the id, so it needs no lookup and is the same in the ledger, the answer, the outbox, the audit
trail and events.  Other ids have no owner: only callers that need no key can reach what they name.
"""

from __future__ import annotations

import re

from pydantic import BaseModel, ConfigDict

from chorale_client.errors import safe_repr

_TENANT = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_OWNED = re.compile(rf"t\.({_TENANT.pattern})\..+", re.DOTALL)


def check_tenant(value: str) -> str:
    """Raises ValueError."""
    if not _TENANT.fullmatch(value):
        raise ValueError(
            "a tenant is 1-63 lower-case letters, digits, '_' or '-', and starts with a letter or digit; "
            f"not {safe_repr(value)}"
        )
    return value


def owned(tenant: str, id_: str) -> str:
    """`id_` as an id of `tenant`, at most 66 characters longer."""
    return f"t.{check_tenant(tenant)}.{id_}"


def tenant_of(id_: str) -> str | None:
    """The tenant that owns an id; None if it was not made for a tenant."""
    match = _OWNED.fullmatch(id_)
    return None if match is None else match[1]


def short_id(name: str) -> str:
    """The beginning of an id, by which commands find it.  An id of a caller with a key begins with the tenant."""
    owner, dot, own = name.rpartition(".")
    return f"{owner}{dot}{own[:8]}" if name.startswith("t.") else name[:8]


class Namespace(BaseModel):
    """Unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str
    documents: int
    passages: int
    generation: int
    """Rises with each change."""
