"""Splits documents into passages at headings and sentences; sizes are counted in the embedder's word pieces."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from semantic_text_splitter import MarkdownSplitter, TextSplitter

from ingest.headings import Outline, outline_of
from ingest.raw_documents import RawDocument
from models.documents import Passage

PASSAGE_PIECES = 256
"""Maximum size of a passage, even if the model reads more: a longer one answers many questions badly."""
CHARACTERS_PER_PIECE = 8
"""Maximum characters that count as one piece, because many tokenizers count a very long word as one unknown piece.
English has 4 to 5 characters a piece."""
BLOCK_CHARACTERS = 16_000
"""Maximum text for one call of the library, whose time grows with the square of text without borders."""

PATH_SEPARATOR = " > "
_BLOCK_BORDERS = ("\n\n", "\n", ". ", "。", " ")


def passage_pieces(max_pieces: int) -> int:
    """The size of passages for a model that reads `max_pieces`."""
    return min(max_pieces, PASSAGE_PIECES)


def splitter_name(max_pieces: int) -> str:
    """The splitter's entry in a manifest: name, version (raised when passages change) and size."""
    return f"semantic-text-splitter/1 pieces={max_pieces} overlap=0"


@dataclass(frozen=True, slots=True)
class _Section:
    """A part of the text below one heading path; `start` to `body` are heading lines."""

    start: int
    body: int
    end: int
    path: tuple[str, ...]


@dataclass(slots=True)
class _Group:
    """Neighbouring parts that will form a section; `only` is set if it is a single branch that is not yet packed."""

    start: int
    end: int
    pieces: int
    only: Outline | None


class Splitter:
    """Splits documents so that title, heading path and passage together fit the model, and nothing is cut."""

    def __init__(self, count_pieces: Callable[[str], int], *, max_pieces: int) -> None:
        """`count_pieces` is the embedder's (no truncation, no special tokens); `max_pieces` is at least 16."""
        if max_pieces < 16:
            raise ValueError(f"max_pieces: {max_pieces}; at least 16 are needed")
        self._count_pieces = count_pieces
        self.max_pieces = max_pieces
        # The passages of a document share the title and most headings.
        self._shortened = lru_cache(maxsize=64)(self._shorten)

    def split(self, document: RawDocument) -> tuple[Passage, ...]:
        """Passages in order, each with `document.text[start:end]`; a document that fits is one passage."""
        return tuple(self.passages(document))

    def passages(self, document: RawDocument) -> Iterator[Passage]:
        """Yields the passages of `split` one by one, so that the caller can pause within a long document."""
        text, position = document.text, 0
        outline = outline_of(document)
        for section in self._pack(document, outline, outline.start):
            heading = PATH_SEPARATOR.join(section.path)
            for span in self._cut(document, section):
                start, end = _trimmed(text, *span)
                if start < end:
                    passage_id = f"{document.document_id}#{position}"
                    pages = _pages(document.page_starts, start, end)
                    yield Passage(passage_id, position, text[start:end], heading, start, end, pages=pages)
                    position += 1

    def texts_for_embedding(self, title: str, passages: Iterable[Passage]) -> list[str]:
        """The embedder's input for each passage: title, heading path and text, a line each.

        A title or heading that the text starts with is not repeated.  Title and heading path are each shortened to a
        quarter of the word pieces, so at least half of them are left for the text.
        """
        return [self._embedded(title, passage.heading, passage.text) for passage in passages]

    def _embedded(self, title: str, heading: str, text: str) -> str:
        first_line = text.split("\n", 1)[0].lstrip("#").strip()
        path = heading.split(PATH_SEPARATOR) if heading else []
        if path and path[-1] == first_line:
            path.pop()
        before = ["" if title == first_line else title, PATH_SEPARATOR.join(path)]
        return "\n".join([*filter(None, map(self._shortened, before)), text])

    def _pack(self, document: RawDocument, outline: Outline, start: int) -> Iterator[_Section]:
        """The largest sections that fit: whole branches of the tree, or neighbours below one heading."""
        path, children = outline.path, outline.children
        if not children or self._excess(document, path, start, outline.end) <= 0:
            yield _Section(start, outline.body, outline.end, path)
            return
        groups: list[_Group] = []
        capacity = self._capacity(document, path)
        # A heading without its own text joins the first section below it.
        if document.text[outline.body : children[0].start].strip():
            own_end = children[0].start
            groups.append(_Group(start, own_end, self._size(document.text[start:own_end]), None))
            start = own_end
        for child in children:
            pieces = self._size(document.text[start : child.end])
            if groups and groups[-1].pieces + pieces <= capacity:
                groups[-1] = _Group(groups[-1].start, child.end, groups[-1].pieces + pieces, None)
            else:
                groups.append(_Group(start, child.end, pieces, child))
            start = child.end
        for group in groups:
            if group.only is not None:
                yield from self._pack(document, group.only, group.start)
            else:
                yield _Section(group.start, max(group.start, outline.body), group.end, path)

    def _cut(self, document: RawDocument, section: _Section) -> Iterator[tuple[int, int]]:
        """The whole section, or its parts; the first part includes the heading lines unless they are too long."""
        text, path, start, body = document.text, section.path, section.start, section.body
        if self._excess(document, path, start, section.end) <= 0:
            yield start, section.end
            return
        if self._size(text[start:body]) > self.max_pieces // 4:
            body = start
        capacity = max(1, self._capacity(document, path) - self._size(text[start:body]))
        kind = MarkdownSplitter if document.markup == "markdown" else TextSplitter
        for block_start, block_end in _blocks(text, body, section.end):
            block, block_capacity = text[block_start:block_end], capacity
            while True:
                spans = [
                    (block_start + offset, block_start + offset + len(chunk))
                    for offset, chunk in kind.from_callback(self._size, block_capacity).chunk_indices(block)
                ]
                if spans and start < body:
                    spans[0] = (start, spans[0][1])
                excess = max((self._excess(document, path, *span) for span in spans), default=0)
                if excess <= 0 or block_capacity == 1:
                    break
                # With tokenizers that look across spaces, the parts may have a few pieces more than the whole.
                block_capacity = max(1, block_capacity - excess)
            if spans:
                start = body = spans[-1][1]
            yield from spans

    def _excess(self, document: RawDocument, path: tuple[str, ...], start: int, end: int) -> int:
        """Number of pieces by which the embedder's input for this passage exceeds the limit."""
        text = document.text[start:end].strip()
        too_long = len(text) - CHARACTERS_PER_PIECE * self.max_pieces
        if too_long > 0:
            return -(-too_long // CHARACTERS_PER_PIECE)
        whole = self._embedded(document.title, PATH_SEPARATOR.join(path), text)
        return self._count_pieces(whole) - self.max_pieces

    def _capacity(self, document: RawDocument, path: tuple[str, ...]) -> int:
        """The number of pieces that title and heading path leave for the text."""
        return self.max_pieces - self._size(self._embedded(document.title, PATH_SEPARATOR.join(path), ""))

    def _size(self, text: str) -> int:
        by_length = -(-len(text) // CHARACTERS_PER_PIECE)
        # Do not tokenize a very long text: its length already shows that it is too long.
        return by_length if by_length > self.max_pieces else max(by_length, self._count_pieces(text))

    def _shorten(self, text: str) -> str:
        """The start of the text, at most a quarter of the pieces."""
        limit = self.max_pieces // 4
        text = text[: limit * CHARACTERS_PER_PIECE]
        if self._size(text) <= limit:
            return text
        fits, too_long = 0, len(text)
        while too_long - fits > 1:
            middle = (fits + too_long) // 2
            fits, too_long = (middle, too_long) if self._size(text[:middle]) <= limit else (fits, middle)
        return text[:fits].rsplit(" ", 1)[0]


def _blocks(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Consecutive parts of at most BLOCK_CHARACTERS; each ends at the best border in its second half."""
    while end - start > BLOCK_CHARACTERS:
        earliest, latest = start + BLOCK_CHARACTERS // 2, start + BLOCK_CHARACTERS
        borders = (
            place + len(border)
            for border in _BLOCK_BORDERS
            if (place := text.rfind(border, earliest, latest)) >= 0
        )
        cut = next(borders, latest)
        yield start, cut
        start = cut
    if start < end:
        yield start, end


def _pages(page_starts: Sequence[int], start: int, end: int) -> str:
    """`3`, or `3-4`; empty for a document without pages."""
    first, last = (max(1, bisect_right(page_starts, offset)) for offset in (start, end - 1))
    return "" if not page_starts else f"{first}" if first == last else f"{first}-{last}"


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """The span without surrounding white space."""
    part = text[start:end]
    return start + len(part) - len(part.lstrip()), end - len(part) + len(part.rstrip())
