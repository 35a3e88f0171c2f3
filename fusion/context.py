"""Packs the passages of a page into a text for a language model, within a limit of tokens.

Passages are taken in the order of their hits: first the passage that stands for each hit, then the other passages that
branches found of it.  One that does not fit is left out, and the next one is tried.  What is left is for the passages around
those of the hits (`context_around`): the next ones of every hit, then those beyond, or whole documents where they fit.

The text has the documents in the order of their best hits, and the passages of each document in reading order.
Neighbours are merged.  Each block begins with a line such as `[1] Title > Heading`: the number is the document's, and
stands for all its blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from fusion.fused_hits import FusedHit
from models.documents import PassageText

_BETWEEN_BLOCKS = "\n\n"


@dataclass(frozen=True, slots=True)
class Citation:
    number: int
    """The number of the document in the text, from 1."""
    document_id: str
    ranks: tuple[int, ...]
    """The ranks of the hits that are this document, or passages of it."""
    passage_ids: tuple[str, ...]
    """The passages of the document, in the order of the text."""
    pages: str | None = None
    """The pages of the passages: `3-4, 7`; None if the document has no pages."""


@dataclass(frozen=True, slots=True)
class Context:
    text: str = ""
    tokens: int = 0
    citations: tuple[Citation, ...] = ()
    left_out: int = 0
    """Number of passages that did not fit."""


def passages_of(hit: FusedHit) -> list[str]:
    """The passage that stands for the hit, then the others that branches found."""
    return list(dict.fromkeys([hit.passage_id, *(branch.passage_id for branch in hit.branches.values())]))


def place_of(hit: FusedHit) -> int | None:
    """The place of the hit's passage in its document; None for the ids of other sources."""
    return _place(hit.document_id, hit.passage_id)


def neighbours(hits: Sequence[FusedHit], distance: int) -> list[list[str]]:
    """What to add to the hits' passages, the nearest first; each entry has all passages from a hit's own to the added one."""
    placed = [(hit, place) for hit in hits if (place := place_of(hit)) is not None]
    return [
        [f"{hit.document_id}#{place + sign * step}" for step in range(away + 1)]
        for away in range(1, distance + 1)
        for hit, place in placed
        for sign in (1, -1)
        if place + sign * away >= 0
    ]


def pack(
    hits: Sequence[FusedHit],
    texts: Mapping[str, PassageText],
    *,
    limit: int,
    count: Callable[[str], int],
    first_rank: int = 1,
    around: Sequence[Sequence[str]] = (),
) -> Context:
    """`texts` is by passage id; passages without a text are not counted.  `count` gives the tokens of a text.  Each entry of
    `around` is added whole, without the passages that have no text, or not at all.
    """
    passage_ids = [id_ for id_ in _in_order(hits) if id_ in texts]
    packed: list[dict[str, PassageText]] = []
    known: set[str] = set()
    remaining = limit
    for ids in [*([id_] for id_ in passage_ids), *around]:
        added = {id_: texts[id_] for id_ in ids if id_ in texts and id_ not in known}
        is_first = known.isdisjoint(ids)
        block = _block(0, list(added.values())) if is_first and added else _lines(added.values())
        # A text has at least as many tokens as words, which are quicker to count.
        if (
            added
            and len(block.split()) <= remaining
            and (cost := count(block + _BETWEEN_BLOCKS)) <= remaining
        ):
            packed.append(added)
            known |= added.keys()
            remaining -= cost
    while True:
        blocks = _blocks(hits, {id_: text for some in packed for id_, text in some.items()})
        text = _BETWEEN_BLOCKS.join(_block(number, run) for number, run in blocks)
        tokens = count(text)
        # Tokenizers do not always count a whole like its parts.
        if tokens <= limit or not packed:
            break
        packed.pop()
    citations = _citations(hits, blocks, first_rank)
    cited = {id_ for citation in citations for id_ in citation.passage_ids}
    return Context(text, tokens, citations, sum(id_ not in cited for id_ in passage_ids))


def _in_order(hits: Sequence[FusedHit]) -> list[str]:
    own = [hit.passage_id for hit in hits]
    return list(dict.fromkeys([*own, *(id_ for hit in hits for id_ in passages_of(hit))]))


def _place(document_id: str, passage_id: str) -> int | None:
    own, _, place = passage_id.rpartition("#")
    return int(place) if own == document_id and place.isdecimal() else None


def _position(passage: PassageText) -> int | None:
    return _place(passage.document_id, passage.passage_id)


def _blocks(
    hits: Sequence[FusedHit], texts: Mapping[str, PassageText]
) -> list[tuple[int, list[PassageText]]]:
    """(The document's number, neighbouring passages), in the order of the text."""
    by_document: dict[str, list[PassageText]] = {hit.document_id: [] for hit in hits}
    for passage in texts.values():
        by_document.setdefault(passage.document_id, []).append(passage)
    documents = [passages for passages in by_document.values() if passages]
    return [(number, run) for number, passages in enumerate(documents, start=1) for run in _runs(passages)]


def _runs(passages: Sequence[PassageText]) -> Iterator[list[PassageText]]:
    """The passages of one document in reading order, neighbours together; those without a position keep their order, last."""
    placed = [(position, passage) for passage in passages if (position := _position(passage)) is not None]
    placed.sort(key=lambda entry: entry[0])
    for _, run in groupby(enumerate(placed), key=lambda entry: entry[1][0] - entry[0]):
        yield [passage for _, (_, passage) in run]
    yield from ([passage] for passage in passages if _position(passage) is None)


def _block(number: int, run: Sequence[PassageText]) -> str:
    first = run[0]
    above = " > ".join(part for part in (first.title or first.document_id, first.heading) if part)
    place = f", p. {_pages(run)}" if first.pages else ""
    return f"[{number}] {above}{place}\n{_lines(run)}"


def _pages(run: Sequence[PassageText]) -> str:
    first, last = run[0].pages.partition("-")[0], run[-1].pages.rpartition("-")[2]
    return first if first == last else f"{first}-{last}"


def _lines(passages: Iterable[PassageText]) -> str:
    return "\n".join(passage.text for passage in passages)


def _citations(
    hits: Sequence[FusedHit], blocks: Sequence[tuple[int, Sequence[PassageText]]], first_rank: int
) -> tuple[Citation, ...]:
    citations = []
    for number, document_blocks in groupby(blocks, key=lambda block: block[0]):
        runs = [run for _, run in document_blocks]
        passages = [passage for run in runs for passage in run]
        pages = ", ".join(dict.fromkeys(_pages(run) for run in runs if run[0].pages))
        document_id = passages[0].document_id
        ranks = [rank for rank, hit in enumerate(hits, start=first_rank) if hit.document_id == document_id]
        citations.append(
            Citation(
                number, document_id, tuple(ranks), tuple(each.passage_id for each in passages), pages or None
            )
        )
    return tuple(citations)
