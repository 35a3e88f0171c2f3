"""Resolve a request and the pipeline's declaration to a plan.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType

from chorale_client.errors import safe_repr
from chorale_client.protocol_constants import PROTOCOL
from chorale_client.request import Request, Thresholds
from chorale_client.wire_names import Reason, Stage, StageStatus, Warned

from config.declarations import BranchDeclaration, Configuration, Pipeline
from config.model_declarations import RerankerDeclaration
from fusion.rankings import DENSE, LEXICAL
from models.boost_plan import BoostPlan
from models.branch_result import Degradation, StageNote
from models.declarations.fusion_method import Method
from models.errors import NotOffered, StageFailure
from models.hits import MAX_TERMS
from models.plan import BranchPlan, FusionPlan, Plan, RerankPlan, searched_indices
from records.rules.matching import Matcher
from search.closed_values import wrong_filter
from search.filter_meanings import requested_filters
from tasks.request.planning.answer_cache import CacheLookup
from tasks.request.planning.cost import further_questions_ms, packing_s
from tasks.request.planning.ruled_weights import with_ruled_weights

_NOT_WANTED = StageNote(Stage.RERANK, StageStatus.SKIPPED, detail=Reason.RULE).to_wire()
"""The note for a declared reranker that the request does not want."""


_HYPOTHETICAL = "hypothetical_documents"


def _one_of(field: str, name: str, known: Iterable[str]) -> None:
    if name not in (names := list(known)):
        raise NotOffered(f"{field}: no {safe_repr(name)}; there are: {', '.join(names)}")


def configuration_of(request: Request, pipeline: Pipeline) -> Configuration:
    """Raises NotOffered."""
    name = request.configuration or pipeline.default_configuration
    _one_of("configuration", name, pipeline.configurations)
    return pipeline.configurations[name]


def branches_of(
    request: Request, pipeline: Pipeline, configuration: Configuration
) -> tuple[BranchDeclaration, ...]:
    """The branches that this request fans out to, with its weights; raises NotOffered."""
    configured = pipeline.branches_of(configuration)
    names = [branch.name for branch in configured]
    for name in request.branches or ():
        _one_of("branches", name, names)
    for name in request.weights or {}:
        _one_of("weights", name, names)
    for name in request.require:
        _one_of("require", name, request.branches or names)
    weights = request.weights or {}
    branches = tuple(
        branch.model_copy(update={"weight": weights[branch.name]}) if branch.name in weights else branch
        for branch in configured
        if request.branches is None or branch.name in request.branches
    )
    listed = ", ".join(branch.name for branch in branches)
    if request.min_branches > len(branches):
        raise NotOffered(f"min_branches: at most {len(branches)}, which are asked: {listed}")
    if not any(branch.weight for branch in branches):
        raise NotOffered(
            f"weights: every weight is 0 among the asked branches ({listed}); at least one must be above 0"
        )
    return branches


def reranker_of(
    request: Request, pipeline: Pipeline, configuration: Configuration
) -> RerankerDeclaration | None:
    """The reranker of this request; None if none is declared or the request does not want it.  Raises NotOffered."""
    declared, depth = configuration.reranker, request.rerank_depth
    if request.rerank == "off":
        return None
    if declared is None and (request.rerank == "on" or depth is not None):
        known = [name for name, other in pipeline.configurations.items() if other.reranker is not None]
        raise NotOffered(
            f"rerank: the configuration {configuration.name!r} declares no reranker; "
            + (f"there are: {', '.join(known)}" if known else "none does")
        )
    if declared is None or depth is None:
        return declared
    return declared.model_copy(update={"depth": depth, "coarse": max(depth, declared.coarse)})


def _check_thresholds(
    thresholds: Thresholds | None, branches: Iterable[str], reranker: RerankerDeclaration | None
) -> None:
    """Raises NotOffered for the threshold of a branch that takes no part, or of a reranker that does not run."""
    if thresholds is None:
        return
    for name in thresholds.min_branch_score:
        _one_of("thresholds.min_branch_score", name, branches)
    if thresholds.min_rerank_score is not None and reranker is None:
        raise NotOffered(
            "thresholds.min_rerank_score: no reranker runs; choose a configuration that declares one, without "
            "`rerank: off`"
        )


def reserves_ms(timeout_s: float, rerank_budget_ms: int = 0, further_ms: float = 0.0) -> tuple[int, int]:
    """The time kept before the deadline for the terminal write, and for fusion and that write: milliseconds."""
    timeout_ms = timeout_s * 1000
    finish = min(PROTOCOL.longest_finish_reserve_ms, PROTOCOL.finish_reserve_percent * timeout_ms / 100)
    fusion = finish + min(rerank_budget_ms + 100.0 + further_ms, 0.4 * timeout_ms)
    return round(finish), round(fusion)


def _branch_plans(
    request: Request,
    pipeline: Pipeline,
    configuration: Configuration,
    method: Method,
    *,
    returns_query_inputs: bool,
    spare: int,
) -> tuple[BranchPlan, ...]:
    kinds = pipeline.kinds.branches
    return tuple(
        BranchPlan(
            **branch.model_dump(include={"name", "kind", "group", "store", "encoder", "queue", "scores"}),
            weight=branch.weight if "weight" in branch.model_fields_set else method.undeclared_weight,
            depth=spare
            + min(branch.depth, request.effective_depth, configuration.rank_window_size or branch.depth),
            floor=0.0 if branch.scores == "bm25" else kinds[branch.kind].floor,
            half=(configuration.halves or {}).get(branch.name),
            returns_query_inputs=returns_query_inputs,
            limit_ms=round(1000 * min(branch.limit_s or request.timeout_s, request.timeout_s)),
            options=branch.options if kinds[branch.kind].options_in_plan else {},
            is_decisive=request.on_missing == "fail" and branch.name in (request.require or (branch.name,)),
        )
        for branch in branches_of(request, pipeline, configuration)
    )


_SEARCHED: Mapping[str, frozenset[str]] = {
    "bm25": LEXICAL,
    "vector": DENSE,
    "hyde": LEXICAL | DENSE | {_HYPOTHETICAL},
    "hybrid": frozenset(),
    "http": frozenset(),
    "document": frozenset(),
    "graph": frozenset({"entity"}),
}
"""What each built-in kind of branch searches beside the text of a question: kinds of variants, hypothetical documents."""


def _unsearched(request: Request, branches: Iterable[BranchPlan]) -> tuple[str, ...]:
    """Warnings of rewrites that no branch of the request searches, and of questions with too many words.

    A kind of another package may search all rewrites.
    """
    kinds = {branch.kind for branch in branches}
    rewrites: set[str] = {variant.kind for question in request.questions for variant in question.variants}
    if any(question.hypothetical_documents for question in request.questions):
        rewrites.add(_HYPOTHETICAL)
    unsearched = rewrites.difference(*(_SEARCHED.get(kind, rewrites) for kind in kinds))
    named = ", ".join(sorted(unsearched))
    omissions = {
        f"no branch of this request searches {named}": unsearched,
        f"BM25 searches the first {MAX_TERMS:,} different words of a question": "bm25" in kinds
        and any(len(set(question.text.split())) > MAX_TERMS for question in request.questions),
    }
    return tuple(f"{Warned.QUESTIONS}: {what}" for what, is_so in omissions.items() if is_so)


def _weights_by_type(
    request: Request, configuration: Configuration, branches: Sequence[BranchPlan]
) -> dict[str, dict[str, float]]:
    """Those of the asked branches; none for a type that would leave all of them without weight."""
    if request.weights or not configuration.weights_by_type:
        return {}
    return {
        kind: {branch.name: weights[branch.name] for branch in branches if branch.name in weights}
        for kind, weights in configuration.weights_by_type.items()
        if any(weights.get(branch.name, branch.weight) for branch in branches)
    }


def _boosts(request: Request, configuration: Configuration) -> BoostPlan | None:
    if request.boosts is None:
        return configuration.boosts
    return None if request.boosts == "off" else BoostPlan(**request.boosts.model_dump())


def _is_cacheable(request: Request, rival: FusionPlan | None) -> bool:
    """A page that two configurations share is nobody else's."""
    return request.cache != "bypass" and rival is None


def resolve(
    request: Request,
    pipeline: Pipeline,
    *,
    accepted_at: datetime,
    generation: int | None,
    models: Mapping[str, str],
    warnings: tuple[str, ...] = (),
    rules: Matcher | None = None,
    rival: FusionPlan | None = None,
    fingerprint_of: Callable[[str], str] | None = None,
) -> Plan:
    """The plan before the cache is asked: every question with a text is searched, if the request wants retrieval.

    `rules` are those of the namespace.  Branches search deeper by the number of blocked documents: these are found and left
    out, so that the answer can say how many there were.  `fingerprint_of` gives that of a reranker; without it, the answers are not
    cached.  Raises NotOffered.
    """
    if complaint := wrong_filter(requested_filters(request), pipeline.closed_values(request.namespace)):
        raise NotOffered(complaint)
    declared = configuration_of(request, pipeline)
    named_rule = rules.weights_of(declared.name) if rules and not request.weights else None
    configuration, weights_rule, unruled = with_ruled_weights(declared, pipeline, named_rule)
    method_name = request.fusion or configuration.method
    if method_name in pipeline.configurations and method_name not in pipeline.kinds.methods:
        raise NotOffered(f"fusion: {safe_repr(method_name)} is a configuration; name it as `configuration`")
    _one_of("fusion", method_name, pipeline.kinds.methods)
    method = pipeline.kinds.methods[method_name]
    complete_scores = configuration.complete_scores and method.uses_scores
    reranker = reranker_of(request, pipeline, configuration)
    searched = searched_indices(request)
    matched = {index: rules.of(request.questions[index].text) for index in searched} if rules else {}
    changes = {index: change for index, change in matched.items() if change is not None}
    spare = max((len(change.blocked) for change in changes.values()), default=0)
    returns_query_inputs = complete_scores or (rival is not None and rival.complete_scores)
    branches = _branch_plans(
        request, pipeline, configuration, method, returns_query_inputs=returns_query_inputs, spare=spare
    )
    _check_thresholds(request.thresholds, [branch.name for branch in branches], reranker)
    finish_reserve_ms, fusion_reserve_ms = reserves_ms(
        request.timeout_s,
        reranker.budget_ms if reranker else 0,
        further_questions_ms(request) + packing_s(request) * 1000,
    )
    models, warnings = dict(models), (*warnings, *unruled, *_unsearched(request, branches))
    if reranker is not None and fingerprint_of is not None:
        try:
            models["reranker"] = fingerprint_of(reranker.name)
        except StageFailure as failure:
            generation, warnings = None, (*warnings, f"cache: {failure.reason}: {failure.detail}")
    return Plan(
        configuration=configuration.name,
        weights_rule=weights_rule,
        namespace=request.namespace,
        branches=branches,
        method=method.name,
        k=configuration.k,
        complete_scores=complete_scores,
        trust_vectors=configuration.trust_vectors,
        weights_by_type=_weights_by_type(request, configuration, branches),
        boosts=_boosts(request, configuration),
        fold=configuration.fold,
        stages=(_NOT_WANTED,) if configuration.reranker and not reranker else (),
        rerank=reranker and RerankPlan(**reranker.model_dump(include={*RerankPlan.model_fields})),
        generation=generation,
        models=models,
        warnings=warnings,
        rules=changes,
        rules_version=rules.version if rules else None,
        spare=spare,
        searched=searched,
        now=request.now or accepted_at.isoformat(),
        cacheable=_is_cacheable(request, rival),
        rival=rival and FusionPlan(**{name: getattr(rival, name) for name in FusionPlan.model_fields}),
        finish_reserve_ms=finish_reserve_ms,
        fusion_reserve_ms=fusion_reserve_ms,
    )


def built(
    plan: Plan,
    lookup: CacheLookup,
    branches: tuple[BranchPlan, ...],
    missing: Mapping[str, Degradation] = MappingProxyType({}),
    *,
    notes: Iterable[StageNote] = (),
) -> Plan:
    """The plan of `resolve` with these branches, what the cache has, and the reasons of the branches that are left out."""
    skipped = [StageNote(why.where, StageStatus.SKIPPED, detail=why.reason) for why in missing.values()]
    stages = [note.to_wire() for note in (lookup.note, *notes, *skipped)]
    return plan.model_copy(
        update={
            "branches": branches,
            "searched": tuple(index for index in plan.searched if index not in lookup.cached),
            "cached": lookup.cached,
            "degraded": tuple(why.to_wire() for why in missing.values()),
            "stages": (*plan.stages, *stages),
            "warnings": (*plan.warnings, *lookup.warnings),
        }
    )
