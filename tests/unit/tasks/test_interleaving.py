"""Which requests share their page with another configuration, and what their plan carries then."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from chorale_client import Request, make_request

from config.declarations import Interleaving
from models.plan import Plan
from tasks.request.planning.live_pairs import is_drawn
from tasks.request.planning.plans import resolve
from tasks.wiring.pipeline import load_pipeline

PIPELINE = load_pipeline()
ALL = Interleaving(a="rrf", b="scores", share=1)


def plan_of(request: Request, rival: Plan | None = None) -> Plan:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    return resolve(request, PIPELINE, accepted_at=noon, generation=3, models={"embedder": "abc"}, rival=rival)


def drawn(declared: Interleaving = ALL, questions: Any = "bread", **options: Any) -> bool:
    request = make_request(questions, **options)
    return is_drawn(request, request.configuration or PIPELINE.default_configuration, declared)


def test_a_share_of_the_requests_is_drawn_always_the_same_ones() -> None:
    tenth = Interleaving(a="rrf", b="scores", share=0.1)
    ids = [f"request-{number}" for number in range(2_000)]
    chosen = [id_ for id_ in ids if drawn(tenth, request_id=id_)]
    # A tenth of 2,000 within four standard deviations (13.4).
    assert 146 < len(chosen) < 254
    assert [id_ for id_ in ids if drawn(tenth, request_id=id_)] == chosen
    wider = Interleaving(a="rrf", b="scores", share=0.5)
    assert all(drawn(wider, request_id=id_) for id_ in chosen)
    assert not any(drawn(replace_share(0), request_id=id_) for id_ in ids)


def replace_share(share: float) -> Interleaving:
    return ALL.model_copy(update={"share": share})


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
