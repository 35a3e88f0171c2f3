"""Connections to one cluster, kept open, and calls that end within their deadline."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any

from elastic_transport import JsonSerializer, NodeConfig, Urllib3HttpNode
from elasticsearch import Elasticsearch
from elasticsearch.serializer import DEFAULT_SERIALIZERS, NdjsonSerializer
from urllib3 import Timeout
from urllib3.exceptions import ReadTimeoutError

from models.endpoints import ElasticsearchEndpoint
from models.retries import pauses, retried
from search.deadline import Deadline
from search.engines.elasticsearch.failures import Passing, all_busy, translated
from search.engines.elasticsearch.index_layout import Layout

_PAUSES_S = (0.05, 0.1, 0.2)
"""Waits between the attempts."""
_PIECE_BYTES = 65_536

Call = Callable[[Elasticsearch], Any]


class _Json(JsonSerializer):
    """Replaces lone surrogates, which no server accepts, by question marks."""

    def json_dumps(self, data: Any) -> bytes:
        whole = json.dumps(data, default=self.default, ensure_ascii=False, separators=(",", ":"))
        return whole.encode("utf-8", "replace")


class _Ndjson(_Json, NdjsonSerializer):
    """`_Json` for newline-delimited JSON."""


class _TimedPool:
    """A pool of connections with a time limit for the whole answer; urllib3 limits only each read."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    def urlopen(self, method: str, target: str, *, timeout: float | None = None, **options: Any) -> Any:
        if timeout is None:
            return self._pool.urlopen(method, target, **options)
        end = time.monotonic() + timeout
        response = self._pool.urlopen(
            method,
            target,
            timeout=Timeout(total=timeout),
            pool_timeout=timeout,
            preload_content=False,
            **options,
        )
        pieces = []
        try:
            while piece := response.read1(_PIECE_BYTES, decode_content=True):
                pieces.append(piece)
                left_s = end - time.monotonic()
                if left_s <= 0:
                    raise ReadTimeoutError(self._pool, target, "the answer did not end in time")
                if (connection := response.connection) is not None and connection.sock is not None:
                    connection.sock.settimeout(left_s)
        except BaseException:
            # The rest of this answer must not be read as the next call's answer.
            response.close()
            raise
        response.release_conn()
        return _read(response, b"".join(pieces))

    def close(self) -> None:
        self._pool.close()


def _read(response: Any, data: bytes) -> SimpleNamespace:
    """The complete answer.  An error that is not JSON comes from a proxy; as plain text, the client goes by its status."""
    headers = response.headers
    if not 200 <= response.status < 300:
        try:
            json.loads(data)
        except ValueError:
            headers, data = headers.copy(), data.decode(errors="replace").encode()
            headers["content-type"] = "text/plain"
    return SimpleNamespace(status=response.status, headers=headers, data=data)


class _Node(Urllib3HttpNode):
    """A node whose time limit covers the whole call."""

    def __init__(self, config: NodeConfig) -> None:
        super().__init__(config)
        self.pool: Any = _TimedPool(self.pool)


class Connection:
    """Thread-safe.  Connects with the first call, and sends nothing by itself."""

    def __init__(self, endpoint: ElasticsearchEndpoint, *, api_key: str | None, password: str | None) -> None:
        self.endpoint = endpoint
        self.address = ", ".join(endpoint.addresses)
        """All addresses, for error messages."""
        given = {
            "api_key": api_key,
            "basic_auth": None if endpoint.username is None else (endpoint.username, password or ""),
            "ca_certs": endpoint.ca_file,
            "client_cert": endpoint.client_cert_file,
            "client_key": endpoint.client_key_file,
        }
        with translated(self.address):
            self._client = Elasticsearch(
                endpoint.addresses,
                node_class=_Node,
                serializers={
                    name: _Ndjson() if "ndjson" in name else _Json()
                    for name in DEFAULT_SERIALIZERS
                    if "json" in name
                },
                connections_per_node=endpoint.connections,
                max_retries=0,
                **{name: value for name, value in given.items() if value is not None},  # type: ignore[arg-type]
            )

    def deadline(self, timeout_s: float | None = None) -> Deadline:
        """`timeout_s` defaults to the limit for a write."""
        limit_s = self.endpoint.write_timeout_s if timeout_s is None else timeout_s
        return Deadline(limit_s, f"Elasticsearch at {self.address}")

    def ask(self, call: Call, deadline: Deadline | None = None) -> Any:
        """The result of `call`; retries temporary failures until the deadline, by default that of a write."""
        deadline = deadline or self.deadline()
        return retried(
            lambda: self._attempt(call, deadline), Passing, pause_s=pauses(*_PAUSES_S), for_s=deadline.left_s
        )

    def _attempt(self, call: Call, deadline: Deadline) -> Any:
        """Gives up at the deadline, also when a name server is slow or a header arrives in drips."""
        left_s = deadline.check()
        answering = self._threads.submit(self._answer, call, deadline)
        try:
            return answering.result(left_s)
        except TimeoutError:
            has_begun = not answering.cancel()
            raise deadline.over() if has_begun else all_busy(self.address) from None

    def _answer(self, call: Call, deadline: Deadline) -> Any:
        with translated(self.address):
            return call(self._client.options(request_timeout=deadline.check())).body

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.endpoint.connections, thread_name_prefix="elasticsearch")

    def bulk_client(self) -> Elasticsearch:
        """A client for the bulk helper, which retries by itself."""
        return self._client.options(
            request_timeout=self.endpoint.write_timeout_s, max_retries=2, retry_on_status=(502, 503, 504)
        )

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._client.close()


@dataclass(frozen=True, slots=True)
class IndexCall:
    """One call of the store on one index; the deadline holds for all its requests together."""

    connection: Connection
    layout: Layout
    deadline: Deadline

    @property
    def address(self) -> str:
        return self.connection.address

    def ask(self, call: Call) -> Any:
        return self.connection.ask(call, self.deadline)
