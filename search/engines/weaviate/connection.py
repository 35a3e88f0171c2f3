"""One permanent connection to a Weaviate, with the asynchronous client.

Only the asynchronous client's calls can be ended at a deadline; the synchronous client goes on retrying for half a
minute.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import socket
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from typing import TypeVar
from weakref import WeakKeyDictionary

import grpc  # type: ignore[import-untyped]
import httpx
import weaviate
from weaviate import exceptions as weaviate_errors
from weaviate.classes.init import AdditionalConfig, Auth, Timeout
from weaviate.config import GrpcConfig
from weaviate.exceptions import UnexpectedStatusCodeError, WeaviateBaseError, WeaviateClosedClientError

from models.declarations.engines import WeaviateEndpoint
from models.errors import (
    BadIndex,
    InvalidAnswer,
    NotConfigured,
    ServiceError,
    StageFailure,
    StoreTimeout,
    StoreUnavailable,
    Unauthorised,
)
from models.event_loop import running_loop

_CODES: dict[object, type[StageFailure]] = {
    grpc.StatusCode.UNAVAILABLE: StoreUnavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: StoreTimeout,
    grpc.StatusCode.UNAUTHENTICATED: Unauthorised,
    grpc.StatusCode.PERMISSION_DENIED: Unauthorised,
    401: Unauthorised,
    403: Unauthorised,
    502: StoreUnavailable,
    503: StoreUnavailable,
    504: StoreTimeout,
}
"""The failure for the code of a gRPC call, or for the status of a REST call."""
_MESSAGES: tuple[tuple[str, type[StageFailure]], ...] = (
    (r"tenant not found|tenant.* not active|could not find class|class not found|no such prop", BadIndex),
    (r"vector lengths don't match|vector dimensions do not match", InvalidAnswer),
    (r"not supported. Please use Weaviate version", NotConfigured),
)
_REFUSED = (weaviate_errors.InsufficientPermissionsError, weaviate_errors.AuthenticationFailedError)
_UNREACHABLE = (
    httpx.TransportError,
    weaviate_errors.WeaviateConnectionError,
    weaviate_errors.WeaviateStartUpError,
    weaviate_errors.WeaviateGRPCUnavailableError,
    ConnectionError,
)
_ADVICE: dict[type[StageFailure], str] = {
    StoreUnavailable: "does not answer: is it running, and are `url` and `grpc_port` right?",
    StoreTimeout: "did not answer in time",
    Unauthorised: "refused the credentials: check `api_key_env` and what that key may do",
    BadIndex: "does not have what was asked for: `chorale index` creates it",
    InvalidAnswer: "has vectors of another dimension: index again with the present embedder",
    NotConfigured: "is too old",
    StageFailure: "failed",
}


def failure_of(error: BaseException, url: str, *, is_quoted: bool = True) -> StageFailure:
    """The failure for an error that the client raised; quotes its text, or only the name of its class."""
    kind = _kind(error)
    text = _text(error) if is_quoted else type(error).__name__
    return kind(f"Weaviate at {url} {_ADVICE[kind]} ({text})")


def _kind(error: BaseException) -> type[StageFailure]:
    for one in _chain(error):
        code = one.code() if isinstance(one, grpc.aio.AioRpcError) else getattr(one, "status_code", None)
        if code in _CODES:
            return _CODES[code]
        if isinstance(one, _REFUSED):
            return Unauthorised
    for pattern, kind in _MESSAGES:
        if re.search(pattern, str(error)):
            return kind
    if any(isinstance(one, (TimeoutError, httpx.TimeoutException)) for one in _chain(error)):
        return StoreTimeout
    if any(isinstance(one, _UNREACHABLE) for one in _chain(error)):
        return StoreUnavailable
    return StageFailure


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error and its causes, one of which has the status."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _text(error: BaseException) -> str:
    """The last part of the message, which Weaviate nests six levels deep, on one line."""
    lines = " ".join(str(error).split()).removesuffix(".")
    return lines.rsplit(": ", 2)[-1][:200] or type(error).__name__


OLDEST = (1, 33)
"""The first version whose filters know `not`."""

_STRANGERS = (404, 405)
"""Statuses of a server that is not a Weaviate."""

_PROBE_S = 0.05
_FIRST_PROBE_S = 0.2

# It logs refused objects, which are the documents.
logging.getLogger("weaviate-client").setLevel(logging.CRITICAL)

Client = weaviate.WeaviateAsyncClient
_Answer = TypeVar("_Answer")

_open = WeakKeyDictionary[Client, asyncio.AbstractEventLoop]()
"""The clients of all stores with their event loops; a forked child has another loop."""


class Connection:
    """Thread-safe; opened at first use, and again after `close`."""

    def __init__(self, endpoint: WeaviateEndpoint, *, key: str | None = None) -> None:
        self.endpoint = endpoint
        self._key = key
        self._client: Client | None = None
        self._connecting = defaultdict[asyncio.AbstractEventLoop, asyncio.Lock](asyncio.Lock)

    def run(self, work: Callable[[Client], Awaitable[_Answer]], timeout_s: float) -> _Answer:
        """The result of `work` within `timeout_s`, connecting and retries included; raises StageFailure.

        At the deadline the call itself is cancelled.
        """
        future = asyncio.run_coroutine_threadsafe(self._limited(work, timeout_s), running_loop())
        try:
            return future.result()
        except ServiceError:
            raise
        except TimeoutError:
            raise StoreTimeout(
                f"Weaviate at {self.endpoint.url} did not answer within {timeout_s:.3g} s: can it be reached, is it busy, or is "
                "`grpc_port` another server's?"
            ) from None
        except (CancelledError, WeaviateClosedClientError):
            raise StageFailure(
                f"the store was closed while Weaviate at {self.endpoint.url} was asked"
            ) from None
        except (WeaviateBaseError, grpc.RpcError, OSError) as error:
            raise failure_of(error, self.endpoint.url) from error
        except Exception as error:
            # The text of this error and of its causes may quote a header, and so the key.
            raise failure_of(error, self.endpoint.url, is_quoted=False) from None

    def close(self) -> None:
        """A running call fails, or connects again."""
        if self._client is not None:
            asyncio.run_coroutine_threadsafe(self._disconnect(), running_loop()).result()

    async def _limited(self, work: Callable[[Client], Awaitable[_Answer]], timeout_s: float) -> _Answer:
        """Raises StoreUnavailable early if the server refuses connections, which the client would retry until the time is over."""

        async def on_client() -> _Answer:
            return await work(await self._connected())

        patience_s = min(_FIRST_PROBE_S, timeout_s / 2)
        async with asyncio.timeout(timeout_s):
            working = asyncio.create_task(on_client())
            try:
                while not (await asyncio.wait({working}, timeout=patience_s))[0]:
                    if (refusal := await asyncio.to_thread(self._refusal)) is not None:
                        raise failure_of(refusal, self.endpoint.url)
                    patience_s *= 2
                return await working
            finally:
                working.cancel()

    async def _connected(self) -> Client:
        loop = asyncio.get_running_loop()
        if any(other is not loop for other in _open.values()):
            # gRPC would send into the parent's connections, and crash.
            raise StageFailure(
                "gRPC does not survive a fork: close the Weaviate stores before, or open them after"
            )
        async with self._connecting[loop]:
            if self._client is None:
                client = _client(self.endpoint, self._key)
                _open[client] = loop
                try:
                    await client.connect()
                    await self._check_version(client)
                except BaseException as error:
                    await _close(client)
                    if isinstance(error, UnexpectedStatusCodeError) and error.status_code in _STRANGERS:
                        raise InvalidAnswer(
                            f"what answers at {self.endpoint.url} is not Weaviate: check the store's `url`"
                        ) from error
                    raise
                self._client = client
            return self._client

    async def _check_version(self, client: Client) -> None:
        version = str((await client.get_meta())["version"])
        if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
            least = ".".join(map(str, OLDEST))
            raise NotConfigured(f"Weaviate at {self.endpoint.url} is {version}; {least} or newer is needed")

    async def _disconnect(self) -> None:
        client = self._client
        if client is not None and _open.get(client) is asyncio.get_running_loop():
            self._client = None
            await _close(client)

    def _refusal(self) -> ConnectionRefusedError | None:
        try:
            socket.create_connection(self.endpoint.grpc_address, timeout=_PROBE_S).close()
        except OSError as error:
            return error if isinstance(error, ConnectionRefusedError) else None
        return None


async def _close(client: Client) -> None:
    try:
        await client.close()
    finally:
        _open.pop(client, None)


def _client(endpoint: WeaviateEndpoint, key: str | None) -> Client:
    host, port = endpoint.grpc_address
    return weaviate.use_async_with_custom(
        http_host=endpoint.host,
        http_port=endpoint.port,
        http_secure=endpoint.is_secure,
        grpc_host=host,
        grpc_port=port,
        grpc_secure=endpoint.is_secure,
        auth_credentials=None if key is None else Auth.api_key(key),
        additional_config=AdditionalConfig(
            # `run` enforces the deadline; these limits only have to be longer.
            timeout=Timeout(
                init=endpoint.timeout_s, query=endpoint.write_timeout_s, insert=endpoint.write_timeout_s
            ),
            trust_env=endpoint.is_secure,
            grpc_config=_trusting() if endpoint.is_secure else None,
        ),
        # The checks ask a package index for the newest client.
        skip_init_checks=True,
    )


def _trusting() -> GrpcConfig:
    """gRPC ignores SSL_CERT_FILE, which the REST client uses."""
    file = os.environ.get("SSL_CERT_FILE")
    return GrpcConfig(credentials=grpc.ssl_channel_credentials(Path(file).read_bytes() if file else None))
