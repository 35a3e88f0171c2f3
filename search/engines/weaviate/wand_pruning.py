"""Whether the server's text search may leave out good hits at the end of a ranking.

Its BlockMax-WAND ignores the words of objects that are not on disk yet (for about a minute).  When it finds as many
hits as it was asked for, it may leave out better ones (fixed in Weaviate's pull request 11780).  Asked for all
matches, up to 10,000, it leaves out none.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from functools import cached_property

import httpx
from structlog import get_logger

from models.endpoints import WeaviateEndpoint
from search.engines.weaviate.schema import MOST_RESULTS

log = get_logger("chorale.weaviate")

_ASK_AGAIN_S = 60.0


class Pruning:
    """Asks the server during the first search, and beside a search every minute, because the collection may be
    recreated."""

    def __init__(self, endpoint: WeaviateEndpoint, *, key: str | None) -> None:
        self._endpoint = endpoint
        self._headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._prunes: bool | None = None
        self._is_named = False
        self._asking: asyncio.Task[None] | None = None
        self._asked_s = 0.0

    async def least_hits(self) -> int:
        """Minimum number of passages to ask for in a text search; with fewer, some of the best can be missing."""
        if self._prunes is None:
            await asyncio.shield(self._asked())
        elif time.monotonic() - self._asked_s > _ASK_AGAIN_S:
            self._asked()
        return 0 if self._prunes is False else MOST_RESULTS

    def _asked(self) -> asyncio.Task[None]:
        """The request in progress, shared by all searches until it is answered."""
        asking = self._asking
        # A forked child inherits a task that never ends.
        if asking is None or asking.done() or asking.get_loop() is not asyncio.get_running_loop():
            self._asked_s = time.monotonic()
            self._asking = asking = asyncio.create_task(self._ask())
            # asyncio logs an error that nobody retrieved.
            asking.add_done_callback(lambda done: done.cancelled() or done.exception())
        return asking

    async def _ask(self) -> None:
        """Reads the collection's configuration by REST, because the client omits this option.

        Without an answer the previous result stays; if the collection is gone, nothing is known.
        """
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
        """Cached: creating it takes .03 s, during which all calls wait."""
        secure = self._endpoint.is_secure
        return httpx.create_ssl_context(verify=secure, trust_env=secure)
