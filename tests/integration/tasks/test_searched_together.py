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

from ledger.protocol import Started
from models.branch_result import BranchResult
from models.declarations.extensions import BranchKind
from models.errors import StoreUnavailable
from models.hits import Ranking
from tasks.branches.branch_task import BranchTask
from tasks.branches.searches import search_bm25
from tasks.request import batch
from tasks.request.batch import answer_parts
from tasks.request.planning.plans import resolve
from tasks.request.search import Part
from tests.support.pipelines.one_process import OneProcess
from tests.support.pipelines.pipeline import CORPUS

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMESPACE = "together"


@pytest.fixture(scope="module", autouse=True)
def corpus(here: OneProcess) -> None:
    here.index(namespace=NAMESPACE)


def question(text: str, **options: Any) -> Request:
    return make_request(text, **{"namespace": NAMESPACE, **options})


def started(here: OneProcess, request: Request, *, remaining_ms: int = 20_000) -> Started:
    plan = resolve(request, here.resources.pipeline, accepted_at=NOW, generation=1, models={})
    return Started(remaining_ms, request.model_dump_json().encode(), plan.to_json(), 5, 1)


def forget_vectors(here: OneProcess) -> None:
    here.resources.encoder.questions._vectors.clear()


def hits_of(branch_result: BranchResult) -> list[tuple[str, float]]:
    """Passages and scores, rounded: vectors of a batch differ from those of one question in the eighth decimal."""
    (ranking,) = branch_result.rankings
    return [(hit.passage_id, round(hit.score, 4)) for hit in ranking.hits]


def with_kind(here: OneProcess, monkeypatch: pytest.MonkeyPatch, bm25: BranchKind) -> None:
    declared = here.resources.pipeline
    kinds = replace(declared.kinds, branches={**declared.kinds.branches, "bm25": bm25})
    monkeypatch.setattr(here.resources, "pipeline", replace(declared, kinds=kinds))


@pytest.fixture
def searches(here: OneProcess, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The texts of each search of bm25; a text with `poison` raises, and one with `away` says that the store is."""
    seen: list[list[str]] = []

    def search(part: BranchTask) -> list[Ranking]:
        seen.append(part.texts)
        if any("poison" in text for text in part.texts):
            raise RuntimeError("the disk is on fire")
        if any("away" in text for text in part.texts):
            raise StoreUnavailable("nobody answers")
        return search_bm25(part)

    kind = here.resources.pipeline.kinds.branches["bm25"]
    with_kind(here, monkeypatch, replace(kind, search=search))
    return seen


def answered(here: OneProcess, parts: Sequence[tuple[str, Started]]) -> list[BranchResult]:
    return answer_parts(here.resources, [Part("r", branch, started) for branch, started in parts])


def ask(here: OneProcess, *texts: str, **options: Any) -> list[BranchResult]:
    return answered(here, [("bm25", started(here, question(text, **options))) for text in texts])


@pytest.mark.slow
def test_a_question_has_the_same_ranking_alone_and_in_any_company(here: OneProcess) -> None:
    words = sorted({word for title, text in CORPUS.values() for word in f"{title} {text}".lower().split()})
    chance = random.Random(12)
    texts = [" ".join(chance.sample(words, chance.randint(1, 8))) for _ in range(50)]
    for branch in ("bm25", "vector", "hyde"):
        requests = [started(here, question(text)) for text in texts]
        forget_vectors(here)
        alone = [answered(here, [(branch, request)])[0] for request in requests]
        forget_vectors(here)
        order = chance.sample(range(50), 50)
        together: dict[int, BranchResult] = {}
        while order:
            company, order = order[: (size := chance.randint(1, 8))], order[size:]
            now = answered(here, [(branch, requests[at]) for at in company])
            together |= zip(company, now, strict=True)
        assert {branch_result.status for branch_result in alone} <= {"ok", "empty"}
        for at, branch_result in enumerate(alone):
            assert hits_of(together[at]) == hits_of(branch_result), texts[at]


def test_parts_that_are_alike_are_one_search(here: OneProcess, searches: list[list[str]]) -> None:
    branch_results = ask(here, "bread", "repairs", "ERR-4711")
    assert searches == [["bread", "repairs", "ERR-4711"]]
    assert [hits_of(branch_result)[0][0] for branch_result in branch_results] == [
        "bread#0",
        "repairs#0",
        "error#0",
    ]
    assert {note.n_in for branch_result in branch_results for note in branch_result.stages} == {1}


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
    here: OneProcess, searches: list[list[str]], other: dict[str, Any]
) -> None:
    parts = [
        ("bm25", started(here, question("bread"))),
        ("bm25", started(here, question("repairs", **other))),
    ]
    answered(here, parts)
    # A namespace that does not exist fails before it is searched.
    assert sorted(searches) == ([["bread"]] if "namespace" in other else [["bread"], ["repairs"]])


def test_a_part_that_raises_fails_alone(here: OneProcess, searches: list[list[str]]) -> None:
    branch_results = ask(here, "bread", "poison", "repairs")
    assert [branch_result.status for branch_result in branch_results] == ["ok", "failed", "ok"]
    assert (branch_results[1].reason, branch_results[1].detail) == (
        "error",
        "RuntimeError: the disk is on fire",
    )
    assert searches == [["bread", "poison", "repairs"], ["bread"], ["poison"], ["repairs"]]


def test_a_store_that_is_away_is_asked_once_for_all(here: OneProcess, searches: list[list[str]]) -> None:
    branch_results = ask(here, "away", "bread", "repairs")
    assert [(branch_result.status, branch_result.reason) for branch_result in branch_results] == [
        ("failed", "unavailable")
    ] * 3
    assert searches == [["away", "bread", "repairs"]]


def test_a_part_after_its_limit_leaves_the_batch_and_one_with_little_time_left_is_searched_first_and_alone(
    here: OneProcess, searches: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "HURRIED_S", 30)
    remaining_ms = {"bread": 60_000, "deposit": -3, "repairs": 20_000, "ERR-4711": 60_000}
    parts = [("bm25", started(here, question(text), remaining_ms=ms)) for text, ms in remaining_ms.items()]
    branch_results = answered(here, parts)
    assert [branch_result.reason for branch_result in branch_results] == [None, "late", None, None]
    assert searches == [["repairs"], ["bread", "ERR-4711"]]


def test_a_kind_that_does_not_merge_is_searched_for_each_request(
    here: OneProcess, searches: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = here.resources.pipeline.kinds.branches["bm25"]
    with_kind(here, monkeypatch, replace(kind, can_batch=False))
    ask(here, "bread", "repairs")
    assert searches == [["bread"], ["repairs"]]


def test_the_questions_of_two_dense_branches_are_embedded_once(
    here: OneProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded: list[list[str]] = []
    questions = here.resources.encoder.questions
    model = questions._embedder

    class Counting:
        dimension = model.dimension

        def embed_questions(self, texts: Any, **_limit: Any) -> Any:
            embedded.append(list(texts))
            return model.embed_questions(texts, **_limit)

    forget_vectors(here)
    monkeypatch.setattr(questions, "_embedder", Counting())
    both = [
        (branch, started(here, question(text)))
        for text in ("flour and salt", "a full disk")
        for branch in ("vector", "hyde")
    ]
    branch_results = answered(here, both)
    assert {branch_result.status for branch_result in branch_results} == {"ok"}
    assert embedded == [["flour and salt", "a full disk"]]
