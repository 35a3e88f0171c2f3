"""A plan resolves a request with the declaration; the cache key says which questions are equal."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from chorale_client import Request, make_request

from assembly.pipeline import load_pipeline
from config.declarations import Pipeline
from models.plan import Plan, RerankPlan
from tasks.request.planning import NotOffered, question_keys, reserves_ms, resolve

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
        ({"require": ["nope"]}, "require: no 'nope'; there are: bm25, vector, hyde"),
        ({"min_branches": 9}, "min_branches: at most 3, which are asked: bm25, vector, hyde"),
        (
            {"min_branches": 2, "branches": ["bm25"]},
            "min_branches: at most 1, which are asked: bm25",
        ),
        (
            {"weights": {"bm25": 0, "vector": 0, "hyde": 0}},
            "weights: every weight is 0 among the asked branches (bm25, vector, hyde); one must be above",
        ),
        (
            {"weights": {"bm25": 0}, "branches": ["bm25"]},
            "weights: every weight is 0 among the asked branches (bm25); one must be above",
        ),
    ],
)
def test_an_unknown_name_in_a_request_is_refused_with_the_known_names(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(NotOffered) as raised:
        plan_of(make_request("bread", **options))
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize(
    ("timeout_s", "finish_ms", "fusion_ms"),
    # min(60, 20 %); and that + min(100, 40 %)
    [(2, 60, 160), (0.3, 60, 160), (0.25, 50, 150), (0.05, 10, 30), (60, 60, 160)],
)
def test_time_is_kept_for_the_terminal_write_and_for_fusion(
    timeout_s: float, finish_ms: int, fusion_ms: int
) -> None:
    assert reserves_ms(timeout_s) == (finish_ms, fusion_ms)


def test_further_questions_are_given_time_to_be_fused_and_shown() -> None:
    one, many = plan_of(make_request("bread")), plan_of(make_request(["bread"] * 64, timeout_s=4))
    assert (one.finish_reserve_ms, one.fusion_reserve_ms) == (60, 160)
    # 63 more: 2.5 ms each, and .3 for each of their five hits.
    assert (many.finish_reserve_ms, many.fusion_reserve_ms) == (60, 160 + 63 * 4)
    # Never more than 40 % of the time.
    assert plan_of(make_request(["bread"] * 64, timeout_s=0.5)).fusion_reserve_ms == 60 + 200


@pytest.fixture(scope="module")
def reranking(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    file = tmp_path_factory.mktemp("pipeline") / "pipeline.toml"
    file.write_text(
        '[stores.local]\nkind = "embedded"\n'
        '[branches.bm25]\nkind = "bm25"\ngroup = "lexical"\nstore = "local"\n'
        '[rerankers.small]\nmodel = "some/model"\nbudget_ms = 300\n'
        '[configurations.best]\nmethod = "rrf"\nreranker = "small"\n'
        '[configurations.plain]\nmethod = "rrf"\n'
    )
    return load_pipeline(file)


def plan_in(pipeline: Pipeline, **options: Any) -> Plan:
    return resolve(make_request("bread", **options), pipeline, accepted_at=NOON, generation=3, models={})


def test_a_declared_reranker_is_in_the_plan_and_its_budget_is_kept_for_the_fusion(
    reranking: Pipeline,
) -> None:
    plan = plan_in(reranking)
    assert plan.rerank == RerankPlan(name="small", depth=50, coarse=100, budget_ms=300, weight=0.7)
    # 60, and 300 + 100 more: or 40 % of the time
    assert (plan.finish_reserve_ms, plan.fusion_reserve_ms) == (60, 460)
    assert plan_in(reranking, timeout_s=0.5).fusion_reserve_ms == 60 + 200


def test_without_reranking_the_branches_get_its_time(reranking: Pipeline) -> None:
    for options in ({"rerank": "off"}, {"configuration": "plain"}):
        plan = plan_in(reranking, **options)
        assert (plan.rerank, plan.fusion_reserve_ms) == (None, 160)
    assert plan_in(reranking, rerank="off").stages[0]["detail"] == "rule"
    assert plan_in(reranking, configuration="plain").stages == ()


def test_rerank_on_fails_if_no_reranker_is_declared(reranking: Pipeline) -> None:
    assert plan_in(reranking, rerank="on") == plan_in(reranking)
    with pytest.raises(NotOffered, match="'plain' declares no reranker; there are: best"):
        plan_in(reranking, rerank="on", configuration="plain")
    with pytest.raises(NotOffered, match="'rrf' declares no reranker; none does"):
        plan_of(make_request("bread", rerank="on"))


def test_the_reranker_is_part_of_the_cache_key_and_the_rerank_option_is_not(
    reranking: Pipeline,
) -> None:
    def key(models: dict[str, str], **options: Any) -> str:
        asked = make_request("bread", **options)
        plan = plan_in(reranking, **options).model_copy(update={"models": models})
        return question_keys(asked, plan)[0]

    assert key({"reranker": "a"}) == key({"reranker": "a"}, rerank="on")
    assert key({"reranker": "a"}) != key({"reranker": "b"})
    assert key({}) != key({}, rerank="off")


@pytest.mark.parametrize(
    ("options", "decisive"),
    [
        ({}, set()),
        ({"require": ["vector"]}, set()),
        ({"on_missing": "fail"}, {"bm25", "vector", "hyde"}),
        ({"on_missing": "fail", "require": ["vector"]}, {"vector"}),
        ({"on_missing": "empty"}, set()),
    ],
)
def test_with_on_missing_fail_the_required_branches_decide(
    options: dict[str, Any], decisive: set[str]
) -> None:
    plan = plan_of(make_request("bread", **options))
    assert {branch.name for branch in plan.branches if branch.is_decisive} == decisive


def test_only_questions_with_a_text_are_searched_and_none_without_retrieval() -> None:
    assert plan_of(make_request(["bread", "", " \n", "water"])).asked == (0, 3)
    assert plan_of(make_request(["bread", "water"], needs_retrieval=False)).asked == ()


def test_a_policy_and_weights_that_can_be_met_are_accepted() -> None:
    assert plan_of(make_request("bread", min_branches=3)).asked == (0,)
    assert plan_of(make_request("bread", weights={"bm25": 0, "vector": 0})).asked == (0,)


def test_now_comes_from_the_request_or_else_is_the_time_of_acceptance() -> None:
    assert plan_of(make_request("bread")).now == "2026-03-01T12:00:00+00:00"
    assert plan_of(make_request("bread", now="2020-01-01")).now == "2020-01-01"


def test_a_plan_survives_the_wire() -> None:
    plan = plan_of(make_request("bread", configuration="italian-law"))
    assert Plan.model_validate_json(plan.model_dump_json()) == plan


class TestEqualQuestions:
    def test_white_space_and_composition_do_not_change_the_key(self) -> None:
        assert key_of("caf\u00e9  bread") == key_of(" cafe\u0301 bread\n")

    def test_caller_and_timeout_do_not_change_the_key(self) -> None:
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
    def test_every_option_that_changes_the_answer_changes_the_key(self, options: dict[str, Any]) -> None:
        assert key_of(**options) != key_of()

    def test_text_hypotheses_and_models_change_the_key(self) -> None:
        assert key_of("Bread") != key_of("bread")
        assert key_of(models={"embedder": "xyz"}) != key_of()
        request = make_request({"text": "bread", "hypothetical_documents": ["Bread is baked."]})
        assert question_keys(request, plan_of(request))[0] != key_of()

    def test_every_variant_changes_the_key(self) -> None:
        variants: list[dict[str, Any]] = [
            {"kind": kind, "text": "loaf"} for kind in ("keyword", "semantic", "entity")
        ]
        variants.append({"kind": "keyword", "text": "loaf", "replace": True})
        requests = [make_request({"text": "bread", "variants": [one]}) for one in variants]
        keys = {question_keys(request, plan_of(request))[0] for request in requests}
        assert len(keys | {key_of()}) == 5

    def test_with_boosts_by_age_the_key_changes_every_day(self) -> None:
        tomorrow = datetime(2026, 3, 2, 12, tzinfo=UTC)
        assert key_of(at=tomorrow) == key_of()
        assert key_of(at=tomorrow, configuration="italian-law") != key_of(configuration="italian-law")
