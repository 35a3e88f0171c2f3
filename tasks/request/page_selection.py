"""Chooses the pages of a request with `group_by`, `diversity` or `autocut` among all candidates."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from chorale_client.request import Grouping
from chorale_client.wire_names import Reason, Stage, StageStatus

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
from search.deadline import Deadline
from tasks.request.draft import Draft
from tasks.request.stored_passages import fetch_vectors, read_texts


def choose_pages(draft: Draft) -> None:
    """Choose the hits that the pages show, and drop the other candidates."""
    request, pages = draft.answers.request, draft.pages
    if not is_chosen_among_all(request):
        return
    deadline = draft.deadline(0.5)
    if request.group_by is not None:
        _group(draft, request.group_by, deadline)
    if request.diversity:
        _diversify(draft, request.diversity, deadline)
    pages.fused = {index: page_of(page, request, draft.answers.plan) for index, page in pages.fused.items()}
    if request.autocut is not None:
        kept, cut = _count(draft), sum(page.removed["autocut"] for page in pages.fused.values())
        pages.add(StageNote(Stage.AUTOCUT, StageStatus.OK, 0.0, kept + cut, kept))


def _group(draft: Draft, grouping: Grouping, deadline: Deadline) -> None:
    pages = draft.pages
    if needs_metadata(grouping):
        read_texts(draft, [hit for page in pages.fused.values() for hit in page.hits], deadline)
    begun_s, n_in = time.monotonic(), _count(draft)
    pages.fused = {index: grouped(page, grouping, draft.texts) for index, page in pages.fused.items()}
    ms = (time.monotonic() - begun_s) * 1000
    pages.add(StageNote(Stage.GROUP, StageStatus.OK, ms, n_in, _count(draft)))


def _diversify(draft: Draft, diversity: float, deadline: Deadline) -> None:
    """Without any vector the order stays; a single hit without one counts as unlike all others."""
    begun_s, pages = time.monotonic(), draft.pages
    ids = {hit.passage_id: None for page in pages.fused.values() for hit in page.hits[:DIVERSITY_POOL]}
    vectors, failure = fetch_vectors(draft.resources, draft.answers.plan, list(ids), deadline)
    if vectors:
        pages.fused = {index: _diversified(page, vectors, diversity) for index, page in pages.fused.items()}
    status, why = StageStatus.OK, None
    ms = (time.monotonic() - begun_s) * 1000
    if missing := len(ids) - len(vectors):
        status = StageStatus.PARTIAL if vectors else StageStatus.FAILED
        effect = "these count as unlike all others" if vectors else "the order stays by score"
        reason, cause = Reason.NOT_CONFIGURED, ""
        if failure is not None:
            reason, cause = failure.reason, f" ({failure.detail[:200]})"
        text = f"no vectors of {missing} of {len(ids)} hits{cause}: {effect}"
        why = Degradation(Stage.DIVERSIFY, reason, text)
    detail = str(why.reason) if why else None
    pages.add(StageNote(Stage.DIVERSIFY, status, ms, len(ids), len(vectors), detail=detail), why)


def _diversified(page: FusedQuestion, vectors: Mapping[str, Vector], diversity: float) -> FusedQuestion:
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


def _count(draft: Draft) -> int:
    return sum(len(page.hits) for page in draft.pages.fused.values())
