"""The end of a request with a missing reranker, or little time; without a broker."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from chorale_client import make_request
from chorale_client.request_factory import request_json
from chorale_client.wire_names import Reason
from pydantic_core import from_json
from redis import Redis

from config.settings import Settings
from fusion.answer import Pages
from fusion.branch_results import BranchAnswers
from fusion.fused_hits import FusedQuestion
from inference.rerankers import OnnxReranker
from ledger.protocol import BranchDispatch, Chord
from models.branch_result import Degradation, StageNote
from models.documents import PassageText
from models.plan import Plan, RerankPlan
from tasks.request.composing.ending import FUSION_WORKER, Ending
from tasks.request.composing.reranking import (
    leave_as_fused,
    passage_text,
    readable_candidates,
    rerank_pages,
    rerank_time_s,
)
from tasks.request.finishing import end_joined
from tasks.request.planning.plans import resolve
from tasks.wiring.resources import Resources
from tests.support.ledger.stepped_ledger import SteppedLedger
from tests.support.models.tiny_cross_encoder import write_tiny_cross_encoder
from tests.support.pipelines.pipeline_files import BM25_ALONE, Declares
from tests.unit.fusion.builders import RERANK, answered, branch, branch_results, fuse_question, hit, plan

PLAN = plan((branch("bm25"),), rerank=RERANK, finish_reserve_ms=60, fusion_reserve_ms=560)
REQUEST = make_request("a question", top_k=3)
FUSED = {0: fuse_question(PLAN, branch_results(bm25=[hit(f"d{place}") for place in range(6)]), 0, REQUEST)}
TEXTS = {f"d{place}#0": PassageText(f"d{place}#0", f"d{place}", "", "", "a text", {}) for place in range(6)}

Declare = Callable[..., Resources]


@pytest.fixture
def declare(tmp_path: Path, declares: Declares) -> Declare:
    def resources_of(model: object, **settings: Any) -> Resources:
        tiny = f'[rerankers.tiny]\nmodel = "{model}"\nmax_pieces = 16\n'
        pipeline = declares(f'{BM25_ALONE}{tiny}[configurations.best]\nmethod = "rrf"\nreranker = "tiny"\n')
        return Resources(Settings(home=tmp_path, **settings), pipeline, "redis://nowhere")

    return resources_of


@dataclass(frozen=True)
class Reranked:
    page: FusedQuestion
    note: StageNote
    why: Degradation | None


def result_of(pages: Pages) -> Reranked:
    [note] = pages.stages
    return Reranked(pages.fused[0], note, next(iter(pages.degraded), None))


def reranked(
    resources: Resources,
    limit_s: float,
    *,
    texts: dict[str, PassageText] = TEXTS,
    base_plan: Plan = PLAN,
    rerank: RerankPlan = RERANK,
    **options: Any,
) -> Reranked:
    """`limit_s` is left for the reranker: 60 ms more are kept for the end, and 30 ms for the snippets."""
    rerank = rerank.model_copy(update={"budget_ms": round(max(0.0, limit_s) * 1_000)})
    timed = base_plan.model_copy(update={"rerank": rerank, "fusion_reserve_ms": 60_000})
    answers, remaining_ms = BranchAnswers(REQUEST, timed), limit_s * 1_000 + 90
    ending, pages = Ending(remaining_ms + 10, timed.finish_reserve_ms), Pages(FUSED, known=texts)
    readable = readable_candidates(resources, answers, pages, ending)
    return result_of(rerank_pages(resources, answers, pages, ending, readable, **options))


@pytest.fixture
def warm(declare: Declare, tmp_path: Path) -> Resources:
    """A pipeline with a small reranker that is loaded."""
    resources = declare(write_tiny_cross_encoder(tmp_path / "model"))
    resources.reranker("tiny").warm()
    return resources


@pytest.fixture
def missing(declare: Declare, tmp_path: Path) -> Resources:
    """A pipeline with a reranker whose model is missing."""
    return declare(tmp_path / "no/such/model")


OTHER = RERANK.model_copy(update={"name": "of_another_version", "budget_ms": 30_000})


def test_a_reranker_that_this_pipeline_does_not_declare_is_not_configured(missing: Resources) -> None:
    ended = reranked(missing, 0.4, rerank=OTHER)
    assert ended.why is not None
    assert ended.why.reason == Reason.NOT_CONFIGURED
    assert "there are: tiny" in ended.why.detail


def test_without_time_or_texts_no_rerank_begins_and_the_reason_is_named(warm: Resources) -> None:
    late = reranked(warm, -0.01)
    without = reranked(warm, 20, texts={}, without_texts=Reason.UNAVAILABLE)
    assert (late.why and late.why.reason, late.note.n_out) == (Reason.BUDGET, 0)
    assert (without.why and without.why.reason) == Reason.UNAVAILABLE


def test_hits_without_a_text_stay_below_and_the_others_are_reranked(warm: Resources) -> None:
    ended = reranked(warm, 20, texts={name: TEXTS[name] for name in ("d1#0", "d4#0")})
    stages = {one.document_id: one.rerank and one.rerank.stage for one in ended.page.hits}
    assert stages == {"d1": "reranked", "d4": "reranked", "d0": "coarse_fallback"}
    assert ended.note.n_out == 2


def test_a_plan_for_another_model_is_reranked_and_not_cached(warm: Resources) -> None:
    own = warm.reranker("tiny").fingerprint
    for models, reason in (
        ({"reranker": "another"}, Reason.MODEL_MISSING),
        ({"reranker": own}, None),
        ({}, None),
    ):
        ended = reranked(warm, 20, base_plan=PLAN.model_copy(update={"models": models}))
        assert (ended.why and ended.why.reason, ended.note.n_out) == (reason, 6)
        assert ended.why is None or f"planned for the model another, reranked by {own}" in ended.why.detail


def test_a_question_without_hits_needs_no_rerank(missing: Resources) -> None:
    answers, pages = BranchAnswers(REQUEST, PLAN), Pages({0: fuse_question(PLAN, {}, 0, REQUEST)})
    by_worker = rerank_pages(missing, answers, pages, Ending(1_000, PLAN.finish_reserve_ms), ())
    by_sweeper = leave_as_fused(answers, pages)
    assert (result_of(by_worker).why, result_of(by_sweeper).why) == (None, None)


@pytest.mark.parametrize(
    ("remaining_ms", "spent_s", "questions", "expected_s"),
    [
        (2_000, 0.0, 1, 0.4),  # the budget
        # The sweeper takes over 560 ms after the join; 200 are spent, 30 are for the end.
        (2_000, 0.2, 1, 0.33),
        (300, 0.0, 1, 0.21),  # 60 ms before the deadline is the end, and 30 before that
        (80, 0.0, 1, -0.01),
        # 63 more questions, of 2.5 ms and three hits of .3 ms: half of that is for the end.
        (2_000, 0.2, 64, 0.33 - 63 * 0.0034 / 2),
    ],
)
def test_the_time_for_a_rerank_is_its_budget_or_the_time_left_before_the_end(
    remaining_ms: int, spent_s: float, questions: int, expected_s: float
) -> None:
    request = make_request(["a question"] * questions, top_k=3)
    available_s = rerank_time_s(request, PLAN, remaining_ms, spent_s)
    assert available_s == pytest.approx(expected_s)


@pytest.mark.parametrize(("since_s", "reason"), [(0, Reason.NOT_CONFIGURED), (100, Reason.BUDGET)])
def test_the_time_of_a_rerank_counts_from_the_call_of_join(
    declare: Declare, tmp_path: Path, redis_client: Redis, since_s: float, reason: Reason
) -> None:
    resources = declare(tmp_path / "no/such/model")
    request = REQUEST.model_copy(update={"timeout_s": 60.0})
    stepped = SteppedLedger(redis_client)
    resources.ledger = ledger = stepped.ledger
    stepped.callers.accept(request)
    # Long enough for a slow machine.
    planned = PLAN.model_copy(update={"rerank": OTHER, "fusion_reserve_ms": 50_000})
    parts = [BranchDispatch("bm25", "chorale.bm25", limit_ms=500, resend_after_ms=500)]
    text = request_json(request).encode()
    ledger.plan(request.request_id, Chord(text, planned.to_json(), parts, 60, 50_000))
    ledger.report(request.request_id, "bm25", answered("bm25", hit("d0")))
    entry = ledger.join(request.request_id)
    assert entry is not None
    assert end_joined(resources, [entry], by=FUSION_WORKER, joined_s=time.monotonic() - since_s)
    result = from_json(stepped.callers.result(request.request_id) or b"")["result"]
    assert [one["reason"] for one in result["degraded"] if one["where"] == "rerank"] == [reason]


def test_the_plan_names_the_rerankers_fingerprint_and_is_not_cached_without_it(
    declare: Declare, tmp_path: Path, warm: Resources
) -> None:
    def planned(resources: Resources, **options: Any) -> Plan:
        return resolve(
            make_request("a question", configuration="best", **options),
            resources.pipeline,
            accepted_at=datetime.now(UTC),
            generation=7,
            models={},
            fingerprint_of=lambda name: resources.reranker(name).fingerprint,
        )

    assert planned(warm).models == {"reranker": warm.reranker("tiny").fingerprint}
    assert planned(warm).generation == 7
    missing = planned(declare(tmp_path / "no/such/model"))
    assert (missing.models, missing.generation) == ({}, None)
    assert missing.warnings[0].startswith("cache: model_missing: no model ")
    assert planned(warm, rerank="off").models == {}


def test_a_model_shares_the_cores_with_the_fusion_workers_that_rerank(
    declare: Declare, tmp_path: Path
) -> None:
    resources = declare(tmp_path, model_threads=8, worker_processes={"chorale.fusion": 2})
    assert resources.threads_for_a_model == 4


def test_a_reranker_has_a_thread_for_each_core_except_in_bulk_workers(
    declare: Declare, tmp_path: Path
) -> None:
    cores = {"model_threads": 8, "worker_processes": {"chorale.bulk": 4}}
    interactive, bulk = declare(tmp_path, **cores), declare(tmp_path, **cores)
    bulk.answers_jobs = True
    for resources, threads in ((interactive, 8), (bulk, 2)):
        assert cast("OnnxReranker", resources.reranker("tiny")).threads == threads


def test_the_reranked_text_begins_with_title_and_heading_once() -> None:
    passage = PassageText("p", "d", "Deposits", "Rent > Deposits", "Returned when all is well.", {})
    assert passage_text(passage) == "Deposits\nRent > Deposits\nReturned when all is well."
    whole = PassageText("p", "d", "Deposits", "", "Deposits\nReturned when all is well.", {})
    assert passage_text(whole) == "Deposits\nReturned when all is well."
