"""HTTP/1.1 with limits on the total time and the length of an answer; follows no redirect.

The timeouts of common clients restart with each piece of an answer, so a server that sends slowly never exceeds
them.  Here the caller waits for a thread, and ends the thread's connection when the time is over.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from contextlib import suppress
from urllib.parse import urlsplit

from models.endpoints import HttpEndpoint
from models.errors import BadIndex, InvalidAnswer, StageFailure, StoreTimeout, StoreUnavailable, Unauthorised
from search.http.request import Call

_PIECE = 65_536
_MEANINGS: tuple[tuple[range | tuple[int, ...], type[StageFailure], str], ...] = (
    ((401, 403, 407), Unauthorised, "check the key that api_key_env names"),
    ((408, 504), StoreTimeout, "it reported a timeout of its own"),
    ((429,), StoreUnavailable, "too many requests (retry-after: {retry_after})"),
    (range(300, 400), BadIndex, "redirects are not followed: declare the address that it redirects to"),
    (range(400, 500), BadIndex, "check the url, params and body that the store declares"),
    (range(500, 600), StoreUnavailable, "see the log of that server"),
)
"""The failure for each status other than success."""


class Line:
    """One exchange in progress, which another thread may end."""

    def __init__(self) -> None:
        self._connection: http.client.HTTPConnection | None = None
        self._is_over = False
        self._lock = threading.Lock()

    def hold(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            self._connection = connection
            if self._is_over:
                raise TimeoutError

    def end(self) -> None:
        with self._lock:
            self._is_over = True
            found = self._connection.sock if self._connection else None
            if found is not None:
                with suppress(OSError):
                    found.shutdown(socket.SHUT_RDWR)


class Connections:
    """Connections to one endpoint, kept open while they work; thread-safe."""

    def __init__(self, endpoint: HttpEndpoint) -> None:
        self._endpoint = endpoint
        parts = urlsplit(endpoint.url)
        self._host, self._port = parts.hostname or "", parts.port
        self._context = (
            ssl.create_default_context(cafile=endpoint.ca_file) if parts.scheme == "https" else None
        )
        self._idle: list[http.client.HTTPConnection] = []

    def exchange(self, call: Call, line: Line, *, ends_at_s: float) -> bytes:
        """The body of a successful answer; raises StageFailure, or TimeoutError at `ends_at_s` (monotonic)."""
        try:
            return self._exchange(call, line, ends_at_s)
        except TimeoutError:
            raise
        except ConnectionError as error:
            raise StoreUnavailable(
                f"{self._endpoint.address} closed the connection, or refused it"
            ) from error
        except OSError as error:
            raise StoreUnavailable(
                f"{self._endpoint.address} cannot be reached: {error.strerror or type(error).__name__}"
            ) from error
        # ValueError comes from a chunk of negative length.  This clause is last, because a certificate error is a
        # ValueError too.
        except (http.client.HTTPException, ValueError) as error:
            kind = type(error).__name__
            raise InvalidAnswer(
                f"the answer of {self._endpoint.address} is not complete HTTP: {kind}"
            ) from error

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _exchange(self, call: Call, line: Line, ends_at_s: float) -> bytes:
        with suppress(IndexError):
            kept = self._idle.pop()
            try:
                return self._ask(kept, call, line, ends_at_s)
            except (ConnectionError, http.client.RemoteDisconnected, ssl.SSLError):
                pass  # the server closed it while it was idle
        connection = (
            http.client.HTTPConnection(self._host, self._port)
            if self._context is None
            else http.client.HTTPSConnection(self._host, self._port, context=self._context)
        )
        return self._ask(connection, call, line, ends_at_s)

    def _ask(self, connection: http.client.HTTPConnection, call: Call, line: Line, ends_at_s: float) -> bytes:
        is_good = False
        try:
            left_s = ends_at_s - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            connection.timeout = left_s
            if connection.sock is None:
                connection.connect()
            else:
                connection.sock.settimeout(left_s)
            line.hold(connection)
            connection.request(call.method, call.target, call.body, dict(call.headers))
            # A response keeps the socket open until the response is closed.
            with connection.getresponse() as response:
                if not 200 <= response.status < 300:
                    raise self._failure(response)
                body = self._read(response, ends_at_s)
            is_good = not response.will_close
            return body
        finally:
            if is_good and len(self._idle) < self._endpoint.connections:
                self._idle.append(connection)
            else:
                connection.close()

    def _read(self, response: http.client.HTTPResponse, ends_at_s: float) -> bytes:
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise InvalidAnswer(
                f"{self._endpoint.address} sent a compressed answer, which the request did not allow"
            )
        pieces, size, limit = [], 0, self._endpoint.max_bytes
        while piece := response.read(_PIECE):
            size += len(piece)
            if size > limit:
                raise InvalidAnswer(
                    f"{self._endpoint.address} answers more than {limit:,} bytes: lower max_hits, or raise max_bytes"
                )
            if time.monotonic() > ends_at_s:
                raise TimeoutError
            pieces.append(piece)
        if response.length:
            raise InvalidAnswer(
                f"the answer of {self._endpoint.address} is cut off {response.length:,} bytes early"
            )
        return b"".join(pieces)

    def _failure(self, response: http.client.HTTPResponse) -> StageFailure:
        said = f"{self._endpoint.address} answers {response.status}"
        for statuses, kind, meaning in _MEANINGS:
            if response.status in statuses:
                retry_after = response.headers.get("Retry-After", "")[:40] or "not said"
                return kind(f"{said}: {meaning.format(retry_after=retry_after)}")
        return InvalidAnswer(f"{said}, which is not a valid HTTP status")
