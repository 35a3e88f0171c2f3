"""Two configurations over a file of questions: the page asks them once, and compares what the branches report."""

from __future__ import annotations

import json
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest
from chorale_client.errors import InvalidRequest

from console import questions_file
from console.questions_file import questions_in
from tests.integration.api.test_console_compare import QUESTIONS, page
from tests.integration.api.visitors import NOT_OPERATORS, token_of, visitor
from tests.support.servers.http_api import HttpApi
from tests.support.waiting import until

LINES = "\n\n".join(QUESTIONS).encode()


def ask(browser: httpx.Client, name: str, content: bytes, **fields: str) -> httpx.Response:
    form = {"token": token_of(browser), "namespace": "default", "a": "rrf", "b": "bm25", **fields}
    return browser.post("/console/compare", data=form, files={"file": (name, content)})


def test_the_questions_of_a_file_are_asked_in_few_requests_and_compared_once_these_have_ended(
    api: HttpApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions_file, "QUESTIONS_A_REQUEST", 2)
    with visitor(api, "file", scopes=NOT_OPERATORS) as browser:
        answer = ask(browser, "questions.txt", LINES)
        assert answer.status_code == 303, answer.text
        parameters = dict(parse_qsl(urlsplit(answer.headers["location"]).query))
        assert (parameters["a"], parameters["b"], parameters["awaited"]) == ("rrf", "bm25", "2")
        until(lambda: page(browser, **parameters)["requests"] == 2)
        assert page(browser, **parameters)["comparison"]["questions"] == len(QUESTIONS)
        assert page(browser, **{**parameters, "correlation_id": "another"})["requests"] == 0
        # The page that judges what settles it compares the same requests.
        assert page(browser, **parameters)["state"]["correlation_id"] == parameters["correlation_id"]
        ahead = browser.get("/console/compare", params={**parameters, "awaited": "3"}).text
        assert "This page looks again" in ahead
        assert "This page looks again" not in browser.get("/console/compare", params=parameters).text
    with visitor(api, "file-stranger", scopes=NOT_OPERATORS) as stranger:
        assert page(stranger, **parameters)["requests"] == 0
    reading = NOT_OPERATORS - {"search:run"}
    with visitor(api, "file", scopes=reading) as reader:
        assert "Ask a file of questions" not in reader.get("/console/compare").text
        assert ask(reader, "questions.txt", LINES).status_code == 403


def test_the_input_of_a_job_is_read_with_its_questions() -> None:
    lines = [
        {"text": "one"},
        {"id": "q2", "text": "two", "metadata": {"n": 2}},
        {"questions": [{"text": "three"}]},
    ]
    jsonl = "\n".join(map(json.dumps, lines)).encode()
    expected = [{"text": "one"}, {"text": "two"}, {"text": "three"}]
    assert list(questions_in("questions.jsonl", jsonl)) == expected
    assert list(questions_in("questions.csv", b"id,text\n1,one\n2,two\n3,three\n")) == expected
    assert list(questions_in("Questions.TXT", "\ufeffone\n\n two \nthree".encode())) == expected


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("questions.pdf", b"one", "format: the name 'questions.pdf' does not tell it; there are: jsonl, csv"),
        ("questions.jsonl", b'{"text": "one"}\n{"txt": "two"}', "file: line 2: "),
        (
            "questions.jsonl",
            b'{"text": "one", "top_k": 3}',
            "file: line 1: 'top_k': a line has a question alone",
        ),
        ("questions.txt", b"caf\xe9", "file: not UTF-8"),
    ],
)
def test_a_file_that_cannot_be_asked_is_refused_with_the_line(name: str, content: bytes, why: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        list(questions_in(name, content))
    assert why in str(error.value)


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({}, "file: choose one"),
        ({"file": ("questions.txt", b"\n")}, "file: 1 to 500 questions, not 0"),
        ({"file": ("questions.txt", b"one\n" * 501)}, "file: 1 to 500 questions, not 501"),
    ],
)
def test_no_question_and_too_many_are_refused(
    api: HttpApi, files: dict[str, tuple[str, bytes]], why: str
) -> None:
    with visitor(api, "file", scopes=NOT_OPERATORS) as browser:
        # Without a file httpx sends an ordinary form.
        answer = browser.post("/console/compare", data={"token": token_of(browser)}, files=files or None)
        assert (answer.status_code, why in answer.text) == (422, True), answer.text
