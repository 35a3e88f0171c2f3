"""The Elasticsearch store."""

from __future__ import annotations

from models.declarations.engines import ElasticsearchEndpoint
from search.engines.elasticsearch.client import ElasticsearchDialect
from search.engines.elasticsearch.dialect_store import DialectStore


class ElasticsearchStore(DialectStore):
    def __init__(
        self, endpoint: ElasticsearchEndpoint, *, api_key: str | None = None, password: str | None = None
    ) -> None:
        super().__init__(ElasticsearchDialect(endpoint, api_key=api_key, password=password))
