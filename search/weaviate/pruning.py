"""Whether the server's text search is to be trusted with the end of a ranking.

Its BlockMax-WAND takes every word of an object that is not on disk yet (for a minute, as it comes) for worthless, so
that with as many hits as it is asked for it leaves out better ones (mended in Weaviate's pull request 11780).  Asked
for as many as match, up to 10,000, it leaves out none.
"""

from __future__ import annotations

import httpx
from structlog import get_logger

from models.weaviate_endpoint import WeaviateEndpoint
from search.weaviate.cut import MOST_HITS

log = get_logger("chorale.weaviate")


class Pruning:
    """Asks the server once."""

    def __init__(self, endpoint: WeaviateEndpoint, *, key: str | None) -> None:
        self._endpoint = endpoint
        self._headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._least_hits: int | None = None

    async def least_hits(self) -> int:
        """How many passages a text search has to ask for, so that none of the best are missing."""
        if self._least_hits is None:
            prunes = await self._prunes()
            if prunes is None:
                return MOST_HITS
            if prunes:
                log.warning(
                    "text searches of this Weaviate are slow, since it prunes them wrongly: start it with "
                    "USE_INVERTED_SEARCHABLE=false, delete the collection and index again",
                    url=self._endpoint.url,
                    collection=self._endpoint.collection,
                )
            self._least_hits = MOST_HITS if prunes else 0
        return self._least_hits

    async def _prunes(self) -> bool | None:
        """By the collection as REST shows it, since the client leaves this out; None where it is not shown."""
        address = f"{self._endpoint.url.rstrip('/')}/v1/schema/{self._endpoint.collection}Passage"
        secure = self._endpoint.is_secure
        async with httpx.AsyncClient(headers=self._headers, trust_env=secure, verify=secure) as client:
            answer = await client.get(address)
        if not answer.is_success:
            return None
        return bool(answer.json()["invertedIndexConfig"].get("usingBlockMaxWAND"))
