"""What each client of another service promises, whatever that service answers: the call ends within its limit of time or size, the
failure has its reason, the connection is closed, and no secret is in errors and logs."""

from __future__ import annotations

import gc
import io
import logging
import socket
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar
from urllib.parse import urlsplit

import pytest
from chorale_client.wire_names import Reason

from config.logging import set_up_logging
from models.errors import InvalidAnswer, NotConfigured, StageFailure
from tests.support.servers.hostile_http import (
    MEGABYTE,
    OK,
    Answer,
    HostileServer,
    a_gigabyte_in_a_megabyte,
    repeats,
    says,
)
from tests.support.stores.wiki_source import connections_to
from tests.support.waiting import until

SECRET = "sesame-0815"

Ask = Callable[[str, float], object]
"""Asks the service at an address within so many seconds, with `SECRET` wherever a secret can be declared."""


def with_secrets(origin: str) -> str:
    """The address of an endpoint, with a login and a key."""
    return f"{origin.replace('//', f'//me:{SECRET}@')}/v1?key={SECRET}"


ANSWERS: dict[str, tuple[Answer, Reason]] = {
    "interim answers": (
        repeats(b"", b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n" * 100),
        Reason.TIMEOUT,
    ),
    "headers": (repeats(OK, b"x-more: and more\r\n" * 100), Reason.INVALID_ANSWER),
    "a header, a byte at a time": (repeats(OK + b"x-more: ", b"x", 0.05), Reason.TIMEOUT),
    "a body": (repeats(OK + b"\r\n", b" " * 1_000), Reason.INVALID_ANSWER),
    "a body, a byte at a time": (repeats(OK + b"\r\n", b" ", 0.05), Reason.TIMEOUT),
    "chunks, a byte at a time": (
        repeats(OK + b"transfer-encoding: chunked\r\n\r\n", b"1\r\n \r\n", 0.05),
        Reason.TIMEOUT,
    ),
    "the length of a chunk": (
        repeats(OK + b"transfer-encoding: chunked\r\n\r\n", b"0" * 1_000),
        Reason.INVALID_ANSWER,
    ),
    "another protocol": (repeats(b"SSH-2.0-OpenSSH_9\r\n", b"\r\n"), Reason.INVALID_ANSWER),
}
"""Answers that never end, each with the reason of the failure."""


class OutsideServiceContract:
    """`ask` raises StageFailure; it keeps what it opens until the test has ended."""

    RIGHT: ClassVar[bytes]
    """The body of an answer that `ask` takes."""
    WRONG: ClassVar[Mapping[str, bytes]]
    """Bodies of answers that say something else than the request asks for."""

    @pytest.fixture
    def ask(self) -> Ask:
        raise AssertionError("give your own")

    @pytest.fixture
    def hostile(self) -> Iterator[HostileServer]:
        with HostileServer(says(500)) as server:
            yield server

    @pytest.fixture
    def logged(self, logging_as_before: None) -> io.StringIO:
        stream = io.StringIO()
        set_up_logging(level="DEBUG", log_format="json", stream=stream)
        return stream

    @staticmethod
    def fails(ask: Ask, hostile: HostileServer, timeout_s: float = 20) -> StageFailure:
        """The failure, which the caller keeps with all that it refers to."""
        with pytest.raises(StageFailure) as raised:
            ask(hostile.origin, timeout_s)
        failure = raised.value
        assert SECRET not in f"{failure!r}{failure.__cause__!r}{failure.__context__!r}"
        return failure

    @pytest.mark.parametrize("what", ANSWERS)
    def test_an_answer_without_end_costs_only_the_limit_and_its_connection_is_closed(
        self, hostile: HostileServer, ask: Ask, logged: io.StringIO, what: str
    ) -> None:
        hostile.answer, reason = ANSWERS[what]
        failure = self.fails(ask, hostile, 0.3 if reason == Reason.TIMEOUT else 20)
        assert failure.reason == reason, failure
        until(lambda: not connections_to(urlsplit(hostile.origin).port))
        assert SECRET not in logged.getvalue()

    def test_a_tls_handshake_that_stalls_costs_only_the_limit_and_its_connection_is_closed(
        self, ask: Ask
    ) -> None:
        gc.disable()  # it once closed the connection, some time later
        try:
            with socket.create_server(("127.0.0.1", 0)) as silent:
                port = silent.getsockname()[1]
                with pytest.raises(StageFailure) as raised:
                    ask(f"https://127.0.0.1:{port}", 0.3)
                assert raised.value.reason == Reason.TIMEOUT
                until(lambda: not connections_to(port))
        finally:
            gc.enable()

    def test_a_compressed_answer_is_not_unpacked(self, hostile: HostileServer, ask: Ask) -> None:
        hostile.answer = a_gigabyte_in_a_megabyte
        self.fails(ask, hostile)  # whatever the first call imports and computes is not counted
        tracemalloc.start()
        try:
            failure = self.fails(ask, hostile)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert (type(failure), most < 20 * MEGABYTE) == (InvalidAnswer, True), most

    @pytest.mark.parametrize("location", ["{there}", "http://169.254.169.254/latest/meta-data/"])
    def test_no_redirect_is_followed(self, hostile: HostileServer, ask: Ask, location: str) -> None:
        with HostileServer(says(200, b"{}")) as there:
            hostile.answer = says(307, location=location.format(there=there.origin))
            failure = self.fails(ask, hostile)
            assert (failure.reason, there.requests) == (Reason.NOT_CONFIGURED, 0)
            assert type(failure) is NotConfigured
            assert "redirects are not followed" in failure.detail

    def test_a_wrong_answer_is_invalid(self, hostile: HostileServer, ask: Ask) -> None:
        assert {"NaN", "infinite", "a huge integer", "another length"} <= self.WRONG.keys()
        hostile.answer = says(200, self.RIGHT)
        ask(hostile.origin, 20)
        for what, body in {**self.WRONG, "no JSON": b"<html>hello</html>", "depth": b"[" * 40_000}.items():
            hostile.answer = says(200, body)
            assert self.fails(ask, hostile).reason == Reason.INVALID_ANSWER, what

    def test_the_text_of_an_error_is_read_in_its_length(self, hostile: HostileServer, ask: Ask) -> None:
        """The time of an expression that looks for a limit once grew with the square of the length: hours for this text."""
        for text in (b"token " + b"max" * 20_000, b"a_" * 30_000 + b"!"):
            hostile.answer = says(400, b'{"code": "%s", "message": "%s"}' % (text, text))
            assert len(self.fails(ask, hostile).detail) < 1_000

    def test_no_log_has_a_secret_of_the_address(
        self, hostile: HostileServer, ask: Ask, logged: io.StringIO
    ) -> None:
        logging.getLogger("test").debug("ready")
        self.fails(ask, hostile)
        assert "ready" in logged.getvalue()
        assert SECRET not in logged.getvalue()
