"""Chooses the pages of a request with `group_by`, `diversity` or `autocut` among all candidates."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from chorale_client.request import Grouping
from chorale_client.wire_names import Reason, Stage, StageStatus

from fusion.answer import Pages
from fusion.branch_results import BranchAnswers
from fusion.fused_hits import FusedQuestion
from fusion.page import (
    DIVERSITY_POOL,
    diversified,
    grouped,
    is_chosen_among_all,
    needs_metadata,
    page_of,
    split_pinned,
)
from fusion.rerank import min_max
from models.branch_result import Degradation, StageNote
from models.documents import Vector
from models.plan import Plan
from search.deadline import Deadline
from tasks.request.composing.ending import stage_note
from tasks.request.composing.stored_passages import fetch_vectors, read_texts
from tasks.wiring.resources import Resources


def choose_pages(resources: Resources, answers: BranchAnswers, pages: Pages, deadline: Deadline) -> Pages:
    """The pages with the hits that they show, without the other candidates."""
    request, plan = answers.request, answers.plan
    if not is_chosen_among_all(request):
        return pages
    if request.group_by is not None:
        if needs_metadata(request.group_by):
            pages, _, _ = read_texts(resources, plan, pages, pages.hits, deadline)
        pages = _grouped(pages, request.group_by)
    if request.diversity:
        pages = _diversified(resources, plan, pages, request.diversity, deadline)
    pages = replace(pages, fused={index: page_of(page, request, plan) for index, page in pages.fused.items()})
    if request.autocut is None:
        return pages
    n_out, cut = len(pages.hits), sum(page.removed["autocut"] for page in pages.fused.values())
    return pages.after(StageNote(Stage.AUTOCUT, StageStatus.OK, 0.0, n_out + cut, n_out))


def _grouped(pages: Pages, grouping: Grouping) -> Pages:
    begun_s = time.monotonic()
    fused = {index: grouped(page, grouping, pages.known) for index, page in pages.fused.items()}
    chosen = replace(pages, fused=fused)
    return chosen.after(stage_note(Stage.GROUP, begun_s, len(pages.hits), len(chosen.hits)))


def _diversified(
    resources: Resources, plan: Plan, pages: Pages, diversity: float, deadline: Deadline
) -> Pages:
    """Without any vector the order stays; a single hit without one counts as unlike all others."""
    begun_s, fused = time.monotonic(), pages.fused
    ids = {hit.passage_id: None for page in fused.values() for hit in page.hits[:DIVERSITY_POOL]}
    vectors, failure = fetch_vectors(resources, plan, list(ids), deadline)
    if vectors:
        fused = {index: _by_mmr(page, vectors, diversity) for index, page in fused.items()}
    why = None
    if missing := len(ids) - len(vectors):
        effect = "these count as unlike all others" if vectors else "the order stays by score"
        reason, cause = Reason.NOT_CONFIGURED, ""
        if failure is not None:
            reason, cause = failure.reason, f" ({failure.detail[:200]})"
        text = f"no vectors of {missing} of {len(ids)} hits{cause}: {effect}"
        why = Degradation(Stage.DIVERSIFY, reason, text)
    note = stage_note(Stage.DIVERSIFY, begun_s, len(ids), len(vectors), why, has_part=bool(vectors))
    return pages.after(note, why, fused=fused)


def _by_mmr(page: FusedQuestion, vectors: Mapping[str, Vector], diversity: float) -> FusedQuestion:
    pinned, others = split_pinned(page.hits)
    pool, rest = others[:DIVERSITY_POOL], others[DIVERSITY_POOL:]
    if not pool:
        return page
    zero: Vector = np.zeros_like(next(iter(vectors.values())))
    rows = np.stack([vectors.get(hit.passage_id, zero) for hit in pool])
    relevance = min_max([hit.score for hit in pool], len(pool))
    # Rounded, so that every machine chooses the same order.
    order = diversified(relevance, (rows @ rows.T).astype(np.float64).round(6).tolist(), diversity)
    return replace(page, hits=(*pinned, *(pool[place] for place in order), *rest), ordered_by="mmr")
