"""Reranking in the fusion worker: which candidates fit the time, their scores, and why scores are missing.

A failure in here costs only the reranked order: the fused order stands, and the answer says why.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from chorale_client.request import Request
from chorale_client.wire_names import Reason, Stage

from fusion.answer import Pages
from fusion.branch_results import BranchAnswers
from fusion.fused_hits import FusedHit
from fusion.rerank import Reached, rerank_question
from fusion.rerank import candidates as best_candidates
from models.branch_result import Degradation
from models.documents import PassageText
from models.plan import Plan, RerankPlan
from search.protocol import Described
from tasks.request.composing.ending import Ending, failure_of, stage_note
from tasks.request.planning.cost import further_questions_ms
from tasks.wiring.resources import Resources

Candidates = Sequence[tuple[int, FusedHit]]
"""(The question's place in the request, hit), best candidates first."""
Logits = Mapping[int, Mapping[str, float]]
"""Scores by question and passage id."""

AFTERWARDS_S = 0.03
"""Time kept for snippets and the end of the request, beside half of what further questions take.  When the fusion's
reserve is over, the sweeper takes the request."""


def rerank_time_s(request: Request, plan: Plan, remaining_ms: float, spent_s: float) -> float:
    """Seconds that a rerank may take, `spent_s` after the join: its budget, or less where the end needs the time."""
    budget_s = plan.rerank.budget_ms / 1000 if plan.rerank is not None else 0.0
    remaining_ms = min(remaining_ms - plan.finish_reserve_ms, plan.fusion_reserve_ms)
    afterwards_s = AFTERWARDS_S + further_questions_ms(request) / 2 / 1000
    return min(budget_s, remaining_ms / 1000 - spent_s - afterwards_s)


def _limit_s(answers: BranchAnswers, ending: Ending) -> float:
    return rerank_time_s(answers.request, answers.plan, ending.remaining_ms, ending.spent_s)


def readable_candidates(
    resources: Resources, answers: BranchAnswers, pages: Pages, ending: Ending
) -> Candidates:
    """The candidates whose texts are worth fetching; the reranker may choose fewer when it knows their length."""
    rerank = _declared(answers.plan)
    try:
        most = resources.reranker(rerank.name).most(_limit_s(answers, ending))
    except Exception as error:  # `rerank_pages` says what
        failure_of(error, "rerank failed", request_id=answers.request.request_id)
        return ()
    return best_candidates(pages.fused, rerank.depth)[:most]


def rerank_pages(
    resources: Resources,
    answers: BranchAnswers,
    pages: Pages,
    ending: Ending,
    readable: Candidates,
    without_texts: str = Reason.DOCUMENT_MISSING,
) -> Pages:
    """Rerank the pages, which hold all hits that may come onto them.  `without_texts` is the reason if no candidate has a text."""
    begun_s, limit_s, rerank = time.monotonic(), _limit_s(answers, ending), _declared(answers.plan)
    reached: Candidates = best_candidates(pages.fused, rerank.depth)
    has_text = any(hit.passage_id in pages.known for _, hit in readable)
    logits: Logits = {}
    why: Degradation | None = None
    try:
        if reached and limit_s <= 0:
            why = _why(Reason.BUDGET, "no time left for it")
        elif readable and not has_text:
            why = _why(without_texts, "no text of any candidate")
        elif reached and _is_forbidden(resources, answers, limit_s):
            why = _why(
                Reason.NOT_CONFIGURED, "the namespace is local_only, and the reranker is behind an address"
            )
        elif reached:
            reached, logits, why = _scored(resources, answers, pages, readable, limit_s)
    except Exception as error:
        failure = failure_of(error, "rerank failed", request_id=answers.request.request_id)
        why = _why(failure.reason, failure.detail[:500])
    return _reordered(answers, pages, reached, logits, why, begun_s)


def _declared(plan: Plan) -> RerankPlan:
    assert plan.rerank is not None
    return plan.rerank


def _is_forbidden(resources: Resources, answers: BranchAnswers, limit_s: float) -> bool:
    """Whether the reranker is behind an address and no text of the namespace may be sent there; raises BadIndex."""
    plan = answers.plan
    declared = resources.pipeline.rerankers.get(_declared(plan).name)
    if declared is None or declared.url is None:
        return False
    names = {branch.store for branch in plan.branches}
    stores = (resources.serving(name, plan.namespace, limit_s) for name in names)
    return any(
        store.manifest(plan.namespace, timeout_s=limit_s).local_only
        for store in stores
        if isinstance(store, Described)
    )


def leave_as_fused(answers: BranchAnswers, pages: Pages) -> Pages:
    """Make the pages without reranking, for the sweeper, which has no model."""
    unranked = best_candidates(pages.fused, _declared(answers.plan).depth)
    why = _why(Reason.NOT_STARTED, "answered by the sweeper, which has no model") if unranked else None
    return _reordered(answers, pages, unranked, {}, why, time.monotonic())


def _scored(
    resources: Resources, answers: BranchAnswers, pages: Pages, readable: Candidates, limit_s: float
) -> tuple[Candidates, Logits, Degradation | None]:
    """The candidates that were to be reranked, their scores, and why scores are missing."""
    request, texts, rerank = answers.request, pages.known, _declared(answers.plan)
    reranker = resources.reranker(rerank.name)
    pairs = [(index, hit) for index, hit in readable if hit.passage_id in texts]
    questions = [(request.questions[index].text, passage_text(texts[hit.passage_id])) for index, hit in pairs]
    scores = reranker.score(questions, limit_s=limit_s)
    logits: dict[int, dict[str, float]] = {}
    for (index, hit), logit in zip(pairs, scores.logits, strict=True):
        if logit is not None:
            logits.setdefault(index, {})[hit.passage_id] = logit
    reached, n_candidates = sum(map(len, logits.values())), _n_candidates(pages, rerank)
    extent = f"{reached} of {scores.chosen} in {limit_s * 1000:.0f} ms"
    why = None
    if not scores.has_begun:
        why = _why(Reason.NOT_STARTED, "the model was still at work for an earlier request")
    elif not reached:
        why = _why(Reason.TIMEOUT, extent)
    elif reached < scores.chosen:
        why = _why(Reason.BUDGET, extent)
    elif scores.chosen < len(pairs) or len(readable) < n_candidates:
        why = _why(Reason.ADAPTIVE, f"{scores.chosen} of {n_candidates} fit the time")
    planned = answers.plan.models.get("reranker", reranker.fingerprint)
    if planned != reranker.fingerprint and (why is None or why.reason == Reason.ADAPTIVE):
        # This order is the best there is, but its cache key would name another model.
        why = _why(
            Reason.MODEL_MISSING,
            f"planned for the model {planned}, reranked by {reranker.fingerprint}: the workers of "
            "chorale.retrieve and chorale.fusion started with different ones",
        )
    # Candidates without text count as reranked if a lower-ranked candidate was.
    last = readable.index(pairs[scores.chosen - 1]) + 1 if scores.chosen < len(pairs) else len(readable)
    return readable[:last], logits, why


def _reordered(
    answers: BranchAnswers,
    pages: Pages,
    reached: Candidates,
    logits: Logits,
    why: Degradation | None,
    begun_s: float,
) -> Pages:
    chosen: dict[int, set[str]] = {}
    for index, hit in reached:
        chosen.setdefault(index, set()).add(hit.passage_id)
    request, plan, rerank = answers.request, answers.plan, _declared(answers.plan)
    fused = {
        index: rerank_question(page, rerank, Reached(chosen.get(index, ()), logits.get(index)), request, plan)
        for index, page in pages.fused.items()
    }
    n_out = sum(map(len, logits.values()))
    note = stage_note(Stage.RERANK, begun_s, _n_candidates(pages, rerank), n_out, why, has_part=bool(logits))
    return pages.after(note, why, fused=fused)


def _n_candidates(pages: Pages, rerank: RerankPlan) -> int:
    return sum(min(rerank.depth, len(page.hits)) for page in pages.fused.values())


def passage_text(passage: PassageText) -> str:
    """Title, heading path and text, one line each, without lines that the text begins with."""
    above = [line for line in (passage.title, passage.heading) if line and not passage.text.startswith(line)]
    return "\n".join([*above, passage.text])


def _why(reason: str, detail: str) -> Degradation:
    return Degradation(Stage.RERANK, reason, detail)
