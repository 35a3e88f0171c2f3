"""A language model over real HTTP: what it writes, and every way in which it does not."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from inference.chat_model import MAX_TEXT_CHARS, ChatModel
from inference.openai_expander import OpenAiExpander
from inference.openai_generator import OpenAiGenerator
from models.errors import (
    InvalidAnswer,
    NotConfigured,
    StageFailure,
    StoreTimeout,
    StoreUnavailable,
    Unauthorised,
)
from tests.chat_server import Answer, ChatServer, after, cut_off, drips, drips_headers, says, sends

SECRET = "sk-very-secret"
ROOM_S = 1.0
NEVER = f"Mon, 01 Jan {10**20} 00:00:00 GMT"
"""A year that no clock has."""


@pytest.fixture(scope="module")
def server() -> Iterator[ChatServer]:
    with ChatServer() as started:
        yield started


@pytest.fixture
def chat(server: ChatServer) -> Iterator[ChatModel]:
    server.forget()
    model = ChatModel(url=server.url, model="tiny", api_key=SECRET, temperature=0.5, max_tokens=64)
    yield model
    model.close()


def failure(chat: ChatModel, *, timeout_s: float = 5) -> StageFailure:
    (found,) = chat.complete(["?"], timeout_s=timeout_s)
    assert isinstance(found, StageFailure), found
    return found


def test_each_question_gets_as_many_documents_as_are_asked_for(server: ChatServer, chat: ChatModel) -> None:
    server.answer = lambda handler, body: says(f"about {body['messages'][0]['content']}")(handler, body)
    generator = OpenAiGenerator(chat, prompt="Q: {question}", documents=3)
    assert generator.imagine(["tea", "a {question}"], timeout_s=5) == [
        ("about Q: tea",) * 3,
        ("about Q: a {question}",) * 3,
    ]


def test_the_request_says_what_was_declared(server: ChatServer) -> None:
    server.forget()
    chat = ChatModel(
        url=server.url,
        model="tiny",
        api_key=SECRET,
        temperature=0.5,
        max_tokens=0,
        fields={"temperature": 1, "reasoning_effort": "low"},
    )
    assert chat.complete(["?"], timeout_s=5) == ["A passage that answers the question."]
    assert server.requests == [
        {
            "model": "tiny",
            "messages": [{"role": "user", "content": "?"}],
            "temperature": 1,
            "reasoning_effort": "low",
        }
    ]
    assert server.keys == [f"Bearer {SECRET}"]
    chat.close()


def test_without_a_key_of_its_own_none_is_taken_from_the_environment(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.forget()
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    chat = ChatModel(url=server.url, model="tiny", api_key=None, temperature=0, max_tokens=0)
    chat.complete(["?"], timeout_s=5)
    assert SECRET not in str(server.keys)
    chat.close()


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        pytest.param(sends(401), Unauthorised, id="401"),
        pytest.param(sends(403), Unauthorised, id="403"),
        pytest.param(sends(404), NotConfigured, id="no such model"),
        pytest.param(sends(400), NotConfigured, id="400"),
        pytest.param(sends(429), StoreUnavailable, id="429"),
        pytest.param(sends(500), StoreUnavailable, id="500"),
        pytest.param(cut_off, StoreUnavailable, id="cut off"),
        pytest.param(sends(200, b"<html>hello</html>"), InvalidAnswer, id="not JSON"),
        pytest.param(sends(200, b'{"choices": []}'), InvalidAnswer, id="no choice"),
        pytest.param(sends(200, b'["x"]'), InvalidAnswer, id="another JSON"),
        pytest.param(sends(200, b"[" * 100_000), InvalidAnswer, id="nested for ever"),
        pytest.param(sends(200, b" " * 1_000_001), InvalidAnswer, id="more than a megabyte"),
        pytest.param(says(None), InvalidAnswer, id="no text"),
        pytest.param(says("<think>Hm.</think>\n"), InvalidAnswer, id="thoughts alone"),
    ],
)
def test_every_failure_has_its_reason_and_shows_no_key(
    server: ChatServer, chat: ChatModel, answer: Answer, kind: type[StageFailure]
) -> None:
    server.answer = answer
    found = failure(chat)
    assert type(found) is kind
    assert "tiny at 127.0.0.1:" in found.detail
    assert SECRET not in repr(found)


@pytest.mark.parametrize(
    "answer", [after(3, says("too late")), drips, drips_headers], ids=["slow", "drips", "drips headers"]
)
def test_a_slow_endpoint_costs_no_more_than_the_limit(
    server: ChatServer, chat: ChatModel, answer: Answer
) -> None:
    server.answer = answer
    began_s = time.monotonic()
    assert type(failure(chat, timeout_s=0.3)) is StoreTimeout
    assert time.monotonic() - began_s < 0.3 + ROOM_S


def test_what_the_endpoint_says_of_a_wrong_request_is_told_without_the_key(
    server: ChatServer, chat: ChatModel
) -> None:
    said = {"error": {"message": f"no model tiny for {SECRET}"}}
    server.answer = sends(404, json.dumps(said).encode())
    assert failure(chat).detail.endswith("HTTP 404: no model tiny for ***")


def test_a_key_that_no_header_can_hold_is_not_shown(server: ChatServer) -> None:
    chat = ChatModel(url=server.url, model="tiny", api_key=f"{SECRET}\n€", temperature=0, max_tokens=0)
    assert SECRET not in failure(chat).detail
    chat.close()


def test_nobody_at_the_address_is_unavailable() -> None:
    chat = ChatModel(url="http://127.0.0.1:9/v1", model="tiny", api_key=None, temperature=0, max_tokens=0)
    assert type(failure(chat)) is StoreUnavailable
    chat.close()


@pytest.mark.parametrize(
    "first", [sends(429, retry_after="0.1"), sends(429, retry_after=NEVER), sends(500), cut_off]
)
def test_what_can_pass_is_tried_again(server: ChatServer, chat: ChatModel, first: Answer) -> None:
    server.then = [first]
    assert chat.complete(["?"], timeout_s=5) == ["A passage that answers the question."]
    assert len(server.requests) == 2


@pytest.mark.parametrize("answer", [sends(401), sends(200, b"no"), sends(429, retry_after="30")])
def test_what_cannot_pass_in_time_is_not(server: ChatServer, chat: ChatModel, answer: Answer) -> None:
    server.answer = answer
    began_s = time.monotonic()
    failure(chat)
    assert len(server.requests) == 1
    assert time.monotonic() - began_s < ROOM_S


def test_the_documents_that_came_in_time_are_taken(server: ChatServer, chat: ChatModel) -> None:
    server.then = [after(3, says("too late"))]
    generator = OpenAiGenerator(chat, prompt="{question}", documents=3)
    assert generator.imagine(["?"], timeout_s=1) == [("A passage that answers the question.",) * 2]


def test_a_hundred_thousand_characters_are_cut_to_those_of_a_document(
    server: ChatServer, chat: ChatModel
) -> None:
    server.answer = says("x" * 100_000)
    assert chat.complete(["?"], timeout_s=5) == ["x" * MAX_TEXT_CHARS]


def test_a_models_thoughts_are_no_part_of_its_text(server: ChatServer, chat: ChatModel) -> None:
    server.answer = says("<think>What\ncould it be?</think>\n\nA passage.")
    assert chat.complete(["?"], timeout_s=5) == ["A passage."]


@pytest.mark.parametrize(
    "written",
    [
        '{"keyword": "tea leaves", "entity": ""}',
        '```json\n{"keyword": ["tea", "leaves", 7], "entity": null, "semantic": "?"}\n```',
    ],
)
def test_an_expansion_has_one_text_a_kind(server: ChatServer, chat: ChatModel, written: str) -> None:
    server.answer = says(written)
    expander = OpenAiExpander(chat, kinds=("keyword", "entity"))
    assert expander.expand(["what is tea"], timeout_s=5) == [("tea leaves", "")]


@pytest.mark.parametrize("written", ["tea", "} {", "{tea}", '{"semantic": "tea"}', '{"keyword": 7}'])
def test_an_expansion_that_cannot_be_read_is_invalid(
    server: ChatServer, chat: ChatModel, written: str
) -> None:
    server.answer = says(written)
    (found,) = OpenAiExpander(chat, kinds=("keyword", "entity")).expand(["tea"], timeout_s=5)
    assert isinstance(found, InvalidAnswer)
