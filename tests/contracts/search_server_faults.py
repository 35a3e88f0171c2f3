"""What a store on a server of Elasticsearch's API promises when that server is gone, slow, foreign or refuses: one sentence, in
time, without a secret.

Inherit the class and provide the fixtures `opens`, `place` (host and port of a real server) and `prefix` (of a namespace `ns`
that `filled` wrote).
"""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest

from models.errors import BadIndex, InvalidAnswer, StageFailure, StoreTimeout, StoreUnavailable, Unauthorised
from search.engines.elasticsearch import bulk_writing
from search.engines.elasticsearch.connection import DialectCall
from search.engines.elasticsearch.dialect_store import DialectStore
from search.engines.elasticsearch.index_layout import Layout, Words
from search.engines.elasticsearch.lookups import entries
from tests.contracts.engine_faults import DOCUMENTS, EngineFaults, Through, count
from tests.contracts.store_documents import MANIFEST
from tests.support.servers.certificates import Certificate
from tests.support.servers.elasticsearch_server import Answer, Impostor
from tests.support.servers.tcp_proxy import TcpProxy
from tests.support.servers.tls_proxy import TlsProxy
from tests.support.waiting import until

PASSWORD = "hunter2"

Opens = Callable[..., AbstractContextManager[DialectStore]]
"""Opens a store with the options of its kind, and `password`."""


def refusal(status: int, kind: str, reason: str) -> tuple[int, bytes]:
    error = {"type": kind, "reason": reason, "root_cause": [{"type": kind, "reason": reason}]}
    return status, json.dumps({"error": error, "status": status}).encode()


def read(store: DialectStore) -> None:
    connection = store._connection
    layout = Layout("i", MANIFEST, Words("english", MANIFEST), False, 1)
    list(entries(DialectCall.on(connection, layout, connection.deadline(5))))


def write(store: DialectStore, *names: str) -> dict[str, str]:
    action = {"_op_type": "index", "_index": "i", "_source": {}}
    return bulk_writing.send(store._connection, [{**action, "_id": name} for name in names or ("a",)])


class SearchServerFaults(EngineFaults):
    gone = "start it, or check"
    versions: ClassVar[str]
    headers: ClassVar[dict[str, str]] = {"content-type": "application/json"}
    """The headers of the server's answers."""

    @pytest.fixture
    def through(self, opens: Opens, proxy: TcpProxy, prefix: str) -> Through:
        return partial(opens, prefix, url=f"http://127.0.0.1:{proxy.port}")

    def test_an_answer_that_drips_costs_no_more_than_the_time_given(self, opens: Opens) -> None:
        drips = (200, b" " * 30_000_000, self.headers)
        with (
            Impostor(lambda *_: drips) as server,
            TcpProxy(("127.0.0.1", int(server.url.rsplit(":", 1)[1]))) as slow,
        ):
            slow.delay_s = 0.05
            with opens("any", url=f"http://127.0.0.1:{slow.port}", connections=1) as store:

                def complaint() -> str:
                    with pytest.raises(StoreTimeout) as raised:
                        count(store, timeout_s=0.5)
                    return str(raised.value)

                assert "did not answer" in complaint()
                # The only connection is free again, at the latest a moment later.
                until(lambda: "did not answer" in complaint())

    def test_a_slow_name_server_costs_no_more_than_the_time_given(
        self, opens: Opens, prefix: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real, answered = socket.getaddrinfo, threading.Event()
        with opens(prefix) as store:
            monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answered.wait() and real(*_, **__))
            with pytest.raises(StoreTimeout, match="did not answer within"):
                count(store, timeout_s=0.3)
            answered.set()
            assert count(store) == DOCUMENTS

    @pytest.mark.parametrize(
        ("answer", "failure", "message"),
        [
            (refusal(401, "security_exception", "who are you"), Unauthorised, "check .*password_env"),
            (refusal(403, "security_exception", "unauthorized"), Unauthorised, "the rights on the indices"),
            (refusal(503, "cluster_block_exception", "no master"), StoreUnavailable, "busy or.*no master"),
            (
                refusal(403, "cluster_block_exception", "read-only"),
                StoreUnavailable,
                "allows no writes.*read-only",
            ),
            (refusal(500, "null_pointer_exception", "oops"), StoreUnavailable, "failed.*oops"),
            ((200, b"{no json"), InvalidAnswer, "is not JSON"),
            ((200, b"\xff"), InvalidAnswer, "is not JSON"),
            ((200, b'{"a": 1}'), InvalidAnswer, "in an unknown format"),
            ((503, b"<a>\n</a>"), StoreUnavailable, "starting.*<a> </a>"),
            ((429, b"<html>"), StoreUnavailable, "busy or starting.*<html>"),
            ((413, b"<html>"), BadIndex, "refuses requests of this size"),
            ((301, b"<a/>"), InvalidAnswer, "is not .*: check the store's url, and its kind"),
        ],
    )
    def test_an_error_of_the_server_becomes_one_sentence_without_the_password(
        self,
        opens: Opens,
        answer: tuple[int, bytes],
        failure: type[StageFailure],
        message: str,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        caplog.set_level(logging.DEBUG)
        with Impostor(lambda *_: (*answer, self.headers)) as server:
            login = {"username": "me", "password_env": "UNUSED", "password": PASSWORD}
            with (
                opens("any", url=server.url, **login) as store,
                pytest.raises(failure, match=message) as raised,
            ):
                count(store)
            # base64 of me:hunter2
            assert server.requests[0][1]["authorization"] == "Basic bWU6aHVudGVyMg=="
        assert "\n" not in str(raised.value)
        for hidden in (PASSWORD, "bWU6aHVudGVyMg=="):
            assert hidden not in f"{raised.value!r} {store!r} {vars(store)} {caplog.text}"

    @pytest.mark.parametrize(
        ("call", "body"),
        [
            (read, b"{}"),
            (read, b'{"responses": null}'),
            (read, b'{"responses": [5]}'),
            (read, b'{"responses": [{"hits": {"hits": [{}]}}]}'),
            (write, b"{}"),
            (write, b'{"items": [5]}'),
            (write, b'{"items": []}'),
        ],
    )
    def test_an_answer_in_an_unknown_format_and_a_write_without_a_result_are_invalid_answers(
        self, opens: Opens, call: Callable[[DialectStore], object], body: bytes
    ) -> None:
        with (
            Impostor(lambda *_: (200, body, self.headers)) as server,
            opens("any", url=server.url) as store,
            pytest.raises(InvalidAnswer, match=f"in an unknown format .* is its version {self.versions}"),
        ):
            call(store)

    @pytest.mark.parametrize("answer", [refusal(503, "x", "starting"), (504, b"<a/>")])
    def test_a_busy_server_is_asked_again_within_the_time(
        self, opens: Opens, answer: tuple[int, bytes]
    ) -> None:
        with Impostor(lambda *_: (*answer, self.headers)) as server, opens("any", url=server.url) as store:
            with pytest.raises(StoreUnavailable):
                count(store, timeout_s=30)
            assert len(server.requests) == 4

    def test_an_https_address_of_a_server_without_tls_says_what_to_check(self, opens: Opens) -> None:
        with (
            Impostor(lambda *_: (200, b"{}", self.headers)) as server,
            opens("any", url=server.url.replace("http:", "https:")) as store,
            pytest.raises(StoreUnavailable, match="check the scheme, ca_file"),
        ):
            count(store, timeout_s=30)

    def test_a_private_authority_is_accepted_and_a_client_certificate_sent_and_their_absence_reported(
        self, opens: Opens, place: tuple[str, int], prefix: str, tmp_path: Path
    ) -> None:
        own, callers = Certificate.make(tmp_path), Certificate.make(tmp_path, "caller")
        trusted = {"ca_file": str(own.file)}
        identified = {
            **trusted,
            "client_cert_file": str(callers.file),
            "client_key_file": str(callers.key_file),
        }
        for clients, without, options, missing in (
            (None, {}, trusted, "ca_file"),
            (callers, trusted, identified, "client_cert_file"),
        ):
            with TlsProxy(place, own, clients=clients) as server:
                url = f"https://127.0.0.1:{server.port}"
                with opens(prefix, url=url, **without) as store, pytest.raises(StageFailure, match=missing):
                    count(store, timeout_s=30)
                with opens(prefix, url=url, **options) as store:
                    assert count(store, timeout_s=30) == DOCUMENTS

    @pytest.mark.parametrize("is_rejected_whole", [False, True])
    def test_what_a_full_queue_rejects_is_sent_again_more_slowly(
        self, opens: Opens, monkeypatch: pytest.MonkeyPatch, is_rejected_whole: bool
    ) -> None:
        pauses: list[float] = []
        monkeypatch.setattr("search.engines.elasticsearch.bulk_writing.time.sleep", pauses.append)
        full = {"type": "rejected_execution_exception", "reason": "queue is full"}
        bad = {"type": "document_parsing_exception", "reason": "no", "caused_by": {"reason": "too deep"}}
        rounds: list[list[str]] = []

        def answer(_: str, body: bytes) -> Answer:
            names = [json.loads(line)["index"]["_id"] for line in body.splitlines()[::2]]
            rounds.append(names)
            results: dict[str, dict[str, Any]] = {
                "good": {"status": 201},
                "busy": {"status": 429, "error": full} if len(rounds) < 3 else {"status": 201},
                "bad": {"status": 400, "error": bad},
            }
            items = [{"index": {"_id": name, **results[name]}} for name in names]
            if is_rejected_whole and len(rounds) <= 4:  # the attempts of one message
                return (*refusal(429, full["type"], full["reason"]), self.headers)
            return 200, json.dumps({"errors": True, "items": items}).encode(), self.headers

        with Impostor(answer) as server, opens("any", url=server.url) as store:
            refused = write(store, "good", "busy", "bad")
        assert refused == {"bad": "document_parsing_exception: no (too deep)"}
        if is_rejected_whole:
            assert rounds == [["good", "busy", "bad"]] * 5
            assert pauses == [0.05, 0.1, 0.2, 0.25]
        else:
            assert rounds == [["good", "busy", "bad"], ["busy"], ["busy"]]
            assert pauses == [0.25, 0.5]
