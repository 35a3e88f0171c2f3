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
from tasks.request.passage_texts import fetch_texts
from tasks.request.passage_vectors import fetch_vectors
from wiring.resources import Resources

Pages = Mapping[int, FusedQuestion]
"""Key: the question's place in the request."""


@dataclass(slots=True)
class Chosen:
    pages: Pages
    notes: list[StageNote] = field(default_factory=list)
    missing: list[Degradation] = field(default_factory=list)


def choose_pages(
    resources: Resources,
    found: BranchAnswers,
    fused: Pages,
    texts: Mapping[str, PassageText],
    *,
    limit_s: float,
) -> Chosen:
    """The pages of `fused`, which has all candidates.  `texts` are those that are known, by passage id."""
    ends_at_s = time.monotonic() + limit_s
    chosen = Chosen({index: replace(one, texts={**one.texts, **texts}) for index, one in fused.items()})
    if (grouping := found.request.group_by) is not None:
        _group(chosen, resources, found, grouping, limit_s)
    if diversity := found.request.diversity:
        _diversify(chosen, resources, found, diversity, ends_at_s)
    chosen.pages = {index: page_of(one, found.request, found.plan) for index, one in chosen.pages.items()}
    if found.request.autocut is not None:
        kept, cut = _count(chosen.pages), sum(one.removed["autocut"] for one in chosen.pages.values())
        chosen.notes.append(StageNote(Stage.AUTOCUT, StageStatus.OK, 0.0, kept + cut, kept))
    return chosen


def _group(
    chosen: Chosen, resources: Resources, found: BranchAnswers, grouping: Grouping, limit_s: float
) -> None:
    if needs_metadata(grouping):
        wanted = [(index, hit) for index, one in chosen.pages.items() for hit in one.hits]
        fetched = fetch_texts(resources, found, chosen.pages, wanted, limit_s=limit_s)
        texts = fetched.texts or {}
        chosen.pages = {index: replace(one, texts=texts) for index, one in chosen.pages.items()}
        chosen.notes += [fetched.note] if fetched.note else []
        chosen.missing += [fetched.why] if fetched.why else []
    begun_s, n_in = time.monotonic(), _count(chosen.pages)
    chosen.pages = {index: grouped(one, grouping) for index, one in chosen.pages.items()}
    ms = (time.monotonic() - begun_s) * 1000
    chosen.notes.append(StageNote(Stage.GROUP, StageStatus.OK, ms, n_in, _count(chosen.pages)))


def _diversify(
    chosen: Chosen, resources: Resources, found: BranchAnswers, diversity: float, ends_at_s: float
) -> None:
    """Without any vector the order stays; a single hit without one counts as unlike all others."""
    begun_s = time.monotonic()
    ids = {hit.passage_id: None for one in chosen.pages.values() for hit in one.hits[:DIVERSITY_POOL]}
    vectors, why = fetch_vectors(resources, found.plan, list(ids), ends_at_s=ends_at_s)
    if vectors:
        chosen.pages = {index: _diversified(one, vectors, diversity) for index, one in chosen.pages.items()}
    status, ms = StageStatus.OK, (time.monotonic() - begun_s) * 1000
    if missing := len(ids) - len(vectors):
        status = StageStatus.PARTIAL if vectors else StageStatus.FAILED
        effect = "these count as unlike all others" if vectors else "the order stays by score"
        reason, cause = (why.reason, f" ({why.detail[:200]})") if why else (Reason.NOT_CONFIGURED, "")
        said = f"no vectors of {missing} of {len(ids)} hits{cause}: {effect}"
        chosen.missing.append(Degradation(Stage.DIVERSIFY, reason, said))
    detail = str(chosen.missing[-1].reason) if missing else None
    chosen.notes.append(StageNote(Stage.DIVERSIFY, status, ms, len(ids), len(vectors), detail=detail))


def _diversified(one: FusedQuestion, vectors: Mapping[str, Vector], diversity: float) -> FusedQuestion:
    pinned, others = split_pinned(one.hits)
    pool, rest = others[:DIVERSITY_POOL], others[DIVERSITY_POOL:]
    if not pool:
        return one
    zero: Vector = np.zeros_like(next(iter(vectors.values())))
    rows = np.stack([vectors.get(hit.passage_id, zero) for hit in pool])
    relevance = min_max([hit.score for hit in pool], len(pool))
    # Rounded, so that every machine chooses the same order.
    order = diversified(relevance, (rows @ rows.T).astype(np.float64).round(6).tolist(), diversity)
    return replace(one, hits=(*pinned, *(pool[place] for place in order), *rest), ordered_by="mmr")


def _count(pages: Pages) -> int:
    return sum(len(one.hits) for one in pages.values())
