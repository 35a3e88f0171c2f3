"""The way to PostgreSQL: what `sslmode` in CHORALE_AUDIT_URL and CHORALE_DOCUMENTS_URL lets through.

The server is half a server: it takes the connection with or without TLS, and hears who wants to log in.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

from config.settings import Settings
from models.errors import StoreUnavailable
from records.database import open_database
from search.documents.database import Database
from tests.support.servers.certificates import Certificate

pytest.importorskip("psycopg")

SSL_REQUEST = 80877103
"""The number by which a client of PostgreSQL asks for TLS."""


class HalfAServer:
    """Answers each request for TLS; `heard` has each login as (whether it was encrypted, the bytes)."""

    def __init__(self, certificate: Certificate | None) -> None:
        self.heard: list[tuple[bool, bytes]] = []
        self._context = None
        if certificate is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(certificate.file, certificate.key_file)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.settimeout(10)
            with connection:
                try:
                    self._answer(connection)
                except OSError:
                    continue

    def _answer(self, connection: socket.socket) -> None:
        first = connection.recv(4_096)
        if int.from_bytes(first[4:8]) != SSL_REQUEST:
            self.heard.append((False, first))
            return
        connection.sendall(b"N" if self._context is None else b"S")
        if self._context is None:
            self.heard += [(False, said)] if (said := connection.recv(4_096)) else []
            return
        with self._context.wrap_socket(connection, server_side=True) as encrypted:
            self.heard += [(True, said)] if (said := encrypted.recv(4_096)) else []


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return Certificate.make(tmp_path_factory.mktemp("postgresql"))


@pytest.fixture
def encrypting(certificate: Certificate) -> Iterator[HalfAServer]:
    with closing(HalfAServer(certificate)) as server:
        yield server


@pytest.fixture
def plain() -> Iterator[HalfAServer]:
    with closing(HalfAServer(None)) as server:
        yield server


def audit(url: str) -> None:
    open_database(url, poolclass=NullPool).connect()


def documents(url: str) -> None:
    with Database(url).snapshot():
        pass


def log_in(server: HalfAServer, options: str, connect: Callable[[str], None] = audit) -> str:
    """Returns the client's error: no login succeeds here."""
    url = f"postgresql+psycopg://chorale:secret@127.0.0.1:{server.port}/chorale{options}"
    with pytest.raises((OperationalError, StoreUnavailable)) as refused:
        connect(Settings(audit_url=url).documents_database_url)
    return str(refused.value)


@pytest.mark.parametrize("connect", [audit, documents])
def test_verify_full_logs_in_over_tls_with_the_named_authority(
    encrypting: HalfAServer, certificate: Certificate, connect: Callable[[str], None]
) -> None:
    log_in(encrypting, f"?sslmode=verify-full&sslrootcert={certificate.file}", connect)
    (encrypted, said), *_ = encrypting.heard
    assert encrypted
    assert b"user\0chorale\0" in said


def test_verify_full_sends_nothing_to_a_server_of_another_authority(
    encrypting: HalfAServer, tmp_path: Path
) -> None:
    stranger = Certificate.make(tmp_path)
    error = log_in(encrypting, f"?sslmode=verify-full&sslrootcert={stranger.file}")
    assert "certificate verify failed" in error
    assert encrypting.heard == []


def test_require_sends_nothing_to_a_server_without_tls(plain: HalfAServer) -> None:
    assert "server does not support SSL" in log_in(plain, "?sslmode=require")
    assert plain.heard == []


def test_without_sslmode_a_server_without_tls_hears_the_login_in_clear(plain: HalfAServer) -> None:
    log_in(plain, "")
    (encrypted, said), *_ = plain.heard
    assert not encrypted
    assert b"user\0chorale\0" in said
