"""Whether the server's text search may leave out good hits at the end of a ranking.

Its BlockMax-WAND ignores the words of objects that are not on disk yet (for about a minute).  When it finds as many
hits as it was asked for, it may leave out better ones (fixed in Weaviate's pull request 11780).  Asked for all
matches, up to 10,000, it leaves out none.
"""

from __future__ import annotations

import ssl
from functools import cached_property

import httpx
from structlog import get_logger

from models.declarations.engines import WeaviateEndpoint
from search.engines.weaviate.schema import MOST_RESULTS
from search.protocol import Index

log = get_logger("chorale.weaviate")


class Pruning:
    """Asks the server during the first search of each index.  An index in a collection that was created again has another name."""

    def __init__(self, endpoint: WeaviateEndpoint, *, key: str | None) -> None:
        self._endpoint = endpoint
        self._headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._prunes: dict[str, bool] = {}
        """Whether the server prunes, by the name of the index."""

    async def least_hits(self, index: Index) -> int:
        """Minimum number of passages to ask for in a text search; with fewer, some of the best can be missing."""
        if index.name not in self._prunes and (prunes := await self._read()) is not None:
            if prunes and True not in self._prunes.values():
                log.warning(
                    "text searches in this Weaviate are slow, because its pruning leaves out good hits: start it with "
                    "USE_INVERTED_SEARCHABLE=false, delete the collection and index again",
                    url=self._endpoint.url,
                    collection=self._endpoint.collection,
                )
            self._prunes[index.name] = prunes
        return MOST_RESULTS if self._prunes.get(index.name, True) else 0

    async def _read(self) -> bool | None:
        """Reads the collection's configuration by REST, because the client omits this option; None without an answer."""
        address = f"{self._endpoint.url.rstrip('/')}/v1/schema/{self._endpoint.collection}Passage"
        secure = self._endpoint.is_secure
        async with httpx.AsyncClient(headers=self._headers, trust_env=secure, verify=self._tls) as client:
            answer = await client.get(address)
        if not answer.is_success:
            return None
        return bool(answer.json()["invertedIndexConfig"].get("usingBlockMaxWAND"))

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        """Cached: creating it takes .03 s, during which all calls wait."""
        secure = self._endpoint.is_secure
        return httpx.create_ssl_context(verify=secure, trust_env=secure)
