"""Calls of an endpoint over real HTTP use the connections of earlier calls, and a connection that broke costs none of them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import inference.endpoints.json_endpoint
from inference.endpoints.embedding import EndpointEmbedder
from models.errors import StoreTimeout, Unauthorised
from tests.support.models.hashing_embedder import HashingEmbedder
from tests.support.servers.certificates import Certificate
from tests.support.servers.chat_server import Answer, ChatServer, Handler, after, sends
from tests.support.servers.model_server import embeddings, embeds

WELL = embeds(HashingEmbedder(dimension=4))


def hangs_up(handler: Handler, _: dict[str, Any]) -> None:
    """Closes the connection after it has read the request."""
    handler.close_connection = True


class Connected(ChatServer):
    """Knows the connection of each request, by the port of the caller."""

    def __init__(self, certificate: Certificate | None = None) -> None:
        self.ports: list[int] = []
        super().__init__(self.noting(WELL), certificate)

    def noting(self, answer: Answer) -> Answer:
        def noted(handler: Handler, body: dict[str, Any]) -> None:
            self.ports.append(handler.client_address[1])
            answer(handler, body)

        return noted


@pytest.fixture
def server() -> Iterator[Connected]:
    with Connected() as server:
        yield server


def opened(server: ChatServer, **settings: Any) -> EndpointEmbedder:
    return EndpointEmbedder("tiny", **{"url": server.url, **settings})


@pytest.mark.parametrize("has_tls", [False, True])
def test_calls_one_after_the_other_use_one_connection(tmp_path: Path, has_tls: bool) -> None:
    certificate = Certificate.make(tmp_path) if has_tls else None
    with Connected(certificate) as server:
        embedder = opened(server, ca_file=certificate and certificate.file)
        for text in "abc":
            embedder.embed_questions([text], timeout_s=20)
        assert len(server.ports) == 3
        assert len(set(server.ports)) == 1


def test_calls_at_the_same_time_have_connections_of_their_own(server: Connected) -> None:
    together = threading.Barrier(2)

    def answers_two_at_once(handler: Handler, body: dict[str, Any]) -> None:
        together.wait(20)
        WELL(handler, body)

    server.answer = server.noting(answers_two_at_once)
    embedder = opened(server)
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda text: embedder.embed_questions([text], timeout_s=20), "ab"))
    assert len(set(server.ports)) == 2
    server.answer = server.usual
    embedder.embed_questions(["c"], timeout_s=20)
    assert server.ports[2] in server.ports[:2]


@pytest.mark.parametrize("batches", [1, 3])
def test_a_server_that_hangs_up_a_kept_connection_costs_no_attempt(
    server: Connected, monkeypatch: pytest.MonkeyPatch, batches: int
) -> None:
    # An attempt that failed would wait longer than the call may take.
    monkeypatch.setattr(inference.endpoints.json_endpoint, "FIRST_PAUSE_S", 1_000)
    embedder, texts = opened(server, batch=1), ["a", "b", "c"][:batches]
    together = threading.Barrier(batches)

    def on_a_connection_of_its_own(handler: Handler, body: dict[str, Any]) -> None:
        together.wait(10)
        WELL(handler, body)

    def hangs_up_on_all_at_once(handler: Handler, body: dict[str, Any]) -> None:
        # Otherwise the second attempt of a batch could meet the hang-up that is meant for another.
        together.wait(10)
        hangs_up(handler, body)

    server.answer = server.noting(on_a_connection_of_its_own)
    embedder.embed_questions(texts, timeout_s=20)
    server.then = [server.noting(hangs_up_on_all_at_once)] * batches
    assert embedder.embed_questions(texts, timeout_s=20).shape == (batches, 4)
    assert len(server.requests) == 3 * batches


def test_a_connection_that_the_server_closed_after_its_answer_costs_no_attempt(
    server: Connected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inference.endpoints.json_endpoint, "FIRST_PAUSE_S", 1_000)

    def answers_and_hangs_up(handler: Handler, body: dict[str, Any]) -> None:
        WELL(handler, body)
        hangs_up(handler, body)

    embedder = opened(server)
    server.then = [server.noting(answers_and_hangs_up)]
    embedder.embed_questions(["a"], timeout_s=20)
    embedder.embed_questions(["b"], timeout_s=20)
    assert len(set(server.ports)) == 2


def test_a_server_that_hangs_up_on_a_new_connection_fails_as_before(server: Connected) -> None:
    server.then = [hangs_up]
    assert opened(server).embed_questions(["a"], timeout_s=20).shape == (1, 4)
    assert len(server.requests) == 2


def test_the_time_limit_holds_on_a_kept_connection(server: Connected) -> None:
    embedder = opened(server)
    embedder.embed_questions(["a"], timeout_s=20)
    server.answer = after(30, WELL)
    with pytest.raises(StoreTimeout, match=r"no answer within 0\.20 s"):
        embedder.embed_questions(["b"], timeout_s=0.2)
    server.answer = WELL
    assert embedder.embed_questions(["b"], timeout_s=20).shape == (1, 4)


def test_after_a_failure_the_next_call_connects_anew(server: Connected) -> None:
    embedder = opened(server)
    server.then = [server.noting(sends(401))]
    with pytest.raises(Unauthorised):
        embedder.embed_questions(["a"], timeout_s=20)
    embedder.embed_questions(["a"], timeout_s=20)
    assert len(set(server.ports)) == 2


def test_a_forked_process_does_not_use_its_parent_s_connections(server: Connected) -> None:
    embedder = opened(server)
    embedder.embed_questions(["a"], timeout_s=20)
    child = os.fork()
    if child == 0:
        try:
            embedder.embed_questions(["b"], timeout_s=20)
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    embedder.embed_questions(["c"], timeout_s=20)
    first, child_s, last = server.ports
    assert first == last != child_s


def test_cookies_of_one_call_are_not_sent_with_the_next(server: Connected) -> None:
    vector = embeddings([[0.6, -0.8]])
    server.then = [sends(200, vector, set_cookie="who=you; Path=/")]
    embedder = opened(server)
    embedder.embed_questions(["a"], timeout_s=20)
    server.then = [sends(200, vector)]
    embedder.embed_questions(["b"], timeout_s=20)
    assert [headers.get("cookie") for headers in server.headers] == [None, None]
