"""The namespaces that the key may search."""

from __future__ import annotations

from typing import Any

from console.pages import Page, Visit
from console.search import namespaces_of


async def show(visit: Visit) -> dict[str, Any]:
    return {"namespaces": [namespace.model_dump() for namespace in await namespaces_of(visit)]}


PAGES = (Page("/corpus", "Corpus", "corpus.html", show, ("search:run", "search:read", "documents:write")),)
