"""One request over HTTP to a model or a source."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

import httpx2

from models.errors import InvalidAnswer, NotConfigured, StoreUnavailable

Send = Callable[[httpx2.Request], Awaitable[httpx2.Response]]


def certificates(where: str, ca_file: str | Path | None) -> ssl.SSLContext:
    """The certificates of the file alone, or of the system if there is no file.  Raises NotConfigured, whose text begins with `where`, for a file that cannot
    be read."""
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        why = error.strerror or error
        raise NotConfigured(f"{where}: the certificates {ca_file} cannot be read: {why}") from None


async def exchange(
    send: Send, request: httpx2.Request, where: str, max_bytes: int, max_error_bytes: int = 0
) -> tuple[httpx2.Response, bytes]:
    """The response, and its body up to a little over the limit.  The body of an error has a limit of its own.

    Raises InvalidAnswer, and StoreUnavailable if there is no connection.  The text of each error begins with `where`.
    """
    request.extensions["trace"] = trace = _ConnectionTrace()
    while True:
        try:
            async with aclosing(await send(request)) as response:
                _acknowledge(response)
                if response.is_success and response.headers.get("Content-Encoding", "identity") != "identity":
                    raise InvalidAnswer(f"{where} sent a compressed answer, which the request did not allow")
                body, most_bytes = bytearray(), max_bytes if response.is_success else max_error_bytes
                pieces = response.aiter_raw()
                while most_bytes and len(body) <= most_bytes and (piece := await anext(pieces, None)):
                    body += piece
                return response, bytes(body)
        except (httpx2.ConnectError, httpx2.ProxyError, httpx2.UnsupportedProtocol) as error:
            what = f"{where} refused the connection, or cannot be reached: {error}"
            raise StoreUnavailable(what) from None
        except (httpx2.TransportError, ssl.SSLError) as error:
            # Only h11's words distinguish a closed connection from an answer that is no HTTP.  They may also quote a header with the key.
            was_closed = "closed connection" in str(error) or "disconnected" in str(error)
            if isinstance(error, httpx2.ProtocolError) and not was_closed:
                raise InvalidAnswer(f"{where} sent an answer that is no valid HTTP") from None
            if trace.is_new or trace.has_headers:
                raise StoreUnavailable(f"{where} closed the connection") from None
            # The server closed a persistent connection, which says nothing about the server.


def _acknowledge(response: httpx2.Response) -> None:
    """Some servers, such as Python's own, send the body of an answer when its head is acknowledged, which Linux would do after
    40 ms on a persistent connection."""
    stream = response.extensions.get("network_stream")
    connection = stream and stream.get_extra_info("socket")
    if connection and hasattr(socket, "TCP_QUICKACK"):
        with suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


class _ConnectionTrace:
    """What httpx reports of a request's connection.  Closes one whose TLS handshake does not end, which httpcore leaves to the garbage
    collection."""

    is_new = False
    """Whether a connection was opened for the request, or tried."""
    has_headers = False
    """Whether the answer began."""
    _opened: Any = None

    async def __call__(self, event: str, info: Mapping[str, Any]) -> None:
        match event.partition(".")[2]:
            case "connect_tcp.started":
                self.is_new = True
            case "connect_tcp.complete":
                self._opened = info["return_value"]
            case "start_tls.failed" if self._opened:
                await self._opened.aclose()
            case "receive_response_headers.complete":
                self.has_headers = True
