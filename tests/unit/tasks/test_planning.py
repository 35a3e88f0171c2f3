"""A plan resolves a request with the declaration; the cache key says which questions are equal."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from chorale_client import Request, make_request

from config.declarations import Pipeline
from config.pipeline_reader import DEFAULT_FILE
from models.errors import NotOffered
from models.plan import Plan, RerankPlan
from tasks.request.planning.answer_cache import question_keys
from tasks.request.planning.plans import reserves_ms, resolve
from tasks.wiring.pipeline import load_pipeline
from tests.support.pipelines.pipeline_files import BM25_ALONE, declared

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


def test_a_request_chooses_branches_weights_method_and_depth_and_has_defaults() -> None:
    plan = plan_of(make_request("bread"))
    assert (plan.method, plan.k, plan.now) == ("rrf", 60, "2026-03-01T12:00:00+00:00")
    assert {branch.name: (branch.weight, branch.queue) for branch in plan.branches} == {
        "bm25": (0.3, "chorale.bm25"),
        "vector": (0.4, "chorale.vector"),
        "hyde": (0.3, "chorale.hyde"),
    }
    options: dict[str, Any] = {"branches": ["bm25", "vector"], "weights": {"bm25": 2}, "now": "2020-01-01"}
    plan = plan_of(make_request("bread", **options, fusion="rrf-grouped", top_k=80, depth=50))
    chosen = [(branch.name, branch.weight, branch.depth) for branch in plan.branches]
    assert chosen == [("bm25", 2.0, 80), ("vector", 0.4, 80)]
    assert (plan.method, plan.now) == ("rrf-grouped", "2020-01-01")


def test_rewrites_that_no_branch_searches_are_named() -> None:
    keyword, semantic = ({"kind": kind, "text": "loaf"} for kind in ("keyword", "semantic"))
    question = {
        "text": "bread",
        "variants": [keyword, semantic],
        "hypothetical_documents": ["Bread is baked."],
    }

    def warnings(*branches: str) -> tuple[str, ...]:
        return plan_of(make_request([question], branches=list(branches))).warnings

    assert warnings("bm25", "hyde") == ()
    assert warnings("vector") == (
        "questions: no branch of this request searches hypothetical_documents, keyword",
    )
    assert warnings("bm25", "vector") == (
        "questions: no branch of this request searches hypothetical_documents",
    )


def test_only_questions_with_a_text_are_searched_and_none_without_retrieval() -> None:
    assert plan_of(make_request(["bread", "", " \n", "water"])).searched == (0, 3)
    assert plan_of(make_request(["bread", "water"], needs_retrieval=False)).searched == ()


def test_a_question_with_more_words_than_bm25_searches_is_a_warning() -> None:
    many = " ".join(f"w{number}" for number in range(1_025))
    assert plan_of(make_request(many)).warnings == (
        "questions: BM25 searches the first 1,024 different words of a question",
    )
    assert plan_of(make_request(many.removesuffix(" w1024"))).warnings == ()
    assert plan_of(make_request(many, branches=["vector"])).warnings == ()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"branches": ["bm52"]}, "branches: no 'bm52'; there are: bm25, vector, hyde"),
        ({"weights": {"x": 1.0}}, "weights: no 'x'; there are: bm25, vector, hyde"),
        ({"configuration": "best"}, "configuration: no 'best'; there are: rrf, scores, rrf-grouped, rrf-two"),
        (
            {"fusion": "sum"},
            f"fusion: no 'sum'; there are: {', '.join(PIPELINE.kinds.methods)}",
        ),
        ({"fusion": "rrf-two"}, "fusion: 'rrf-two' is a configuration; name it as `configuration`"),
        ({"require": ["nope"]}, "require: no 'nope'; there are: bm25, vector, hyde"),
        ({"min_branches": 9}, "min_branches: at most 3, which are asked: bm25, vector, hyde"),
        (
            {"min_branches": 2, "branches": ["bm25"]},
            "min_branches: at most 1, which are asked: bm25",
        ),
        (
            {"weights": {"bm25": 0, "vector": 0, "hyde": 0}},
            "weights: every weight is 0 among the asked branches (bm25, vector, hyde); at least one must be above 0",
        ),
        (
            {"weights": {"bm25": 0}, "branches": ["bm25"]},
            "weights: every weight is 0 among the asked branches (bm25); at least one must be above 0",
        ),
        (
            {"thresholds": {"min_branch_score": {"hyde": 0.1}}, "branches": ["bm25"]},
            "thresholds.min_branch_score: no 'hyde'; there are: bm25",
        ),
        (
            {"thresholds": {"min_rerank_score": 0.1}},
            "thresholds.min_rerank_score: no reranker runs; choose a configuration that declares one",
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


def test_further_questions_and_contexts_are_given_time_to_be_fused_and_shown() -> None:
    one, many = plan_of(make_request("bread")), plan_of(make_request(["bread"] * 64, timeout_s=4))
    assert (one.finish_reserve_ms, one.fusion_reserve_ms) == (60, 160)
    # 63 more: 2.5 ms each, and .3 for each of their five hits.
    assert (many.finish_reserve_ms, many.fusion_reserve_ms) == (60, 160 + 63 * 4)
    # Never more than 40 % of the time.
    assert plan_of(make_request(["bread"] * 64, timeout_s=0.5)).fusion_reserve_ms == 60 + 200
    # 16 µs for a token of a context; a passage has 256 at most.
    assert plan_of(make_request("bread", context_tokens=1_000)).fusion_reserve_ms == 160 + 16
    assert plan_of(make_request("bread", context_tokens=1_000_000)).fusion_reserve_ms == 160 + 20


def pipeline_of(folder: Path, added: str, *, removed: str = "") -> Pipeline:
    """The default pipeline with these lines, and without those."""
    return declared(folder, DEFAULT_FILE.read_text(encoding="utf-8").replace(removed, "") + added)


@pytest.fixture(scope="module")
def reranking(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    with_a_reranker = (
        '[rerankers.small]\nmodel = "some/model"\nbudget_ms = 300\n'
        '[configurations.best]\nmethod = "rrf"\nreranker = "small"\n'
        '[configurations.plain]\nmethod = "rrf"\n'
    )
    return declared(tmp_path_factory.mktemp("pipeline"), BM25_ALONE + with_a_reranker)


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


def test_a_request_chooses_how_many_hits_are_reranked(reranking: Pipeline) -> None:
    for depth, coarse in ((20, 100), (200, 200)):
        plan = plan_in(reranking, rerank_depth=depth)
        assert plan.rerank == RerankPlan(name="small", depth=depth, coarse=coarse, budget_ms=300, weight=0.7)
    assert plan_in(reranking, rerank_depth=20, rerank="off").rerank is None
    with pytest.raises(NotOffered, match="'plain' declares no reranker"):
        plan_in(reranking, rerank_depth=20, configuration="plain")


def test_the_reranker_is_part_of_the_cache_key_and_the_rerank_option_is_not(
    reranking: Pipeline,
) -> None:
    def key(models: dict[str, str], **options: Any) -> str:
        request = make_request("bread", **options)
        plan = plan_in(reranking, **options).model_copy(update={"models": models})
        return question_keys(request, plan)[0]

    assert key({"reranker": "a"}) == key({"reranker": "a"}, rerank="on")
    assert key({"reranker": "a"}) != key({"reranker": "b"})
    assert key({}) != key({}, rerank="off")
    assert key({}) == key({}, rerank_depth=50) != key({}, rerank_depth=20)


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


# Equal questions


def test_white_space_composition_caller_and_timeout_do_not_change_the_key() -> None:
    assert key_of("caf\u00e9  bread") == key_of(" cafe\u0301 bread\n")
    assert key_of(correlation_id="a", tags={"x": "y"}, timeout_s=5, request_id="other") == key_of()


def test_tenants_share_no_key_and_two_requests_of_one_tenant_do() -> None:
    assert len({key_of(), key_of(request_id="t.acme.1"), key_of(request_id="t.zenith.1")}) == 3
    assert key_of(request_id="t.acme.1") == key_of(request_id="t.acme.2")


@pytest.mark.parametrize(
    "options",
    [
        {"namespace": "other"},
        {"top_k": 6},
        {"offset": 1},
        {"depth": 300},
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
        {"thresholds": {"min_fused_score": 0.1}},
        {"thresholds": {"min_branch_score": {"bm25": 1}}},
        {"group_by": "source"},
        {"group_by": {"field": "source", "size": 2}},
        {"diversity": 0.3},
        {"context_tokens": 500},
        {"models": {"embedder": "xyz"}},
        {"text": "Bread"},
    ],
    ids=str,
)
def test_every_option_that_changes_the_answer_changes_the_key(options: dict[str, Any]) -> None:
    assert key_of(**options) != key_of()


def test_hypotheses_and_every_variant_change_the_key() -> None:
    variants: list[dict[str, Any]] = [
        {"kind": kind, "text": "loaf"} for kind in ("keyword", "semantic", "entity")
    ]
    variants.append({"kind": "keyword", "text": "loaf", "replace": True})
    requests = [make_request({"text": "bread", "variants": [one]}) for one in variants]
    requests.append(make_request({"text": "bread", "hypothetical_documents": ["Bread is baked."]}))
    keys = {question_keys(request, plan_of(request))[0] for request in requests}
    assert len(keys | {key_of()}) == 6


def test_with_boosts_by_age_the_key_changes_every_day() -> None:
    tomorrow = datetime(2026, 3, 2, 12, tzinfo=UTC)
    assert key_of(at=tomorrow) == key_of()
    assert key_of(at=tomorrow, configuration="italian-law") != key_of(configuration="italian-law")


def test_a_configuration_names_a_preset_with_its_window_and_the_halves_of_bounded_scores(
    tmp_path: Path,
) -> None:
    pipeline = pipeline_of(
        tmp_path,
        '[configurations.as-elastic]\nmethod = "elastic"\nrank_window_size = 10\n'
        '[configurations.absolute]\nmethod = "bounded"\nhalves = { bm25 = 21.5, vector = 0.6 }\n',
    )
    windowed = plan_in(pipeline, configuration="as-elastic", depth=50)
    assert (windowed.method, {branch.depth for branch in windowed.branches}) == ("elastic", {10})
    shallow = plan_in(pipeline, configuration="as-elastic", depth=5, top_k=2)
    assert {branch.depth for branch in shallow.branches} == {5}
    absolute = plan_in(pipeline, configuration="absolute", depth=50)
    halves = {one.name: (one.depth, one.half) for one in absolute.branches}
    assert halves == {"bm25": (50, 21.5), "vector": (50, 0.6), "hyde": (50, None)}


def test_a_branch_without_a_declared_weight_has_the_one_that_the_method_gives_it(tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path, "", removed="weight = 0.4\n")

    def weights(**options: Any) -> dict[str, float]:
        return {branch.name: branch.weight for branch in plan_in(pipeline, **options).branches}

    assert weights() == {"bm25": 0.3, "vector": 1.0, "hyde": 0.3}
    assert weights(fusion="late-fusion") == {"bm25": 0.3, "vector": 0.1, "hyde": 0.3}
    assert weights(fusion="late-fusion", weights={"vector": 1}) == {"bm25": 0.3, "vector": 1.0, "hyde": 0.3}
    assert weights(fusion="late-fusion", configuration="scores")["vector"] == 0.45


@pytest.mark.parametrize("method", PIPELINE.kinds.methods)
def test_a_request_may_name_every_method_and_its_plan_survives_the_wire(method: str) -> None:
    plan = plan_of(make_request("bread", fusion=method, configuration="scores"))
    assert plan.method == method
    # The configuration wants complete scores: no method by ranks and no preset has them.
    scores = {"bounded", "comb-mnz", "comb-sum", "dbsf", "min-max", "tm2c2", "z-score"}
    assert plan.complete_scores == (method in scores)
    assert Plan.model_validate_json(plan.model_dump_json()) == plan


def test_weights_by_type_are_those_of_the_asked_branches_and_a_requests_weights_count_first(
    tmp_path: Path,
) -> None:
    pipeline = pipeline_of(
        tmp_path,
        '[configurations.typed]\nmethod = "rrf"\n'
        "weights_by_type = { identifier = { bm25 = 1, vector = 0, hyde = 0 }, long = { vector = 0.9 } }\n",
    )

    def weights(**options: Any) -> dict[str, dict[str, float]]:
        return plan_in(pipeline, configuration="typed", **options).weights_by_type

    assert weights() == {"identifier": {"bm25": 1, "vector": 0, "hyde": 0}, "long": {"vector": 0.9}}
    assert weights(weights={"bm25": 0.5}) == {}
    # Without BM25 nothing would have weight for an identifier.
    assert weights(branches=["vector"]) == {"long": {"vector": 0.9}}
