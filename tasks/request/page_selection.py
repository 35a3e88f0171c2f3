"""Chooses the pages of a request with `group_by`, `diversity` or `autocut` among all candidates."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from chorale_client.request import Grouping
from chorale_client.wire_names import Reason, Stage, StageStatus

from fusion.branch_results import BranchAnswers
from fusion.fused_hits import FusedQuestion
from fusion.page import DIVERSITY_POOL, diversified, grouped, needs_metadata, page_of, split_pinned
from fusion.rerank import min_max
from models.branch_result import Degradation, StageNote
from models.documents import PassageText, Vector
from tasks.request.stored_passages import Pages, fetch_texts, fetch_vectors
from wiring.resources import Resources


@dataclass(slots=True)
class PageSelection:
    pages: Pages
    notes: list[StageNote] = field(default_factory=list)
    missing: list[Degradation] = field(default_factory=list)


def choose_pages(
    resources: Resources,
    answers: BranchAnswers,
    fused: Pages,
    texts: Mapping[str, PassageText],
    *,
    limit_s: float,
) -> PageSelection:
    """The pages of `fused`, which has all candidates.  `texts` are those that are known, by passage id."""
    ends_at_s = time.monotonic() + limit_s
    chosen = PageSelection(
        {index: replace(page, texts={**page.texts, **texts}) for index, page in fused.items()}
    )
    if (grouping := answers.request.group_by) is not None:
        _group(chosen, resources, answers, grouping, limit_s)
    if diversity := answers.request.diversity:
        _diversify(chosen, resources, answers, diversity, ends_at_s)
    chosen.pages = {
        index: page_of(page, answers.request, answers.plan) for index, page in chosen.pages.items()
    }
    if answers.request.autocut is not None:
        kept, cut = _count(chosen.pages), sum(page.removed["autocut"] for page in chosen.pages.values())
        chosen.notes.append(StageNote(Stage.AUTOCUT, StageStatus.OK, 0.0, kept + cut, kept))
    return chosen


def _group(
    chosen: PageSelection, resources: Resources, answers: BranchAnswers, grouping: Grouping, limit_s: float
) -> None:
    if needs_metadata(grouping):
        hits = [(index, hit) for index, page in chosen.pages.items() for hit in page.hits]
        fetched = fetch_texts(resources, answers, chosen.pages, hits, limit_s=limit_s)
        texts = fetched.texts or {}
        chosen.pages = {index: replace(page, texts=texts) for index, page in chosen.pages.items()}
        chosen.notes += [fetched.note] if fetched.note else []
        chosen.missing += [fetched.why] if fetched.why else []
    begun_s, n_in = time.monotonic(), _count(chosen.pages)
    chosen.pages = {index: grouped(page, grouping) for index, page in chosen.pages.items()}
    ms = (time.monotonic() - begun_s) * 1000
    chosen.notes.append(StageNote(Stage.GROUP, StageStatus.OK, ms, n_in, _count(chosen.pages)))


def _diversify(
    chosen: PageSelection, resources: Resources, answers: BranchAnswers, diversity: float, ends_at_s: float
) -> None:
    """Without any vector the order stays; a single hit without one counts as unlike all others."""
    begun_s = time.monotonic()
    ids = {hit.passage_id: None for page in chosen.pages.values() for hit in page.hits[:DIVERSITY_POOL]}
    vectors, why = fetch_vectors(resources, answers.plan, list(ids), ends_at_s=ends_at_s)
    if vectors:
        chosen.pages = {index: _diversified(page, vectors, diversity) for index, page in chosen.pages.items()}
    status, ms = StageStatus.OK, (time.monotonic() - begun_s) * 1000
    if missing := len(ids) - len(vectors):
        status = StageStatus.PARTIAL if vectors else StageStatus.FAILED
        effect = "these count as unlike all others" if vectors else "the order stays by score"
        reason, cause = (why.reason, f" ({why.detail[:200]})") if why else (Reason.NOT_CONFIGURED, "")
        text = f"no vectors of {missing} of {len(ids)} hits{cause}: {effect}"
        chosen.missing.append(Degradation(Stage.DIVERSIFY, reason, text))
    detail = str(chosen.missing[-1].reason) if missing else None
    chosen.notes.append(StageNote(Stage.DIVERSIFY, status, ms, len(ids), len(vectors), detail=detail))


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


def _count(pages: Pages) -> int:
    return sum(len(page.hits) for page in pages.values())
