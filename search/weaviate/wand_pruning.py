"""Whether the server's text search is to be trusted with the end of a ranking.

Its BlockMax-WAND takes every word of an object that is not on disk yet (for a minute, as it comes) for worthless, so
that with as many hits as it is asked for it leaves out better ones (mended in Weaviate's pull request 11780).  Asked
for as many as match, up to 10,000, it leaves out none.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from functools import cached_property

import httpx
from structlog import get_logger

from models.weaviate_endpoint import WeaviateEndpoint
from search.weaviate.ranking_depth import MOST_HITS

log = get_logger("chorale.weaviate")

_ASK_AGAIN_S = 60.0


class Pruning:
    """Asks the server at the first search, which waits for the answer, and beside one every minute: the collection may
    have been deleted and made anew."""

    def __init__(self, endpoint: WeaviateEndpoint, *, key: str | None) -> None:
        self._endpoint = endpoint
        self._headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._prunes: bool | None = None
        self._is_named = False
        self._asking: asyncio.Task[None] | None = None
        self._asked_s = 0.0

    async def least_hits(self) -> int:
        """How many passages a text search has to ask for, so that none of the best are missing."""
        if self._prunes is None:
            await asyncio.shield(self._asked())
        elif time.monotonic() - self._asked_s > _ASK_AGAIN_S:
            self._asked()
        return 0 if self._prunes is False else MOST_HITS

    def _asked(self) -> asyncio.Task[None]:
        """One for all searches of the time until it is answered."""
        asking = self._asking
        # A forked child inherits one that never ends.
        if asking is None or asking.done() or asking.get_loop() is not asyncio.get_running_loop():
            self._asked_s = time.monotonic()
            self._asking = asking = asyncio.create_task(self._ask())
            # asyncio logs an error that nobody looked at.
            asking.add_done_callback(lambda done: done.cancelled() or done.exception())
        return asking

    async def _ask(self) -> None:
        """By the collection as REST shows it, since the client leaves this out; what was known stays where it is not
        shown, though not of a collection that is gone."""
        address = f"{self._endpoint.url.rstrip('/')}/v1/schema/{self._endpoint.collection}Passage"
        secure = self._endpoint.is_secure
        async with httpx.AsyncClient(headers=self._headers, trust_env=secure, verify=self._tls) as client:
            answer = await client.get(address)
        if answer.status_code == 404:
            self._prunes = None
        if not answer.is_success:
            return
        self._prunes = bool(answer.json()["invertedIndexConfig"].get("usingBlockMaxWAND"))
        if self._prunes and not self._is_named:
            log.warning(
                "text searches in this Weaviate are slow, because its pruning leaves out good hits: start it with "
                "USE_INVERTED_SEARCHABLE=false, delete the collection and index again",
                url=self._endpoint.url,
                collection=self._endpoint.collection,
            )
        self._is_named = self._prunes

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        """Kept, since all calls wait for the .03 s that making one takes."""
        secure = self._endpoint.is_secure
        return httpx.create_ssl_context(verify=secure, trust_env=secure)
