"""What this installation may do with each of its stores, as its pipeline declares them."""

from __future__ import annotations

from collections.abc import Mapping

from config import extensions
from config.declarations import Pipeline

READ_ONLY = frozenset({"http"})
"""The built-in kinds of stores that documents cannot be indexed into."""


def capabilities(pipeline: Pipeline, built_in: Mapping[str, object]) -> tuple[str, ...]:
    """`<store>:read`, `<store>:write`, in the order of declaration; `built_in` has the kinds of our own."""
    found: list[str] = []
    for name, store in pipeline.stores.items():
        if store.kind in built_in:
            writes = store.kind not in READ_ONLY
        else:
            writes = extensions.load("store kind", store.kind).writes
        found += [f"{name}:read", f"{name}:write"] if writes else [f"{name}:read"]
    return tuple(found)
