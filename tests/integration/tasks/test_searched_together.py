"""Parts of several requests that a worker searches together: each gets what it would have got alone."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from chorale_client import make_request
from chorale_client.request import Request
from chorale_client.words import WIRE_VERSION

from branches.kinds import bm25
from branches.part import Part
from cache.memory import MemoryCache
from ledger.protocol import Started
from models.envelope import Envelope
from models.errors import StoreUnavailable
from models.extensions import BranchKind
from models.hits import Ranking
from tasks.request.planning import resolve
from tasks.request.search_together import answer_parts
from tests.support.pipelines.pipeline import CORPUS, RunningPipeline
from tests.unit.fusion.builders import hit

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMESPACE = "together"


@pytest.fixture(scope="module", autouse=True)
def corpus(pipeline: RunningPipeline) -> None:
    pipeline.index(namespace=NAMESPACE)


def question(text: str, **options: Any) -> Request:
    return make_request(text, **{"namespace": NAMESPACE, **options})


def started(pipeline: RunningPipeline, request: Request, *, left_ms: int = 20_000) -> Started:
    plan = resolve(request, pipeline.resources.pipeline, accepted_at=NOW, generation=1, models={})
    return Started(left_ms, request.model_dump_json().encode(), plan.model_dump_json().encode(), 5, 1)


def forget_vectors(pipeline: RunningPipeline) -> None:
    pipeline.resources.questions._cache = MemoryCache(max_entries=1_000)


def found(envelope: Envelope) -> list[tuple[str, float]]:
    """Passages and scores, rounded: vectors of a batch differ from those of one question in the eighth decimal."""
    (ranking,) = envelope.rankings
    return [(hit.passage_id, round(hit.score, 4)) for hit in ranking.hits]


def with_kind(pipeline: RunningPipeline, monkeypatch: pytest.MonkeyPatch, bm25: BranchKind) -> None:
    declared = pipeline.resources.pipeline
    kinds = replace(declared.kinds, branches={**declared.kinds.branches, "bm25": bm25})
    monkeypatch.setattr(pipeline.resources, "pipeline", replace(declared, kinds=kinds))


@pytest.fixture
def searches(pipeline: RunningPipeline, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The texts of each search of bm25; a text with `poison` raises, and one with `away` says that the store is."""
    seen: list[list[str]] = []

    def search(part: Part) -> list[Ranking]:
        seen.append(part.texts)
        if any("poison" in text for text in part.texts):
            raise RuntimeError("the disk is on fire")
        if any("away" in text for text in part.texts):
            raise StoreUnavailable("nobody answers")
        return bm25.search_bm25(part)

    kind = pipeline.resources.pipeline.kinds.branches["bm25"]
    with_kind(pipeline, monkeypatch, replace(kind, search=search))
    return seen


def answered(pipeline: RunningPipeline, parts: Sequence[tuple[str, Started]]) -> list[Envelope]:
    return answer_parts(pipeline.resources, [(*one, WIRE_VERSION) for one in parts])


def ask(pipeline: RunningPipeline, *texts: str, branch: str = "bm25", **options: Any) -> list[Envelope]:
    parts = [(branch, started(pipeline, question(text, **options))) for text in texts]
    return answered(pipeline, parts)


@pytest.mark.slow
def test_a_question_has_the_same_ranking_alone_and_in_any_company(pipeline: RunningPipeline) -> None:
    words = sorted({word for title, text in CORPUS.values() for word in f"{title} {text}".lower().split()})
    chance = random.Random(12)
    texts = [" ".join(chance.sample(words, chance.randint(1, 8))) for _ in range(200)]
    for branch in ("bm25", "vector", "hyde"):
        requests = [started(pipeline, question(text)) for text in texts]
        forget_vectors(pipeline)
        alone = [answered(pipeline, [(branch, one)])[0] for one in requests]
        forget_vectors(pipeline)
        order = chance.sample(range(200), 200)
        together: dict[int, Envelope] = {}
        while order:
            company, order = order[: (size := chance.randint(1, 8))], order[size:]
            now = answered(pipeline, [(branch, requests[at]) for at in company])
            together |= zip(company, now, strict=True)
        assert {one.status for one in alone} <= {"ok", "empty"}
        for at, one in enumerate(alone):
            assert found(together[at]) == found(one), texts[at]


def test_parts_that_are_alike_are_one_search(pipeline: RunningPipeline, searches: list[list[str]]) -> None:
    envelopes = ask(pipeline, "bread", "repairs", "ERR-4711")
    assert searches == [["bread", "repairs", "ERR-4711"]]
    assert [found(one)[0][0] for one in envelopes] == ["bread#0", "repairs#0", "error#0"]
    assert [one.stages[-1].n_in for one in envelopes] == [1, 1, 1]
    assert {note.n_in for one in envelopes for note in one.stages} == {1}


@pytest.mark.parametrize(
    "other",
    [
        {"filters": {"source": "tests"}},
        {"exclude_ids": ["bread"]},
        {"depth": 7},
        {"fuse_by": "passage"},
        {"namespace": "elsewhere"},
    ],
    ids=lambda other: next(iter(other)),
)
def test_parts_that_differ_are_searched_apart(
    pipeline: RunningPipeline, searches: list[list[str]], other: dict[str, Any]
) -> None:
    parts = [
        ("bm25", started(pipeline, question("bread"))),
        ("bm25", started(pipeline, question("repairs", **other))),
    ]
    answered(pipeline, parts)
    # A namespace that does not exist fails before it is searched.
    assert sorted(searches) == ([["bread"]] if "namespace" in other else [["bread"], ["repairs"]])


def test_a_part_that_raises_fails_alone(pipeline: RunningPipeline, searches: list[list[str]]) -> None:
    envelopes = ask(pipeline, "bread", "poison", "repairs")
    assert [one.status for one in envelopes] == ["ok", "failed", "ok"]
    assert (envelopes[1].reason, envelopes[1].detail) == ("error", "RuntimeError: the disk is on fire")
    assert searches == [["bread", "poison", "repairs"], ["bread"], ["poison"], ["repairs"]]


def test_a_second_search_that_fails_degrades_only_the_part_that_it_was_for(
    pipeline: RunningPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def search(part: Part) -> list[Ranking]:
        if not part.request.filters:
            raise StoreUnavailable("nobody answers")
        return [Ranking((hit("a"),)) if text == "bread" else Ranking() for text in part.texts]

    kind = pipeline.resources.pipeline.kinds.branches["bm25"]
    with_kind(pipeline, monkeypatch, replace(kind, search=search))
    bread, rice = ask(pipeline, "bread", "rice", filters={"year": 2024}, relax=["filters.year"])
    assert (bread.status, bread.degraded) == ("ok", ())
    assert (rice.status, [one.reason for one in rice.degraded]) == ("empty", ["unavailable"])


def test_a_store_that_is_away_is_asked_once_for_all(
    pipeline: RunningPipeline, searches: list[list[str]]
) -> None:
    envelopes = ask(pipeline, "away", "bread", "repairs")
    assert [(one.status, one.reason) for one in envelopes] == [("failed", "unavailable")] * 3
    assert searches == [["away", "bread", "repairs"]]


def test_a_part_after_its_limit_leaves_the_batch(
    pipeline: RunningPipeline, searches: list[list[str]]
) -> None:
    parts = [
        ("bm25", started(pipeline, question("bread"))),
        ("bm25", started(pipeline, question("repairs"), left_ms=-3)),
    ]
    envelopes = answered(pipeline, parts)
    assert [(one.status, one.reason) for one in envelopes] == [("ok", None), ("failed", "late")]
    assert searches == [["bread"]]


def test_a_part_with_little_time_left_is_searched_first_and_alone(
    pipeline: RunningPipeline, searches: list[list[str]]
) -> None:
    parts = [
        ("bm25", started(pipeline, question("bread"))),
        ("bm25", started(pipeline, question("repairs"), left_ms=90)),
        ("bm25", started(pipeline, question("ERR-4711"))),
    ]
    envelopes = answered(pipeline, parts)
    assert {one.status for one in envelopes} == {"ok"}
    assert searches == [["repairs"], ["bread", "ERR-4711"]]


def test_a_kind_that_does_not_merge_is_searched_for_each_request(
    pipeline: RunningPipeline, searches: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = pipeline.resources.pipeline.kinds.branches["bm25"]
    with_kind(pipeline, monkeypatch, replace(kind, merges=False))
    ask(pipeline, "bread", "repairs")
    assert searches == [["bread"], ["repairs"]]


def test_the_questions_of_two_dense_branches_are_embedded_once(
    pipeline: RunningPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded: list[list[str]] = []
    questions = pipeline.resources.questions
    model = questions._embedder

    class Counting:
        dimension = model.dimension

        def embed_questions(self, texts: Any) -> Any:
            embedded.append(list(texts))
            return model.embed_questions(texts)

    forget_vectors(pipeline)
    monkeypatch.setattr(questions, "_embedder", Counting())
    both = [
        (branch, started(pipeline, question(text)))
        for text in ("flour and salt", "a full disk")
        for branch in ("vector", "hyde")
    ]
    envelopes = answered(pipeline, both)
    assert {one.status for one in envelopes} == {"ok"}
    assert embedded == [["flour and salt", "a full disk"]]
