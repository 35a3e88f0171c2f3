"""The namespaces that the key may search."""

from __future__ import annotations

from typing import Any

from console.pages import Page, Visit
from console.search import namespaces_of


async def show(visit: Visit) -> dict[str, Any]:
    """`namespaces` is None if no sweeper says them in time."""
    known = await namespaces_of(visit)
    return {"namespaces": None if known is None else [namespace.model_dump() for namespace in known]}


PAGES = (Page("/corpus", "Corpus", "corpus.html", show, ("search:run", "search:read", "documents:write")),)
