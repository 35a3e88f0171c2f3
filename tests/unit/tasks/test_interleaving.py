"""Which requests share their page with another configuration or get a shadow, what their plan carries, and where a shadow runs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from chorale_client import Request, make_request

from config.declarations import Interleaving, Shadow
from models.plan import Plan
from records.audit.outbox import Ended, parse
from tasks.request.planning.cost import placed_branches
from tasks.request.planning.live_pairs import is_drawn, is_shadow, shadow_of
from tasks.request.planning.plans import resolve
from tasks.wiring.pipeline import load_pipeline
from tests.support.ledger.audit_entries import make_answer, make_entry

PIPELINE = load_pipeline()
ALL = Interleaving(a="rrf", b="scores", share=1)
SHADOW = Shadow(a="rrf", b="bm25", share=1)


def plan_of(request: Request, rival: Plan | None = None) -> Plan:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    return resolve(request, PIPELINE, accepted_at=noon, generation=3, models={"embedder": "abc"}, rival=rival)


def drawn(declared: Interleaving = ALL, questions: Any = "bread", **options: Any) -> bool:
    request = make_request(questions, **options)
    return is_drawn(request, request.configuration or PIPELINE.default_configuration, declared)


def test_a_share_of_the_requests_is_drawn_always_the_same_ones() -> None:
    tenth = Interleaving(a="rrf", b="scores", share=0.1)
    ids = [f"request-{number}" for number in range(500)]
    chosen = [id_ for id_ in ids if drawn(tenth, request_id=id_)]
    # A tenth of 500 within four standard deviations (6.7).
    assert 23 < len(chosen) < 77
    assert [id_ for id_ in ids if drawn(tenth, request_id=id_)] == chosen
    wider = Interleaving(a="rrf", b="scores", share=0.5)
    assert all(drawn(wider, request_id=id_) for id_ in chosen)
    assert not any(drawn(Interleaving(a="rrf", b="scores", share=0), request_id=id_) for id_ in ids)


@pytest.mark.parametrize(
    ("options", "is_one"),
    [
        ({}, True),
        ({"configuration": "rrf", "filters": {"kind": "law"}, "top_k": 20, "boosts": "off"}, True),
        ({"configuration": "scores"}, False),
        ({"questions": ["bread", "water"]}, False),
        ({"questions": [""]}, False),
        ({"needs_retrieval": False}, False),
        ({"weights": {"bm25": 1.0}}, False),
        ({"fusion": "dbsf"}, False),
        ({"branches": ["bm25"]}, False),
        ({"thresholds": {"min_fused_score": 0.1}}, False),
        ({"offset": 5}, False),
        ({"fuse_by": "passage"}, False),
        ({"group_by": "source_type"}, False),
        ({"autocut": 1}, False),
        ({"diversity": 0.3}, False),
        ({"cache": "bypass"}, False),
        ({"cache": "refresh"}, False),
    ],
)
def test_only_the_first_page_of_a_plain_question_under_a_is_drawn(
    options: dict[str, Any], is_one: bool
) -> None:
    assert drawn(**options) is is_one


def test_the_plan_carries_how_b_fuses_and_is_not_cached() -> None:
    request = make_request("bread")
    plan, b = plan_of(request), plan_of(request.model_copy(update={"configuration": "scores"}))
    interleaved = plan_of(request, rival=b)
    assert (interleaved.configuration, interleaved.method, interleaved.cacheable) == ("rrf", "rrf", False)
    own, rival = Plan.model_validate_json(interleaved.model_dump_json()).sides
    assert (own.method, [branch.weight for branch in own.branches]) == ("rrf", [0.3, 0.4, 0.3])
    assert (rival.method, rival.complete_scores, rival.rival) == ("dbsf", True, None)
    assert [branch.weight for branch in rival.branches] == [0.3, 0.45, 0.25]
    # B completes scores: its branches say what they searched with.
    assert [branch.returns_query_inputs for branch in interleaved.branches] == [True, True, True]
    assert plan.sides == (plan,)


def ended(
    questions: Any = "bread",
    *,
    by: str = "fusion",
    status: str = "complete",
    plan: Any = None,
    **options: Any,
) -> Ended:
    request = make_request(questions, **options)
    answer = make_answer(request, status=status)
    return parse(
        make_entry(request, plan=plan_of(request).model_copy(update=plan or {}), answer=answer, by=by)
    )


def test_a_shadow_asks_the_same_under_b_later_and_in_nobody_s_time() -> None:
    options: dict[str, Any] = {
        "request_id": "t.acme.1",
        "correlation_id": "customer-17",
        "filters": {"kind": ["law", "blog"]},
        "relax": ["filters.kind"],
        "exclude_ids": ["old.md"],
        "namespace": "docs",
        "top_k": 20,
        "boosts": "off",
    }
    callers: dict[str, Any] = {
        "on_end": {"task": "shop.ended", "queue": "shop"},
        "hedge": True,
        "require": ["vector"],
        "on_missing": "fail",
        "include": ["texts", "context"],
        "context_tokens": 500,
        "timeout_s": 0.5,
        "tags": {"page": "1"},
    }
    shadow = shadow_of(ended(**options, **callers), SHADOW)
    assert shadow is not None
    assert shadow == make_request(
        "bread",
        **{**options, "request_id": "t.acme.1.shadow", "configuration": "bm25", "cache": "bypass"},
        include=["ids"],
        timeout_s=60,
        now="2026-03-01T12:00:00+00:00",
    )


def test_a_share_of_the_requests_has_a_shadow_always_the_same_ones() -> None:
    tenth = Shadow(a="rrf", b="bm25", share=0.1)
    requests = [ended(request_id=f"request-{number}") for number in range(300)]
    drawn = [each.request_id for each in requests if shadow_of(each, tenth)]
    # A tenth of 300 within four standard deviations (5.2).
    assert 9 < len(drawn) < 51
    assert [each.request_id for each in requests if shadow_of(each, tenth)] == drawn
    assert not any(shadow_of(each, Shadow(a="rrf", b="bm25", share=0)) for each in requests)


@pytest.mark.parametrize(
    ("options", "has_one"),
    [
        ({}, True),
        ({"status": "degraded", "by": "sweeper"}, True),
        ({"request_id": "a" * 121}, True),
        ({"request_id": "a" * 122}, False),
        ({"configuration": "bm25"}, False),
        ({"configuration": "scores"}, False),
        ({"questions": ["bread", "water"]}, False),
        ({"weights": {"bm25": 1.0}}, False),
        ({"branches": ["bm25"]}, False),
        ({"rerank": "off"}, False),
        ({"offset": 5}, False),
        ({"cache": "bypass"}, False),
        ({"status": "failed"}, False),
        ({"status": "cancelled"}, False),
        ({"by": "leader"}, False),
        ({"plan": {"searched": (), "cached": {0: {}}}, "by": "cache"}, False),
        ({"plan": {"rival": plan_of(make_request("bread"))}}, False),
    ],
)
def test_only_plain_requests_that_were_searched_and_answered_under_a_alone_have_one(
    options: dict[str, Any], has_one: bool
) -> None:
    assert (shadow_of(ended(**options), SHADOW) is not None) is has_one


def test_a_shadow_has_no_shadow_even_where_its_configuration_has() -> None:
    first = shadow_of(ended(request_id="1"), SHADOW)
    assert first is not None
    plan = plan_of(first)
    again = parse(make_entry(first, plan=plan, answer=make_answer(first)))
    assert plan.cacheable is False
    assert shadow_of(again, Shadow(a="bm25", b="rrf", share=1)) is None


def test_each_branch_of_a_shadow_waits_for_a_bulk_worker_as_long_as_the_request_may() -> None:
    request = make_request("bread", request_id="1.shadow", timeout_s=60)
    plan = plan_of(request)
    limited = plan.model_copy(
        update={"branches": tuple(each.model_copy(update={"limit_ms": 800}) for each in plan.branches)}
    )
    shadowed = PIPELINE.default_configuration
    resources = SimpleNamespace(pipeline=replace(PIPELINE, shadow=Shadow(a="bm25", b=shadowed, share=1)))
    branches = placed_branches(cast(Any, resources), request, limited, limited.searched)
    assert {(branch.queue, branch.is_costly, branch.limit_ms) for branch in branches} == {
        ("chorale.bulk", True, 60_000)
    }
    assert [branch.name for branch in branches] == ["bm25", "vector", "hyde"]


def test_an_id_alone_makes_no_shadow() -> None:
    assert is_shadow("1.shadow", "bm25", SHADOW)
    assert not is_shadow("1.shadow", "rrf", SHADOW)
    assert not is_shadow("1", "bm25", SHADOW)
    assert not is_shadow("1.shadow", "bm25", None)
