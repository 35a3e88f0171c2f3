"""A language model over real HTTP: its texts, and all its failures."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from inference.language_models import chat_model
from inference.language_models.chat_model import (
    ATTEMPTS,
    MAX_ANSWER_BYTES,
    MAX_TEXT_CHARS,
    PARALLEL,
    ChatModel,
)
from inference.language_models.openai_expander import OpenAiExpander
from inference.language_models.openai_generator import OpenAiGenerator
from models.errors import (
    Declined,
    InvalidAnswer,
    NotConfigured,
    StageFailure,
    StoreTimeout,
    StoreUnavailable,
    Unauthorised,
)
from models.written_texts import SomeTexts
from tests.support.servers.chat_server import (
    Answer,
    ChatServer,
    Handler,
    after,
    cut_off,
    drips,
    drips_headers,
    pours,
    says,
    sends,
)
from tests.support.waiting import until

SECRET = "sk-very-secret"
ANSWER = "A passage that answers the question."
NEVER = f"Mon, 01 Jan {10**20} 00:00:00 GMT"
"""A date that no clock reaches."""


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


def failure(chat: ChatModel, *, timeout_s: float = 20) -> StageFailure:
    (found,) = chat.complete(["?"], timeout_s=timeout_s)
    assert isinstance(found, StageFailure), found
    return found


@contextmanager
def opened(url: str, *, api_key: str | None = None, **options: Any) -> Iterator[ChatModel]:
    settings: dict[str, Any] = {"model": "tiny", "temperature": 0, "max_tokens": 0, **options}
    model = ChatModel(url=url, api_key=api_key, **settings)
    yield model
    model.close()


def test_each_question_gets_as_many_documents_as_are_asked_for(server: ChatServer, chat: ChatModel) -> None:
    server.answer = lambda handler, body: says(f"about {body['messages'][0]['content']}")(handler, body)
    generator = OpenAiGenerator(chat, prompt="Q: {question}", documents=3)
    assert generator.imagine(["tea", "a {question}"], timeout_s=20) == [
        ("about Q: tea",) * 3,
        ("about Q: a {question}",) * 3,
    ]


def test_the_request_contains_the_declared_options(server: ChatServer) -> None:
    server.forget()
    fields = {"temperature": 1, "reasoning_effort": "low"}
    with opened(f"{server.url}/?api-version=preview&tag=", temperature=0.5, fields=fields) as chat:
        assert chat.complete(["?"], timeout_s=20) == [ANSWER]
    message = {"role": "user", "content": "?"}
    assert server.requests == [{"model": "tiny", "messages": [message], **fields}]
    assert server.paths == ["/v1/chat/completions?api-version=preview&tag="]


@pytest.mark.parametrize("key", ["ours", None])
def test_key_headers_and_address_are_ours_whatever_the_environment_says(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    server.forget()
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("OPENAI_ORG_ID", "org")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "project")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", f"X-Other: {SECRET}\nAuthorization: other\nUser-Agent: other")
    with opened(server.url, api_key=key) as chat:
        assert chat.complete(["?"], timeout_s=20) == [ANSWER]
    (headers,) = server.headers
    assert int(headers.pop("content-length")) > 0
    assert headers == {
        "host": server.origin.removeprefix("http://"),
        "accept": "application/json",
        "accept-encoding": "identity",
        "content-type": "application/json",
        "user-agent": "chorale",
        **({"authorization": "Bearer ours"} if key else {}),
        "x-stainless-raw-response": "stream",
    }


def test_the_environment_s_proxy_is_used(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.forget()
    monkeypatch.setenv("HTTP_PROXY", server.url.removesuffix("/v1"))
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with opened("http://llm.example/v1") as chat:
        chat.complete(["?"], timeout_s=20)
    assert [headers["host"] for headers in server.headers] == ["llm.example"]


def test_a_redirect_is_not_followed(server: ChatServer, chat: ChatModel) -> None:
    server.then = [sends(307, location=f"{server.url}/chat/completions")]
    found = failure(chat)
    assert type(found) is NotConfigured
    assert found.detail.endswith(
        "HTTP 307: redirects are not followed; declare the url that this one leads to"
    )
    assert len(server.requests) == 1


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
    ended = threading.Event()

    def answer_and_note_the_end(handler: Handler, body: dict[str, Any]) -> None:
        answer(handler, body)
        ended.set()

    server.answer = answer_and_note_the_end
    # The last ones are never sent.
    found = chat.complete(["?"] * (PARALLEL + 1), timeout_s=0.3)
    assert not ended.is_set(), "the call waited for the endpoint"
    for one in found:
        assert isinstance(one, StoreTimeout)
        assert one.detail.endswith("no answer within 0.30 s")


def test_the_endpoint_s_message_about_a_wrong_request_is_shown_without_the_key(
    server: ChatServer, chat: ChatModel
) -> None:
    said = {"error": {"message": f"no model tiny for {SECRET}"}}
    server.answer = sends(404, json.dumps(said).encode())
    assert failure(chat).detail.endswith("HTTP 404: no model tiny for ***")


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (400, {"error": "the context is too long"}, "the context is too long"),
        (400, {"detail": "max_tokens is too large"}, "max_tokens is too large"),
        (402, {"error": {"message": f"no credits for {SECRET}"}}, "no credits for ***"),
        (
            429,
            {"error": {"message": "the quota is spent", "code": "insufficient_quota"}},
            "the quota is spent",
        ),
    ],
)
def test_an_endpoints_message_is_shown_in_any_format(
    server: ChatServer, chat: ChatModel, status: int, body: object, said: str
) -> None:
    server.answer = sends(status, json.dumps(body).encode(), retry_after="30")
    assert failure(chat).detail.endswith(f"HTTP {status}: {said}")


def test_a_message_about_the_key_is_not_shown(server: ChatServer, chat: ChatModel) -> None:
    # Endpoints quote part of the key.
    server.answer = sends(401, json.dumps({"error": {"message": f"wrong key {SECRET[:8]}***"}}).encode())
    assert failure(chat).detail.endswith("HTTP 401")


def test_a_cut_message_contains_no_part_of_the_key(server: ChatServer, chat: ChatModel) -> None:
    # 200 characters are shown; they would include ten of the key.
    server.answer = sends(400, json.dumps({"error": {"message": "x" * 190 + SECRET}}).encode())
    assert failure(chat).detail.endswith("HTTP 400: " + "x" * 190 + "***")


def test_an_endless_error_is_read_only_up_to_the_limit_of_an_answer(
    server: ChatServer, chat: ChatModel
) -> None:
    sent: list[int] = []
    server.then = [pours(500, 200 * MAX_ANSWER_BYTES, sent)] * ATTEMPTS
    assert failure(chat, timeout_s=20).detail.endswith("HTTP 500")
    # The system buffers a few megabytes.
    assert max(sent) < 20 * MAX_ANSWER_BYTES


def test_a_key_with_characters_invalid_in_a_header_is_not_shown(server: ChatServer) -> None:
    with opened(server.url, api_key=f"{SECRET}\n€") as chat:
        assert SECRET not in failure(chat).detail


@pytest.mark.slow
def test_an_address_without_a_server_is_unavailable() -> None:
    with opened("http://127.0.0.1:9/v1") as chat:
        assert type(failure(chat)) is StoreUnavailable


@pytest.mark.parametrize(
    "first", [sends(429, retry_after="0.1"), sends(429, retry_after=NEVER), sends(500), cut_off]
)
def test_temporary_failures_are_retried(server: ChatServer, chat: ChatModel, first: Answer) -> None:
    server.then = [first]
    assert chat.complete(["?"], timeout_s=20) == [ANSWER]
    assert len(server.requests) == 2


@pytest.mark.parametrize("answer", [sends(401), sends(200, b"no"), sends(429, retry_after="30")])
def test_a_retry_that_would_come_too_late_is_not_made(
    server: ChatServer, chat: ChatModel, answer: Answer
) -> None:
    server.answer = answer
    failure(chat, timeout_s=5)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("answer", "kind", "says_why"),
    [
        (after(3, says("too late")), StoreTimeout, "no answer within 1.00 s"),
        (sends(401), Unauthorised, "HTTP 401"),
    ],
)
def test_documents_that_came_are_used_and_the_failure_of_the_others_is_reported(
    server: ChatServer, chat: ChatModel, answer: Answer, kind: type[StageFailure], says_why: str
) -> None:
    server.then = [answer]
    (found,) = OpenAiGenerator(chat, prompt="{question}", documents=3).imagine(["?"], timeout_s=1)
    assert isinstance(found, SomeTexts)
    assert found.texts == (ANSWER,) * 2
    assert type(found.failure) is kind
    where = server.origin.removeprefix("http://")
    assert found.failure.detail == f"2 of 3 documents: tiny at {where}: {says_why}"


def test_all_documents_are_asked_for_at_the_same_time(server: ChatServer, chat: ChatModel) -> None:
    together = threading.Barrier(16)

    def waits_for_all(handler: Any, body: dict[str, Any]) -> None:
        together.wait(timeout=5)
        says("with all others")(handler, body)

    server.answer = waits_for_all
    found = OpenAiGenerator(chat, prompt="{question}", documents=16).imagine(["?"], timeout_s=10)
    assert found == [("with all others",) * 16]


@pytest.mark.slow
def test_the_number_of_prompts_in_flight_is_limited(server: ChatServer, chat: ChatModel) -> None:
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
        time.sleep(0.3)  # for those that would be too many
        with lock:
            out -= 1
        says("counted")(handler, body)

    server.answer = counts
    assert chat.complete(["?"] * (PARALLEL + 8), timeout_s=20) == ["counted"] * (PARALLEL + 8)
    assert most == PARALLEL


def test_a_body_that_stalls_is_a_timeout_although_the_caller_wakes_late(
    server: ChatServer, chat: ChatModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stalls(handler: Handler, _: dict[str, Any]) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        time.sleep(1)

    monkeypatch.setattr(chat_model, "wait", lambda jobs, timeout: wait(jobs, timeout + 5))
    server.answer = stalls
    assert isinstance(failure(chat, timeout_s=0.3), StoreTimeout)


def test_prompts_are_answered_after_others_hung(server: ChatServer, chat: ChatModel) -> None:
    server.answer = drips_headers
    chat.complete(["?"] * PARALLEL, timeout_s=0.3)
    server.answer = says("well again")
    assert chat.complete(["?"], timeout_s=20) == ["well again"]


def test_a_call_that_hangs_is_ended(server: ChatServer, chat: ChatModel) -> None:
    server.answer = functools.partial(drips_headers, seconds=30)
    chat.complete(["?"] * 4, timeout_s=0.3)
    until(lambda: not any(thread.name.startswith("chat") for thread in threading.enumerate()))


ENDS_WHEN_IT_IS_TOLD = """
import signal, sys
from inference.language_models.chat_model import ChatModel

signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
ChatModel(url=sys.argv[1], model="tiny", api_key=None, temperature=0, max_tokens=0).complete(["?"], timeout_s=60)
"""


@pytest.mark.slow
def test_a_call_that_hangs_does_not_keep_the_process_alive(server: ChatServer) -> None:
    server.forget()
    server.answer = functools.partial(drips_headers, seconds=60)
    asks = [sys.executable, "-c", ENDS_WHEN_IT_IS_TOLD, server.url]
    with subprocess.Popen(asks, cwd=Path(__file__).parents[3], stderr=subprocess.PIPE, text=True) as process:
        try:
            until(lambda: server.requests)
            process.terminate()
            assert process.communicate(timeout=20)[1].strip() == "ended"
        finally:
            process.kill()


def test_a_text_of_100_000_characters_is_cut_to_the_limit_of_a_document(
    server: ChatServer, chat: ChatModel
) -> None:
    server.answer = says("x" * 100_000)
    assert chat.complete(["?"], timeout_s=20) == ["x" * MAX_TEXT_CHARS]


@pytest.mark.parametrize(
    "written",
    [
        "<think>What\ncould it be?</think>\n\nA passage.",
        "What could it be?</think>A passage.",  # opened by the model's template
        "<think>One.</think>Two.</think> A passage.",
    ],
)
def test_a_models_thoughts_are_removed_from_its_text(
    server: ChatServer, chat: ChatModel, written: str
) -> None:
    server.answer = says(written)
    assert chat.complete(["?"], timeout_s=20) == ["A passage."]


@pytest.mark.parametrize(
    ("choice", "says_what"),
    [
        (
            {"message": {"content": "<think>\nOkay, they ask"}, "finish_reason": "length"},
            "thoughts without an end, cut at max_tokens 64: raise max_tokens, or lower the model's reasoning "
            "by `fields`",
        ),
        ({"message": {"content": '<think>{"keyword": "tea"}'}}, "thoughts without an end"),
        (
            {"message": {"content": "", "reasoning_content": "Okay"}, "finish_reason": "length"},
            "an empty text, cut at max_tokens 64: raise max_tokens, or lower the model's reasoning by `fields`",
        ),
        ({"message": {"content": None}, "finish_reason": "tool_calls"}, "an empty text (tool_calls)"),
    ],
)
def test_an_answer_of_only_thoughts_is_invalid_and_the_error_says_what_to_do(
    server: ChatServer, chat: ChatModel, choice: dict[str, Any], says_what: str
) -> None:
    server.answer = sends(200, json.dumps({"choices": [choice]}).encode())
    found = failure(chat)
    assert type(found) is InvalidAnswer
    assert found.detail.endswith(f": {says_what}")
    (expansion,) = OpenAiExpander(chat, kinds=("keyword",)).expand(["tea"], timeout_s=20)
    assert repr(expansion) == repr(found)


@pytest.mark.parametrize(
    ("choice", "says_why"),
    [
        ({"message": {"content": "I"}, "finish_reason": "content_filter"}, "content_filter"),
        ({"message": {"content": None}, "finish_reason": "content_filter"}, "content_filter"),
        (
            {
                "message": {"content": None, "refusal": f"I cannot help with {SECRET}."},
                "finish_reason": "stop",
            },
            "I cannot help with ***.",
        ),
    ],
)
def test_a_model_that_declines_the_question_says_why(
    server: ChatServer, chat: ChatModel, choice: dict[str, Any], says_why: str
) -> None:
    server.answer = sends(200, json.dumps({"choices": [choice]}).encode())
    found = failure(chat)
    assert type(found) is Declined
    assert found.detail.endswith(f": the question was declined: {says_why}")


@pytest.mark.parametrize(
    "written",
    [
        '{"keyword": "tea leaves", "entity": ""}',
        '```json\n{"keyword": ["tea", "leaves", 7], "entity": null, "semantic": "?"}\n```',
    ],
)
def test_an_expansion_has_one_text_for_each_kind(server: ChatServer, chat: ChatModel, written: str) -> None:
    server.answer = says(written)
    expander = OpenAiExpander(chat, kinds=("keyword", "entity"))
    assert expander.expand(["what is tea"], timeout_s=20) == [("tea leaves", "")]


@pytest.mark.parametrize("written", ["tea", "} {", "{tea}", '{"semantic": "tea"}', '{"keyword": 7}'])
def test_an_expansion_that_cannot_be_read_is_invalid(
    server: ChatServer, chat: ChatModel, written: str
) -> None:
    server.answer = says(written)
    (found,) = OpenAiExpander(chat, kinds=("keyword", "entity")).expand(["tea"], timeout_s=20)
    assert isinstance(found, InvalidAnswer)
