"""A reranker over real HTTP: the logits of a local model come back, and each fault has its reason in time."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inference.backends import load_reranker
from inference.endpoints.reranking import EndpointReranker
from inference.protocol import PairScores
from models.errors import (
    InvalidAnswer,
    ModelMissing,
    NotConfigured,
    StageFailure,
    StoreUnavailable,
    Unauthorised,
    WrongDeclaration,
)
from tests.contracts.outside_service import SECRET
from tests.support.models.tiny_cross_encoder import PAIRS, write_tiny_cross_encoder
from tests.support.servers.chat_server import (
    Answer,
    ChatServer,
    Handler,
    after,
    sends,
)
from tests.support.servers.model_server import ranks

TEXT = "Unverwechselbar"
"""A text that errors must not quote."""


def lengths(handler: Handler, body: dict[str, Any]) -> None:
    """Scores each text of a TEI request with its length."""
    scores = [{"index": at, "score": len(text)} for at, text in enumerate(body["texts"])]
    handler.send(200, json.dumps(scores[::-1]).encode())


@pytest.fixture
def server() -> Iterator[ChatServer]:
    # A server for each test: a request that its caller gave up may still arrive after the test has ended.
    with ChatServer(lengths) as server:
        yield server


def opened(server: ChatServer, **settings: Any) -> EndpointReranker:
    return EndpointReranker("tiny", **{"url": server.origin, "api_key": SECRET, **settings})


def pairs(*passages: str, question: str = "a") -> list[tuple[str, str]]:
    return [(question, passage) for passage in passages]


@pytest.mark.parametrize("api", ["tei", "cohere", "jina"])
def test_the_logits_of_a_local_model_come_back(server: ChatServer, tmp_path: Path, api: str) -> None:
    local = load_reranker(str(write_tiny_cross_encoder(tmp_path)), backend="onnx", threads=1)
    local.warm()
    server.answer = ranks(local)
    several = [pair for pair in PAIRS if all(pair)]
    expected = local.score(several, limit_s=20).logits
    scores = opened(server, api=api).score(several, limit_s=20)
    assert scores.logits == pytest.approx(expected, abs=1e-4)
    assert (scores.chosen, scores.has_begun) == (len(several), True)
    # One request for each question, at the same time.
    assert {body["query"] for body in server.requests} == {question for question, _ in several}
    assert len(server.requests) == len({question for question, _ in several})


TEI = [{"index": 1, "score": 2.5}, {"index": 0, "score": -1.25}]
COHERE = {
    "results": [{"index": 1, "relevance_score": 0.999071}, {"index": 0, "relevance_score": 0.32713068}],
    "id": "07734bd2-2473-4f07-94e1-0d9f0e6843cf",
    "meta": {"api_version": {"version": "2", "is_experimental": False}, "billed_units": {"search_units": 1}},
}
JINA = {
    "model": "jina-reranker-v2-base-multilingual",
    "object": "list",
    "usage": {"total_tokens": 815},
    "results": [{"index": 1, "relevance_score": 0.8783142566680908}, {"index": 0, "relevance_score": 0.0}],
}


@pytest.mark.parametrize(
    ("api", "answer", "logits", "tokens"),
    [
        ("tei", TEI, (-1.25, 2.5), []),
        ("cohere", COHERE, (math.log(0.32713068 / 0.67286932), math.log(0.999071 / 0.000929)), []),
        # A probability of 0 counts as 1e-6.
        ("jina", JINA, (math.log(1e-6 / 0.999999), math.log(0.8783142566680908 / 0.1216857433319092)), [815]),
    ],
)
def test_recorded_answers_are_read(
    server: ChatServer, api: str, answer: object, logits: tuple[float, float], tokens: list[int]
) -> None:
    server.answer = sends(200, json.dumps(answer).encode())
    counted: list[int] = []
    reranker = opened(server, api=api, add_tokens=counted.append)
    assert reranker.score(pairs("b", "c"), limit_s=20).logits == pytest.approx(logits)
    assert counted == tokens


def test_requests_have_the_form_of_their_protocol(server: ChatServer) -> None:
    server.answer = sends(401)
    for api in ("tei", "cohere", "jina"):
        with pytest.raises(Unauthorised):
            opened(server, api=api, url=f"{server.origin}/v2/").score(pairs("b", ""), limit_s=20)
    cohere = {"model": "tiny", "query": "a", "documents": ["b", " "], "top_n": 2}
    assert server.requests == [
        {"query": "a", "texts": ["b", " "], "raw_scores": True, "truncate": True},
        cohere,
        {**cohere, "return_documents": False},
    ]
    assert server.paths == ["/v2/rerank"] * 3
    assert server.keys == [f"Bearer {SECRET}"] * 3


def test_many_passages_are_sent_in_batches_and_stay_in_order(server: ChatServer) -> None:
    several = [(f"question {at % 3}", "x" * at) for at in range(1, 30)]
    scores = opened(server, batch=4).score(several, limit_s=20)
    assert scores.logits == tuple(range(1, 30))
    assert {len(body["texts"]) for body in server.requests} == {4, 1, 2}
    assert len(server.requests) == 9, "10, 10 and 9 passages: three requests each"


def test_declared_pieces_limit_question_and_passage_together(server: ChatServer) -> None:
    opened(server, max_pieces=6).score([("a b c d e f", "a b c d e f")], limit_s=20)
    (body,) = server.requests
    assert (body["query"], body["texts"]) == ("a b c ", ["a b c "])


def scored(*rows: dict[str, object]) -> Answer:
    return sends(200, json.dumps(rows).encode())


WRONG: dict[str, tuple[Answer, str]] = {
    "too few": (scored({"index": 0, "score": 1}), "2 rows expected, 1 given, with 1 distinct indexes"),
    "an index twice": (
        scored({"index": 0, "score": 1}, {"index": 0, "score": 1}),
        "2 rows expected, 2 given, with 1 distinct indexes",
    ),
    "a text": (scored({"index": 0, "score": TEXT}, {"index": 1, "score": 1}), "no list of scores"),
    "no score": (scored({"index": 0}, {"index": 1}), "no list of scores"),
    "another JSON": (sends(200, f'"{TEXT} {SECRET}"'.encode()), "no list of scores"),
    "too much": (sends(200, b" " * 8_000_001), "more than 8,000,000 bytes"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_answer_is_refused(server: ChatServer, case: str) -> None:
    server.answer, why = WRONG[case]
    with pytest.raises(InvalidAnswer) as raised:
        opened(server).score(pairs(TEXT, "c"), limit_s=20)
    assert raised.value.detail.startswith("tiny at 127.0.0.1:")
    assert raised.value.detail.endswith(why)
    assert_nothing_quoted(raised.value)


def assert_nothing_quoted(failure: StageFailure) -> None:
    whole = repr([failure, failure.__cause__, failure.detail])
    assert TEXT not in whole
    assert SECRET not in whole


def test_a_slow_endpoint_costs_only_the_limit_and_its_pairs_have_no_score(server: ChatServer) -> None:
    server.then = [after(30, lengths)]
    assert opened(server).score(pairs("b", "c"), limit_s=0.3) == PairScores((None, None), 2)


def test_the_pairs_of_the_question_that_is_answered_in_time_have_scores(server: ChatServer) -> None:
    def slow_for_one(handler: Handler, body: dict[str, Any]) -> None:
        (after(30, lengths) if body["query"] == "slow" else lengths)(handler, body)

    server.answer = slow_for_one
    pairs = [("quick", "ab"), ("slow", "ab"), ("quick", "abc")]
    assert opened(server).score(pairs, limit_s=1.5) == PairScores((2, None, 3), 3)


def test_after_a_late_call_fewer_pairs_are_sent_and_later_more_again(server: ChatServer) -> None:
    reranker, many = opened(server), pairs(*"abcdefgh")
    assert reranker.most(1) >= 1_000
    server.then = [after(30, lengths)]
    assert reranker.score(many, limit_s=0.2).chosen == 8
    assert reranker.most(1) == 4
    # Of those that are sent, one may have no text.
    assert reranker.score(many[:3], limit_s=20) == PairScores((1, 1, 1), 3)
    assert reranker.most(1) == 6
    assert reranker.score(many, limit_s=20) == PairScores((*(1,) * 6, None, None), 6)
    assert reranker.most(1) == 12
    reranker.score(many[:2], limit_s=20)
    assert reranker.most(1) == 12, "two pairs say nothing about twelve"


def relevances(*scores: float) -> Answer:
    """Scores the passages of a request in Jina's form, the first passage with the first of `scores`."""

    def answer(handler: Handler, body: dict[str, Any]) -> None:
        rows = [
            {"index": at, "relevance_score": score}
            for at, (score, _) in enumerate(zip(scores, body["documents"], strict=False))
        ]
        handler.send(200, json.dumps({"results": rows}).encode())

    return answer


@pytest.mark.parametrize("api", ["cohere", "jina"])
def test_scores_outside_0_to_1_are_logits_and_from_then_on_all_are(server: ChatServer, api: str) -> None:
    reranker = opened(server, api=api, batch=2)
    logits = (7.74, -2.34, 0.4, 0.6)
    server.then = [relevances(*logits[:2]), relevances(*logits[2:])]
    # The second request of this call has none outside 0 to 1.
    assert sorted(filter(None, reranker.score(pairs(*"bcde"), limit_s=20).logits)) == sorted(logits)
    server.answer = relevances(0.4, 0.6)
    assert reranker.score(pairs("b", "c"), limit_s=20).logits == (0.4, 0.6)


def test_warming_distinguishes_logits_from_probabilities_by_two_pairs_once(server: ChatServer) -> None:
    reranker = opened(server, api="jina")
    reranker.fetch()
    assert server.requests == []
    server.then = [relevances(8.6, -11.2)]
    reranker.warm()
    reranker.warm()
    assert len(server.requests) == 1
    server.answer = relevances(0.4, 0.6)
    assert reranker.score(pairs("b", "c"), limit_s=20).logits == (0.4, 0.6)
    # A rounding error is no logit.
    reranker = opened(server, api="jina")
    server.answer = relevances(1.0000001, 0.5)
    reranker.warm()
    assert reranker.score(pairs("b", "c"), limit_s=20).logits == pytest.approx(
        (math.log(0.999999 / 1e-6), 0.0)
    )


def test_an_endpoint_that_is_away_is_a_missing_model_and_one_that_refuses_is_not_configured(
    server: ChatServer,
) -> None:
    with pytest.raises(ModelMissing, match="cannot be reached"):
        opened(server, url="http://127.0.0.1:9").warm()
    with pytest.raises(StoreUnavailable):
        opened(server, url="http://127.0.0.1:9").score(pairs("b"), limit_s=5)
    for status in (401, 404, 422):
        server.answer = sends(status, json.dumps({"error": f"{TEXT} {SECRET}"}).encode())
        with pytest.raises(NotConfigured, match=f"HTTP {status}$") as raised:
            opened(server).warm()
        assert_nothing_quoted(raised.value)


def test_the_fingerprint_needs_no_endpoint_and_names_protocol_and_model() -> None:
    def mark(name: str = "tiny", **settings: Any) -> str:
        return load_reranker(
            name, backend="endpoint", **{"url": "http://127.0.0.1:9", **settings}
        ).fingerprint

    assert mark() == mark(url="http://elsewhere.example", api_key="key", batch=1)
    assert len({mark(), mark("other"), mark(api="jina")}) == 3
    with pytest.raises(WrongDeclaration, match="'voyage'; there are: tei, cohere, jina"):
        mark(api="voyage")
