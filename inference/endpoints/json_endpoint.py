"""Requests to a model behind HTTP: JSON is posted and answered, with one time limit for all requests of a call."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cache, partial
from http.cookiejar import DefaultCookiePolicy
from math import inf
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx2
from pydantic_core import from_json, to_json

from inference.endpoints.failures import (
    error_code,
    error_message,
    is_temporary,
    limit_advice,
    refusal,
    retry_after_s,
)
from inference.endpoints.idle_clients import IdleClients, close
from models.errors import InvalidAnswer, StageFailure, StoreTimeout, StoreUnavailable
from models.event_loop import running_loop, together
from models.http_exchange import certificates, exchange
from models.retries import retried_on_loop

T = TypeVar("T")
R = TypeVar("R")
Body = Mapping[str, Any]
Read = Callable[[int, Any], T]
"""Maps the position of a request and the JSON of its answer to a result.  Raises InvalidAnswer for a wrong answer."""

Key = str | Callable[[], str | None] | None
"""A key, or a function that reads it and raises NotConfigured; None: no key is sent."""
BEARER = ("Authorization", "Bearer ")
"""The name of the header with the key, and what stands before the key."""
ATTEMPTS = 3
FIRST_PAUSE_S = 0.2
MAX_ERROR_BYTES = 64_000
"""How much of the body of an error is read."""
IDLE_S = 30.0
"""How long a connection without a request stays open.  Servers and balancers close them after 5 to 60 s."""


class JsonEndpoint:
    """Thread-safe.  `url` is the endpoint without `path`; its query is sent with each request.  The key never appears in
    errors or logs.  After a call without a failure its connections stay open for the next call.

    Redirects are not followed.  The environment's proxies (`HTTPS_PROXY`, `NO_PROXY`) and certificates (`SSL_CERT_FILE`)
    apply; `ca_file` replaces the latter.
    """

    def __init__(
        self,
        *,
        url: str,
        path: str,
        model: str,
        answer: str,
        api_key: Key,
        max_bytes: int,
        key_header: tuple[str, str] = BEARER,
        ca_file: str | Path | None = None,
        includes_messages: bool = False,
        request_s: float = inf,
        add_tokens: Callable[[int], None] = lambda tokens: None,
    ) -> None:
        """`answer` says what an answer is, for errors.  An answer has at most `max_bytes`, and a request takes at most
        `request_s` seconds, its further attempts included.  After each call, `add_tokens` is called with the tokens that
        its answers report as used, if they report any.

        An endpoint may quote what it was sent, so its messages are shown only if `includes_messages`; its error codes and limits always.
        Raises NotConfigured if `ca_file` cannot be read.
        """
        parts = urlsplit(url)
        self._url = parts._replace(path=f"{parts.path.rstrip('/')}/{path}").geturl()
        self.where = f"{model} at {parts.netloc.rpartition('@')[2]}"
        self._answer = answer
        self._secret = api_key() if callable(api_key) else api_key
        self._key_header = key_header
        self._max_bytes = max_bytes
        self._includes_messages = includes_messages
        self._request_s = request_s
        self._add_tokens = add_tokens
        self._clients = IdleClients()
        self._certificates = certificates(self.where, ca_file) if ca_file else _usual_certificates()

    def each(
        self, bodies: Sequence[Body], read: Read[T], *, timeout_s: float, parallel: int
    ) -> list[T | StageFailure]:
        """The result of each request, or why there is none, within `timeout_s` seconds.  Raises nothing.

        At most `parallel` requests are in flight.  Temporary failures are retried within the time limit.
        """

        async def result(request: Coroutine[Any, Any, T]) -> T | StageFailure:
            try:
                return await request
            except StageFailure as failure:
                return failure

        async def results(requests: _Requests) -> list[T | StageFailure]:
            return await asyncio.gather(*(result(requests.send(at, body)) for at, body in enumerate(bodies)))

        return self._call(results, read, timeout_s, parallel, ATTEMPTS)

    def all(
        self,
        bodies: Sequence[Body],
        read: Read[T],
        *,
        timeout_s: float,
        parallel: int,
        attempts: int = ATTEMPTS,
        done: Callable[[int], None] = lambda at: None,
    ) -> list[T]:
        """Like `each`, but raises the first failure, and cancels the other requests.  Calls `done(at)` after each request."""

        async def result(at: int, request: Coroutine[Any, Any, T]) -> T:
            made = await request
            done(at)
            return made

        async def results(requests: _Requests) -> list[T]:
            return await together(result(at, requests.send(at, body)) for at, body in enumerate(bodies))

        return self._call(results, read, timeout_s, parallel, attempts)

    def _call(
        self,
        results: Callable[[_Requests], Coroutine[Any, Any, list[R]]],
        read: Read[Any],
        timeout_s: float,
        parallel: int,
        attempts: int,
    ) -> list[R]:
        tokens = 0

        def counted(at: int, answer: Any) -> Any:
            nonlocal tokens
            tokens += _total_tokens(answer)
            return read(at, answer)

        async def call(client: httpx2.AsyncClient) -> list[R]:
            return await results(_Requests(self, client, counted, timeout_s, parallel, attempts))

        client, is_well = self._clients.take(self._new_client), False
        asking = asyncio.run_coroutine_threadsafe(call(client), running_loop())
        try:
            made = asking.result()
            is_well = not any(isinstance(each, StageFailure) for each in made)
            return made
        finally:
            asking.cancel()  # a signal's exception may have ended the wait
            if is_well:
                self._clients.keep(client)
            else:
                close(client)
            if tokens:
                self._add_tokens(tokens)

    def without_secret(self, message: object) -> str:
        """The endpoint's message without our key, cut to 200 characters."""
        text = str(message)
        # Remove the key before the cut, which could leave part of it.
        if self._secret:
            text = text.replace(self._secret, "***")
        return text[:200]

    def _new_client(self) -> httpx2.AsyncClient:
        limits = httpx2.Limits(keepalive_expiry=IDLE_S)
        client = httpx2.AsyncClient(verify=self._certificates, limits=limits, timeout=None)
        # A cookie would be sent with the next call.
        client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=()))
        return client

    async def post(self, client: httpx2.AsyncClient, content: bytes) -> tuple[httpx2.Response, bytes]:
        """The response, and its body up to a little over the limit.  Raises InvalidAnswer or StoreUnavailable."""
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity", "User-Agent": "chorale"}
        if self._secret is not None:
            name, prefix = self._key_header
            headers[name] = prefix + self._secret
        request = client.build_request("POST", self._url, headers=headers, content=content)
        send = partial(client.send, stream=True)
        return await exchange(send, request, self.where, self._max_bytes, MAX_ERROR_BYTES)

    def result(self, at: int, body: bytes, read: Read[T]) -> T:
        """Raises InvalidAnswer if the body is not what `read` reads."""
        if len(body) > self._max_bytes:
            raise InvalidAnswer(f"{self.where}: more than {self._max_bytes:,} bytes")
        try:
            return read(at, from_json(body))
        except InvalidAnswer as wrong:
            raise type(wrong)(f"{self.where}: {wrong.detail}") from None
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError):
            raise InvalidAnswer(
                f"{self.where}: the answer of {len(body):,} bytes is no {self._answer}"
            ) from None

    def refusal(self, status: int, body: bytes, sent: bytes) -> StageFailure:
        def show() -> str:
            if self._includes_messages:
                return self.without_secret(error_message(body))
            reasons = (error_code(body, sent), limit_advice(status, body, sent))
            return self.without_secret(": ".join(filter(None, reasons)))

        return refusal(self.where, status, show)

    def limit_s(self, timeout_s: float) -> float:
        return min(timeout_s, self._request_s)


@cache
def _usual_certificates() -> ssl.SSLContext:
    """Endpoints share them, because reading so many certificates takes 90 ms of processor time."""
    return httpx2.create_ssl_context()


class _Requests:
    """The requests of one call."""

    def __init__(
        self,
        endpoint: JsonEndpoint,
        client: httpx2.AsyncClient,
        read: Read[Any],
        timeout_s: float,
        parallel: int,
        attempts: int,
    ) -> None:
        self._endpoint, self._client, self._read = endpoint, client, read
        self._timeout_s, self._attempts = timeout_s, attempts
        self._until_s = _now_s() + timeout_s
        self._slots = asyncio.Semaphore(parallel)

    async def send(self, at: int, body: Body) -> Any:
        """The result.  Raises StageFailure."""
        limit_s = self._endpoint.limit_s(self._timeout_s)
        try:
            async with asyncio.timeout_at(self._until_s), self._slots:
                until_s = min(self._until_s, _now_s() + limit_s)
                async with asyncio.timeout_at(until_s):
                    return await self._attempt(at, body, until_s)
        except TimeoutError:
            raise StoreTimeout(f"{self._endpoint.where}: no answer within {limit_s:.2f} s") from None

    async def _attempt(self, at: int, body: Body, until_s: float) -> Any:
        endpoint, retry_after = self._endpoint, None
        pauses_s = (FIRST_PAUSE_S * 2**attempt for attempt in range(self._attempts - 1))

        async def once() -> Any:
            """`retry_after` is None after a failure that stays."""
            nonlocal retry_after
            retry_after = None
            try:
                sent = to_json(body)
                try:
                    response, answer = await endpoint.post(self._client, sent)
                except StoreUnavailable:
                    retry_after = ""
                    raise
                if response.is_success:
                    return endpoint.result(at, answer, self._read)
                if is_temporary(response.status_code):
                    retry_after = response.headers.get("retry-after", "")
                raise endpoint.refusal(response.status_code, answer, sent)
            except StageFailure:
                raise
            except Exception as error:  # a malformed answer may raise anything
                raise StageFailure(f"{endpoint.where}: {type(error).__name__}") from None

        def pause_s(_: Exception) -> float | None:
            planned_s = next(pauses_s, None)
            if planned_s is None or retry_after is None:
                return None
            return retry_after_s(retry_after, planned_s)

        return await retried_on_loop(once, StageFailure, pause_s=pause_s, for_s=until_s - _now_s())


def _total_tokens(answer: Any) -> int:
    """The tokens that an answer reports as used, as OpenAI's form and Jina's do."""
    usage = answer.get("usage") if isinstance(answer, Mapping) else None
    tokens = usage.get("total_tokens") if isinstance(usage, Mapping) else None
    return tokens if isinstance(tokens, int) else 0


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def rows_in_order(rows: Sequence[Mapping[str, Any]], count: int) -> list[Mapping[str, Any]]:
    """The rows of an answer in the order of their `index`.  Raises InvalidAnswer unless each of `count` has one row."""
    by_index = {row["index"]: row for row in rows}
    if len(rows) != count or by_index.keys() != set(range(count)):
        raise InvalidAnswer(
            f"{count} rows expected, {len(rows)} given, with {len(by_index)} distinct indexes"
        )
    return [by_index[at] for at in range(count)]
