"""Five hundred questions that want to break something: every one is answered, in its own namespace."""

from __future__ import annotations

import random
import string

import pytest
from chorale_client import make_request

from tasks.request.retrieve import submit
from tests.support.pipelines.pipeline import RunningPipeline

ALPHABETS = (
    "абвгдеёжз",
    "αβγδεζηθ",
    "אבגדהוזח",
    "一丁七万丈三上下",
    "あいうえおカキク",
    "한국어조선말",
    "अआइईउऊ",
    "🙂🚀👩‍👩‍👧",
)
OPERATORS = (
    '"',
    "AND",
    "OR",
    "NOT",
    "+",
    "-",
    "*",
    "~",
    "^",
    ":",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "/",
    "\\",
    "title:",
    "<",
)


def hostile_questions(count: int) -> list[str]:
    chance = random.Random(7)
    fixed = [
        "",
        " \t\n",
        "(" * 8_192,
        "a" * 8_192,
        "\x00\x01\x02\x1b[31m bread",
        "bread \ud800 and \udfff",
        "' OR 1=1; DROP TABLE chorale_document; --",
        "namespace:other secret",
        "*",
        "..",
        "\u202e daerb",
        "e\u0301" * 1_000,
        "{" * 4_000,
        "bread " * 1_300,
    ]
    made = []
    for _ in range(count - len(fixed)):
        kind = chance.randrange(4)
        if kind == 0:
            made.append(
                " ".join(chance.choices((*OPERATORS, "bread", "secret", "notice"), k=chance.randint(1, 30)))
            )
        elif kind == 1:
            made.append("".join(chance.choices(chance.choice(ALPHABETS), k=chance.randint(1, 200))))
        elif kind == 2:
            made.append("".join(chr(chance.randrange(1, 0xD7FF)) for _ in range(chance.randint(1, 100))))
        else:
            made.append("".join(chance.choices(string.printable, k=chance.randint(1, 300))))
    return fixed + made


@pytest.mark.slow
def test_every_hostile_question_is_answered_from_its_own_namespace(pipeline: RunningPipeline) -> None:
    pipeline.index(
        {"guarded": ("Secret", "The secret bread of another tenant: notice nothing.")}, namespace="guarded"
    )
    questions = hostile_questions(500)
    client = pipeline.client()
    ids = []
    for start in range(0, 500, 50):
        request = make_request(
            questions[start : start + 50], timeout_s=60, cache="bypass", depth=100, top_k=50
        )
        ids.append(submit(pipeline.resources, pipeline.app.fanout, request))
    for request_id in ids:
        answer = client.answer(request_id, wait_s=60)
        assert answer.status == "complete", answer.degraded
        for question in answer.questions:
            assert question.status in ("complete", "skipped")
            assert "guarded" not in {hit.document_id for hit in question.hits}
    for name, process in pipeline.processes.items():
        assert process.poll() is None, f"{name} died"
