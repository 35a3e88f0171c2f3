"""Asked for one of many versions, days or part numbers, the answer begins with the document that has it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from datetime import date, timedelta

import pytest

from tests.support.pipelines.pipeline import RunningPipeline

pytestmark = pytest.mark.slow

SENTENCES = (
    "Release notes say that {} mends the printing of invoices.",
    "The old one, {}, is still on some machines.",
    "See the note on {} before you begin.",
    "The team spoke about {} at lunch.",
    "Somebody asked why {} is in the list.",
)
NAMES = ("User", "Order", "Price", "Cart", "Mail", "File", "Token", "Page")
CORPORA = {
    "versions": [f"{major}.{minor}.{patch}" for major in (1, 2) for minor in range(11) for patch in range(4)],
    "hosts": [f"10.0.{net}.{host}" for net in range(4) for host in range(1, 23)],
    "days": [(date(2024, 1, 1) + timedelta(days=2 * day)).isoformat() for day in range(88)],
    "times": [f"{minute // 60:02}:{minute % 60:02}" for minute in range(0, 1_320, 15)],
    "parts": [f"AB-{number}/{size}" for number in range(110, 132) for size in range(1, 5)],
    "prices": [f"${price // 100:,}.{price % 100:02}" for price in range(99_500, 143_500, 500)],
    "code": [f"{verb}{first}{then}" for verb in ("get", "set") for first in NAMES for then in NAMES[:6]],
}
QUESTIONS = ("{}", "what was said about {}?")


def sampled_questions(values: list[str], form: str) -> Iterator[tuple[str, str]]:
    """Questions with the document that is right."""
    for place in sorted(random.Random(4).sample(range(len(values)), 20)):
        yield form.format(values[place]), str(place)


@pytest.fixture(scope="module")
def corpora(pipeline: RunningPipeline) -> RunningPipeline:
    for name, values in CORPORA.items():
        texts = {
            str(place): ("", SENTENCES[place % len(SENTENCES)].format(value))
            for place, value in enumerate(values)
        }
        pipeline.index(texts, namespace=f"id-{name}")
    return pipeline


@pytest.mark.parametrize(("configuration", "least"), [("bm25", 0.95), ("scores", 0.95), ("rrf", 0.9)])
def test_the_document_with_the_identifier_is_first(
    corpora: RunningPipeline, configuration: str, least: float
) -> None:
    shares = {}
    with closing(corpora.client()) as client:
        for name, values in CORPORA.items():
            for form in QUESTIONS:
                questions = dict(sampled_questions(values, form))
                answer = client.retrieve(
                    list(questions),
                    namespace=f"id-{name}",
                    configuration=configuration,
                    timeout_s=60,
                    top_k=1,
                    cache="bypass",
                )
                right = zip(answer.questions, questions.values(), strict=True)
                first = [bool(one.hits) and one.hits[0].document_id == place for one, place in right]
                shares[name, form] = sum(first) / len(first)
    assert all(share >= least for share in shares.values()), shares
