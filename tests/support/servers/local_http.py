"""An HTTP server on its own port, in a thread, for the servers that tests imitate."""

from __future__ import annotations

import ssl
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SHUT_RDWR
from typing import Any, Self

from tests.support.servers.certificates import Certificate


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    """More than any test sends at the same time: a connection beyond the limit comes a second later."""

    def __init__(self, address: tuple[str, int], handler: type[QuietHandler]) -> None:
        self.connected: set[Any] = set()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connected.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.connected.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        """Ends the connections, too, whose callers keep them."""
        super().server_close()
        for request in list(self.connected):
            with suppress(OSError):
                request.shutdown(SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignores callers that close the connection early: these tests provoke them."""


class QuietHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: Any
    """The server object whose requests it answers."""

    def answer(self) -> None:
        """Answers any request, of any method."""

    def do_GET(self) -> None:
        self.answer()

    do_POST = do_PUT = do_HEAD = do_DELETE = do_GET  # noqa: N815

    def send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"content-length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing."""


class LocalHttp:
    """A context manager that serves with its `handler`, over TLS if it has a `certificate`."""

    def __init__(self, handler: type[QuietHandler], certificate: Certificate | None = None) -> None:
        own = type(handler.__name__, (handler,), {"owner": self})
        self._server = _Server(("127.0.0.1", 0), own)
        self._scheme = "http" if certificate is None else "https"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate.file, certificate.key_file)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def origin(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
