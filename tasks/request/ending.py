"""How a request ends: the ledger's snapshot is fused, texts are fetched, and the answer is written once.

Fusion workers and the sweeper end requests in the same way; `Ender` holds what they do differently.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from chorale_client.reading import read_request, stand_in
from chorale_client.request import Request
from chorale_client.unanswered import failed_tail
from chorale_client.words import Reason, Stage, Status
from redis.exceptions import RedisError
from structlog import get_logger

from assembly.resources import Resources
from config.logging import log_stage
from fusion.answer import Pages, build_answer_tail
from fusion.answered import BranchAnswers, branch_stage
from fusion.bounded import bounded_tail
from fusion.fuse import fuse_question
from fusion.fused_hits import FusedQuestion
from ledger.outcomes import outcomes
from ledger.protocol import Snapshot
from models.envelope import Degradation, Envelope
from models.plan import Plan
from tasks.request.answer_cache import keep_answers
from tasks.request.passage_texts import Fetched, fetch_texts
from tasks.request.reranking import Candidates, RerankedPages, Reranking, time_for_it_s

log = get_logger("chorale.end")


@dataclass(frozen=True, slots=True)
class Ender:
    """Who ends a request, and what they can do for its answer."""

    name: str
    """The name that the ledger and the audit trail record."""
    texts_limit_s: float
    """Longest wait for texts."""
    has_reranker: bool
    missing: Callable[[Snapshot], tuple[Degradation, ...]]
    """What the answer lacks because this process ends it."""


def _not_fused_in_time(entry: Snapshot) -> tuple[Degradation, ...]:
    reason = Reason.NOT_STARTED if entry.state != "fusing" else Reason.TIMEOUT
    detail = "no fusion worker ended it in time; answered by the sweeper"
    return (Degradation(Stage.FUSE, reason, detail),)


FUSION_WORKER = Ender("fusion", math.inf, has_reranker=True, missing=lambda entry: ())
# The sweeper ends what is nearly late: no text is worth an answer after the deadline.
SWEEPER = Ender("sweeper", 0.03, has_reranker=False, missing=_not_fused_in_time)


def end_joined(resources: Resources, entry: Snapshot, *, by: Ender, joined_s: float) -> bool:
    """Fuse a joined entry and end its request; returns whether this was the end that counted.

    `joined_s` is the monotonic clock when the join was asked for; the entry's times count from then on.  An error in
    here ends the request as `failed`.
    """
    try:
        request = read_request(entry.request).request
        plan = None if entry.plan is None else Plan.model_validate_json(entry.plan)
    except ValueError as error:
        why = Degradation(Stage.PLAN, Reason.NOT_CONFIGURED, f"of another version: {error}"[:500])
        return end_failed(resources, stand_in(entry.request_id, entry.request), why, by=by.name)
    if plan is None:
        why = Degradation(Stage.PLAN, Reason.NOT_STARTED, "no worker planned it in time")
        return end_failed(resources, request, why, by=by.name)
    found = _branch_answers(entry, request, plan)
    try:
        fields = Ending(resources, entry, found, by, joined_s).compose()
        fields, tail = bounded_tail(fields, resources.settings.answer_limit_bytes)
    except Exception as error:  # any answer is better than none
        log.exception("fusion failed", request_id=entry.request_id)
        why = Degradation(Stage.FUSE, Reason.ERROR, f"{type(error).__name__}: {error}"[:500])
        has_ended = end_failed(resources, request, why, by=by.name)
        if has_ended:
            _count_outcomes(resources, found)
        return has_ended
    complete = all(
        question["status"] in (Status.COMPLETE, Status.SKIPPED) for question in fields["questions"]
    )
    took_ms = resources.ledger.finish(entry.request_id, by=by.name, tail=tail, is_complete=complete)
    if took_ms is None:
        return False
    _log(request, fields, took_ms)
    _count_outcomes(resources, found)
    if plan.cacheable:
        keep_answers(resources, found, fields["questions"])
    return True


def end_failed(resources: Resources, request: Request, why: Degradation, *, by: str) -> bool:
    """End a request as `failed`; returns whether this was the end that counted."""
    tail = failed_tail(request, where=why.where, reason=Reason(why.reason), detail=why.detail)
    took_ms = resources.ledger.finish(request.request_id, by=by, tail=tail, is_complete=False)
    if took_ms is not None:
        log.warning(
            "failed", request_id=request.request_id, where=why.where, reason=why.reason, detail=why.detail
        )
    return took_ms is not None


@dataclass(frozen=True, slots=True)
class Ending:
    """One joined request whose answer is being made."""

    resources: Resources
    entry: Snapshot
    found: BranchAnswers
    by: Ender
    joined_s: float

    def compose(self) -> Mapping[str, Any]:
        """The fields of `fusion.answer.build_answer_tail`."""
        plan = self.found.plan
        method = self.resources.pipeline.kinds.method(plan.method)
        fused: Mapping[int, FusedQuestion] = {
            index: fuse_question(
                plan, self.found.envelopes, position, self.found.request, method, clock=time.monotonic
            )
            for position, index in enumerate(plan.asked)
        }
        pages = self._pages(fused)
        took_ms = self.entry.since_accepted_ms + self._spent_s() * 1000
        fields = build_answer_tail(self.found, pages, took_ms=took_ms, clock=time.monotonic)
        _place_on_the_waterfall(fields["stages"], self.entry.since_accepted_ms)
        return fields

    def _pages(self, fused: Mapping[int, FusedQuestion]) -> Pages:
        """The pages with their texts, reranked where the plan declares it and the ender can."""
        request, plan = self.found.request, self.found.plan
        if plan.rerank is None:
            fetched, reranked = self._fetch(fused), None
        else:
            reranking = Reranking(self.resources, request, plan, plan.rerank, fused)
            if self.by.has_reranker:
                wanted = reranking.wanted(self._rerank_limit_s())
                fetched = self._fetch(fused, wanted)
                reranked = reranking.ended(
                    wanted,
                    fetched.texts or {},
                    limit_s=self._rerank_limit_s(),
                    without_texts=fetched.why.reason if fetched.why else Reason.DOCUMENT_MISSING,
                )
            else:
                reranked = reranking.left_as_fused()
                fetched = self._fetch(reranked.pages)
        done: list[Fetched | RerankedPages] = [fetched] if reranked is None else [fetched, reranked]
        return Pages(
            fused if reranked is None else reranked.pages,
            fetched.texts,
            stages=[one.note for one in done if one.note is not None],
            degraded=[
                *(one.why for one in done if one.why is not None),
                *self.by.missing(self.entry),
            ],
        )

    def _fetch(self, fused: Mapping[int, FusedQuestion], wanted: Candidates = ()) -> Fetched:
        left_s = (self.entry.left_ms - self.found.plan.finish_reserve_ms / 2) / 1000 - self._spent_s()
        limit_s = min(left_s, self.by.texts_limit_s)
        return fetch_texts(self.resources, self.found, fused, wanted, limit_s=limit_s)

    def _rerank_limit_s(self) -> float:
        return time_for_it_s(self.entry, self.found.request, self.found.plan, spent_s=self._spent_s())

    def _spent_s(self) -> float:
        return time.monotonic() - self.joined_s


def _branch_answers(entry: Snapshot, request: Request, plan: Plan) -> BranchAnswers:
    envelopes = {name: Envelope.from_wire(name, raw) for name, raw in entry.envelopes.items()}
    names = [branch.name for branch in plan.branches if branch.name not in envelopes]
    return BranchAnswers(request, plan, envelopes, {name: _absence(entry, name) for name in names})


def _absence(entry: Snapshot, branch: str) -> Degradation:
    where = branch_stage(branch)
    if entry.decided_by is not None:
        return Degradation(
            where, Reason.CANCELLED, f"{entry.decided_by!r} had failed, which decides the request"
        )
    if branch in entry.started:
        return Degradation(where, Reason.TIMEOUT, "began and had not answered when the waiting ended")
    return Degradation(where, Reason.NOT_STARTED, "no worker took it before the waiting ended")


def _place_on_the_waterfall(stages: list[dict[str, Any]], begun_ms: int) -> None:
    """Give the stages of the fusion, which follow one another, their `start_ms`."""
    at_ms = float(begun_ms)
    sequence = {Stage.COLLAPSE, Stage.FUSE, Stage.BOOST, Stage.FOLD, Stage.FETCH, Stage.RERANK, Stage.SNIPPET}
    for stage in stages:
        if stage["stage"] in sequence and "start_ms" not in stage:
            stage["start_ms"] = round(at_ms, 3)
            at_ms += stage["ms"]


def _count_outcomes(resources: Resources, found: BranchAnswers) -> None:
    """Tell the breakers how each branch did.  Whoever ended the request calls this, once."""
    request = found.request
    outcome_of = {
        one.name: one
        for one in outcomes(found.plan, found.envelopes, found.absent, timeout_s=request.timeout_s)
    }
    try:
        turned = resources.breakers.count(request.request_id, outcome_of.values())
    except RedisError as error:
        log.warning("outcomes not counted", request_id=request.request_id, error=str(error)[:200])
        return
    for one in turned:
        if one.is_open:
            log.warning(
                "breaker opened",
                breaker=one.name,
                reason=outcome_of[one.name].reason,
                open_s=resources.settings.breaker_open_s,
            )
        else:
            log.warning("breaker closed", breaker=one.name)


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
