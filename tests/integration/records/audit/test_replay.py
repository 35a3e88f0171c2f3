"""The audit rows suffice to fuse again without any store."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from chorale_client.request import Request
from pydantic_core import from_json, to_json
from redis import Redis
from sqlalchemy import Engine

from evaluation.recorded.replay import Replay, replay
from fusion.rankings import Scores
from models.errors import ServiceError
from models.plan import QuestionRules, RerankPlan
from models.tables.audit import RequestRow
from records.audit.drainer import Drainer
from records.audit.queries import show
from records.database import upgrade
from tasks.wiring.pipeline import load_pipeline
from tests.support.ledger.audit_entries import (
    make_answer,
    make_branch_result,
    make_entry,
    make_plan,
    make_ranking,
    put,
)
from tests.unit.fusion.builders import fuse_question

RANKINGS = {
    "bm25": (("exact", "both", "far"), ("only-lexical",)),
    "vector": (("both", "near", "exact"), ("near", "only-dense")),
    "hyde": (("near", "both"), ("only-dense",)),
}


PIPELINE = load_pipeline()


@pytest.fixture(scope="module")
def database_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The rows are the same in each kind of database, so one kind is enough."""
    url = f"sqlite:///{tmp_path_factory.mktemp('audit')}/audit.db"
    upgrade(url)
    return url


Recorded = Callable[..., RequestRow]


@pytest.fixture
def recorded(redis_client: Redis, engine: Engine) -> Recorded:
    """Drains a request of two questions that was fused and answered."""

    def record(
        *,
        keep_texts: bool = True,
        planned: Mapping[str, Any] | None = None,
        scores: Sequence[Scores] | None = None,
        **options: Any,
    ) -> RequestRow:
        request = Request(request_id="one", questions=["first", "second"], **{"top_k": 4, **options})
        plan = make_plan(request, **(planned or {}))
        branch_results = {
            name: make_branch_result(name, *(make_ranking(*documents) for documents in rankings))
            for name, rankings in RANKINGS.items()
        }
        questions = []
        for position in range(2):
            question_scores = {} if scores is None else scores[position]
            hits = fuse_question(plan, branch_results, position, request, scores=question_scores).hits
            fields = ("document_id", "passage_id", "score")
            wire = [
                {"rank": rank, **{name: getattr(hit, name) for name in fields}}
                for rank, hit in enumerate(hits, 1)
            ]
            questions.append({"status": "complete", "hits": wire})
        answer = make_answer(request, questions=questions)
        entry = make_entry(request, plan=plan, answer=answer, branch_results=tuple(branch_results.values()))
        put(redis_client, entry if scores is None else {**entry, "completed": to_json(scores).decode()})
        Drainer(redis_client, engine, keep_texts=keep_texts).drain_once(1)
        row = show(engine, "one")
        assert row is not None
        return row

    return record


def gaps(replayed: Replay) -> list[str]:
    return [gap.what for gap in replayed.gaps]


def equal(replayed: Replay) -> list[bool | None]:
    return [question.is_equal for question in replayed.questions]


@pytest.mark.parametrize(("keep_texts", "offset"), [(True, 0), (False, 1)])
def test_the_recorded_answer_is_rebuilt_from_rows(recorded: Recorded, keep_texts: bool, offset: int) -> None:
    row = recorded(keep_texts=keep_texts, exclude_ids=["far"], offset=offset)
    again = replay(row, PIPELINE)
    assert (again.is_equal, again.gaps, equal(again)) == (True, [], [True, True])
    for question, before in zip(again.questions, row.questions, strict=True):
        hits = [(hit.document_id, hit.score) for hit in question.hits]
        assert hits == [(hit.document_id, hit.score) for hit in before.hits]
        assert all(movement.is_none for movement in question.moved)
    # Found by all three branches at ranks 2, 1 and 2: first by RRF with k 60.
    both = next((move.before for move in again.questions[0].moved if move.document_id == "both"), None)
    assert (both is None) == bool(offset)
    if both is not None:
        assert both.rank == 1
        assert both.score == pytest.approx(0.3 / 62 + 0.4 / 61 + 0.3 / 62)
        ranks = {name: part.rank for name, part in both.branches.items()}
        assert ranks == {"bm25": 2, "hyde": 2, "vector": 1}


def test_another_configuration_fuses_the_same_candidates_and_shows_what_moves(recorded: Recorded) -> None:
    row = recorded(weights={"bm25": 9.0})
    again = replay(row, PIPELINE, configuration="bm25")
    assert (again.is_equal, again.was, again.now) == (True, "rrf · rrf", "bm25 · rrf")
    first = again.questions[0]
    assert [hit.document_id for hit in first.hits] == ["exact", "both", "far"]
    moved = {move.document_id: move for move in first.moved}
    assert moved["near"].before is not None
    assert moved["near"].after is None
    exact = moved["exact"].after
    assert exact is not None
    assert list(exact.branches) == ["bm25"]


def test_passages_that_were_fused_are_compared_as_passages(recorded: Recorded) -> None:
    row = recorded(fuse_by="passage")
    again = replay(row, PIPELINE)
    assert again.is_equal
    assert again.questions[0].moved[0].document_id == "both#0"
    row.questions[0].hits[0].passage_id = "both#1"
    assert not replay(row, PIPELINE).is_equal


def test_what_the_rows_do_not_hold_or_hold_differently_is_named(recorded: Recorded) -> None:
    row = recorded()
    assert gaps(replay(row, PIPELINE, configuration="scores")) == ["completed scores"]
    row.questions[1].hits[0].score = 0.5
    different = replay(row, PIPELINE)
    assert (equal(different), different.is_equal) == ([True, False], False)
    row.questions[0].cached = True
    row.branches[0].candidates = None
    again = replay(row, PIPELINE)
    assert again.questions[0].is_equal is None
    assert sorted(gaps(again)) == ["cached questions", "candidates of bm25"]
    row.plan = None
    with pytest.raises(ServiceError, match="ended without a plan"):
        replay(row, PIPELINE)


COMPLETING = {"configuration": "scores", "method": "dbsf", "complete_scores": True}
SCORES: Sequence[Scores] = (
    {"bm25": {"near#0": 10 / 3}, "vector": {"far#0": 0.1}},  # that of `far` for hyde could not be had
    {"bm25": {"near#0": 0.7, "only-dense#0": 0.2}, "vector": {"only-lexical#0": 0.3}},
)


def test_the_scores_that_completed_rankings_are_in_the_rows(recorded: Recorded) -> None:
    row = recorded(keep_texts=False, planned=COMPLETING, scores=SCORES)
    again = replay(row, PIPELINE)
    assert (again.is_equal, again.gaps, equal(again)) == (True, [], [True, True])
    assert {branch["branch"]: branch["completed"] for branch in row.to_dict()["branches"]} == {
        "bm25": [{"near#0": 10 / 3}, {"near#0": 0.7, "only-dense#0": 0.2}],
        "hyde": [{}, {}],
        "vector": [{"far#0": 0.1}, {"only-lexical#0": 0.3}],
    }
    for_each_ranking(row, lambda ranking: ranking.update(completed={}))
    assert equal(replay(row, PIPELINE)) == [False, False]
    for_each_ranking(row, lambda ranking: ranking.pop("completed"))
    without = replay(row, PIPELINE)
    assert (equal(without), gaps(without)) == ([None, None], ["completed scores"])
    assert [branch["completed"] for branch in row.to_dict()["branches"]] == [None, None, None]


def for_each_ranking(row: RequestRow, change: Callable[[dict[str, Any]], Any]) -> None:
    for branch in row.branches:
        assert branch.candidates
        rankings = from_json(zlib.decompress(branch.candidates))
        for ranking in rankings:
            change(ranking)
        branch.candidates = zlib.compress(to_json(rankings))


def test_a_configuration_lacks_scores_only_if_it_needs_more_than_were_recorded(recorded: Recorded) -> None:
    row = recorded(planned=COMPLETING, scores=SCORES)
    assert replay(row, PIPELINE, configuration="scores").gaps == []
    assert replay(row, PIPELINE, configuration="bm25").gaps == []
    # A branch of weight 0 brings no documents, and scores none.
    assert row.plan
    row.plan["branches"][2]["weight"] = 0.0
    assert gaps(replay(row, PIPELINE, configuration="scores")) == ["completed scores"]


def test_pinned_and_blocked_documents_are_as_they_were(recorded: Recorded) -> None:
    rules = {0: QuestionRules(pinned={"far": "r1", "elsewhere": "r2"}, blocked={"exact": "r3"})}
    row = recorded(planned={"rules": rules})
    assert [hit.document_id for hit in row.questions[0].hits] == ["far", "both", "near"]
    assert replay(row, PIPELINE).is_equal
    under = replay(row, PIPELINE, configuration="bm25").questions[0]
    assert [hit.document_id for hit in under.hits] == ["far", "both"]
    # A pinned document that no branch found came from a store.
    row.questions[0].hits[0].document_id = "elsewhere"
    again = replay(row, PIPELINE)
    assert (again.is_equal, gaps(again)) == (True, ["pinned: elsewhere"])


def test_a_reranked_answer_is_compared_by_its_fused_scores(recorded: Recorded) -> None:
    rerank = RerankPlan(name="small", depth=50, coarse=100, budget_ms=400, weight=0.7)
    row = recorded(planned={"rerank": rerank})
    best, second, *_ = row.questions[0].hits
    for hit in row.questions[0].hits:
        hit.explanation = {"rerank": {"fused_score": hit.score, "stage": "reranked"}}
    best.score, second.score = 0.2, 0.9
    again = replay(row, PIPELINE)
    assert (again.is_equal, gaps(again)) == (True, ["reranking"])
    best.explanation = {"rerank": {"fused_score": 0.5, "stage": "reranked"}}
    assert not replay(row, PIPELINE).is_equal
