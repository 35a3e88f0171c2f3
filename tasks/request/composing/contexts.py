"""The contexts of a request with `context_tokens`: the passages of its hits, and with `context_around` those around them,
packed for a language model."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from chorale_client.request import Request
from chorale_client.wire_names import Reason, Stage, Warned

from fusion.answer import Pages
from fusion.branch_results import BranchAnswers
from fusion.context import Context, neighbours, pack, passages_of, place_of
from fusion.fused_hits import FusedHit, store_of
from models.branch_result import Degradation
from search.deadline import Deadline
from tasks.request.composing.ending import Ending, failure_of, stage_note
from tasks.request.composing.stored_passages import read_texts
from tasks.wiring.resources import Resources

MOST_PASSAGES = 1_000
"""How many passages are asked for around the hits of a request; those of the best hits first."""
AT_ONCE = 32
"""Passages of a document that are read together, until one of them does not exist."""


def make_contexts(resources: Resources, answers: BranchAnswers, pages: Pages, ending: Ending) -> Pages:
    request = answers.request
    if request.context_tokens is None:
        return pages
    if not ending.policy.has_models:
        detail = "answered by the sweeper, which has no tokenizer"
        return pages.after(None, Degradation(Stage.CONTEXT, Reason.NOT_STARTED, detail))
    reader = _Reader(resources, answers, pages, ending.deadline())
    reader.read_hits()
    around = reader.around(request.context_around)
    packed = _packed(resources, request, reader.pages, around, reader.deadline)
    if not reader.is_cut:
        return packed
    cut = f"only the first {MOST_PASSAGES:,} passages around the hits are read"
    return replace(packed, warnings=(*packed.warnings, f"{Warned.CONTEXT_AROUND}: {cut}"))


Around = Mapping[int, list[list[str]]]
"""Groups of passage ids around the hits; a group is added whole.  Key: the question's place in the request."""


@dataclass(slots=True)
class _Reader:
    """Reads the passages of one request's contexts into its pages."""

    resources: Resources
    answers: BranchAnswers
    pages: Pages
    deadline: Deadline
    count: int = 0
    """The number of passages around the hits that the request wants."""
    is_cut: bool = False
    """Whether there are more passages than MOST_PASSAGES."""
    has_failed: bool = False
    """Whether passages around the hits could not be read."""
    absent: set[str] = field(default_factory=set)
    """Passages that the store does not have."""

    def read_hits(self) -> None:
        hits = self.pages.hits
        self._read(hits + [replace(hit, passage_id=id_) for hit in hits for id_ in passages_of(hit)[1:]])

    def around(self, distance: int | str) -> Around:
        if distance == "document":
            return self._documents()
        around = {index: neighbours(page.hits, int(distance)) for index, page in self.pages.fused.items()}
        hit_of = {hit.document_id: hit for hit in self.pages.hits}
        ids = [id_ for entries in around.values() for entry in entries for id_ in entry]
        self._read_beside({id_: hit_of[id_.rpartition("#")[0]] for id_ in ids})
        return around

    def _documents(self) -> Around:
        """Read each document until its end is known, or it is too long."""
        unfinished = {hit.document_id: hit for hit in self.pages.hits if place_of(hit) is not None}
        whole: dict[str, list[str]] = {}
        start = 0
        while unfinished and self.count < MOST_PASSAGES and not self.has_failed:
            places = range(start, start + AT_ONCE)
            self._read_beside({f"{id_}#{place}": hit for id_, hit in unfinished.items() for place in places})
            start += AT_ONCE
            for document_id in list(unfinished):
                ids = list(self._read_so_far(document_id))
                if f"{document_id}#{len(ids)}" in self.absent:
                    whole[document_id] = ids
                words = sum(len(self.pages.known[id_].text.split()) for id_ in ids)
                if len(ids) < start or words > (self.answers.request.context_tokens or 0):
                    del unfinished[document_id]
        self.is_cut |= bool(unfinished) and self.count >= MOST_PASSAGES
        return {
            index: [whole[hit.document_id] for hit in page.hits if hit.document_id in whole]
            for index, page in self.pages.fused.items()
        }

    def _read_so_far(self, document_id: str) -> Iterator[str]:
        place = 0
        while (id_ := f"{document_id}#{place}") in self.pages.known:
            yield id_
            place += 1

    def _read_beside(self, hit_of: Mapping[str, FusedHit]) -> None:
        """Read the texts of passages; `hit_of` has a hit of each one's document."""
        stores = {branch.name: branch.store for branch in self.answers.plan.branches}
        unread = [id_ for id_ in hit_of if id_ not in self.pages.known]
        ids = unread[: MOST_PASSAGES - self.count]
        self.is_cut |= len(ids) < len(unread)
        if not ids:
            return
        self.count += len(ids)
        hits = [replace(hit_of[id_], passage_id=id_, store=store_of(hit_of[id_], stores)) for id_ in ids]
        if self._read(hits):
            self.absent.update(id_ for id_ in ids if id_ not in self.pages.known)
        else:
            self.has_failed = True

    def _read(self, hits: Sequence[FusedHit]) -> bool:
        """Returns False if texts could not be read."""
        self.pages, _, why = read_texts(self.resources, self.answers.plan, self.pages, hits, self.deadline)
        return why is None


def _packed(
    resources: Resources, request: Request, pages: Pages, around: Around, deadline: Deadline
) -> Pages:
    begun_s = time.monotonic()
    contexts: dict[int, Context] = {}
    why: Degradation | None = None

    def count(text: str) -> int:
        if deadline.remaining_s <= 0:
            raise TimeoutError
        return resources.count_tokens(text)

    try:
        for index, page in pages.fused.items():
            contexts[index] = pack(
                page.hits,
                pages.known,
                limit=request.context_tokens or 0,
                count=count,
                first_rank=request.offset + 1,
                around=around.get(index, ()),
            )
    except TimeoutError:
        detail = f"{len(contexts)} of {len(pages.fused)} questions in time"
        why = Degradation(Stage.CONTEXT, Reason.BUDGET, detail)
    except Exception as error:  # a tokenizer may raise anything
        failure = failure_of(error, "no context", request_id=request.request_id)
        why = Degradation(Stage.CONTEXT, failure.reason, failure.detail[:500])
    n_packed = sum(len(cited.passage_ids) for context in contexts.values() for cited in context.citations)
    n_in = n_packed + sum(context.left_out for context in contexts.values())
    note = stage_note(Stage.CONTEXT, begun_s, n_in, n_packed, why, has_part=bool(contexts))
    return pages.after(note, why, contexts=contexts)
