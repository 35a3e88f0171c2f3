"""From a request and the pipeline's declaration to a plan: every value resolved once.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from chorale_client.request import Request

from cache.key import answer_key
from config.pipeline import BranchDeclaration, Configuration, Pipeline
from fusion.methods import METHODS
from models.plan import BranchPlan, Plan

_NOT_IN_KEY = frozenset(
    # Who asks, when, for how long and how often: nothing that changes what a whole answer says.
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
    }
)


class UnknownName(ValueError):
    """The request names something that this pipeline does not have; the message lists what there is."""


def _one_of(field: str, name: str, known: Iterable[str]) -> None:
    if name not in (names := list(known)):
        raise UnknownName(f"{field}: no {name!r}; there are: {', '.join(names)}")


def configuration_of(request: Request, pipeline: Pipeline) -> Configuration:
    """Raises UnknownName."""
    name = request.configuration or pipeline.default_configuration
    _one_of("configuration", name, pipeline.configurations)
    return pipeline.configurations[name]


def branches_of(request: Request, pipeline: Pipeline) -> tuple[BranchDeclaration, ...]:
    """The branches that this request fans out to, with its weights; raises UnknownName."""
    configured = pipeline.branches_of(configuration_of(request, pipeline))
    names = [branch.name for branch in configured]
    for name in request.branches or ():
        _one_of("branches", name, names)
    for name in request.weights or {}:
        _one_of("weights", name, names)
    for name in request.require:
        _one_of("require", name, request.branches or names)
    return tuple(
        branch.model_copy(update={"weight": (request.weights or {}).get(branch.name, branch.weight)})
        for branch in configured
        if request.branches is None or branch.name in request.branches
    )


def reserves_ms(timeout_s: float, rerank_budget_ms: int = 0) -> tuple[int, int]:
    """What is kept at the end for the terminal write, and for fusing before it: (finish, fusion) in milliseconds."""
    timeout_ms = timeout_s * 1000
    finish = min(60.0, 0.2 * timeout_ms)
    fusion = finish + min(rerank_budget_ms + 100.0, 0.4 * timeout_ms)
    return round(finish), round(fusion)


def resolve(
    request: Request,
    pipeline: Pipeline,
    *,
    accepted_at: datetime,
    generation: int | None,
    models: Mapping[str, str],
) -> Plan:
    """The plan before the cache was asked: all questions with a text are to be searched.

    Raises UnknownName.
    """
    configuration = configuration_of(request, pipeline)
    method = request.fusion or configuration.method
    _one_of("fusion", method, METHODS)
    finish_reserve_ms, fusion_reserve_ms = reserves_ms(request.timeout_s)
    return Plan(
        configuration=configuration.name,
        namespace=request.namespace,
        branches=tuple(
            BranchPlan(
                name=branch.name,
                kind=branch.kind,
                group=branch.group,
                store=branch.store,
                queue=branch.queue,
                weight=branch.weight,
                depth=min(branch.depth, request.effective_depth),
                limit_ms=round(1000 * min(branch.limit_s or request.timeout_s, request.timeout_s)),
            )
            for branch in branches_of(request, pipeline)
        ),
        method=method,
        k=configuration.k,
        boosts=None if request.boosts == "off" else configuration.boosts,
        fold=configuration.fold,
        generation=generation,
        models=dict(models),
        asked=tuple(index for index, question in enumerate(request.questions) if question.text.strip()),
        now=request.now or accepted_at.isoformat(),
        cacheable=request.cache != "bypass",
        finish_reserve_ms=finish_reserve_ms,
        fusion_reserve_ms=fusion_reserve_ms,
    )


def question_keys(request: Request, plan: Plan) -> dict[int, str]:
    """Cache key by index of each question that has a text."""
    options: dict[str, Any] = request.model_dump(mode="json", exclude=set(_NOT_IN_KEY))
    resolved = plan.model_dump(
        mode="json", include={"configuration", "branches", "method", "k", "boosts", "fold", "models"}
    )
    for branch in resolved["branches"]:
        # How long a branch may take, and where it runs, change no whole answer.
        del branch["limit_ms"], branch["queue"]
    if plan.boosts is not None:
        resolved["day"] = plan.now[:10]
    return {
        index: answer_key(plan.namespace, request.questions[index].model_dump(mode="json"), options, resolved)
        for index in plan.asked
    }
