"""A hundred questions that want to break something: every one is answered, in its own namespace."""

from __future__ import annotations

import random
import string

import pytest

from tests.support.pipelines.one_process import OneProcess

ALPHABETS = [
    "абвгдеёжз",
    "αβγδεζηθ",
    "אבגדהוזח",
    "一丁七万丈三上下",
    "あいうえおカキク",
    "한국어조선말",
    "अआइईउऊ",
    "🙂🚀👩\u200d👩\u200d👧",
]
OPERATORS = [*'"+-*~^:()[]{}/\\<', "AND", "OR", "NOT", "title:"]
WORDS = [*OPERATORS, "bread", "secret", "notice"]
FIXED = [
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


def hostile_questions(count: int) -> list[str]:
    chance = random.Random(7)
    kinds = [
        lambda: " ".join(chance.choices(WORDS, k=chance.randint(1, 30))),
        lambda: "".join(chance.choices(chance.choice(ALPHABETS), k=chance.randint(1, 200))),
        lambda: "".join(chr(chance.randrange(1, 0xD7FF)) for _ in range(chance.randint(1, 100))),
        lambda: "".join(chance.choices(string.printable, k=chance.randint(1, 300))),
    ]
    return FIXED + [chance.choice(kinds)() for _ in range(count - len(FIXED))]


@pytest.mark.slow
def test_every_hostile_question_is_answered_from_its_own_namespace(here: OneProcess) -> None:
    secret = "The secret bread of another tenant: notice nothing."
    here.index({"guarded": ("Secret", secret)}, namespace="guarded")
    questions = hostile_questions(100)
    for start in range(0, 100, 50):
        some = questions[start : start + 50]
        answer = here.ask(some, timeout_s=60, cache="bypass", depth=100, top_k=50)
        assert answer.status == "complete", answer.degraded
        for question in answer.questions:
            assert question.status in ("complete", "skipped")
            assert "guarded" not in {hit.document_id for hit in question.hits}
