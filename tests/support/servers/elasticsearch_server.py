"""Stores on the Elasticsearch server that the tests share: each with its own prefix, whose indices are deleted afterwards."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from elasticsearch import Elasticsearch

from models.declarations.engines import ElasticsearchEndpoint
from search.engines.elasticsearch.store import ElasticsearchStore
from tests.support.servers.local_http import LocalHttp, QuietHandler
from tests.support.servers.services import need
from tests.support.stores.known_index import KnownIndexes

HUNSPELL: dict[str, Any] = {
    "analyzer": {
        "chorale": {"type": "custom", "tokenizer": "standard", "filter": ["lowercase", "stop", "stems"]}
    },
    "filter": {"stems": {"type": "hunspell", "locale": "en_US"}},
}
"""English stop words and stems, with files that the test server has."""


def address() -> str:
    return need("elasticsearch", "the store has no server; its tests want a real one")


def host_and_port() -> tuple[str, int]:
    parts = urlsplit(address())
    return parts.hostname or "", parts.port or 0


@contextmanager
def corner() -> Iterator[str]:
    """Yields a prefix of index names that no other test uses; deletes its indices at the end."""
    prefix = f"t{secrets.token_hex(6)}"
    with Elasticsearch(address(), request_timeout=30) as client:
        try:
            yield prefix
        finally:
            names = list(client.indices.get(index=f"{prefix}*", features="aliases"))
            if names:
                client.indices.delete(index=names)
            client.options(ignore_status=404).indices.delete_index_template(name=f"{prefix}-namespaces")


@contextmanager
def opened(prefix: str, *, password: str | None = None, **options: Any) -> Iterator[ElasticsearchStore]:
    options = {"prefix": prefix, **options}
    if "url" not in options:
        options["url"] = address()
    store = ElasticsearchStore(ElasticsearchEndpoint(**options), password=password)
    store.reader = KnownIndexes()
    try:
        yield store
    finally:
        store.close()


PRODUCT = {"x-elastic-product": "Elasticsearch", "content-type": "application/json"}
"""The headers by which the client recognises Elasticsearch."""

Answer = tuple[int, bytes, dict[str, str]]


class Impostor(LocalHttp):
    """An HTTP server with prepared answers, for faults that a real server does not show on demand."""

    def __init__(self, answer: Callable[[str, bytes], Answer]) -> None:
        self.requests: list[tuple[str, dict[str, str]]] = []
        """Target and headers (names in small letters) of each request."""
        impostor = self

        class Handler(QuietHandler):
            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                impostor.requests.append((self.path, headers))
                self.send(*answer(self.path, body))

        super().__init__(Handler)
        self.url = self.origin
