"""The id of a shadow: the second search for the question of a request, under another configuration."""

from __future__ import annotations

SUFFIX = ".shadow"


def shadow_id(request_id: str) -> str:
    """It begins with the request's, so that it belongs to the same tenant, and stands behind it in every list of ids."""
    return f"{request_id}{SUFFIX}"


def request_id_of(id_of_shadow: str) -> str:
    return id_of_shadow.removesuffix(SUFFIX)
