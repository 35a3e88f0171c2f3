"""Measures the largest filters that a request may have, at their first search of the embedded store."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from chorale_client.filters import check_filters
from chorale_client.limits import MAX_CONDITIONS, MAX_FILTER_DEPTH, MAX_FILTER_VALUES

from models.documents import Document, Manifest
from models.errors import StoreTimeout
from search.documents.reading import DocumentReader, Documents
from search.documents.store import DocumentStore
from search.engines.embedded.store import EmbeddedStore
from search.protocol import Search
from tests.bench import given_vectors

NAMESPACE = "filters"
LIMIT_S = 2.0
BATCH = 2_000
DAYS = [
    f"{year}-{month:02}-{day:02}"
    for year in range(2010, 2016)
    for month in range(1, 13)
    for day in range(1, 29)
]
USUAL = {"year": {"gte": 2012}, "tags": ["red", "blue"]}


def largest() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each matches every document, so that no condition is left out."""
    a_part = MAX_FILTER_VALUES // MAX_CONDITIONS
    lists = [
        {"not": [f"{day}T12:00" for day in DAYS[i * a_part : (i + 1) * a_part]]}
        for i in range(MAX_CONDITIONS)
    ]
    yield "dates in lists", {"published_at": {"all": lists}}
    yield "fields", {f"f{i}": {"not": i} for i in range(MAX_CONDITIONS)}
    yield "parts of texts", {"about": {"not": {"contains": [f"q{i}" for i in range(MAX_CONDITIONS)]}}}
    deep: Any = {"gte": 1}
    for _ in range(MAX_FILTER_DEPTH - 4):
        deep = {"not": deep}
    yield "ranges, deep", {"numbers": {"all": [deep] * MAX_CONDITIONS}}


def documents(first: int, end: int) -> Iterator[Document]:
    for number, document in enumerate(given_vectors.passages(first, end), start=first):
        fields = {
            "year": 2010 + number % 10,
            "tags": ["red", "green", "blue"][: 1 + number % 3],
            "published_at": DAYS[number % len(DAYS)],
            "about": document.passages[0].text,
            "numbers": list(range(1, 9)),
        }
        yield replace(document, metadata=fields)


def seconds(store: EmbeddedStore, filters: Mapping[str, Any]) -> tuple[float, bool]:
    """The time of one search, and whether it was answered."""
    begun_s = time.perf_counter()
    try:
        store.search_text(NAMESPACE, ["topic1"], Search(10, filters, timeout_s=LIMIT_S))
    except StoreTimeout:
        return time.perf_counter() - begun_s, False
    return time.perf_counter() - begun_s, True


def _measured(store: EmbeddedStore, filters: Mapping[str, Any]) -> dict[str, Any]:
    """The time of the first search, how often it must be repeated until it is answered, and the time of the search after
    that; times are shares of the time limit."""
    first_s, is_answered = seconds(store, check_filters(dict(filters)))
    searches = 1
    while not is_answered:
        is_answered = seconds(store, filters)[1]
        searches += 1
    return {
        "first, of its limit": round(first_s / LIMIT_S, 3),
        "searches until answered": searches,
        "then, of its limit": round(seconds(store, filters)[0] / LIMIT_S, 3),
    }


def measure(passages: int) -> Iterator[dict[str, Any]]:
    """A row for a usual filter and for each of the largest."""
    embedder = given_vectors.GivenVectors
    manifest = Manifest("none", "en", "chorale-lexical-2", embedder.fingerprint, embedder.dimension)
    with tempfile.TemporaryDirectory(prefix="chorale-filters-") as folder:
        store, base = EmbeddedStore(Path(folder)), Documents(Path(folder) / "documents.db")
        store.reader = DocumentReader(base, "local")
        writer = DocumentStore({"local": store}, base.table)
        writer.create(NAMESPACE, manifest)
        for first in range(0, passages, BATCH):
            writer.upsert(NAMESPACE, list(documents(first, min(passages, first + BATCH))))
        store.warm(NAMESPACE)
        for name, filters in [("usual", USUAL), *largest()]:
            yield {"filter": name, "passages": passages, **_measured(store, filters)}
        writer.close()
