"""Small real plans, branch results and hits for the tests of fusion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from chorale_client.request import Request

from fusion import fuse
from fusion.branch_results import BranchAnswers
from fusion.fused_hits import FusedQuestion
from models.branch_result import BranchResult
from models.declarations.fusion_method import BranchRanking
from models.documents import PassageText
from models.hits import Hit, Ranking
from models.plan import BranchPlan, Plan, RerankPlan
from tasks.wiring.pipeline import BUILT_IN

NOW = "2026-01-01T00:00:00Z"
GROUPS = {"bm25": "lexical", "vector": "dense", "hyde": "dense"}
WEIGHTS = {"bm25": 0.3, "vector": 0.4, "hyde": 0.3}
RERANK = RerankPlan(name="tiny", depth=50, coarse=100, budget_ms=400, weight=0.7)


def hit(document_id: str, position: int = 0, score: float = 1.0, **fields: Any) -> Hit:
    return Hit(f"{document_id}#{position}", document_id, score, **fields)


def ranking(name: str, ids: Iterable[str], *, weight: float = 1.0, group: str | None = None) -> BranchRanking:
    ids = tuple(ids)
    return BranchRanking(name, group or name, weight, ids, tuple(hit(id_) for id_ in ids))


def scored(
    name: str, scores: Mapping[str, float], *, weight: float = 1.0, group: str | None = None, **fields: Any
) -> BranchRanking:
    """A ranking with these scores, the best first."""
    hits = tuple(hit(id_, score=score) for id_, score in scores.items())
    return BranchRanking(name, group or name, weight, tuple(scores), hits, **fields)


def branch(name: str, weight: float | None = None, depth: int = 100) -> BranchPlan:
    return BranchPlan(
        name=name,
        kind=name,
        group=GROUPS.get(name, name),
        store="local",
        queue=f"chorale.{name}",
        weight=WEIGHTS.get(name, 1.0) if weight is None else weight,
        depth=depth,
        limit_ms=500,
    )


def plan(branches: Sequence[BranchPlan] | None = None, **fields: Any) -> Plan:
    values: dict[str, Any] = {
        "configuration": "rrf",
        "namespace": "default",
        "branches": tuple(branches or (branch("bm25"), branch("vector"), branch("hyde"))),
        "method": "rrf",
        "k": 60,
        "generation": 1,
        "searched": (0,),
        "now": NOW,
        "finish_reserve_ms": 60,
        "fusion_reserve_ms": 100,
    }
    return Plan(**(values | fields))


def ids(fused: FusedQuestion) -> list[str]:
    return [one.document_id for one in fused.hits]


def answered(name: str, *hits: Hit, **fields: Any) -> BranchResult:
    """A branch's result for one question."""
    return BranchResult(name, "ok" if hits else "empty", rankings=(Ranking(hits),), **fields)


def branch_results(**hits: Sequence[Hit]) -> dict[str, BranchResult]:
    return {name: answered(name, *branch_hits) for name, branch_hits in hits.items()}


def request(question: str = "notice period", **fields: Any) -> Request:
    return Request(questions=(question,), request_id="r1", **fields)


def texts(*document_ids: str, text: str = "A text.", **metadata: Any) -> Mapping[str, PassageText]:
    return {
        f"{id_}#0": PassageText(f"{id_}#0", id_, f"Title of {id_}", "", text, metadata)
        for id_ in document_ids
    }


def fuse_question(
    plan: Plan, branch_results: Mapping[str, BranchResult], position: int, request: Request, **options: Any
) -> FusedQuestion:
    """By the built-in method that the plan names."""
    method = BUILT_IN.method(plan.method)
    answers = BranchAnswers(request, plan, branch_results)
    return fuse.fuse_question(answers, position, method, **options)
