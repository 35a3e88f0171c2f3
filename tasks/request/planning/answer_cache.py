"""Whole answers of single questions in the answer cache: read before a request fans out, kept when it has ended."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from chorale_client.keys import COALESCING
from chorale_client.request import Request
from chorale_client.tenants import tenant_of
from chorale_client.wire_names import Reason, Stage, StageStatus, Status
from pydantic_core import from_json, to_json
from structlog import get_logger

from config.declarations import Pipeline
from fusion.branch_results import BranchAnswers
from ledger.caches import CacheUnavailable, normalised_text
from models.branch_result import StageNote
from models.plan import Plan
from models.texts.known_words import is_about_language
from tasks.wiring.resources import Resources

log = get_logger("chorale.cache")

_NOT_IN_KEY = {
    "v", "request_id", "correlation_id", "tags", "namespace", "questions", "timeout_s", "cache", "now", "hedge",
    "on_end", "linked", "traceparent", "rerank", "rerank_depth",
}  # fmt: skip
"""Who asks, when, for how long and how often does not change a complete answer; the plan has `rerank` resolved."""
_PLAN_IN_KEY = {
    "configuration", "branches", "method", "k", "boosts", "fold", "rerank", "models", "complete_scores",
    "trust_vectors", "weights_by_type",
}  # fmt: skip
_BRANCH_NOT_IN_KEY = {"limit_ms", "queue", "is_decisive", "hedge_after_ms", "lease_ms", "is_costly"}
"""A branch's time, queue and policy do not change a complete answer."""


@dataclass(frozen=True, slots=True)
class CacheLookup:
    """What the answer cache has for a request."""

    note: StageNote
    cached: Mapping[int, dict[str, Any]] = field(default_factory=dict)
    """Answers of single questions, by index."""
    warnings: tuple[str, ...] = ()
    keys: Sequence[str] = ()
    """The keys of the cache that may answer."""
    coalescing_key: str | None = None
    """The key that equal requests in flight share, if one may."""


def look_up(
    resources: Resources, request: Request, plan: Plan, stored: Mapping[str, bytes | None] | None = None
) -> CacheLookup:
    """`stored` is what the cache has under the keys, if it was read."""
    if not plan.cacheable or not plan.searched:
        return CacheLookup(StageNote(Stage.CACHE, StageStatus.SKIPPED, detail=Reason.RULE))
    begun_s = monotonic()
    keys = question_keys(request, plan)
    lookups = list(keys.values()) if request.cache == "use" and plan.generation is not None else []
    cached: dict[int, dict[str, Any]] = {}
    warnings: tuple[str, ...] = ()
    status, detail = StageStatus.OK, None
    if stored is None:
        try:
            stored = resources.answers.get_many(lookups)
        except CacheUnavailable as error:
            warnings = (f"cache: {Reason.UNAVAILABLE}: {error}",)
            status, detail, stored = StageStatus.FAILED, str(Reason.UNAVAILABLE), {}
    for index, key in keys.items():
        answer = stored.get(key)
        if answer is not None and (known := from_json(answer))["generation"] == plan.generation:
            cached[index] = known["answer"]
            warnings += tuple(known.get("warnings", ()))
    ms = (monotonic() - begun_s) * 1000
    note = StageNote(Stage.CACHE, status, ms, len(keys), len(cached), detail=detail)
    coalescing_key = None
    if request.cache == "use" and len(request.questions) == 1 and not cached:
        coalescing_key = f"{COALESCING}{next(iter(keys.values()))}:{plan.generation}"
    return CacheLookup(note, cached, warnings, lookups, coalescing_key)


def question_keys(request: Request, plan: Plan) -> dict[int, str]:
    """The cache key of each question that has a text, by its index.

    Each tenant has its own: `cached`, or only the time that an answer takes, would tell what others have asked.
    """
    options: dict[str, Any] = request.model_dump(mode="json", exclude=_NOT_IN_KEY)
    if (tenant := tenant_of(request.request_id)) is not None:
        options["tenant"] = tenant
    resolved = plan.model_dump(
        mode="json", include=_PLAN_IN_KEY, exclude={"branches": {"__all__": _BRANCH_NOT_IN_KEY}}
    )
    if plan.boosts is not None:
        resolved["day"] = plan.now[:10]
    return {
        index: answer_key(
            plan.namespace,
            request.questions[index].model_dump(mode="json"),
            options,
            {**resolved, "rules": rules.model_dump(mode="json")}
            if (rules := plan.rules.get(index))
            else resolved,
        )
        for index in plan.searched
    }


def answer_key(
    namespace: str, question: Mapping[str, Any], options: Mapping[str, Any], plan: Mapping[str, Any]
) -> str:
    """Key of the answer to one question.

    `question`: text, variants and hypothetical documents.  `options`: the request's options for its answer.  `plan`:
    resolved values and model fingerprints.  The corpus generation is not part of the key: it is stored with the answer
    and compared when the answer is read, so that a new generation overwrites the old entry.
    """
    same = {**question, "text": normalised_text(str(question.get("text", "")))}
    document = json.dumps([namespace, same, dict(options), dict(plan)], sort_keys=True, separators=(",", ":"))
    return f"answer:{namespace}:{hashlib.sha256(document.encode()).hexdigest()[:40]}"


def keep_answers(resources: Resources, ended: Sequence[tuple[BranchAnswers, Mapping[str, Any]]]) -> None:
    """Cache the complete answers to single questions, from the fields of whole answers.

    Each is kept with the corpus generation of its plan.  If the corpus has another generation by now, no reader takes it.
    """
    declared = _declared_ttls_s(resources.pipeline)
    by_ttl: dict[float, dict[str, bytes]] = {}
    for answers, fields in ended:
        own = [declared[branch.store] for branch in answers.plan.branches if branch.store in declared]
        ttl_s = min([resources.settings.cache_ttl_s, *own])
        by_ttl.setdefault(ttl_s, {}).update(_answers(answers, fields, declared))
    for ttl_s, values in by_ttl.items():
        try:
            if values:
                resources.answers.put_many(values, ttl_s=ttl_s)
        except CacheUnavailable as error:
            log.warning("answers not cached", count=len(values), error=str(error))


def _declared_ttls_s(pipeline: Pipeline) -> dict[str, float]:
    """How long hits may come from the cache, by store; only stores that cannot tell a generation declare it."""
    return {
        name: store.options["cache_ttl_s"]
        for name, store in pipeline.stores.items()
        if store.kind == "http" and store.options.get("cache_ttl_s") is not None
    }


def _answers(
    answers: BranchAnswers, fields: Mapping[str, Any], ttls_s: Mapping[str, float]
) -> dict[str, bytes]:
    """The complete answers by cache key; none if a branch searched another state of the corpus than was planned, unless its
    store declares a time (`ttls_s`).

    They are kept without the texts of their questions, which somebody may have erased.

    A search with warnings is not cached, because the next caller would get neither the warnings nor a text that was missing.
    The warning about a namespace's language is kept with each answer.
    """
    request, plan, questions = answers.request, answers.plan, fields["questions"]
    has_time = {branch.name for branch in plan.branches if branch.store in ttls_s}
    searched = [
        branch_result.generation
        for name, branch_result in answers.branch_results.items()
        if name not in has_time
    ]
    if plan.generation is None or any(generation != plan.generation for generation in searched):
        return {}
    language_warnings = list(filter(is_about_language, fields["warnings"]))
    is_warned = bool(set(fields["warnings"]) - {*plan.warnings, *language_warnings})
    if is_warned or not plan.cacheable:
        return {}
    return {
        key: to_json(
            {
                "generation": plan.generation,
                "answer": {**questions[index], "text": ""},
                "warnings": language_warnings,
            }
        )
        for index, key in question_keys(request, plan).items()
        if questions[index]["status"] == Status.COMPLETE
    }
