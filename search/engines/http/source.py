"""A JSON search endpoint as a read-only source, asked without redirects, cookies or proxies."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx2

from models.documents import Matrix
from models.errors import (
    BadIndex,
    InvalidAnswer,
    NotConfigured,
    StageFailure,
    StoreTimeout,
    StoreUnavailable,
    Unauthorised,
)
from models.event_loop import running_loop
from models.hits import Ranking
from models.source_endpoints import HttpEndpoint
from search.credentials import usable_key
from search.deadline import Deadline
from search.engines.http.answer import AnswerReader
from search.engines.http.filter_dialects import DIALECTS
from search.engines.http.request import make_request
from search.protocol import Search
from search.texts_with_hits import TextsWithHits

if TYPE_CHECKING:
    from search.engines.http.mongodb_texts import MongodbCollection

_MEANINGS: tuple[tuple[range | tuple[int, ...], type[StageFailure], str], ...] = (
    ((401, 403, 407), Unauthorised, "check the key that api_key_env names"),
    ((408, 504), StoreTimeout, "it reported a timeout of its own"),
    ((429,), StoreUnavailable, "too many requests (retry-after: {retry_after})"),
    (range(300, 400), NotConfigured, "redirects are not followed: declare the address that it redirects to"),
    (range(400, 500), BadIndex, "check the url, params and body that the store declares"),
    (range(500, 600), StoreUnavailable, "see the log of that server"),
)
"""The failure for each status other than success."""


class HttpSource(TextsWithHits):
    """Implements `search.protocol.Searches`; thread-safe.

    `key` is the value of the variable `endpoint.api_key_env`, and `collection` is the one that `endpoint.texts` declares.
    """

    def __init__(
        self,
        name: str,
        endpoint: HttpEndpoint,
        *,
        key: str | None = None,
        collection: MongodbCollection | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._collection = collection
        self._key = key
        self._reader = AnswerReader(name, endpoint)
        self._transports: dict[asyncio.AbstractEventLoop, httpx2.AsyncHTTPTransport] = {}

    @property
    def takes_vectors(self) -> bool:
        return self._endpoint.takes_vectors

    def search_text(self, namespace: str, texts: Sequence[str], search: Search) -> list[Ranking]:
        return self._search(namespace, "question", texts, search)

    def search_vectors(self, namespace: str, vectors: Matrix, search: Search) -> list[Ranking]:
        return self._search(namespace, "vector", vectors.tolist(), search)

    def _search(self, namespace: str, place: str, questions: Sequence[Any], search: Search) -> list[Ranking]:
        """Sends one request for each question, several at once."""
        endpoint = self._endpoint
        if place not in endpoint.places:
            other = "vector" if self.takes_vectors else "text"
            raise NotConfigured(f"{endpoint.address} can only be searched by {other}: it has no {{{place}}}")
        key = usable_key(endpoint.address, endpoint.api_key_env, self._key)
        if endpoint.namespaces is not None and namespace not in endpoint.namespaces:
            return [Ranking() for _ in questions]
        filters = search.filters or {}
        sent, unsent = DIALECTS[endpoint.filter_dialect](filters, endpoint.filter_fields)
        if not endpoint.takes_filters:
            unsent = frozenset(filters)
        # Hits that are filtered out here must not shorten the ranking.
        depth = endpoint.max_hits if unsent or search.exclude_ids else min(search.depth, endpoint.max_hits)
        values = {"depth": depth, "namespace": namespace, "filter": sent}
        requests = [make_request(endpoint, {**values, place: one}, key=key) for one in questions]
        deadline = Deadline(search.timeout_s, endpoint.address)
        sending = self._send(requests, min(search.timeout_s, endpoint.timeout_s))
        answers = asyncio.run_coroutine_threadsafe(sending, running_loop()).result()
        max_bytes = endpoint.max_bytes * len(answers)
        collection = self._collection
        read_texts = None if collection is None else partial(_texts, collection, deadline, max_bytes)
        return self._reader.read(answers, search, requested_hits=depth, unsent=unsent, read_texts=read_texts)

    def close(self) -> None:
        while self._transports:
            loop, transport = self._transports.popitem()
            if loop is running_loop():
                asyncio.run_coroutine_threadsafe(transport.aclose(), loop).result(1.0)
        if self._collection is not None:
            self._collection.close()

    async def _send(self, requests: Sequence[httpx2.Request], timeout_s: float) -> list[bytes]:
        """The answers in order; the first failure ends the other requests.

        The limit is one of the whole answer: a client's own would begin anew with each piece of a slow one.
        """
        transport = self._transport()
        tasks = [asyncio.ensure_future(self._answer(transport, request)) for request in requests]
        try:
            async with asyncio.timeout(timeout_s):
                return await asyncio.gather(*tasks)
        except TimeoutError as error:
            raise StoreTimeout(f"{self._endpoint.address} did not answer within {timeout_s:.3g} s") from error
        finally:
            for task in tasks:
                task.cancel()

    def _transport(self) -> httpx2.AsyncHTTPTransport:
        loop, endpoint = asyncio.get_running_loop(), self._endpoint
        if loop not in self._transports:
            limits = httpx2.Limits(max_connections=endpoint.connections)
            try:
                certificates = ssl.create_default_context(cafile=endpoint.ca_file)
            except OSError as error:
                raise NotConfigured(
                    f"the certificates {endpoint.ca_file} cannot be read: {error.strerror or error}"
                ) from error
            self._transports[loop] = httpx2.AsyncHTTPTransport(
                verify=certificates, limits=limits, trust_env=False
            )
        return self._transports[loop]

    async def _answer(self, transport: httpx2.AsyncHTTPTransport, request: httpx2.Request) -> bytes:
        address = self._endpoint.address
        try:
            return await self._sent(transport, request)
        except httpx2.ConnectError as error:
            raise StoreUnavailable(
                f"{address} refused the connection, or cannot be reached: {error}"
            ) from error
        except httpx2.ProtocolError as error:
            if "Server disconnected" not in str(error):
                raise InvalidAnswer(f"the answer of {address} is cut off, or no valid HTTP") from error
            raise StoreUnavailable(f"{address} closed the connection") from error
        except (httpx2.NetworkError, ssl.SSLError) as error:
            raise StoreUnavailable(f"{address} closed the connection") from error

    async def _sent(self, transport: httpx2.AsyncHTTPTransport, request: httpx2.Request) -> bytes:
        events: list[str] = []

        async def trace(event: str, _: object) -> None:
            events.append(event)

        request.extensions["trace"] = trace
        while True:
            try:
                async with aclosing(await transport.handle_async_request(request)) as response:
                    return await self._read(response)
            except (httpx2.NetworkError, httpx2.RemoteProtocolError, ssl.SSLError):
                if any("connect_tcp" in event for event in events):
                    raise
                # The server closed a kept connection, which says nothing about the server.

    async def _read(self, response: httpx2.Response) -> bytes:
        """The body of a successful answer; raises StageFailure."""
        address, limit, body = self._endpoint.address, self._endpoint.max_bytes, bytearray()
        if not response.is_success:
            raise self._failure(response)
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise InvalidAnswer(f"{address} sent a compressed answer, which the request did not allow")
        async for piece in response.aiter_raw():
            body += piece
            if len(body) > limit:
                raise InvalidAnswer(
                    f"{address} answers more than {limit:,} bytes: lower max_hits, or raise max_bytes"
                )
        return bytes(body)

    def _failure(self, response: httpx2.Response) -> StageFailure:
        status = response.status_code
        outcome = f"{self._endpoint.address} answers {status}"
        for statuses, kind, meaning in _MEANINGS:
            if status in statuses:
                retry_after = response.headers.get("Retry-After", "")[:40] or "not said"
                return kind(f"{outcome}: {meaning.format(retry_after=retry_after)}")
        return InvalidAnswer(f"{outcome}, which is not a valid HTTP status")


def _texts(
    collection: MongodbCollection, deadline: Deadline, max_bytes: int, ids: Sequence[Any]
) -> Mapping[Any, Mapping[str, Any]]:
    return collection.documents(ids, deadline.check(), max_bytes)
