"""The audit rows suffice to fuse again without any store."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import redis
from chorale_client.request import Request
from pydantic_core import from_json, to_json
from sqlalchemy import Engine

from assembly.pipeline import load_pipeline
from audit.drainer import Drainer
from audit.queries import show
from audit.schema import upgrade
from evaluation.replay import replay
from fusion.completion import Scores
from models.audit_tables import RequestRow
from models.errors import ServiceError
from models.plan import QuestionRules, RerankPlan
from tests.support.ledger.audit_entries import (
    make_answer,
    make_entry,
    make_envelope,
    make_plan,
    make_ranking,
    put,
)
from tests.unit.fusion.builders import fuse_question

FOUND = {
    "bm25": (("exact", "both", "far"), ("only-lexical",)),
    "vector": (("both", "near", "exact"), ("near", "only-dense")),
    "hyde": (("near", "both"), ("only-dense",)),
}


PIPELINE = load_pipeline()


@pytest.fixture(scope="module")
def audit_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The rows are the same in each kind of database, so one kind is enough."""
    url = f"sqlite:///{tmp_path_factory.mktemp('audit')}/audit.db"
    upgrade(url)
    return url


def recorded(
    redis_client: redis.Redis,
    engine: Engine,
    *,
    keep_texts: bool = True,
    planned: Mapping[str, Any] | None = None,
    scores: Sequence[Scores] | None = None,
    **options: Any,
) -> RequestRow:
    """A request of two questions that was fused, answered and drained."""
    request = Request(request_id="one", questions=["first", "second"], **{"top_k": 4, **options})
    plan = make_plan(request, **(planned or {}))
    envelopes = {
        name: make_envelope(name, *(make_ranking(*documents) for documents in FOUND[name])) for name in FOUND
    }
    questions = []
    for position in range(2):
        given = {} if scores is None else scores[position]
        hits = fuse_question(plan, envelopes, position, request, scores=given).hits
        wire = [
            {
                "rank": rank,
                "document_id": hit.document_id,
                "passage_id": hit.passage_id,
                "score": hit.score,
            }
            for rank, hit in enumerate(hits, start=1)
        ]
        questions.append({"status": "complete", "hits": wire})
    answer = make_answer(request, questions=questions)
    entry = make_entry(request, plan=plan, answer=answer, envelopes=tuple(envelopes.values()))
    put(redis_client, entry if scores is None else {**entry, "completed": to_json(scores).decode()})
    Drainer(redis_client, engine, keep_texts=keep_texts).drain_once(1)
    kept = show(engine, "one")
    assert kept is not None
    return kept


@pytest.mark.parametrize(("keep_texts", "offset"), [(True, 0), (False, 1)])
def test_the_recorded_answer_is_rebuilt_from_rows_alone(
    redis_client: redis.Redis, engine: Engine, keep_texts: bool, offset: int
) -> None:
    kept = recorded(redis_client, engine, keep_texts=keep_texts, exclude_ids=["far"], offset=offset)

    found = replay(kept, PIPELINE)

    assert (found.is_equal, found.gaps) == (True, [])
    assert [one.is_equal for one in found.questions] == [True, True]
    assert [[(hit.document_id, hit.score) for hit in one.hits] for one in found.questions] == [
        [(hit.document_id, hit.score) for hit in question.hits] for question in kept.questions
    ]
    assert all(movement.is_none for one in found.questions for movement in one.moved)
    # Found by all three branches at ranks 2, 1 and 2: first by RRF with k 60.
    both = next((one.before for one in found.questions[0].moved if one.document_id == "both"), None)
    assert (both is None) == bool(offset)
    if both is not None:
        assert both.rank == 1
        assert both.score == pytest.approx(0.3 / 62 + 0.4 / 61 + 0.3 / 62)
        assert {name: part.rank for name, part in both.branches.items()} == {
            "bm25": 2,
            "hyde": 2,
            "vector": 1,
        }


def test_a_score_that_differs_from_the_recorded_one_is_told(
    redis_client: redis.Redis, engine: Engine
) -> None:
    kept = recorded(redis_client, engine)
    kept.questions[1].hits[0].score = 0.5
    found = replay(kept, PIPELINE)
    assert [one.is_equal for one in found.questions] == [True, False]
    assert not found.is_equal


def test_another_configuration_fuses_the_same_candidates_and_shows_what_moves(
    redis_client: redis.Redis, engine: Engine
) -> None:
    kept = recorded(redis_client, engine, weights={"bm25": 9.0})

    found = replay(kept, PIPELINE, configuration="baseline")

    assert (found.is_equal, found.was, found.now) == (True, "rrf · rrf", "baseline · rrf")
    first = found.questions[0]
    assert [hit.document_id for hit in first.hits] == ["exact", "both", "far"]
    (near,) = (one for one in first.moved if one.document_id == "near")
    assert near.before is not None
    assert near.after is None
    (exact,) = (one for one in first.moved if one.document_id == "exact")
    assert exact.after is not None
    assert list(exact.after.branches) == ["bm25"]


def test_passages_that_were_fused_are_compared_as_passages(redis_client: redis.Redis, engine: Engine) -> None:
    kept = recorded(redis_client, engine, fuse_by="passage")
    found = replay(kept, PIPELINE)
    assert found.is_equal
    assert next(one.document_id for one in found.questions[0].moved) == "both#0"
    kept.questions[0].hits[0].passage_id = "both#1"
    assert not replay(kept, PIPELINE).is_equal


def test_what_the_rows_do_not_hold_is_named(redis_client: redis.Redis, engine: Engine) -> None:
    kept = recorded(redis_client, engine)
    named = {gap.what for gap in replay(kept, PIPELINE, configuration="scores").gaps}
    assert named == {"completed scores"}

    kept.questions[0].cached = True
    kept.branches[0].candidates = None
    found = replay(kept, PIPELINE)
    assert found.questions[0].is_equal is None
    assert {gap.what for gap in found.gaps} == {"cached questions", "candidates of bm25"}


COMPLETING = {"configuration": "scores", "method": "dbsf", "complete_scores": True}
SCORES: Sequence[Scores] = (
    {"bm25": {"near#0": 10 / 3}, "vector": {"far#0": 0.1}},  # that of `far` for hyde could not be had
    {"bm25": {"near#0": 0.7, "only-dense#0": 0.2}, "vector": {"only-lexical#0": 0.3}},
)


def test_the_scores_that_completed_rankings_are_in_the_rows_even_if_some_were_not_to_be_had(
    redis_client: redis.Redis, engine: Engine
) -> None:
    kept = recorded(redis_client, engine, keep_texts=False, planned=COMPLETING, scores=SCORES)
    found = replay(kept, PIPELINE)
    assert (found.is_equal, found.gaps) == (True, [])
    assert [one.is_equal for one in found.questions] == [True, True]
    assert {one["branch"]: one["completed"] for one in kept.shown()["branches"]} == {
        "bm25": [{"near#0": 10 / 3}, {"near#0": 0.7, "only-dense#0": 0.2}],
        "hyde": [{}, {}],
        "vector": [{"far#0": 0.1}, {"only-lexical#0": 0.3}],
    }
    for_each_ranking(kept, lambda ranking: ranking.update(completed={}))
    assert [one.is_equal for one in replay(kept, PIPELINE).questions] == [False, False]


def for_each_ranking(kept: RequestRow, change: Callable[[dict[str, Any]], Any]) -> None:
    for branch in kept.branches:
        assert branch.candidates
        rankings = from_json(zlib.decompress(branch.candidates))
        for ranking in rankings:
            change(ranking)
        branch.candidates = zlib.compress(to_json(rankings))


def test_rows_without_the_completed_scores_are_compared_with_nothing(
    redis_client: redis.Redis, engine: Engine
) -> None:
    kept = recorded(redis_client, engine, planned=COMPLETING, scores=SCORES)
    for_each_ranking(kept, lambda ranking: ranking.pop("completed"))
    found = replay(kept, PIPELINE)
    assert [one.is_equal for one in found.questions] == [None, None]
    assert [gap.what for gap in found.gaps] == ["completed scores"]
    assert [one["completed"] for one in kept.shown()["branches"]] == [None, None, None]


def test_another_configuration_lacks_scores_only_if_it_needs_more_than_were_recorded(
    redis_client: redis.Redis, engine: Engine
) -> None:
    kept = recorded(redis_client, engine, planned=COMPLETING, scores=SCORES)
    assert replay(kept, PIPELINE, configuration="scores").gaps == []
    assert replay(kept, PIPELINE, configuration="baseline").gaps == []

    # A branch of weight 0 brings no documents, and scores none.
    assert kept.plan
    kept.plan["branches"][2]["weight"] = 0.0
    assert {gap.what for gap in replay(kept, PIPELINE, configuration="scores").gaps} == {"completed scores"}


def test_a_request_without_a_plan_was_never_fused(redis_client: redis.Redis, engine: Engine) -> None:
    kept = recorded(redis_client, engine)
    kept.plan = None
    with pytest.raises(ServiceError, match="ended without a plan"):
        replay(kept, PIPELINE)


def test_pinned_and_blocked_documents_are_as_they_were(redis_client: redis.Redis, engine: Engine) -> None:
    rules = {0: QuestionRules(pinned={"far": "r1", "elsewhere": "r2"}, blocked={"exact": "r3"})}
    kept = recorded(redis_client, engine, planned={"rules": rules})
    assert [hit.document_id for hit in kept.questions[0].hits] == ["far", "both", "near"]
    assert replay(kept, PIPELINE).is_equal
    under = replay(kept, PIPELINE, configuration="baseline").questions[0]
    assert [hit.document_id for hit in under.hits] == ["far", "both"]

    # A pinned document that no branch found came from a store.
    kept.questions[0].hits[0].document_id = "elsewhere"
    found = replay(kept, PIPELINE)
    assert (found.is_equal, [gap.what for gap in found.gaps]) == (True, ["pinned: elsewhere"])


def test_a_reranked_answer_is_compared_by_its_fused_scores(redis_client: redis.Redis, engine: Engine) -> None:
    rerank = RerankPlan(name="small", depth=50, coarse=100, budget_ms=400, weight=0.7)
    kept = recorded(redis_client, engine, planned={"rerank": rerank})
    best, second, *_ = kept.questions[0].hits
    for hit in kept.questions[0].hits:
        hit.explanation = {"rerank": {"fused_score": hit.score, "stage": "reranked"}}
    best.score, second.score = 0.2, 0.9

    found = replay(kept, PIPELINE)

    assert (found.is_equal, [gap.what for gap in found.gaps]) == (True, ["reranking"])
    best.explanation = {"rerank": {"fused_score": 0.5, "stage": "reranked"}}
    assert not replay(kept, PIPELINE).is_equal
