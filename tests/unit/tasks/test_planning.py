"""From a request and a declaration to a plan: what is resolved, and what makes two questions the same."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from chorale_client import Request, make_request

from config.pipeline import load_pipeline
from models.plan import Plan
from tasks.planning import UnknownName, question_keys, reserves_ms, resolve

PIPELINE = load_pipeline()
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def plan_of(request: Request, **changes: Any) -> Plan:
    values = {"accepted_at": NOON, "generation": 3, "models": {"embedder": "abc"}, **changes}
    return resolve(request, PIPELINE, **values)


def key_of(
    text: str = "bread", *, models: dict[str, str] | None = None, at: datetime = NOON, **options: Any
) -> str:
    request = make_request(text, **options)
    return question_keys(request, plan_of(request, models=models or {"embedder": "abc"}, accepted_at=at))[0]


def test_the_default_is_rrf_over_three_branches_with_their_weights() -> None:
    plan = plan_of(make_request("bread"))
    assert (plan.method, plan.k) == ("rrf", 60)
    assert {branch.name: branch.weight for branch in plan.branches} == {
        "bm25": 0.3,
        "vector": 0.4,
        "hyde": 0.3,
    }
    assert {branch.queue for branch in plan.branches} == {"chorale.bm25", "chorale.vector", "chorale.hyde"}


def test_a_request_chooses_branches_weights_method_and_depth() -> None:
    plan = plan_of(
        make_request(
            "bread",
            branches=["bm25", "vector"],
            weights={"bm25": 2},
            fusion="rrf-grouped",
            top_k=80,
            depth=50,
        )
    )
    assert [(branch.name, branch.weight, branch.depth) for branch in plan.branches] == [
        ("bm25", 2.0, 160),
        ("vector", 0.4, 160),
    ]
    assert plan.method == "rrf-grouped"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"branches": ["bm52"]}, "branches: no 'bm52'; there are: bm25, vector, hyde"),
        ({"weights": {"x": 1.0}}, "weights: no 'x'; there are: bm25, vector, hyde"),
        ({"configuration": "best"}, "configuration: no 'best'; there are: rrf, rrf-grouped, rrf-two"),
        ({"fusion": "sum"}, "fusion: no 'sum'; there are: rrf, rrf-grouped"),
    ],
)
def test_an_unknown_name_is_answered_with_the_known_ones(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UnknownName) as raised:
        plan_of(make_request("bread", **options))
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize(
    ("timeout_s", "finish_ms", "fusion_ms"),
    # min(60, 20 %); and that + min(100, 40 %)
    [(2, 60, 160), (0.3, 60, 160), (0.25, 50, 150), (0.05, 10, 30), (60, 60, 160)],
)
def test_time_is_kept_for_the_end_and_for_fusing(timeout_s: float, finish_ms: int, fusion_ms: int) -> None:
    assert reserves_ms(timeout_s) == (finish_ms, fusion_ms)


def test_only_questions_with_a_text_are_searched() -> None:
    assert plan_of(make_request(["bread", "", " \n", "water"])).asked == (0, 3)


def test_now_is_the_requests_or_the_moment_of_acceptance() -> None:
    assert plan_of(make_request("bread")).now == "2026-03-01T12:00:00+00:00"
    assert plan_of(make_request("bread", now="2020-01-01")).now == "2020-01-01"


def test_a_plan_survives_the_wire() -> None:
    plan = plan_of(make_request("bread", configuration="italian-law"))
    assert Plan.model_validate_json(plan.model_dump_json()) == plan


class TestEqualQuestions:
    def test_white_space_and_composition_make_no_difference(self) -> None:
        assert key_of("caf\u00e9  bread") == key_of(" cafe\u0301 bread\n")

    def test_who_asks_and_how_long_they_wait_makes_none(self) -> None:
        assert key_of(correlation_id="a", tags={"x": "y"}, timeout_s=5, request_id="other") == key_of()

    @pytest.mark.parametrize(
        "options",
        [
            {"namespace": "other"},
            {"top_k": 6},
            {"offset": 1},
            {"depth": 200},
            {"filters": {"year": 2020}},
            {"exclude_ids": ["a"]},
            {"branches": ["bm25"]},
            {"weights": {"bm25": 1}},
            {"fusion": "rrf-grouped"},
            {"configuration": "rrf-two"},
            {"include": ["ids"]},
            {"snippet_chars": 100},
            {"fuse_by": "passage"},
            {"boosts": "off"},
        ],
    )
    def test_every_option_that_changes_the_answer_makes_one(self, options: dict[str, Any]) -> None:
        assert key_of(**options) != key_of()

    def test_so_do_text_hypotheses_and_models(self) -> None:
        assert key_of("Bread") != key_of("bread")
        assert key_of(models={"embedder": "xyz"}) != key_of()
        request = make_request({"text": "bread", "hypothetical_documents": ["Bread is baked."]})
        assert question_keys(request, plan_of(request))[0] != key_of()

    def test_with_boosts_by_age_a_new_day_is_a_new_question(self) -> None:
        tomorrow = datetime(2026, 3, 2, 12, tzinfo=UTC)
        assert key_of(at=tomorrow) == key_of()
        assert key_of(at=tomorrow, configuration="italian-law") != key_of(configuration="italian-law")
