"""The source `wiki`, a search endpoint with two pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psutil

from models.hits import Ranking
from search.engines.http.source import HttpSource
from search.protocol import Search

PAGES = [
    {"id": 7, "name": "Rent", "extract": "The rent is due on the third day.", "rank": 2.5, "kind": "page"},
    {"id": "keys", "name": "Keys", "extract": "Two keys are handed over.", "rank": 1, "kind": "faq"},
]
PAGES[0] |= {"changed": "2024-05-01", "link": "https://wiki.example/7"}

FIELDS: dict[str, Any] = {"hits": "items", "id": "id", "title": "name", "text": "extract", "score": "rank"}
FIELDS |= {"published_at": "changed", "source_type": "kind", "metadata": {"url": "link"}}

Opens = Callable[..., HttpSource]


def ranking_of(source: HttpSource, text: str = "When is the rent due?", **options: Any) -> Ranking:
    (ranking,) = source.search_text("ns", [text], Search(**{"depth": 10, "timeout_s": 20.0, **options}))
    return ranking


def ids(ranking: Ranking) -> list[str]:
    return [hit.document_id for hit in ranking.hits]


def connections_to(port: int | None) -> list[int]:
    """The open file descriptors of this process."""
    connections = psutil.Process().net_connections("tcp4")
    return [connection.fd for connection in connections if connection.raddr and connection.raddr.port == port]
