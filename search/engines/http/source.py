"""A JSON search endpoint as a read-only source, asked without redirects, cookies or proxies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import httpx2
from pydantic_core import to_json

from models import errors
from models.declarations.http_placeholders import PLACE
from models.declarations.sources import HttpEndpoint
from models.documents import Matrix
from models.event_loop import PerLoop, together
from models.hits import Ranking
from models.http_exchange import certificates, exchange
from search.deadline import Deadline, on_loop
from search.engines.http.answer import AnswerReader
from search.engines.http.filter_dialects import DIALECTS
from search.protocol import Search
from search.texts_with_hits import TextsWithHits

if TYPE_CHECKING:
    from search.engines.http.mongodb_texts import MongodbCollection

_MEANINGS: tuple[tuple[range | tuple[int, ...], type[errors.StageFailure], str], ...] = (
    ((401, 403, 407), errors.Unauthorised, "check the key that api_key_env names"),
    ((408, 504), errors.StoreTimeout, "it reported a timeout of its own"),
    ((429,), errors.StoreUnavailable, "too many requests (retry-after: {retry_after})"),
    (
        range(300, 400),
        errors.NotConfigured,
        "redirects are not followed: declare the address that it redirects to",
    ),
    (range(400, 500), errors.BadIndex, "check the url, params and body that the store declares"),
    (range(500, 600), errors.StoreUnavailable, "see the log of that server"),
    (range(1_000), errors.InvalidAnswer, "this is not a valid HTTP status"),
)
"""The failure for each status other than success."""
_MAX_ERROR_BYTES = 64_000


class HttpSource(TextsWithHits):
    """Implements `search.protocol.Searches`; thread-safe.

    `key` is the value of the variable `endpoint.api_key_env`, and `collection` is the one that `endpoint.texts` declares.
    """

    def __init__(
        self, name: str, endpoint: HttpEndpoint, *, key: str | None, collection: MongodbCollection | None
    ) -> None:
        self._endpoint = endpoint
        self._collection = collection
        self._key = key
        self._reader = AnswerReader(name, endpoint)
        self._transports = PerLoop(self._transport, lambda transport: transport.aclose())

    @property
    def takes_vectors(self) -> bool:
        return self._endpoint.takes_vectors

    def search_text(self, namespace: str, texts: Sequence[str], search: Search) -> list[Ranking]:
        # Neither JSON nor a URL can hold a lone surrogate.
        whole = [text.encode(errors="replace").decode() for text in texts]
        return self._search(namespace, "question", whole, search)

    def search_vectors(self, namespace: str, vectors: Matrix, search: Search) -> list[Ranking]:
        return self._search(namespace, "vector", vectors.tolist(), search)

    def _search(self, namespace: str, place: str, questions: Sequence[Any], search: Search) -> list[Ranking]:
        """Sends one request for each question, several at once."""
        endpoint = self._endpoint
        if place not in endpoint.places:
            other = "vector" if self.takes_vectors else "text"
            raise errors.NotConfigured(
                f"{endpoint.address} can only be searched by {other}: it has no {{{place}}}"
            )
        if endpoint.namespaces is not None and namespace not in endpoint.namespaces:
            return [Ranking() for _ in questions]
        filters = search.filters or {}
        sent, unsent = DIALECTS[endpoint.filter_dialect](
            filters, endpoint.filter_fields, endpoint.filter_indexes
        )
        if not endpoint.takes_filters:
            unsent = frozenset(filters)
        # Hits that are filtered out here must not shorten the ranking.
        depth = endpoint.max_hits if unsent or search.exclude_ids else min(search.depth, endpoint.max_hits)
        values = {"depth": depth, "namespace": namespace, "filter": sent}
        requests = [_request(endpoint, {**values, place: one}, key=self._key) for one in questions]
        deadline = Deadline(search.timeout_s, endpoint.address)
        # An error may name a field that only the key filters.
        error_bytes = _MAX_ERROR_BYTES if endpoint.error and not search.forced_fields else 0
        # All answers have one limit: a client's own limit would begin anew with each piece of a slow answer.
        limit = Deadline(min(search.timeout_s, endpoint.timeout_s), endpoint.address)
        raw = on_loop(together(self._answer(request, error_bytes) for request in requests), limit)
        answers = [self._reader.read(one, search, depth, unsent) for one in raw]
        ids = {document.id: None for answer in answers for document in answer.documents}
        if self._collection is not None and ids:
            stored = self._collection.texts(ids, deadline.check(), endpoint.max_bytes * len(answers))
            answers = [self._reader.with_texts(answer, stored) for answer in answers]
        return [answer.ranking() for answer in answers]

    def close(self) -> None:
        self._transports.close()
        if self._collection is not None:
            self._collection.close()

    def _transport(self) -> httpx2.AsyncHTTPTransport:
        endpoint = self._endpoint
        limits = httpx2.Limits(max_connections=endpoint.connections)
        trusted = certificates(endpoint.address, endpoint.ca_file)
        return httpx2.AsyncHTTPTransport(verify=trusted, limits=limits, trust_env=False)

    async def _answer(self, request: httpx2.Request, error_bytes: int) -> bytes:
        """The body of a successful answer; raises StageFailure."""
        address, most = self._endpoint.address, self._endpoint.max_bytes
        send = self._transports.get().handle_async_request
        response, body = await exchange(send, request, address, most, error_bytes)
        if not response.is_success:
            raise self._failure(response, body)
        if len(body) > most:
            raise errors.InvalidAnswer(
                f"{address} answers more than {most:,} bytes: lower max_hits, or raise max_bytes"
            )
        return body

    def _failure(self, response: httpx2.Response, body: bytes) -> errors.StageFailure:
        status, retry_after = response.status_code, response.headers.get("Retry-After", "")[:40]
        kind, meaning = next((kind, meaning) for some, kind, meaning in _MEANINGS if status in some)
        advice = meaning.format(retry_after=retry_after or "not said")
        if kind is errors.Unauthorised and self._key is None:
            advice = "the store declares no api_key_env"
        # An endpoint that refuses a key may quote part of it.
        said = (
            self._reader.explained(body)
            if body and kind is not errors.Unauthorised and 400 <= status < 500
            else ""
        )
        if self._key:
            said = said.replace(self._key, "…")
        detail = f" ({said[:300]})" if said else ""
        return kind(f"{self._endpoint.address} answers {status}: {advice}{detail}")


def _request(endpoint: HttpEndpoint, values: Mapping[str, Any], *, key: str | None) -> httpx2.Request:
    """`values` has the value of each placeholder but `{key}`.  No value has a lone surrogate, which neither JSON nor a URL can hold."""
    headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "chorale"}
    headers |= {name: value.strip() for name, value in endpoint.headers.items()}
    if key is not None:
        values = {**values, "key": key}
        if "key" not in endpoint.places:
            headers[endpoint.key_header] = endpoint.key_prefix + key
    body = None
    if endpoint.body is not None:
        body = to_json(_filled(endpoint.body, values))
        headers["Content-Type"] = "application/json"
    # A client resolves dots in a path.
    url = PLACE.sub(lambda match: quote(str(values[match[1]]), safe="").replace(".", "%2E"), endpoint.url)
    if endpoint.params:
        params = urlencode({name: _text(value, values) for name, value in endpoint.params.items()})
        url += f"{'&' if '?' in url else '?'}{params}"
    try:
        return httpx2.Request(endpoint.method, url, headers=headers, content=body)
    except httpx2.InvalidURL as error:
        raise errors.NotConfigured(
            f"{endpoint.address} cannot be sent the question: {error}: send it in a `body`"
        ) from None


def _filled(template: Any, values: Mapping[str, Any]) -> Any:
    """Fills each place once; text from a question is never searched for places."""
    if isinstance(template, dict):
        return {name: _filled(value, values) for name, value in template.items()}
    if isinstance(template, list):
        return [_filled(value, values) for value in template]
    if not isinstance(template, str):
        return template
    alone = PLACE.fullmatch(template)
    return values[alone[1]] if alone else _text(template, values)


def _text(template: Any, values: Mapping[str, Any]) -> str:
    """A value that is no text is inserted as JSON."""

    def as_text(value: Any) -> str:
        return value if isinstance(value, str) else to_json(value).decode()

    return PLACE.sub(lambda match: as_text(values[match[1]]), as_text(template))
