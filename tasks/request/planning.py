"""Resolve a request and the pipeline's declaration to a plan.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from chorale_client.protocol_constants import PROTOCOL
from chorale_client.request import Request
from chorale_client.words import Reason, Stage, StageStatus

from cache.answer_key import answer_key
from config.declarations import BranchDeclaration, Configuration, Pipeline, RerankerDeclaration
from models.envelope import StageNote
from models.extensions import BranchKind
from models.plan import BranchPlan, Plan, RerankPlan

_NOT_IN_KEY = frozenset(
    # Who asks, when, for how long and how often does not change a complete answer.
    {
        "v",
        "request_id",
        "correlation_id",
        "tags",
        "namespace",
        "questions",
        "timeout_s",
        "cache",
        "now",
        "hedge",
        # The plan has it resolved.
        "rerank",
    }
)


_NOT_WANTED = StageNote(Stage.RERANK, StageStatus.SKIPPED, detail=Reason.RULE).to_wire()
"""The note for a declared reranker that the request does not want."""


QUESTION_MS = 2.5
HIT_MS = 0.3
"""Time kept for each question after the first, and for each hit shown: about three times what an idle core takes."""


class NotOffered(ValueError):
    """The request asks for something that this pipeline does not have; the message lists what it has."""


def _one_of(field: str, name: str, known: Iterable[str]) -> None:
    if name not in (names := list(known)):
        raise NotOffered(f"{field}: no {name!r}; there are: {', '.join(names)}")


def configuration_of(request: Request, pipeline: Pipeline) -> Configuration:
    """Raises NotOffered."""
    name = request.configuration or pipeline.default_configuration
    _one_of("configuration", name, pipeline.configurations)
    return pipeline.configurations[name]


def branches_of(request: Request, pipeline: Pipeline) -> tuple[BranchDeclaration, ...]:
    """The branches that this request fans out to, with its weights; raises NotOffered."""
    configured = pipeline.branches_of(configuration_of(request, pipeline))
    names = [branch.name for branch in configured]
    for name in request.branches or ():
        _one_of("branches", name, names)
    for name in request.weights or {}:
        _one_of("weights", name, names)
    for name in request.require:
        _one_of("require", name, request.branches or names)
    asked = tuple(
        branch.model_copy(update={"weight": (request.weights or {}).get(branch.name, branch.weight)})
        for branch in configured
        if request.branches is None or branch.name in request.branches
    )
    listed = ", ".join(branch.name for branch in asked)
    if request.min_branches > len(asked):
        raise NotOffered(f"min_branches: at most {len(asked)}, which are asked: {listed}")
    if not any(branch.weight for branch in asked):
        raise NotOffered(f"weights: every weight is 0 among the asked branches ({listed}); one must be above")
    return asked


def reranker_of(request: Request, pipeline: Pipeline) -> RerankerDeclaration | None:
    """The reranker of this request; None if none is declared or the request does not want it.  Raises NotOffered."""
    configuration = configuration_of(request, pipeline)
    if request.rerank == "on" and configuration.reranker is None:
        known = [name for name, one in pipeline.configurations.items() if one.reranker is not None]
        raise NotOffered(
            f"rerank: the configuration {configuration.name!r} declares no reranker; "
            + (f"there are: {', '.join(known)}" if known else "none does")
        )
    return None if request.rerank == "off" else configuration.reranker


def further_questions_ms(request: Request) -> float:
    """The time kept for the questions after the first: to join and fuse them, and to show the hits of each."""
    return (len(request.questions) - 1) * (QUESTION_MS + HIT_MS * request.top_k)


def reserves_ms(timeout_s: float, rerank_budget_ms: int = 0, further_ms: float = 0.0) -> tuple[int, int]:
    """The time kept before the deadline for the terminal write, and for fusion and that write: milliseconds."""
    timeout_ms = timeout_s * 1000
    finish = min(PROTOCOL.longest_finish_reserve_ms, PROTOCOL.finish_reserve_percent * timeout_ms / 100)
    fusion = finish + min(rerank_budget_ms + 100.0 + further_ms, 0.4 * timeout_ms)
    return round(finish), round(fusion)


def _branch_plan(request: Request, branch: BranchDeclaration, kind: BranchKind) -> BranchPlan:
    return BranchPlan(
        name=branch.name,
        kind=branch.kind,
        group=branch.group,
        store=branch.store,
        queue=branch.queue,
        weight=branch.weight,
        depth=min(branch.depth, request.effective_depth),
        limit_ms=round(1000 * min(branch.limit_s or request.timeout_s, request.timeout_s)),
        options=branch.options if kind.options_in_plan else {},
        is_decisive=request.on_missing == "fail" and branch.name in (request.require or (branch.name,)),
    )


def resolve(
    request: Request,
    pipeline: Pipeline,
    *,
    accepted_at: datetime,
    generation: int | None,
    models: Mapping[str, str],
    warnings: tuple[str, ...] = (),
) -> Plan:
    """The plan before the cache is asked: every question with a text is searched, if the request wants retrieval.

    Raises NotOffered.
    """
    configuration = configuration_of(request, pipeline)
    method = request.fusion or configuration.method
    _one_of("fusion", method, pipeline.kinds.methods)
    reranker = reranker_of(request, pipeline)
    finish_reserve_ms, fusion_reserve_ms = reserves_ms(
        request.timeout_s, reranker.budget_ms if reranker else 0, further_questions_ms(request)
    )
    return Plan(
        configuration=configuration.name,
        namespace=request.namespace,
        branches=tuple(
            _branch_plan(request, branch, pipeline.kinds.branches[branch.kind])
            for branch in branches_of(request, pipeline)
        ),
        method=method,
        k=configuration.k,
        boosts=None if request.boosts == "off" else configuration.boosts,
        fold=configuration.fold,
        stages=(_NOT_WANTED,) if configuration.reranker and not reranker else (),
        rerank=reranker
        and RerankPlan(**reranker.model_dump(include={"name", "depth", "coarse", "budget_ms", "weight"})),
        generation=generation,
        models=dict(models),
        warnings=warnings,
        asked=tuple(
            index
            for index, question in enumerate(request.questions)
            if request.needs_retrieval and question.text.strip()
        ),
        now=request.now or accepted_at.isoformat(),
        cacheable=request.cache != "bypass",
        finish_reserve_ms=finish_reserve_ms,
        fusion_reserve_ms=fusion_reserve_ms,
    )


def question_keys(request: Request, plan: Plan) -> dict[int, str]:
    """The cache key of each question that has a text, by its index."""
    options: dict[str, Any] = request.model_dump(mode="json", exclude=set(_NOT_IN_KEY))
    resolved = plan.model_dump(
        mode="json",
        include={"configuration", "branches", "method", "k", "boosts", "fold", "rerank", "models"},
    )
    for branch in resolved["branches"]:
        # A branch's time, queue and policy do not change a complete answer.
        del (
            branch["limit_ms"],
            branch["queue"],
            branch["is_decisive"],
            branch["hedge_after_ms"],
            branch["lease_ms"],
        )
    if plan.boosts is not None:
        resolved["day"] = plan.now[:10]
    return {
        index: answer_key(plan.namespace, request.questions[index].model_dump(mode="json"), options, resolved)
        for index in plan.asked
    }
