"""A language model over real HTTP: its texts, and all its failures."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inference.endpoints.chat import MAX_ANSWER_BYTES, MAX_TEXT_CHARS, PARALLEL, ChatModel
from inference.endpoints.json_endpoint import ATTEMPTS
from inference.endpoints.language_models import OpenAiExpander, OpenAiGenerator
from models.declarations.extensions import PartialGeneration
from models.errors import (
    Declined,
    InvalidAnswer,
    NotConfigured,
    StageFailure,
    StoreTimeout,
    StoreUnavailable,
    Unauthorised,
)
from tests.contracts.outside_service import SECRET
from tests.support.servers.chat_server import (
    Answer,
    ChatServer,
    Handler,
    after,
    cut_off,
    drips_headers,
    pours,
    says,
    sends,
)
from tests.support.waiting import until

ANSWER = "A passage that answers the question."
NEVER = f"Mon, 01 Jan {10**20} 00:00:00 GMT"
"""A date that no clock reaches."""
RAISE = "cut at max_tokens 64: raise max_tokens, or lower the model's reasoning by `fields`"


@pytest.fixture
def server() -> Iterator[ChatServer]:
    # A server for each test: a request that its caller gave up may still arrive after the test has ended.
    with ChatServer() as server:
        yield server


@pytest.fixture
def chat(server: ChatServer) -> ChatModel:
    return opened(server.url, api_key=SECRET, temperature=0.5, max_tokens=64)


def opened(url: str, *, api_key: str | None = None, **options: Any) -> ChatModel:
    settings: dict[str, Any] = {"model": "tiny", "temperature": 0, "max_tokens": 0, **options}
    return ChatModel(url=url, api_key=api_key, **settings)


def failure(chat: ChatModel, *, timeout_s: float = 20) -> StageFailure:
    (failed,) = chat.complete(["?"], timeout_s=timeout_s)
    assert isinstance(failed, StageFailure), failed
    return failed


def refuses(status: int, error: object, **headers: str) -> Answer:
    return sends(status, json.dumps({"error": error}).encode(), **headers)


def chooses(content: str | None, end: str = "stop", **message: str) -> Answer:
    choice = {"message": {"content": content, **message}, "finish_reason": end}
    return sends(200, json.dumps({"choices": [choice]}).encode())


def test_each_question_gets_as_many_documents_as_are_asked_for(server: ChatServer, chat: ChatModel) -> None:
    server.answer = lambda handler, body: says(f"about {body['messages'][0]['content']}")(handler, body)
    generator = OpenAiGenerator(chat, prompt="Q: {question}", documents=3)
    documents = [("about Q: tea",) * 3, ("about Q: a {question}",) * 3]
    assert generator.imagine(["tea", "a {question}"], timeout_s=20) == documents


def test_what_is_no_passage_is_no_document(server: ChatServer, chat: ChatModel) -> None:
    generator = OpenAiGenerator(chat, prompt="{question}", documents=2)
    server.answer = says("I'm sorry, but I can't help with that request.")
    [declined] = generator.imagine(["tea"], timeout_s=20)
    assert type(declined) is Declined
    assert "declined" in declined.detail
    server.then = [says("tea " * 100), says("<thinking>Hm.</thinking>Tea is a drink.")]
    [partial] = generator.imagine(["tea"], timeout_s=20)
    assert isinstance(partial, PartialGeneration)
    assert partial.texts == ("Tea is a drink.",)
    assert partial.failure.detail == "1 of 2 documents: the same words again and again"


def test_the_request_contains_the_declared_options(server: ChatServer) -> None:
    fields = {"temperature": 1, "reasoning_effort": "low"}
    chat = opened(f"{server.url}/?api-version=preview&tag=", temperature=0.5, fields=fields)
    assert chat.complete(["?"], timeout_s=20) == [ANSWER]
    message = {"role": "user", "content": "?"}
    assert server.requests == [{"model": "tiny", "messages": [message], **fields}]
    assert server.paths == ["/v1/chat/completions?api-version=preview&tag="]


@pytest.mark.parametrize("key", ["ours", None])
def test_the_headers_name_the_key_and_nothing_of_this_machine(server: ChatServer, key: str | None) -> None:
    chat = opened(server.url, api_key=key)
    assert chat.complete(["?"], timeout_s=20) == [ANSWER]
    (received,) = server.headers
    assert int(received.pop("content-length")) > 0
    assert received == {
        "host": server.origin.removeprefix("http://"),
        "accept": "*/*",
        "accept-encoding": "identity",
        "connection": "keep-alive",
        "content-type": "application/json",
        "user-agent": "chorale",
        **({"authorization": "Bearer ours"} if key else {}),
    }


def test_the_environment_s_proxy_is_used(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", server.url.removesuffix("/v1"))
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    chat = opened("http://llm.example/v1")
    chat.complete(["?"], timeout_s=20)
    assert [headers["host"] for headers in server.headers] == ["llm.example"]


# What every endpoint does with a status stands in test_embedding_endpoint.py.
FAILURES: dict[str, tuple[Answer, type[StageFailure], str]] = {
    # Endpoints quote part of a wrong key.
    "part of the key": (refuses(401, f"wrong key {SECRET[:8]}***"), Unauthorised, "HTTP 401"),
    "a text": (refuses(400, "too long"), NotConfigured, "HTTP 400: too long"),
    "a detail": (sends(400, b'{"detail": "too large"}'), NotConfigured, "HTTP 400: too large"),
    "no such model": (refuses(404, {"message": f"no {SECRET}"}), NotConfigured, "HTTP 404: no ***"),
    # 200 characters are shown; they would include ten of the key.
    "a long text": (refuses(400, "x" * 190 + SECRET), NotConfigured, "HTTP 400: " + "x" * 190 + "***"),
    "402": (refuses(402, {"message": "no credits"}), StoreUnavailable, "HTTP 402: no credits"),
    "the quota is spent": (refuses(429, {"message": "spent"}), StoreUnavailable, "HTTP 429: spent"),
    "no choice": (sends(200, b'{"choices": []}'), InvalidAnswer, ""),
    "another JSON": (sends(200, b'["x"]'), InvalidAnswer, ""),
    "more than a megabyte": (sends(200, b" " * 1_000_001), InvalidAnswer, ""),
    "thoughts alone": (says("<think>Hm.</think>\n"), InvalidAnswer, ": an empty text"),
    "thoughts cut": (
        chooses("<think>\nOkay", "length"),
        InvalidAnswer,
        f": thoughts without an end, {RAISE}",
    ),
    "thoughts": (says('<think>{"keyword": "tea"}'), InvalidAnswer, ": thoughts without an end"),
    "an empty text": (chooses("", "length"), InvalidAnswer, f": an empty text, {RAISE}"),
    "no text": (chooses(None, "tool_calls"), InvalidAnswer, ": an empty text (tool_calls)"),
    "filtered": (chooses("I", "content_filter"), Declined, ": the question was declined: content_filter"),
    "refused": (chooses(None, refusal=f"Not {SECRET}."), Declined, ": the question was declined: Not ***."),
}


@pytest.mark.parametrize("case", FAILURES)
def test_each_failure_has_its_reason_and_shows_no_key(server: ChatServer, chat: ChatModel, case: str) -> None:
    server.answer, kind, says_why = FAILURES[case]
    failed = failure(chat)
    assert type(failed) is kind
    assert "tiny at 127.0.0.1:" in failed.detail
    assert failed.detail.endswith(says_why)
    assert SECRET not in repr(failed)


def test_a_slow_endpoint_costs_only_the_limit(server: ChatServer, chat: ChatModel) -> None:
    ended = threading.Event()

    def answer_and_note_the_end(handler: Handler, body: dict[str, Any]) -> None:
        after(30, says("too late"))(handler, body)
        ended.set()

    server.answer = answer_and_note_the_end
    # The last ones are never sent.
    answers = chat.complete(["?"] * (PARALLEL + 1), timeout_s=0.3)
    assert not ended.is_set(), "the call waited for the endpoint"
    for failed in answers:
        assert isinstance(failed, StoreTimeout)
        assert failed.detail.endswith("no answer within 0.30 s")


def test_an_endless_error_is_read_only_up_to_a_limit(server: ChatServer, chat: ChatModel) -> None:
    sent: list[int] = []
    server.then = [pours(500, 200 * MAX_ANSWER_BYTES, sent)] * ATTEMPTS
    assert failure(chat, timeout_s=20).detail.endswith("HTTP 500")
    # The system buffers a few megabytes.
    assert max(sent) < 20 * MAX_ANSWER_BYTES


def test_a_key_with_characters_invalid_in_a_header_is_not_shown(server: ChatServer) -> None:
    chat = opened(server.url, api_key=f"{SECRET}\n€")
    assert SECRET not in failure(chat).detail


@pytest.mark.parametrize(
    ("first", "attempts"),
    [
        (sends(429, retry_after="0.1"), 2),
        (sends(429, retry_after=NEVER), 2),
        (sends(500), 2),
        (cut_off, 2),
        (sends(429, retry_after="30"), 1),
        (sends(401), 1),
        (sends(200, b"no"), 1),
    ],
)
def test_temporary_failures_are_retried_unless_that_would_come_too_late(
    server: ChatServer, chat: ChatModel, first: Answer, attempts: int
) -> None:
    server.then = [first]
    (answer,) = chat.complete(["?"], timeout_s=20)
    assert (answer == ANSWER, len(server.requests)) == (attempts == 2, attempts)


def test_prompts_are_sent_at_the_same_time_but_not_too_many(server: ChatServer, chat: ChatModel) -> None:
    lock, full = threading.Lock(), threading.Event()
    out = most = 0

    def counts(handler: Any, body: dict[str, Any]) -> None:
        nonlocal out, most
        with lock:
            out += 1
            most = max(most, out)
            if out == PARALLEL:
                full.set()
        full.wait(timeout=5)
        time.sleep(0.1)  # for those that would be too many
        with lock:
            out -= 1
        says("counted")(handler, body)

    server.answer = counts
    assert chat.complete(["?"] * (PARALLEL + 8), timeout_s=20) == ["counted"] * (PARALLEL + 8)
    assert most == PARALLEL


def test_calls_that_hang_are_ended_and_later_ones_answered(server: ChatServer, chat: ChatModel) -> None:
    server.answer = functools.partial(drips_headers, seconds=30)
    chat.complete(["?"] * PARALLEL, timeout_s=0.3)
    server.answer = says("well again")
    assert chat.complete(["?"], timeout_s=20) == ["well again"]


ENDS_AT_SIGTERM = """
import signal, sys
from inference.endpoints.chat import ChatModel

signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
ChatModel(url=sys.argv[1], model="tiny", api_key=None, temperature=0, max_tokens=0).complete(["?"], timeout_s=60)
"""


@pytest.mark.slow
def test_a_call_that_hangs_does_not_keep_the_process_alive(server: ChatServer) -> None:
    server.answer = functools.partial(drips_headers, seconds=60)
    command = [sys.executable, "-c", ENDS_AT_SIGTERM, server.url]
    with subprocess.Popen(
        command, cwd=Path(__file__).parents[3], stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            until(lambda: server.requests)
            process.terminate()
            assert process.communicate(timeout=20)[1].strip() == "ended"
        finally:
            process.kill()


THOUGHTS = "<think>What\ncould it be?</think>\n\n"
THOUGHTS_OPENED_BY_THE_TEMPLATE = "What could it be?</think>"


@pytest.mark.parametrize(
    "before", [THOUGHTS, THOUGHTS_OPENED_BY_THE_TEMPLATE, "<think>One.</think>Two.</think> "]
)
def test_thoughts_are_removed_and_long_texts_cut(server: ChatServer, chat: ChatModel, before: str) -> None:
    server.answer = says(before + "x" * 100_000)
    assert chat.complete(["?"], timeout_s=20) == ["x" * MAX_TEXT_CHARS]


EXPANSIONS: dict[str, tuple[str, str] | None] = {
    '{"keyword": "tea leaves", "entity": ""}': ("tea leaves", ""),
    '```json\n{"keyword": ["tea", "leaves", 7], "entity": null, "semantic": "?"}\n```': ("tea leaves", ""),
    **dict.fromkeys(("tea", "<think>tea", "} {", "{tea}", '{"semantic": "tea"}', '{"keyword": 7}')),
}
"""The texts of both kinds by what the model wrote; None: it is unreadable."""


def test_an_expansion_has_one_text_for_each_kind_or_is_invalid(server: ChatServer, chat: ChatModel) -> None:
    expander = OpenAiExpander(chat, kinds=("keyword", "entity"))
    for written, expected in EXPANSIONS.items():
        server.answer = says(written)
        [expansion] = expander.expand(["what is tea"], timeout_s=20)
        assert isinstance(expansion, InvalidAnswer) if expected is None else expansion == expected, written
