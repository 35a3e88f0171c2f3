"""Branches that ask a language model, with a real HTTP server in its place."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from chorale_client import Answer
from structlog.testing import capture_logs

from monitoring.exporter import render
from tests.integration.tasks.answers import ids, reasons
from tests.support.pipelines.one_process import OneProcess
from tests.support.pipelines.pipeline import CORPUS
from tests.support.pipelines.pipeline_files import LOCAL, branch
from tests.support.servers.chat_server import ChatServer, after, completion, says, sends
from tests.support.waiting import until

SECRET = "sk-of-the-tests"
BREAD = CORPUS["bread"][1]
DEPOSIT = "when is the deposit returned"
FAILURES_THAT_OPEN = 3

LATE = 'queue = "chorale.late"\n'


def hyde(name: str, model: str, options: str) -> str:
    more = f'{LATE}options = {{ generator = "openai", {model}, {options} }}'
    return branch(name, "dense", kind="hyde", more=more)


def pipeline_of(url: str) -> str:
    model = f'url = "{url}", model = "tiny"'
    expands = f'{LATE}options = {{ expansion = "openai", {model}'
    tables = [
        'default_configuration = "plain"',
        LOCAL,
        '[stores.away]\nkind = "http"',
        'options = { url = "http://127.0.0.1:9/search?q={question}", id = "id" }',
        branch("bm25", more=LATE),
        branch("vector", "dense", more=LATE),
        hyde("hyde", model, 'limit_s = 20, documents = 2, api_key_env = "KEY_OF_THE_TESTS"'),
        hyde("strict", model, 'limit_s = 20, documents = 1, fallback = "none"'),
        hyde("hurried", model, 'limit_s = 1, documents = 1, fallback = "none"'),
        hyde("unfed", model, 'documents = 1, feedback_store = "away"'),
        hyde("keyless", model, 'fallback = "none", api_key_env = "NO_SUCH_VARIABLE"'),
        branch("rewritten", kind="bm25", more=f"{expands}, replace = true }}"),
        branch("widened", "dense", kind="vector", more=f"{expands} }}"),
        '[configurations.plain]\nmethod = "rrf"\nbranches = ["bm25", "vector"]',
        '[configurations.all]\nmethod = "rrf"\ntimeout_s = 10.0',
    ]
    return "\n".join(tables)


@pytest.fixture(scope="module")
def server() -> Iterator[ChatServer]:
    with ChatServer() as started:
        yield started


@pytest.fixture(scope="module")
def running(server: ChatServer) -> Iterator[OneProcess]:
    environment = {"CHORALE_BREAKER_FAILURES": str(FAILURES_THAT_OPEN), "CHORALE_BREAKER_OPEN_S": "600"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KEY_OF_THE_TESTS", SECRET)
        with OneProcess.with_file(pipeline_of(server.url), environment=environment) as started:
            started.index()
            yield started


@pytest.fixture
def client(running: OneProcess, server: ChatServer) -> OneProcess:
    """The server answers as it did in the beginning, and no breaker has counted anything."""
    server.forget()
    if names := list(running.redis.scan_iter("chorale:breaker:*")):
        running.redis.delete(*names)
    return running


def ask(client: OneProcess, text: Any, *branches: str, **options: Any) -> Answer:
    return client.ask(text, **{"configuration": "all", "branches": branches, "cache": "bypass", **options})


def first(answer: Answer) -> str:
    return ids(answer)[0]


def found_by(answer: Answer) -> set[str]:
    return {name for hit in answer.hits for name in hit.found_by}


def stage(answer: Answer, name: str) -> tuple[str, str | None]:
    (line,) = [line for line in answer.stages if line.stage == name]
    return line.status, line.detail


def _lucky(handler: Any, body: dict[str, Any]) -> None:
    """Something is written about a crust alone."""
    text = body["messages"][0]["content"]
    (says(BREAD) if "crust" in text else sends(404))(handler, body)


def test_hyde_searches_with_the_vector_of_the_text_that_the_model_wrote(
    server: ChatServer, client: OneProcess
) -> None:
    server.answer = says(BREAD)
    answer = ask(client, "the thing from yesterday", "hyde")
    assert (answer.status, first(answer), stage(answer, "hypothesis")) == (
        "complete",
        "bread",
        ("ok", "openai"),
    )
    assert len(server.requests) == 2
    assert all("the thing from yesterday" in prompt for prompt in server.prompts)
    assert server.keys == [f"Bearer {SECRET}"] * 2


def test_a_model_is_not_asked_twice_for_the_same_question(server: ChatServer, client: OneProcess) -> None:
    answer = ask(client, "asked more than once", "hyde", cache="use")
    again = ask(client, "asked  more than once ", "hyde", cache="use", top_k=4)
    assert (answer.cached, again.cached, len(server.requests)) == (False, False, 2)


def test_the_model_is_not_asked_when_the_caller_gives_a_document_or_variants(
    server: ChatServer, client: OneProcess
) -> None:
    answer = ask(client, {"text": "the thing from today", "hypothetical_document": BREAD}, "hyde")
    assert (first(answer), stage(answer, "hypothesis")) == ("bread", ("ok", "given"))
    answer = ask(client, {"text": "what was it", "vector_query": "How is bread baked?"}, "widened")
    assert (first(answer), server.requests) == ("bread", [])


@pytest.mark.parametrize(("name", "status"), [("hyde", "ok"), ("strict", "skipped")])
def test_the_model_is_not_asked_about_an_identifier_and_the_answer_is_complete(
    server: ChatServer, client: OneProcess, name: str, status: str
) -> None:
    answer = ask(client, "ERR-4711", "bm25", name)
    assert (answer.status, first(answer), answer.degraded, server.requests) == ("complete", "error", (), [])
    stage_status, detail = stage(answer, "hypothesis")
    assert (stage_status, "rule: identifier-like" in str(detail)) == (status, True)


def test_the_model_is_not_asked_when_too_little_time_is_left(server: ChatServer, client: OneProcess) -> None:
    answer = ask(client, DEPOSIT, "bm25", "hyde", timeout_s=0.7)
    assert ("hypothesis", "budget") in reasons(answer)
    assert server.requests == []


def test_feedback_replaces_a_model_that_fails_and_the_answer_says_so(
    server: ChatServer, client: OneProcess
) -> None:
    server.answer = sends(401)
    answer = ask(client, DEPOSIT, "bm25", "hyde", cache="use")
    assert (answer.status, reasons(answer)) == ("degraded", [("hypothesis", "unauthorised")])
    assert "hyde" in answer.hits[0].found_by
    assert SECRET not in answer.model_dump_json()
    server.answer = says("The deposit is returned.")
    assert ask(client, DEPOSIT, "bm25", "hyde", cache="use").status == "complete"


def test_hyde_does_not_repeat_the_vector_branch_for_a_question_without_documents_or_passages(
    server: ChatServer, client: OneProcess
) -> None:
    server.answer = sends(401)
    assert found_by(ask(client, "xylophone zeppelin", "vector", "hyde")) == {"vector"}


def test_missing_documents_of_the_model_are_reported_and_the_others_are_used(
    server: ChatServer, client: OneProcess
) -> None:
    server.answer = says(BREAD)
    server.then = [sends(401)]
    answer = ask(client, "the thing from the day before", "hyde", cache="use")
    assert (answer.status, first(answer)) == ("degraded", "bread")
    assert reasons(answer) == [("hypothesis", "unauthorised")]
    where = server.origin.removeprefix("http://")
    assert answer.degraded[0].detail == (
        f"hyde: 1 of 2 documents: tiny at {where}: HTTP 401; the documents that came are used"
    )
    # Neither the answer nor its one document was kept.
    again = ask(client, "the thing from the day before", "hyde", cache="use")
    assert (again.status, again.cached, len(server.requests)) == ("complete", False, 4)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("strict", [("hypothesis", "not_configured")]),
        ("unfed", [("hypothesis", "not_configured"), ("hypothesis", "unavailable")]),
    ],
    ids=["without feedback", "feedback fails too"],
)
def test_only_questions_without_documents_are_left_out(
    server: ChatServer, client: OneProcess, name: str, expected: list[tuple[str, str]]
) -> None:
    server.answer = _lucky
    answer = ask(client, ["what has a crust and is eaten", "what has no luck"], name)
    assert [len(question.hits) > 0 for question in answer.questions] == [True, False]
    assert reasons(answer) == expected
    assert all(line.detail.endswith("; left out") for line in answer.degraded)


def test_the_branch_fails_when_both_the_model_and_feedback_fail(
    server: ChatServer, client: OneProcess
) -> None:
    server.answer = _lucky
    answer = ask(client, "what has no luck", "bm25", "unfed")
    assert reasons(answer) == [("search.unfed", "unavailable")]
    status, detail = stage(answer, "hypothesis")
    # `failed` would say that the model alone did, and no store was asked.
    assert status == "partial"
    assert "not_configured: tiny at " in str(detail)
    assert "; unavailable: " in str(detail)


@pytest.mark.parametrize(
    ("name", "model_answers", "reason", "said"),
    [
        ("strict", sends(200, b"<html>"), "invalid_answer", ""),
        ("hurried", after(4, says("too late")), "timeout", ""),
        ("rewritten", says("I would rather not."), "invalid_answer", ""),
        ("keyless", says("nobody asks"), "not_configured", "NO_SUCH_VARIABLE"),
    ],
    ids=["no answer of a model", "too late", "no rewrites", "a variable without the key"],
)
def test_a_branch_without_a_fallback_is_left_out_when_its_model_fails(
    server: ChatServer, client: OneProcess, name: str, model_answers: Any, reason: str, said: str
) -> None:
    server.answer = model_answers
    answer = ask(client, DEPOSIT, "bm25", name)
    assert (first(answer), reasons(answer)) == ("deposit", [(f"search.{name}", reason)])
    assert said in answer.degraded[0].detail
    assert found_by(answer) == {"bm25"}


@pytest.mark.parametrize("name", ["strict", "rewritten"])
def test_a_key_that_the_model_refuses_is_logged_as_an_error_of_the_model_and_not_of_the_store(
    server: ChatServer, client: OneProcess, name: str
) -> None:
    server.answer = sends(403)
    with capture_logs() as logged:
        answer = ask(client, DEPOSIT, "vector", name)
    assert reasons(answer) == [(f"search.{name}", "unauthorised")]
    errors = [(line["event"], line["branch"]) for line in logged if line["log_level"] == "error"]
    assert errors == [("language model refuses our key", name)]


def test_a_model_with_an_open_breaker_is_not_asked(server: ChatServer, client: OneProcess) -> None:
    server.answer = sends(403)

    def reasons_now() -> list[tuple[str, str]]:
        return reasons(ask(client, "is bread baked", "hyde"))

    assert [reasons_now() for _ in range(FAILURES_THAT_OPEN)] == [
        [("hypothesis", "unauthorised")]
    ] * FAILURES_THAT_OPEN
    # That all was well is believed for a moment more.
    until(lambda: reasons_now() == [("hypothesis", "breaker_open")])
    before = len(server.requests)
    assert reasons_now() == [("hypothesis", "breaker_open")]
    assert len(server.requests) == before


def test_questions_that_the_model_declines_open_no_breaker(server: ChatServer, client: OneProcess) -> None:
    declined = {"choices": [{"message": {"content": None}, "finish_reason": "content_filter"}]}
    declines = sends(200, json.dumps(declined).encode())
    server.answer = declines
    for _ in range(FAILURES_THAT_OPEN + 1):
        assert reasons(ask(client, "is bread baked", "hyde")) == [("hypothesis", "invalid_answer")]
    assert list(client.redis.scan_iter("chorale:breaker:*")) == []
    # One that failed does count, whatever the model said of another question.
    server.answer = lambda handler, body: (
        declines if "bread" in body["messages"][0]["content"] else sends(200, b"<html>")
    )(handler, body)
    ask(client, ["is bread baked", "is water wet"], "hyde")
    assert list(client.redis.scan_iter("chorale:breaker:*")) == [b"chorale:breaker:generator:hyde"]


def test_rewrites_replace_the_question(server: ChatServer, client: OneProcess) -> None:
    server.answer = says(json.dumps({"keyword": "deposit damage", "entity": "", "semantic": "?"}))
    answer = ask(client, "will they give me back what I paid", "rewritten")
    assert (answer.status, first(answer), stage(answer, "expand")) == (
        "complete",
        "deposit",
        ("ok", "openai"),
    )


def test_a_branch_that_also_searches_the_question_works_without_rewrites(
    server: ChatServer, client: OneProcess
) -> None:
    server.answer = says("I would rather not.")
    answer = ask(client, DEPOSIT, "widened")
    assert (first(answer), reasons(answer)) == ("deposit", [("expand", "invalid_answer")])


SEMANTIC = {"kind": "semantic", "text": "How is bread baked?", "replace": True}
KEYWORD = {"kind": "keyword", "text": "flour", "replace": True}


@pytest.mark.parametrize(
    ("question", "name", "document"),
    [
        ({"text": "what was it", "bm25_query": "flour yeast"}, "bm25", "bread"),
        ({"text": "what was it", "entity_query": "flour"}, "bm25", "bread"),
        ({"text": "deposit", "variants": [KEYWORD]}, "bm25", "bread"),
        ({"text": "the deposit", "variants": [SEMANTIC]}, "vector", "bread"),
        ({"text": "deposit", "variants": [SEMANTIC]}, "bm25", "deposit"),
    ],
    ids=["bm25_query", "entity_query", "keyword", "semantic", "of another kind"],
)
def test_a_variant_is_searched_by_branches_of_its_own_kind_alone(
    client: OneProcess, question: dict[str, Any], name: str, document: str
) -> None:
    assert first(ask(client, question, name)) == document


def test_no_process_wrote_the_key_into_redis(client: OneProcess) -> None:
    dumped = b"".join(client.redis.dump(key) or b"" for key in client.redis.scan_iter())
    assert SECRET.encode() not in dumped
    files = [file.read_bytes() for file in client.home.rglob("*") if file.is_file()]
    assert files
    assert not any(SECRET.encode() in content for content in files)


def test_the_tokens_of_a_branch_s_model_are_in_the_metrics(client: OneProcess, server: ChatServer) -> None:
    usage = b', "usage": {"prompt_tokens": 30, "completion_tokens": 12, "total_tokens": 42}}'
    server.answer = sends(200, completion(BREAD)[:-1] + usage)
    ask(client, "how long is bread baked", "hyde")
    ask(client, "how is a loaf baked", "rewritten")
    metrics = render(client.redis).decode()
    # The branch `hyde` asks for two documents.
    assert 'chorale_endpoint_tokens_total{name="hyde",role="generator"} 84.0' in metrics
    assert 'chorale_endpoint_tokens_total{name="rewritten",role="generator"} 42.0' in metrics
