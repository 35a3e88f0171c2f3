"""The contexts of a request with `context_tokens`: the passages of its hits, and with `context_around` those around them,
packed for a language model."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from chorale_client.wire_names import Reason, Stage, StageStatus, Warned

from fusion.branch_results import BranchAnswers
from fusion.context import Context, neighbours, pack, passages_of, place_of
from fusion.fused_hits import FusedHit
from models.branch_result import Degradation, StageNote
from models.documents import PassageText
from tasks.request.stored_passages import Pages, failure_of, fetch_texts
from wiring.resources import Resources

MOST_PASSAGES = 1_000
"""How many passages are asked for around the hits of a request; those of the best hits first."""
AT_ONCE = 32
"""Passages of a document that are read together, until one of them does not exist."""


@dataclass(frozen=True, slots=True)
class Contexts:
    of: Mapping[int, Context] = field(default_factory=dict)
    """Key: the question's place in the request."""
    notes: Sequence[StageNote | None] = ()
    missing: Sequence[Degradation | None] = ()
    warnings: tuple[str, ...] = ()


def make_contexts(
    resources: Resources,
    answers: BranchAnswers,
    pages: Pages,
    texts: Mapping[str, PassageText],
    *,
    limit_s: float,
) -> Contexts:
    """`texts` are those that are known, by passage id."""
    builder = _ContextBuilder(resources, answers, pages, time.monotonic() + limit_s, dict(texts))
    builder.fetch_hits()
    builder.fetch_around()
    return builder.packed()


@dataclass(slots=True)
class _ContextBuilder:
    """Makes the contexts of one request."""

    resources: Resources
    answers: BranchAnswers
    pages: Pages
    ends_at_s: float
    """By the monotonic clock."""
    texts: dict[str, PassageText]
    """By passage id."""
    around: dict[int, list[list[str]]] = field(default_factory=dict)
    """Passage ids that are added together to those of the hits; key: the question's place in the request."""
    notes: list[StageNote | None] = field(default_factory=list)
    missing: list[Degradation | None] = field(default_factory=list)
    count_around: int = 0
    """How many passages around the hits were asked for."""
    is_cut: bool = False
    """Whether there are more passages than MOST_PASSAGES."""
    absent: set[str] = field(default_factory=set)
    """Passages that the store does not have."""

    @property
    def limit(self) -> int:
        """Tokens of a context."""
        return self.answers.request.context_tokens or 0

    def fetch_hits(self) -> None:
        known = {
            index: replace(page, texts={**page.texts, **self.texts}) for index, page in self.pages.items()
        }
        hits = [
            (index, replace(hit, passage_id=id_))
            for index, page in self.pages.items()
            for hit in page.hits
            for id_ in passages_of(hit)[1:]
        ]
        self._fetch(known, hits)

    def fetch_around(self) -> None:
        distance = self.answers.request.context_around
        if distance == "document":
            self._fetch_documents()
        elif distance:
            self.around = {index: neighbours(page.hits, distance) for index, page in self.pages.items()}
            hit_of = {hit.document_id: hit for page in self.pages.values() for hit in page.hits}
            entries = (ids for together in self.around.values() for ids in together)
            self._fetch_beside({id_: hit_of[id_.rpartition("#")[0]] for ids in entries for id_ in ids})

    def _fetch_documents(self) -> None:
        """Read each document until its end is known, or it is too long."""
        hits = (hit for page in self.pages.values() for hit in page.hits)
        unfinished = {hit.document_id: hit for hit in hits if place_of(hit) is not None}
        whole: dict[str, list[str]] = {}
        start = 0
        # The texts of the hits themselves come first in `missing`.
        while unfinished and self.count_around < MOST_PASSAGES and not any(self.missing[1:]):
            self._fetch_beside(
                {
                    f"{document_id}#{place}": hit
                    for document_id, hit in unfinished.items()
                    for place in range(start, start + AT_ONCE)
                }
            )
            start += AT_ONCE
            for document_id in list(unfinished):
                ids = list(self._read_so_far(document_id))
                if f"{document_id}#{len(ids)}" in self.absent:
                    whole[document_id] = ids
                words = sum(len(self.texts[id_].text.split()) for id_ in ids)
                if len(ids) < start or words > self.limit:
                    del unfinished[document_id]
        self.is_cut |= bool(unfinished) and self.count_around >= MOST_PASSAGES
        self.around = {
            index: [whole[hit.document_id] for hit in page.hits if hit.document_id in whole]
            for index, page in self.pages.items()
        }

    def _read_so_far(self, document_id: str) -> Iterator[str]:
        place = 0
        while (id_ := f"{document_id}#{place}") in self.texts:
            yield id_
            place += 1

    def _fetch_beside(self, hit_of: Mapping[str, FusedHit]) -> None:
        """Read the texts of passages; `hit_of` has a hit of each one's document."""
        stores = {branch.name: branch.store for branch in self.answers.plan.branches}
        unread = [id_ for id_ in hit_of if id_ not in self.texts]
        ids = unread[: MOST_PASSAGES - self.count_around]
        self.is_cut |= len(ids) < len(unread)
        if not ids:
            return
        self.count_around += len(ids)
        known = {index: replace(page, hits=(), texts=self.texts) for index, page in self.pages.items()}
        self._fetch(
            known,
            [(0, replace(hit_of[id_], passage_id=id_, store=_store(hit_of[id_], stores))) for id_ in ids],
        )
        if self.missing[-1] is None:
            self.absent.update(id_ for id_ in ids if id_ not in self.texts)

    def _fetch(self, known: Pages, hits: Sequence[tuple[int, FusedHit]]) -> None:
        limit_s = self.ends_at_s - time.monotonic()
        fetched = fetch_texts(self.resources, self.answers, known, hits, limit_s=limit_s)
        self.texts |= fetched.texts or {}
        self.notes.append(fetched.note)
        self.missing.append(fetched.why)

    def _count_tokens(self, text: str) -> int:
        if time.monotonic() >= self.ends_at_s:
            raise TimeoutError
        return self.resources.count_tokens(text)

    def packed(self) -> Contexts:
        begun_s = time.monotonic()
        request, contexts = self.answers.request, dict[int, Context]()
        why: Degradation | None = None
        try:
            for index, page in self.pages.items():
                contexts[index] = pack(
                    page.hits,
                    self.texts,
                    limit=self.limit,
                    count=self._count_tokens,
                    first_rank=request.offset + 1,
                    around=self.around.get(index, ()),
                )
        except TimeoutError:
            detail = f"{len(contexts)} of {len(self.pages)} questions in time"
            why = Degradation(Stage.CONTEXT, Reason.BUDGET, detail)
        except Exception as error:  # a tokenizer may raise anything
            failure = failure_of(error, "no context", request_id=request.request_id)
            why = Degradation(Stage.CONTEXT, failure.reason, failure.detail[:500])
        notes = (*self.notes, _note(begun_s, contexts, why))
        cut = f"{Warned.CONTEXT_AROUND}: only the first {MOST_PASSAGES:,} passages around the hits are read"
        return Contexts(contexts, notes, (*self.missing, why), (cut,) if self.is_cut else ())


def _store(hit: FusedHit, stores: Mapping[str, str]) -> str:
    return hit.store or next(
        stores[name] for name, branch_hit in hit.branches.items() if branch_hit.passage_id == hit.passage_id
    )


def _note(begun_s: float, contexts: Mapping[int, Context], why: Degradation | None) -> StageNote:
    taken = sum(len(cited.passage_ids) for context in contexts.values() for cited in context.citations)
    n_in = taken + sum(context.left_out for context in contexts.values())
    status = StageStatus.OK if why is None else StageStatus.PARTIAL if contexts else StageStatus.FAILED
    ms = (time.monotonic() - begun_s) * 1000
    return StageNote(Stage.CONTEXT, status, ms, n_in, taken, detail=str(why.reason) if why else None)
