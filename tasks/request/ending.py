"""How a request ends: the snapshot of the ledger is fused, texts are fetched, and the answer is written once.

The fusion workers and the sweeper end requests in this one way; what they differ in is how much time they take.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from chorale_client.reading import read_request, stand_in
from chorale_client.request import Request
from chorale_client.unanswered import failed_tail
from chorale_client.words import Reason, RerankStage, Stage, StageStatus, Status
from pydantic_core import to_json
from redis.exceptions import RedisError
from structlog import get_logger

from cache.protocol import CacheUnavailable
from config.logging import log_stage
from fusion.answer import build_answer_tail
from fusion.bounded import bounded_tail
from fusion.fuse import fuse_question
from fusion.fused import FusedQuestion
from fusion.texts import texts_to_fetch
from ledger.outcomes import outcomes
from ledger.protocol import Snapshot
from models.documents import PassageText
from models.envelope import Degradation, Envelope, StageNote
from models.errors import StageFailure
from models.plan import Plan
from tasks.request.passage_texts import texts_of
from tasks.request.planning import question_keys
from tasks.request.reranking import Candidates, Reranking, time_for_it_s

if TYPE_CHECKING:
    from assembly.resources import Resources

log = get_logger("chorale.end")

TEXTS_OF_THE_SWEEPER_S = 0.03
"""The sweeper ends what is nearly late: no text is worth an answer that comes after the deadline."""


def end_joined(resources: Resources, entry: Snapshot, *, by: str, joined_s: float) -> bool:
    """Fuse a joined entry and end its request; whether this was the end that counted.

    `by` is `fusion` or `sweeper`; `joined_s` is the monotonic clock when the join was asked for, from which on the time
    of the entry runs.  Nothing that goes wrong in here leaves the request without an end.
    """
    try:
        request = read_request(entry.request).request
        plan = None if entry.plan is None else Plan.model_validate_json(entry.plan)
    except ValueError as error:
        why = Degradation(Stage.PLAN, Reason.NOT_CONFIGURED, f"of another version: {error}"[:500])
        return end_failed(resources, stand_in(entry.request_id, entry.request), why, by=by)
    if plan is None:
        why = Degradation(Stage.PLAN, Reason.NOT_STARTED, "no worker planned it in time")
        return end_failed(resources, request, why, by=by)
    envelopes = {name: Envelope.from_wire(name, raw) for name, raw in entry.envelopes.items()}
    absent = {
        branch.name: _absence(entry, branch.name) for branch in plan.branches if branch.name not in envelopes
    }
    try:
        fields = _compose(resources, entry, request, plan, envelopes, absent, by, joined_s)
        fields, tail = bounded_tail(fields, resources.settings.answer_limit_bytes)
    except Exception as error:  # any answer is better than none
        log.exception("fusion failed", request_id=entry.request_id)
        why = Degradation(Stage.FUSE, Reason.ERROR, f"{type(error).__name__}: {error}"[:500])
        has_ended = end_failed(resources, request, why, by=by)
        if has_ended:
            _count(resources, request, plan, envelopes, absent)
        return has_ended
    complete = all(
        question["status"] in (Status.COMPLETE, Status.SKIPPED) for question in fields["questions"]
    )
    took_ms = resources.ledger.finish(entry.request_id, by=by, tail=tail, is_complete=complete)
    if took_ms is None:
        return False
    _log(request, fields, took_ms)
    _count(resources, request, plan, envelopes, absent)
    if plan.cacheable:
        _keep(resources, request, plan, envelopes.values(), fields)
    return True


def end_failed(resources: Resources, request: Request, why: Degradation, *, by: str) -> bool:
    """End a request that came to nothing."""
    tail = failed_tail(request, where=why.where, reason=Reason(why.reason), detail=why.detail)
    took_ms = resources.ledger.finish(request.request_id, by=by, tail=tail, is_complete=False)
    if took_ms is not None:
        log.warning(
            "failed", request_id=request.request_id, where=why.where, reason=why.reason, detail=why.detail
        )
    return took_ms is not None


def _compose(
    resources: Resources,
    entry: Snapshot,
    request: Request,
    plan: Plan,
    envelopes: Mapping[str, Envelope],
    absent: Mapping[str, Degradation],
    by: str,
    joined_s: float,
) -> Mapping[str, Any]:
    fused: Mapping[int, FusedQuestion] = {
        index: fuse_question(plan, envelopes, position, request, clock=time.monotonic)
        for position, index in enumerate(plan.asked)
    }
    fused, texts, stages, degraded = _with_texts(resources, entry, request, plan, fused, by, joined_s)
    if by == "sweeper":
        detail = "no fusion worker ended it in time; answered by the sweeper"
        reason = Reason.NOT_STARTED if entry.state != "fusing" else Reason.TIMEOUT
        degraded.append(Degradation(Stage.FUSE, reason, detail))
    fields = build_answer_tail(
        request,
        plan,
        envelopes,
        fused,
        texts,
        absent=absent,
        degraded=degraded,
        stages=stages,
        took_ms=entry.since_accepted_ms + (time.monotonic() - joined_s) * 1000,
        clock=time.monotonic,
    )
    _place(fields["stages"], entry.since_accepted_ms)
    return fields


def _with_texts(
    resources: Resources,
    entry: Snapshot,
    request: Request,
    plan: Plan,
    fused: Mapping[int, FusedQuestion],
    by: str,
    joined_s: float,
) -> tuple[Mapping[int, FusedQuestion], dict[str, PassageText] | None, list[StageNote], list[Degradation]]:
    """The pages and their texts, reranked where that is declared; what was done, and what is missing."""
    spent_s = time.monotonic() - joined_s
    left_s = (entry.left_ms - plan.finish_reserve_ms / 2) / 1000 - spent_s
    if by == "sweeper":
        left_s = min(left_s, TEXTS_OF_THE_SWEEPER_S)
    if plan.rerank is None:
        texts, note, missing = _fetch(resources, request, plan, fused, (), left_s)
        return fused, texts, [note] if note else [], [missing] if missing else []
    reranking = Reranking(resources, request, plan, plan.rerank, fused)
    if by == "sweeper":
        pages, rerank_note, why = reranking.left_as_fused()
        texts, note, missing = _fetch(resources, request, plan, pages, (), left_s)
    else:
        wanted = reranking.wanted(time_for_it_s(entry, request, plan, plan.rerank, spent_s=spent_s))
        texts, note, missing = _fetch(resources, request, plan, fused, wanted, left_s)
        spent_s = time.monotonic() - joined_s
        pages, rerank_note, why = reranking.ended(
            wanted,
            texts or {},
            limit_s=time_for_it_s(entry, request, plan, plan.rerank, spent_s=spent_s),
            without_texts=missing.reason if missing else Reason.DOCUMENT_MISSING,
        )
    notes = [one for one in (note, rerank_note) if one is not None]
    return pages, texts, notes, [one for one in (missing, why) if one is not None]


def _absence(entry: Snapshot, branch: str) -> Degradation:
    where = f"{Stage.SEARCH}.{branch}"
    if entry.decided_by is not None:
        return Degradation(
            where, Reason.CANCELLED, f"{entry.decided_by!r} had failed, which decides the request"
        )
    if branch in entry.started:
        return Degradation(where, Reason.TIMEOUT, "began and had not answered when the waiting ended")
    return Degradation(where, Reason.NOT_STARTED, "no worker took it before the waiting ended")


def _place(stages: list[dict[str, Any]], begun_ms: int) -> None:
    """Give the stages of the fusion, which follow one another, their places on the waterfall."""
    at_ms = float(begun_ms)
    sequence = {Stage.COLLAPSE, Stage.FUSE, Stage.BOOST, Stage.FOLD, Stage.FETCH, Stage.RERANK, Stage.SNIPPET}
    for stage in stages:
        if stage["stage"] in sequence and "start_ms" not in stage:
            stage["start_ms"] = round(at_ms, 3)
            at_ms += stage["ms"]


def _fetch(
    resources: Resources,
    request: Request,
    plan: Plan,
    fused: Mapping[int, FusedQuestion],
    wanted: Candidates,
    left_s: float,
) -> tuple[dict[str, PassageText] | None, StageNote | None, Degradation | None]:
    """Titles and texts of the hits that may be shown and of those `wanted` besides, from a store that has them."""
    needs_texts = not set(request.include) <= {"ids", "explanation"}
    if not needs_texts and not wanted:
        return None, None, None
    shown = request.offset + request.top_k if plan.rerank is not None else None
    hits = [hit for one in fused.values() for hit in one.hits[:shown]] if needs_texts else []
    texts = {name: text for one in fused.values() for name, text in one.texts.items()}
    by_store = texts_to_fetch(plan, (*hits, *(hit for _, hit in wanted)), texts)
    started_s = time.monotonic()
    count, brought = sum(map(len, by_store.values())), len(texts)
    failure: StageFailure | TimeoutError | None = None
    for store, passage_ids in by_store.items():
        # A store that is away costs its own texts alone.
        try:
            texts |= texts_of(resources, store, plan.namespace, passage_ids, ends_at_s=started_s + left_s)
        except (StageFailure, TimeoutError) as error:
            failure = failure or error
    ms, fetched = (time.monotonic() - started_s) * 1000, len(texts) - brought
    if failure is None:
        return texts, StageNote(Stage.FETCH, StageStatus.OK, ms, count, fetched), None
    reason = failure.reason if isinstance(failure, StageFailure) else Reason.BUDGET
    note = StageNote(Stage.FETCH, StageStatus.FAILED, ms, count, fetched, detail=str(reason))
    return texts or None, note, Degradation(Stage.FETCH, reason, str(failure) or "no time left for texts")


def _count(
    resources: Resources,
    request: Request,
    plan: Plan,
    envelopes: Mapping[str, Envelope],
    absent: Mapping[str, Degradation],
) -> None:
    """Tell the breakers what this request saw, once: by whoever ended it."""
    found = outcomes(plan, envelopes, absent, timeout_s=request.timeout_s)
    try:
        turned = resources.breakers.count(request.request_id, found)
    except RedisError as error:
        log.warning("outcomes not counted", request_id=request.request_id, error=str(error)[:200])
        return
    reasons = {one.name: one.reason for one in found}
    for one in turned:
        if one.is_open:
            open_s = resources.settings.breaker_open_s
            log.warning("breaker opened", breaker=one.name, reason=reasons[one.name], open_s=open_s)
        else:
            log.warning("breaker closed", breaker=one.name)


def _keep(
    resources: Resources,
    request: Request,
    plan: Plan,
    envelopes: Iterable[Envelope],
    fields: Mapping[str, Any],
) -> None:
    """Cache the whole answers, if the corpus stayed the same from the plan until now."""
    generations = {plan.generation, *(envelope.generation for envelope in envelopes)}
    if plan.generation is None or len(generations) > 1:
        return
    values = {
        key: to_json({"generation": plan.generation, "answer": fields["questions"][index]})
        for index, key in question_keys(request, plan).items()
        if fields["questions"][index]["status"] == Status.COMPLETE
        and not _is_reranked_in_part(fields["questions"][index], plan)
    }
    try:
        if values and resources.generation(plan.namespace) == plan.generation:
            resources.answers.put_many(values, ttl_s=resources.settings.cache_ttl_s)
    except CacheUnavailable as error:
        log.warning("answer not cached", request_id=request.request_id, error=str(error))


def _is_reranked_in_part(question: Mapping[str, Any], plan: Plan) -> bool:
    """Whether the page shows a hit that a faster model, or fewer questions beside it, would have had reranked."""
    return plan.rerank is not None and any(
        hit["rank"] <= plan.rerank.depth and hit["rerank"]["stage"] == RerankStage.COARSE_ONLY
        for hit in question["hits"]
    )


def _log(request: Request, fields: Mapping[str, Any], took_ms: int) -> None:
    for stage in fields["stages"]:
        log_stage(
            stage["stage"],
            request_id=request.request_id,
            correlation_id=request.correlation_id,
            ms=stage["ms"],
            n_in=stage.get("n_in"),
            n_out=stage.get("n_out"),
            status=stage["status"],
            reason=stage.get("detail"),
        )
    log.info(
        "ended",
        request_id=request.request_id,
        correlation_id=request.correlation_id,
        status=fields["status"],
        degraded=[f"{one['where']} {one['reason']}" for one in fields["degraded"]],
        ms=took_ms,
    )
