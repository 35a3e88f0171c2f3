"""A JSON search endpoint as a read-only source."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from functools import cached_property

from models.documents import Matrix
from models.endpoints import HttpEndpoint
from models.errors import NotConfigured, StoreTimeout
from models.hits import Ranking
from search.credentials import usable_key
from search.http.answer import AnswerReader
from search.http.connections import Connections, Line
from search.http.request import make_call
from search.protocol import Search
from search.texts_with_hits import TextsWithHits


class HttpSource(TextsWithHits):
    """Implements `search.protocol.Searches`; thread-safe.

    `key` is the value of the variable `endpoint.api_key_env`.
    """

    def __init__(self, name: str, endpoint: HttpEndpoint, *, key: str | None = None) -> None:
        self._endpoint = endpoint
        self._key = key
        self._reader = AnswerReader(name, endpoint)

    def search_text(self, namespace: str, texts: Sequence[str], search: Search) -> list[Ranking]:
        """Sends one request for each question, several at once."""
        endpoint = self._endpoint
        key = usable_key(endpoint.address, endpoint.api_key_env, self._key)
        if endpoint.namespaces is not None and namespace not in endpoint.namespaces:
            return [Ranking() for _ in texts]
        timeout_s = min(search.timeout_s, endpoint.timeout_s)
        ends_at_s = time.monotonic() + timeout_s
        # Hits that are filtered out here must not shorten the ranking.
        is_filtered = search.filters or search.exclude_ids
        depth = endpoint.max_hits if is_filtered else min(search.depth, endpoint.max_hits)

        def ask(text: str, line: Line) -> Ranking:
            call = make_call(endpoint, question=text, depth=depth, namespace=namespace, key=key)
            raw = self._connections.exchange(call, line, ends_at_s=ends_at_s)
            return self._reader.read(raw, search)

        lines = [Line() for _ in texts]
        calls: list[Future[Ranking]] = [
            self._threads.submit(ask, text, line) for text, line in zip(texts, lines, strict=True)
        ]
        done, others = wait(calls, timeout=timeout_s, return_when=FIRST_EXCEPTION)
        for call, line in zip(calls, lines, strict=True):
            if call in others:
                call.cancel()
                line.end()
        try:
            for call in done:
                call.result()
            if others:
                # A cancelled call may fail in any way, so its own error says nothing.
                raise TimeoutError
            return [call.result() for call in calls]
        except TimeoutError as error:
            raise StoreTimeout(f"{endpoint.address} did not answer within {timeout_s:.3g} s") from error

    def search_vectors(self, namespace: str, vectors: Matrix, search: Search) -> list[Ranking]:
        raise NotConfigured(f"{self._endpoint.address} can only be searched by text")

    def close(self) -> None:
        if threads := self.__dict__.pop("_threads", None):
            threads.shutdown(wait=False, cancel_futures=True)
        if connections := self.__dict__.pop("_connections", None):
            connections.close()

    @cached_property
    def _connections(self) -> Connections:
        try:
            return Connections(self._endpoint)
        except OSError as error:
            raise NotConfigured(
                f"the certificates {self._endpoint.ca_file} cannot be read: {error.strerror or error}"
            ) from error

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._endpoint.connections, thread_name_prefix="http")
