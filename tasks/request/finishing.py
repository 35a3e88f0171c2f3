"""How a request ends: the ledger's snapshot is fused, texts are fetched, and the answer is written once.

Fusion workers and the sweeper end requests in the same way; `FinishPolicy` holds what they do differently.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from chorale_client.request import Request
from chorale_client.terminal_answers import failed_tail
from chorale_client.wire_names import Reason, Stage, Status
from chorale_client.wire_reader import placeholder_request
from pydantic_core import to_json
from structlog import get_logger

from config.logging import log_stage
from fusion.answer import Pages, build_answer_tail, size_limited_tail
from fusion.branch_results import BranchAnswers, branch_stage, without_passages
from fusion.conditions import least_relaxed
from fusion.confidence import confidence
from fusion.fuse import fuse_question
from fusion.fused_hits import FusedQuestion
from fusion.page import NO_PIN_LOOKUP, is_chosen_late
from ledger.breakers import read_transitions
from ledger.outcomes import Outcome, outcomes
from ledger.protocol import End, Snapshot
from models.branch_result import BranchResult, Degradation
from models.documents import PassageText
from models.fusion_method import Method
from models.plan import Plan, is_costly, read_planned
from tasks.request.answer_cache import keep_answers
from tasks.request.contexts import Contexts, make_contexts
from tasks.request.filters import filter_warnings
from tasks.request.page_selection import PageSelection, choose_pages
from tasks.request.pinned_documents import PinLookups, look_up
from tasks.request.reranking import Candidates, Reranking, time_for_it_s
from tasks.request.score_backfill import ScoreBackfill, complete
from tasks.request.source_types import warn_of_unknown
from tasks.request.stored_passages import FetchedTexts, fetch_texts
from wiring.resources import Resources

log = get_logger("chorale.end")


@dataclass(frozen=True, slots=True)
class FinishPolicy:
    """Who ends a request, and what they can do for its answer."""

    name: str
    """The name that the ledger and the audit trail record."""
    texts_limit_s: float
    """Longest wait for texts."""
    has_models: bool
    missing: Callable[[Snapshot], tuple[Degradation, ...]]
    """What the answer lacks because this process ends it."""


def _not_fused_in_time(entry: Snapshot) -> tuple[Degradation, ...]:
    reason = Reason.NOT_STARTED if entry.state != "fusing" else Reason.TIMEOUT
    detail = "no fusion worker ended it in time; answered by the sweeper"
    return (Degradation(Stage.FUSE, reason, detail),)


FUSION_WORKER = FinishPolicy("fusion", math.inf, has_models=True, missing=lambda entry: ())
# The sweeper ends what is nearly late: no text is worth an answer after the deadline.
SWEEPER = FinishPolicy("sweeper", 0.03, has_models=False, missing=_not_fused_in_time)


HURRIED_MS = 150
"""A joined request with less time left is ended before the others, and alone."""


def end_joined(
    resources: Resources, entries: Sequence[Snapshot], *, by: FinishPolicy, joined_s: float
) -> int:
    """Fuse joined entries and end their requests; returns how many of these ends counted.

    `joined_s` is the monotonic clock when the join was asked for; the entries' times count from then on.  An error in
    here ends its request as `failed`.
    """
    hurried, others, costly = list[Snapshot](), list[Snapshot](), list[Snapshot]()
    for entry in entries:
        (costly if is_costly(entry.plan) else hurried if entry.left_ms < HURRIED_MS else others).append(entry)
    groups = [*([entry] for entry in sorted(hurried, key=lambda entry: entry.left_ms)), others]
    groups += [[entry] for entry in costly]
    return sum(_end_together(resources, group, by, joined_s) for group in groups if group)


def _end_together(
    resources: Resources, entries: Sequence[Snapshot], by: FinishPolicy, joined_s: float
) -> int:
    """One terminal write for all."""
    opened = [_opened(resources, entry, by, joined_s) for entry in entries]
    builders = [builder for builder in opened if isinstance(builder, AnswerBuilder)]
    count = opened.count(True)
    written = [_write(builder) for builder in builders]
    finished = resources.ledger.finish_all([end for end, _ in written], by=by.name)
    kept: list[tuple[BranchAnswers, Mapping[str, Any]]] = []
    for builder, (_, fields), (took_ms, transitions) in zip(builders, written, finished, strict=True):
        if took_ms is None:
            continue
        count += 1
        _log_transitions(resources, builder.outcomes, transitions)
        if fields is not None:
            _log(builder.answers.request, fields)
            kept.append((builder.answers, fields))
    keep_answers(resources, kept)
    return count


def _opened(resources: Resources, entry: Snapshot, by: FinishPolicy, joined_s: float) -> AnswerBuilder | bool:
    """A request that was read and fused; or, if that is impossible, whether it was ended here as failed."""
    if not entry.is_signed:
        why = Degradation(Stage.PLAN, Reason.FORGED, "no worker of this installation made its plan")
        return end_failed(resources, placeholder_request(entry.request_id, entry.request), why, by=by.name)
    try:
        request, plan = read_planned(entry.request, entry.plan)
    except ValueError as error:
        why = Degradation(Stage.PLAN, Reason.NOT_CONFIGURED, f"of another version: {error}"[:500])
        return end_failed(resources, placeholder_request(entry.request_id, entry.request), why, by=by.name)
    if plan is None:
        why = Degradation(Stage.PLAN, Reason.NOT_STARTED, "no worker planned it in time")
        return end_failed(resources, request, why, by=by.name)
    if is_costly(entry.plan) and (missing := by.missing(entry)):
        # Fusing it would take the sweeper seconds, in which others would end late.
        return end_failed(resources, request, missing[0], by=by.name)
    return AnswerBuilder(resources, entry, _branch_answers(entry, request, plan), by, joined_s)


def _write(builder: AnswerBuilder) -> tuple[End, Mapping[str, Any] | None]:
    """The terminal write of a request, and the fields of its answer; None instead of them if the fusion failed."""
    resources, request = builder.resources, builder.answers.request
    outcomes = resources.breakers.arguments(request.request_id, builder.outcomes.values())
    coalescing_key = None if builder.entry.forged else builder.entry.coalescing_key
    fields: Mapping[str, Any] | None = None
    complete, completed = False, ""
    try:
        fields, tail = size_limited_tail(builder.compose(), resources.settings.answer_limit_bytes)
        statuses = {question["status"] for question in fields["questions"]}
        complete, completed = statuses <= {Status.COMPLETE, Status.SKIPPED}, builder.completed
    except Exception as error:  # any answer is better than none
        log.exception("fusion failed", request_id=request.request_id)
        detail = f"{type(error).__name__}: {error}"[:500]
        tail = failed_tail(request, where=Stage.FUSE, reason=Reason.ERROR, detail=detail)
    return End(request.request_id, tail, complete, outcomes, coalescing_key, completed), fields


def end_failed(resources: Resources, request: Request, why: Degradation, *, by: str) -> bool:
    """End a request as `failed`; returns whether this was the end that counted."""
    tail = failed_tail(request, where=why.where, reason=Reason(why.reason), detail=why.detail)
    [(took_ms, _)] = resources.ledger.finish_all([End(request.request_id, tail, is_complete=False)], by=by)
    if took_ms is not None:
        log.warning(
            "failed", request_id=request.request_id, where=why.where, reason=why.reason, detail=why.detail
        )
    return took_ms is not None


MOST_REFILLS = 2
"""How often a request is fused again without passages that have gone; what is missing then makes the page shorter."""


class _PassagesGone(Exception):
    def __init__(self, passage_ids: frozenset[str]) -> None:
        super().__init__()
        self.passage_ids = passage_ids


@dataclass(frozen=True)
class AnswerBuilder:
    """One joined request whose answer is being made.

    The cached properties are steps, each of which runs when the first one that needs it is read: `_completed` and `_pinned`
    (calls of stores), `_fused`, `_chosen`, `pages`, `compose`.  Reading one spends the request's time: `texts_limit_s` and
    `_rerank_limit_s()` are what is left at that moment.  So an order of reading is an order of spending, and a property
    must not be read only to look at it.  `outcomes` reads no other step, and counts also if the fusion fails.

    A step that finds passages gone raises _PassagesGone, and `pages` starts again with a new builder (`replace`), which has
    none of the values; only `answers`, `gone` and `refills` are carried over.
    """

    resources: Resources
    entry: Snapshot
    answers: BranchAnswers
    by: FinishPolicy
    joined_s: float
    gone: frozenset[str] = frozenset()
    """Passages that branches found and a store has lost; `answers` is without them."""
    refills: int = 0

    @cached_property
    def _fused(self) -> Mapping[int, FusedQuestion]:
        plan = self.answers.plan
        scores = self._completed.scores if self._completed else [{} for _ in plan.asked]
        fused = {
            index: fuse_question(
                plan,
                self.answers.envelopes,
                position,
                self.answers.request,
                self._method,
                scores=scores[position],
                pin_lookup=self._pinned.of.get(position, NO_PIN_LOOKUP),
                clock=time.monotonic,
            )
            for position, index in enumerate(plan.asked)
        }
        notes = (self._completed and self._completed.note, self._pinned.note)
        if before := [note for note in notes if note]:
            first = fused[plan.asked[0]]
            fused[plan.asked[0]] = replace(first, stages=(*before, *first.stages))
        return fused

    @property
    def fused(self) -> Mapping[int, FusedQuestion]:
        """The pages, or what is reranked first; key: the question's place in the request."""
        return self._fused if self.answers.plan.rerank else self._chosen.pages

    @cached_property
    def _chosen(self) -> PageSelection:
        """For a request that is not reranked."""
        return self._choose(self._fused, {})

    def _choose(self, fused: Mapping[int, FusedQuestion], texts: Mapping[str, PassageText]) -> PageSelection:
        if not is_chosen_late(self.answers.request):
            return PageSelection(fused)
        return choose_pages(self.resources, self.answers, fused, texts, limit_s=self.texts_limit_s / 2)

    @property
    def _method(self) -> Method:
        return self.resources.pipeline.kinds.method(self.answers.plan.method)

    @cached_property
    def _completed(self) -> ScoreBackfill | None:
        if not (self.answers.plan.complete_scores and self.answers.plan.asked):
            return None
        return complete(self.resources, self.answers, self._method, limit_s=self.texts_limit_s / 2)

    @property
    def completed(self) -> str:
        """`End.completed`."""
        return to_json(self._completed.scores).decode() if self._completed else ""

    @cached_property
    def _pinned(self) -> PinLookups:
        return look_up(self.resources, self.answers, limit_s=self.texts_limit_s / 2)

    @cached_property
    def outcomes(self) -> Mapping[str, Outcome]:
        """What the end says about each branch and store, by name."""
        answers = self.answers
        ended = outcomes(answers.plan, answers.envelopes, answers.absent, timeout_s=answers.request.timeout_s)
        return {outcome.name: outcome for outcome in ended}

    @property
    def texts_limit_s(self) -> float:
        left_s = (self.entry.left_ms - self.answers.plan.finish_reserve_ms / 2) / 1000 - self._spent_s()
        return min(left_s, self.by.texts_limit_s)

    def compose(self) -> Mapping[str, Any]:
        """The fields of `fusion.answer.build_answer_tail`."""
        pages = self.pages
        took_ms = self.entry.since_accepted_ms + self._spent_s() * 1000
        fields = build_answer_tail(self.answers, pages, took_ms=took_ms, clock=time.monotonic)
        _place_on_the_waterfall(fields["stages"], self.entry.since_accepted_ms)
        return fields

    @cached_property
    def pages(self) -> Pages:
        """The pages with their texts, reranked where the plan declares it and the ender can.

        A passage without a text has gone from its store since it was found: the next hit takes the place of its hit.
        """
        try:
            pages = self._whole_pages()
        except _PassagesGone as error:
            lost, request_id = error.passage_ids, self.answers.request.request_id
            log.warning("passages gone", request_id=request_id, count=len(lost), passages=sorted(lost)[:10])
            answers = without_passages(self.answers, lost)
            pages = replace(self, answers=answers, gone=self.gone | lost, refills=self.refills + 1).pages
        if self.refills:
            return pages
        warn_of_unknown(self.answers.plan.boosts, pages.fused.values())
        kinds = self.resources.pipeline.kinds.branches
        about_filters = filter_warnings(self.answers, kinds, pages.fused.values(), pages.texts or {})
        return replace(pages, warnings=(*pages.warnings, *about_filters))

    def _whole_pages(self) -> Pages:
        """Raises _PassagesGone."""
        request, plan, fused = self.answers.request, self.answers.plan, self.fused
        if plan.rerank is None:
            chosen, (fused, fetched) = self._chosen, self._fetch(fused)
            notes, missing = [*chosen.notes, fetched.note], [*chosen.missing, fetched.why]
        else:
            reranking = Reranking(self.resources, request, plan, plan.rerank, fused)
            if self.by.has_models:
                rerank_candidates = reranking.candidates(self._rerank_limit_s())
                fused, fetched = self._fetch(fused, rerank_candidates)
                reranked = replace(reranking, fused=fused).run(
                    rerank_candidates,
                    fetched.texts or {},
                    limit_s=self._rerank_limit_s(),
                    without_texts=fetched.why.reason if fetched.why else Reason.DOCUMENT_MISSING,
                )
            else:
                reranked = reranking.left_as_fused()
                kept, fetched = self._fetch(reranked.pages)
                reranked = reranked._replace(pages=dict(kept))
            notes, missing = [fetched.note, reranked.note], [fetched.why, reranked.why]
            fused = reranked.pages
            if is_chosen_late(request):
                chosen = self._choose(fused, fetched.texts or {})
                fused, fetched = self._fetch(chosen.pages)
                notes += [*chosen.notes, fetched.note]
                missing += [*chosen.missing, fetched.why]
        contexts = self._contexts(fused, fetched)
        notes, missing = [*notes, *contexts.notes], [*missing, *contexts.missing]
        return Pages(
            fused,
            fetched.texts,
            contexts=contexts.of,
            confidences={
                index: confidence(page, request, self.resources.fitted, plan.models)
                for index, page in fused.items()
            },
            gone=self.gone | fetched.gone,
            warnings=contexts.warnings,
            stages=[note for note in notes if note is not None],
            degraded=[
                *([self._completed.why] if self._completed and self._completed.why else ()),
                *([self._pinned.why] if self._pinned.why else ()),
                *dict.fromkeys(why for why in missing if why is not None),
                *self.by.missing(self.entry),
            ],
        )

    def _fetch(
        self, fused: Mapping[int, FusedQuestion], rerank_candidates: Candidates = ()
    ) -> tuple[Mapping[int, FusedQuestion], FetchedTexts]:
        """The hits that have not gone, and their texts.  Raises _PassagesGone while there is a refill left."""
        fetched = fetch_texts(
            self.resources, self.answers, fused, rerank_candidates, limit_s=self.texts_limit_s
        )
        if not fetched.gone:
            return fused, fetched
        if self.refills < MOST_REFILLS:
            raise _PassagesGone(fetched.gone)
        kept = {
            index: replace(page, hits=tuple(hit for hit in page.hits if hit.passage_id not in fetched.gone))
            for index, page in fused.items()
        }
        return kept, fetched

    def _contexts(self, pages: Mapping[int, FusedQuestion], fetched: FetchedTexts) -> Contexts:
        if self.answers.request.context_tokens is None:
            return Contexts()
        if not self.by.has_models:
            why = Degradation(
                Stage.CONTEXT, Reason.NOT_STARTED, "answered by the sweeper, which has no tokenizer"
            )
            return Contexts(missing=(why,))
        texts = fetched.texts or {}
        return make_contexts(self.resources, self.answers, pages, texts, limit_s=self.texts_limit_s)

    def _rerank_limit_s(self) -> float:
        return time_for_it_s(self.entry, self.answers.request, self.answers.plan, spent_s=self._spent_s())

    def _spent_s(self) -> float:
        return time.monotonic() - self.joined_s


def _branch_answers(entry: Snapshot, request: Request, plan: Plan) -> BranchAnswers:
    envelopes = {
        name: BranchResult.failed(name, Reason.FORGED, "no worker of this installation made this answer")
        if name in entry.forged
        else BranchResult.from_wire(name, raw)
        for name, raw in entry.envelopes.items()
    }
    envelopes |= entry.reported
    names = [branch.name for branch in plan.branches if branch.name not in envelopes]
    absent = {name: _absence(entry, name) for name in names}
    return BranchAnswers(request, plan, least_relaxed(envelopes), absent)


def _absence(entry: Snapshot, branch: str) -> Degradation:
    where = branch_stage(branch)
    if entry.decided_by is not None:
        return Degradation(
            where, Reason.CANCELLED, f"{entry.decided_by!r} had failed, which decides the request"
        )
    if branch in entry.started:
        return Degradation(where, Reason.TIMEOUT, "began and had not answered when the waiting ended")
    return Degradation(where, Reason.NOT_STARTED, "no worker took it before the waiting ended")


_FUSION_STAGES = {
    Stage.SCORE, Stage.RULES, Stage.COLLAPSE, Stage.THRESHOLD, Stage.FUSE, Stage.BOOST, Stage.FOLD, Stage.FETCH,
    Stage.RERANK, Stage.GROUP, Stage.DIVERSIFY, Stage.AUTOCUT, Stage.CONTEXT, Stage.SNIPPET,
}  # fmt: skip


def _place_on_the_waterfall(stages: list[dict[str, Any]], begun_ms: int) -> None:
    """Give the stages of the fusion, which follow one another, their `start_ms`."""
    at_ms = float(begun_ms)
    for stage in stages:
        if stage["stage"] in _FUSION_STAGES and "start_ms" not in stage:
            stage["start_ms"] = round(at_ms, 3)
            at_ms += stage["ms"]


def _log_transitions(resources: Resources, outcome_of: Mapping[str, Outcome], reply: Any) -> None:
    for transition in read_transitions(reply):
        if transition.is_open:
            log.warning(
                "breaker opened",
                breaker=transition.name,
                reason=outcome_of[transition.name].reason,
                open_s=resources.settings.breaker_open_s,
            )
        else:
            log.warning("breaker closed", breaker=transition.name)


def _log(request: Request, fields: Mapping[str, Any]) -> None:
    reasons = {part["where"]: part["reason"] for part in fields["degraded"]}
    for stage in fields["stages"]:
        log_stage(
            stage["stage"],
            request_id=request.request_id,
            correlation_id=request.correlation_id,
            ms=stage["ms"],
            n_in=stage.get("n_in"),
            n_out=stage.get("n_out"),
            status=stage["status"],
            reason=reasons.get(stage["stage"], stage.get("detail")),
        )
