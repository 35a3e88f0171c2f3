"""The OpenSearch store."""

from __future__ import annotations

from models.declarations.engines import OpenSearchEndpoint
from search.engines.elasticsearch.dialect_store import DialectStore
from search.engines.opensearch.client import OpenSearchDialect


class OpenSearchStore(DialectStore):
    def __init__(self, endpoint: OpenSearchEndpoint, *, password: str | None = None) -> None:
        super().__init__(OpenSearchDialect(endpoint, password=password))
