"""The passages around those of the hits, for requests with `context_around`: neighbours, or whole documents."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from fusion.branch_results import BranchAnswers
from fusion.context import neighbours, place_of
from fusion.fused_hits import FusedHit, FusedQuestion
from models.branch_result import Degradation, StageNote
from models.documents import PassageText
from tasks.request.passage_texts import fetch_texts
from wiring.resources import Resources

MOST_PASSAGES = 1_000
"""How many passages are asked for around the hits of a request; those of the best hits first."""
AT_ONCE = 32
"""Passages of a document that are read together, until one of them does not exist."""

Pages = Mapping[int, FusedQuestion]
"""Key: the question's place in the request."""


@dataclass(slots=True)
class Around:
    """What `fusion.context.pack` adds to the passages of the hits."""

    texts: dict[str, PassageText]
    """By passage id, those of the hits too."""
    entries: dict[int, list[list[str]]] = field(default_factory=dict)
    """Passage ids that are added together; key: the question's place in the request."""
    notes: list[StageNote | None] = field(default_factory=list)
    missing: list[Degradation | None] = field(default_factory=list)
    asked: int = 0
    is_cut: bool = False
    """Whether there are more passages than MOST_PASSAGES."""
    absent: set[str] = field(default_factory=set)
    """Passages that the store does not have."""

    def fetch(
        self,
        resources: Resources,
        found: BranchAnswers,
        pages: Pages,
        wanted: Mapping[str, FusedHit],
        ends_at_s: float,
    ) -> None:
        """Read the texts of passages; `wanted` has a hit of each one's document."""
        stores = {branch.name: branch.store for branch in found.plan.branches}
        unread = [id_ for id_ in wanted if id_ not in self.texts]
        ids = unread[: MOST_PASSAGES - self.asked]
        self.is_cut = self.is_cut or len(ids) < len(unread)
        if not ids:
            return
        self.asked += len(ids)
        others = [(0, replace(wanted[id_], passage_id=id_, store=_store(wanted[id_], stores))) for id_ in ids]
        known = {index: replace(one, hits=(), texts=self.texts) for index, one in pages.items()}
        fetched = fetch_texts(resources, found, known, others, limit_s=ends_at_s - time.monotonic())
        self.texts |= fetched.texts or {}
        if fetched.why is None:
            self.absent.update(id_ for id_ in ids if id_ not in self.texts)
        self.notes.append(fetched.note)
        self.missing.append(fetched.why)


def _store(hit: FusedHit, stores: Mapping[str, str]) -> str:
    return hit.store or next(
        stores[name] for name, one in hit.branches.items() if one.passage_id == hit.passage_id
    )


def passages_around(
    resources: Resources,
    found: BranchAnswers,
    pages: Pages,
    texts: Mapping[str, PassageText],
    limit: int,
    *,
    ends_at_s: float,
) -> Around:
    """`texts` are those of the hits; `limit` is the tokens of a context, and `ends_at_s` by the monotonic clock."""
    around = Around(dict(texts))
    distance: int | Literal["document"] = found.request.context_around
    if distance == "document":
        _whole_documents(around, resources, found, pages, limit, ends_at_s)
    elif distance:
        around.entries = {index: neighbours(one.hits, distance) for index, one in pages.items()}
        hit_of = {hit.document_id: hit for one in pages.values() for hit in one.hits}
        wanted = {
            id_: hit_of[id_.rpartition("#")[0]]
            for entries in around.entries.values()
            for ids in entries
            for id_ in ids
        }
        around.fetch(resources, found, pages, wanted, ends_at_s)
    return around


def _whole_documents(
    around: Around, resources: Resources, found: BranchAnswers, pages: Pages, limit: int, ends_at_s: float
) -> None:
    """Reads each document until its end is known, or it is too long."""
    open_ = {hit.document_id: hit for one in pages.values() for hit in one.hits if place_of(hit) is not None}
    whole: dict[str, list[str]] = {}
    start = 0
    while open_ and around.asked < MOST_PASSAGES and not any(around.missing):
        wanted = {
            f"{document_id}#{place}": hit
            for document_id, hit in open_.items()
            for place in range(start, start + AT_ONCE)
        }
        around.fetch(resources, found, pages, wanted, ends_at_s)
        start += AT_ONCE
        for document_id in list(open_):
            ids = list(_there(document_id, around.texts))
            if f"{document_id}#{len(ids)}" in around.absent:
                whole[document_id] = ids
            if len(ids) < start or _words(ids, around.texts) > limit:
                del open_[document_id]
    around.is_cut = around.is_cut or (bool(open_) and around.asked >= MOST_PASSAGES)
    around.entries = {
        index: [whole[hit.document_id] for hit in one.hits if hit.document_id in whole]
        for index, one in pages.items()
    }


def _there(document_id: str, texts: Mapping[str, PassageText]) -> Iterator[str]:
    place = 0
    while (id_ := f"{document_id}#{place}") in texts:
        yield id_
        place += 1


def _words(ids: Sequence[str], texts: Mapping[str, PassageText]) -> int:
    return sum(len(texts[id_].text.split()) for id_ in ids)
