"""Outbox entries of ended requests, in the ledger's form, made of real requests and plans."""

from __future__ import annotations

from typing import Any

import redis
from chorale_client.keys import OUTBOX
from chorale_client.request import Request
from pydantic_core import to_json

from models.branch_result import BranchResult, Degradation
from models.hits import Hit, Ranking
from models.plan import BranchPlan, Plan

ACCEPTED_AT_MS = 1_790_000_000_000

BRANCHES = {"bm25": 0.3, "vector": 0.4, "hyde": 0.3}


def make_request(*questions: Any, **options: Any) -> Request:
    return Request(questions=questions or ("how is a list sorted?",), **options)


def make_plan(request: Request, **values: Any) -> Plan:
    branches = [
        BranchPlan(
            name=name,
            kind=name,
            group="lexical" if name == "bm25" else "dense",
            store="embedded",
            queue=f"chorale.{name}",
            weight=weight,
            depth=request.effective_depth,
            limit_ms=1_500,
        )
        for name, weight in BRANCHES.items()
    ]
    return Plan(
        **{
            "configuration": "rrf",
            "namespace": request.namespace,
            "branches": branches,
            "method": "rrf",
            "k": 60,
            "generation": 7,
            "models": {"embedder": "minilm-fp32"},
            "searched": tuple(range(len(request.questions))),
            "now": "2026-11-01T12:00:00+00:00",
            "finish_reserve_ms": 60,
            "fusion_reserve_ms": 160,
            **values,
        }
    )


def make_ranking(*documents: str, top_score: float = 9.5) -> Ranking:
    """Makes a ranking whose scores fall by a third, which no short decimal can hold."""
    return Ranking(
        tuple(Hit(f"{name}#0", name, top_score - place / 3) for place, name in enumerate(documents)),
        total_matches=len(documents),
    )


def make_branch_result(branch: str, *rankings: Ranking) -> BranchResult:
    return BranchResult(branch, "ok", rankings=rankings, ms=12.5, generation=7)


def make_answer(request: Request, **values: Any) -> dict[str, Any]:
    """Makes an answer with one hit, `guide.md`, for each question."""
    hit = {
        "rank": 1,
        "document_id": "docs:guide.md",
        "passage_id": "docs:guide.md#0",
        "score": 1 / 61,
        "found_by": ["bm25"],
        "title": "Guide",
        "snippet": {"text": "sorted", "highlights": [[0, 6]]},
        "branches": {"bm25": {"rank": 1, "score": 9.5}},
        "boosts": {},
    }
    return {
        "v": 1,
        "request_id": request.request_id,
        "status": "complete",
        "degraded": [],
        "stages": [{"stage": "fuse", "status": "ok", "ms": 0.4}],
        "warnings": [],
        "took_ms": 31,
        "questions": [
            {"status": "complete", "hits": [hit], "ordered_by": "score", "total_matches": 3}
            for _ in request.questions
        ],
        **values,
    }


def make_entry(
    request: Request,
    *,
    plan: Plan | None = None,
    answer: dict[str, Any] | None = None,
    branch_results: tuple[BranchResult, ...] = (),
    accepted_at_ms: int = ACCEPTED_AT_MS,
    by: str = "fusion",
) -> dict[str, str]:
    """Makes the fields of the stream entry."""
    return {
        "id": request.request_id,
        "accepted_at": str(accepted_at_ms),
        "ended_at": str(accepted_at_ms + 31),
        "by": by,
        "request": request.model_dump_json(),
        "plan": plan.model_dump_json() if plan else "",
        "answer": to_json(answer or make_answer(request)).decode(),
        **{
            f"result:{branch_result.branch}": branch_result.to_wire().decode()
            for branch_result in branch_results
        },
    }


def whole_entry(request: Request | None = None, **values: Any) -> dict[str, str]:
    """Makes the entry of a request that was planned and that every branch answered."""
    request = request or make_request()
    branch_results = tuple(
        make_branch_result(
            branch, *(make_ranking("docs:guide.md", f"docs:{branch}.md") for _ in request.questions)
        )
        for branch in BRANCHES
    )
    return make_entry(request, plan=make_plan(request), branch_results=tuple(branch_results), **values)


def put(client: redis.Redis, *entries: dict[str, str]) -> None:
    """Puts the entries into the outbox, in order."""
    for entry in entries:
        fields: dict[Any, Any] = {**entry}
        client.xadd(OUTBOX, fields)


def late(branch: str) -> dict[str, str]:
    return Degradation(f"search.{branch}", "not_started", "nobody took it").to_wire()
