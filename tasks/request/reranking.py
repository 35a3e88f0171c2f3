"""Reranking in the fusion worker: which candidates fit the time, their scores, and why scores are missing.

A failure in here costs only the reranked order: the fused order stands, and the answer says why.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from chorale_client.request import Request
from chorale_client.wire_names import Reason, Stage, StageStatus

from fusion.fused_hits import FusedHit, FusedQuestion
from fusion.rerank import Reached, rerank_question
from fusion.rerank import candidates as best_candidates
from ledger.protocol import Snapshot
from models.branch_result import Degradation, StageNote
from models.documents import PassageText
from models.errors import StageFailure
from models.plan import Plan, RerankPlan
from tasks.request.planning import further_questions_ms
from tasks.request.stored_passages import failure_of
from wiring.resources import Resources

Candidates = Sequence[tuple[int, FusedHit]]
"""(The question's place in the request, hit), best candidates first."""

AFTERWARDS_S = 0.03
"""Time kept for snippets and the end of the request, beside half of what further questions take.  When the fusion's
reserve is over, the sweeper takes the request."""


class RerankedPages(NamedTuple):
    pages: dict[int, FusedQuestion]
    """Key: the question's place in the request."""
    note: StageNote
    why: Degradation | None


def with_reranker_fingerprint(resources: Resources, plan: Plan) -> Plan:
    """The plan with the reranker's fingerprint; if that is not known, the answers are not cached."""
    if plan.rerank is None:
        return plan
    try:
        mark = resources.reranker(plan.rerank.name).fingerprint
    except StageFailure as failure:
        warning = f"cache: {failure.reason}: {failure.detail}"
        return plan.model_copy(update={"generation": None, "warnings": (*plan.warnings, warning)})
    return plan.model_copy(update={"models": {**plan.models, "reranker": mark}})


def time_for_it_s(entry: Snapshot, request: Request, plan: Plan, *, spent_s: float) -> float:
    """Seconds that a rerank may take, `spent_s` after the join: its budget, or less where the end needs the time."""
    budget_s = plan.rerank.budget_ms / 1000 if plan.rerank is not None else 0.0
    left_ms = min(entry.left_ms - plan.finish_reserve_ms, plan.fusion_reserve_ms)
    afterwards_s = AFTERWARDS_S + further_questions_ms(request) / 2 / 1000
    return min(budget_s, left_ms / 1000 - spent_s - afterwards_s)


@dataclass(frozen=True, slots=True)
class Reranking:
    """The reranking of one request; its fused questions hold all hits that may come onto their pages."""

    resources: Resources
    request: Request
    plan: Plan
    rerank: RerankPlan
    fused: Mapping[int, FusedQuestion]

    def candidates(self, limit_s: float) -> Candidates:
        """The candidates whose texts are worth fetching; the reranker may choose fewer when it knows their length."""
        best = best_candidates(self.fused, self.rerank.depth)
        try:
            return best[: self.resources.reranker(self.rerank.name).most(limit_s)]
        except Exception as error:  # `run` says what
            failure_of(error, "rerank failed", request_id=self.request.request_id)
            return ()

    def run(
        self,
        readable: Candidates,
        texts: Mapping[str, PassageText],
        *,
        limit_s: float,
        without_texts: str = Reason.DOCUMENT_MISSING,
    ) -> RerankedPages:
        """The pages after reranking.  `without_texts` is the reason if no candidate has a text."""
        begun_s = time.monotonic()
        reached: Candidates = best_candidates(self.fused, self.rerank.depth)
        pairs = [(index, hit) for index, hit in readable if hit.passage_id in texts]
        logits: dict[int, dict[str, float]] = {}
        why: Degradation | None = None
        try:
            if reached and limit_s <= 0:
                why = _why(Reason.BUDGET, "no time left for it")
            elif readable and not pairs:
                why = _why(without_texts, "no text of any candidate")
            elif reached:
                reached, logits, why = self._scored(reached, readable, pairs, texts, limit_s)
        except Exception as error:
            failure = failure_of(error, "rerank failed", request_id=self.request.request_id)
            why = _why(failure.reason, failure.detail[:500])
        return self._ended(reached, logits, why, (time.monotonic() - begun_s) * 1000)

    def left_as_fused(self) -> RerankedPages:
        """The pages without reranking, for the sweeper, which has no model."""
        unranked = best_candidates(self.fused, self.rerank.depth)
        why = _why(Reason.NOT_STARTED, "answered by the sweeper, which has no model") if unranked else None
        return self._ended(unranked, {}, why, 0.0)

    def _scored(
        self,
        all_candidates: Candidates,
        readable: Candidates,
        pairs: Candidates,
        texts: Mapping[str, PassageText],
        limit_s: float,
    ) -> tuple[Candidates, dict[int, dict[str, float]], Degradation | None]:
        """The candidates that were to be reranked, logits by question and passage, and why logits are missing."""
        reranker = self.resources.reranker(self.rerank.name)
        scores = reranker.score(
            [
                (self.request.questions[index].text, passage_text(texts[hit.passage_id]))
                for index, hit in pairs
            ],
            limit_s=limit_s,
        )
        logits: dict[int, dict[str, float]] = {}
        for (index, hit), logit in zip(pairs, scores.logits, strict=True):
            if logit is not None:
                logits.setdefault(index, {})[hit.passage_id] = logit
        reached = sum(map(len, logits.values()))
        of_them = f"{reached} of {scores.chosen} in {limit_s * 1000:.0f} ms"
        why = None
        if not scores.has_begun:
            why = _why(Reason.NOT_STARTED, "the model was still at work for an earlier request")
        elif not reached:
            why = _why(Reason.TIMEOUT, of_them)
        elif reached < scores.chosen:
            why = _why(Reason.BUDGET, of_them)
        elif scores.chosen < len(pairs) or len(readable) < len(all_candidates):
            why = _why(Reason.ADAPTIVE, f"{scores.chosen} of {len(all_candidates)} fit the time")
        planned = self.plan.models.get("reranker", reranker.fingerprint)
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

    def _ended(
        self,
        chosen_hits: Candidates,
        logits: Mapping[int, Mapping[str, float]],
        why: Degradation | None,
        ms: float,
    ) -> RerankedPages:
        chosen: dict[int, set[str]] = {}
        for index, hit in chosen_hits:
            chosen.setdefault(index, set()).add(hit.passage_id)
        pages = {
            index: rerank_question(
                question,
                self.rerank,
                Reached(chosen.get(index, ()), logits.get(index)),
                self.request,
                self.plan,
            )
            for index, question in self.fused.items()
        }
        # An adaptive choice of fewer candidates is no failure.
        status, detail = StageStatus.OK, None
        if why is not None:
            detail = str(why.reason)
            if why.reason != Reason.ADAPTIVE:
                status = StageStatus.PARTIAL if logits else StageStatus.FAILED
        n_in = sum(min(self.rerank.depth, len(question.hits)) for question in self.fused.values())
        n_out = sum(map(len, logits.values()))
        return RerankedPages(pages, StageNote(Stage.RERANK, status, ms, n_in, n_out, detail=detail), why)


def passage_text(passage: PassageText) -> str:
    """Title, heading path and text, one line each, without lines that the text begins with."""
    above = [line for line in (passage.title, passage.heading) if line and not passage.text.startswith(line)]
    return "\n".join([*above, passage.text])


def _why(reason: str, detail: str) -> Degradation:
    return Degradation(Stage.RERANK, reason, detail)
