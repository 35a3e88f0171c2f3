"""Connections to one cluster, kept open, and calls that end within the time they are given."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from elastic_transport import JsonSerializer, NodeConfig, Urllib3HttpNode
from elasticsearch import Elasticsearch
from elasticsearch.serializer import DEFAULT_SERIALIZERS
from elasticsearch.serializer import NdjsonSerializer as ClientNdjsonSerializer
from urllib3 import Timeout
from urllib3.exceptions import ReadTimeoutError

from models.elasticsearch_endpoint import ElasticsearchEndpoint
from search.elasticsearch.deadline import Deadline
from search.elasticsearch.failures import Passing, translated

_ATTEMPTS = 4
_FIRST_PAUSE_S = 0.05
_PIECE_BYTES = 65_536

Call = Callable[[Elasticsearch], Any]


class _Json(JsonSerializer):
    """Lone surrogates, which no server takes, become question marks."""

    def dumps(self, data: Any) -> bytes:
        if isinstance(data, bytes):
            return data
        if isinstance(data, str):
            return data.encode("utf-8", "replace")
        whole = json.dumps(data, default=self.default, ensure_ascii=False, separators=(",", ":"))
        return whole.encode("utf-8", "replace")


class _Ndjson(_Json, ClientNdjsonSerializer):
    """Lines of the same."""

    def dumps(self, data: Any) -> bytes:
        lines = [data] if isinstance(data, str | bytes) else data
        return b"".join(_Json.dumps(self, line).rstrip(b"\n") + b"\n" for line in lines)


class _TimedPool:
    """A pool of connections whose answers end in time as a whole; urllib3's limit is for each read alone."""

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
            # What is still on its way must not be read as the next call's answer.
            response.close()
            raise
        response.release_conn()
        return _Read(response.status, response.headers, b"".join(pieces))

    def close(self) -> None:
        self._pool.close()


class _Read:
    """An answer that was read."""

    def __init__(self, status: int, headers: Any, data: bytes) -> None:
        self.status, self.headers, self.data = status, headers, data


class _Node(Urllib3HttpNode):
    """A node whose limit holds for the whole call."""

    def __init__(self, config: NodeConfig) -> None:
        super().__init__(config)
        self.pool: Any = _TimedPool(self.pool)


class Connection:
    """Thread-safe.  Opens nothing before the first call, and asks nothing of its own accord."""

    def __init__(self, endpoint: ElasticsearchEndpoint, *, api_key: str | None, password: str | None) -> None:
        self.endpoint = endpoint
        self.address = ", ".join(endpoint.addresses)
        """For messages."""
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
        """Of so many seconds; unless said, of those for a write."""
        return Deadline(self.endpoint.write_timeout_s if timeout_s is None else timeout_s, self.address)

    def ask(self, call: Call, deadline: Deadline) -> Any:
        """What `call` answers; what failed for a passing reason is tried again while there is time."""
        pause_s = _FIRST_PAUSE_S
        for attempt in range(1, _ATTEMPTS + 1):
            left_s = deadline.check()
            try:
                with translated(self.address):
                    return call(self._client.options(request_timeout=left_s)).body
            except Passing:
                if attempt == _ATTEMPTS or deadline.left_s <= pause_s:
                    raise
            time.sleep(pause_s)
            pause_s *= 2
        raise AssertionError("the last attempt returns or raises")

    def bulk_client(self) -> Elasticsearch:
        """For the bulk helper, which has its own way of trying again."""
        return self._client.options(
            request_timeout=self.endpoint.write_timeout_s, max_retries=2, retry_on_status=(502, 503, 504)
        )

    def close(self) -> None:
        self._client.close()
