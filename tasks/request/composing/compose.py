"""How an answer is made of what the branches found: `compose` and `_chosen` have the steps in their order.

Each step spends the request's time.  It may take what is left when it begins, or half of that if other steps must follow.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from chorale_client.wire_names import Reason, Stage, Warned
from structlog import get_logger

from fusion.answer import Pages, answer_fields
from fusion.branch_results import BranchAnswers, without_passages
from fusion.confidence import confidence
from fusion.fused_hits import FusedQuestion
from fusion.interleaving import fused_question
from fusion.page import NO_PIN_LOOKUP, is_chosen_among_all
from models.boost_plan import BoostPlan
from models.branch_result import Degradation
from models.texts.known_words import ADVICE, hardly_known
from search.deadline import Deadline
from tasks.request.composing.contexts import make_contexts
from tasks.request.composing.ending import Ending
from tasks.request.composing.filter_warnings import filter_warnings, without_contradictions
from tasks.request.composing.page_selection import choose_pages
from tasks.request.composing.pinned_documents import look_up
from tasks.request.composing.reranking import Candidates, leave_as_fused, readable_candidates, rerank_pages
from tasks.request.composing.score_backfill import complete
from tasks.request.composing.stored_passages import read_texts
from tasks.wiring.resources import Resources

log = get_logger("chorale.end")

MOST_REFILLS = 2
"""How often a request is fused again without passages that have gone; what is missing then makes the page shorter."""


def compose(resources: Resources, answers: BranchAnswers, ending: Ending) -> Pages:
    """The pages of a request's answer.

    A passage without a text has gone from its store since it was found.  The pages are then made again without it, so that
    the next hit takes the place of its hit.
    """
    current, pages = answers, _fused(resources, answers, ending)
    for refills in range(MOST_REFILLS + 1):
        try:
            pages = _chosen(resources, current, pages, ending, may_restart=refills < MOST_REFILLS)
            break
        except _PassagesGone as error:
            lost, gone = error.passage_ids, {*pages.gone, *error.passage_ids}
            request_id = answers.request.request_id
            log.warning("passages gone", request_id=request_id, count=len(lost), passages=sorted(lost)[:10])
            current = without_passages(answers, gone)
            pages = replace(_fused(resources, current, ending), gone=gone, scores=pages.scores)
    kinds = resources.pipeline.kinds.branches
    pages = replace(pages, fused=without_contradictions(answers, pages.fused))
    if answers.request.boosts is None:  # a caller's own table is no fault of the declaration
        _warn_of_unknown_types(answers.plan.boosts, pages.fused.values())
    warnings = filter_warnings(answers, kinds, pages.fused.values(), pages.texts or {})
    return replace(pages, warnings=(*pages.warnings, *warnings, *_language_warning(answers)))


def answer_of(answers: BranchAnswers, pages: Pages, ending: Ending) -> dict[str, Any]:
    """The fields of `fusion.answer.answer_fields`, with the times of this request."""
    took_ms = ending.since_accepted_ms + ending.spent_s * 1000
    fields = answer_fields(answers, pages, took_ms=took_ms, clock=time.monotonic)
    _place_on_the_waterfall(fields["stages"], ending.since_accepted_ms)
    return fields


def _language_warning(answers: BranchAnswers) -> tuple[str, ...]:
    """Where a branch compared vectors in a namespace whose words its encoder hardly knows, unless the operator trusts them."""
    plan = answers.plan
    shares = [
        ranking.known_words
        for branch in plan.branches
        if branch.weight and not plan.trust_vectors and branch.name in answers.branch_results
        for ranking in answers.branch_results[branch.name].rankings
        if ranking.known_words is not None
    ]
    sentence = hardly_known(plan.namespace, min(shares, default=None))
    return (f"{Warned.LANGUAGE}: {sentence}; {ADVICE}",) if sentence else ()


class _PassagesGone(Exception):
    def __init__(self, passage_ids: frozenset[str]) -> None:
        super().__init__()
        self.passage_ids = passage_ids


def _chosen(
    resources: Resources, answers: BranchAnswers, pages: Pages, ending: Ending, *, may_restart: bool
) -> Pages:
    """The hits of the returned pages, with their texts.  Raises _PassagesGone if `may_restart`."""
    request, plan = answers.request, answers.plan
    read = partial(_with_texts, resources, answers, may_restart=may_restart)
    if plan.rerank is not None and ending.policy.has_models:
        candidates = readable_candidates(resources, answers, pages, ending)
        pages, why = read(pages, ending.deadline(), candidates)
        reason = why.reason if why else Reason.DOCUMENT_MISSING
        pages = rerank_pages(resources, answers, pages, ending, candidates, reason)
    elif plan.rerank is not None:
        pages, _ = read(leave_as_fused(answers, pages), ending.deadline())
    if plan.rerank is None or is_chosen_among_all(request):
        pages = choose_pages(resources, answers, pages, ending.deadline(0.5))
        pages, _ = read(pages, ending.deadline())
    pages = make_contexts(resources, answers, pages, ending)
    confidences = {
        index: confidence(page, request, resources.fitted, answers.models)
        for index, page in pages.fused.items()
    }
    return pages.after(None, ending.late, confidences=confidences)


def _fused(resources: Resources, answers: BranchAnswers, ending: Ending) -> Pages:
    """The fused rankings of each question, with the scores and the pinned documents that the stores add."""
    plan, method_of = answers.plan, resources.pipeline.kinds.method
    backfill = complete(resources, answers, method_of, ending.deadline(0.5))
    pins = look_up(resources, answers, ending.deadline(0.5))
    scores = backfill.scores
    fused = {
        index: fused_question(
            answers,
            position,
            method_of,
            scores=scores[position] if scores else {},
            pin_lookup=pins.of.get(position, NO_PIN_LOOKUP),
            clock=time.monotonic,
        )
        for position, index in enumerate(plan.searched)
    }
    if before := [note for note in (backfill.note, pins.note) if note]:
        first = fused[plan.searched[0]]
        fused[plan.searched[0]] = replace(first, stages=(*before, *first.stages))
    known = {id_: text for page in fused.values() for id_, text in page.texts.items()}
    return Pages(fused, known=known, scores=scores).after(None, backfill.why).after(None, pins.why)


def _with_texts(
    resources: Resources,
    answers: BranchAnswers,
    pages: Pages,
    deadline: Deadline,
    candidates: Candidates = (),
    *,
    may_restart: bool,
) -> tuple[Pages, Degradation | None]:
    """The pages with the texts of the hits that may be returned, and of the candidates of a reranker; and why some are missing."""
    request = answers.request
    needs_texts = request.context_tokens is not None or not set(request.include) <= {"ids", "explanation"}
    if not needs_texts and not candidates:
        return pages, None
    depth = request.offset + request.top_k if answers.plan.rerank else None
    visible = [hit for page in pages.fused.values() for hit in page.hits[:depth]] if needs_texts else []
    wanted = [*visible, *(hit for _, hit in candidates)]
    pages, gone, why = read_texts(resources, answers.plan, pages, wanted, deadline)
    if gone and may_restart:
        raise _PassagesGone(gone)
    if gone:
        fused = {
            index: replace(page, hits=tuple(hit for hit in page.hits if hit.passage_id not in gone))
            for index, page in pages.fused.items()
        }
        pages = replace(pages, gone={*pages.gone, *gone}, fused=fused)
    # Contexts read further texts, from which no snippet is made.
    texts = pages.known if needs_texts and (pages.known or why is None) else None
    return replace(pages, texts=texts), why


_FUSION_STAGES = {
    Stage.SCORE, Stage.RULES, Stage.COLLAPSE, Stage.THRESHOLD, Stage.FUSE, Stage.BOOST, Stage.FOLD, Stage.INTERLEAVE,
    Stage.FETCH, Stage.RERANK, Stage.GROUP, Stage.DIVERSIFY, Stage.AUTOCUT, Stage.CONTEXT, Stage.SNIPPET,
}  # fmt: skip


def _place_on_the_waterfall(stages: list[dict[str, Any]], begun_ms: int) -> None:
    """Give the stages of the fusion, which follow one another, their `start_ms`."""
    at_ms = float(begun_ms)
    for stage in stages:
        if stage["stage"] in _FUSION_STAGES and "start_ms" not in stage:
            stage["start_ms"] = round(at_ms, 3)
            at_ms += stage["ms"]


def _warn_of_unknown_types(boosts: BoostPlan | None, pages: Iterable[FusedQuestion]) -> None:
    """Log the source types of these hits that the table of authorities lacks, each once in a process.

    A misspelt one would lose its authority silently.
    """
    known = tuple(boosts.authority) if boosts else ()
    types = {hit.source_type.casefold() for page in pages for hit in page.hits if known and hit.source_type}
    for source_type in sorted(types.difference(known)):
        _warn_of_type(source_type, known)


@lru_cache(256)
def _warn_of_type(source_type: str, known: tuple[str, ...]) -> None:
    log.warning("source type without authority", source_type=source_type, known=list(known))
