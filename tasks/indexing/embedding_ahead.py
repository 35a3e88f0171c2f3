"""Embeds a message's passages before the worker holds the namespace: workers embed for one namespace at the same time, and
write one after the other.  After every few passages, other messages may come first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from inference.protocol import Embedder
from ingest.hashes import revision_hash
from ingest.raw_documents import RawDocument, Skipped
from models.batching import in_batches
from models.documents import Matrix, Passage, Vector
from tasks.indexing.batches import splitter_of

PASSAGES_AT_ONCE = 16


class EmbeddedAhead:
    """An embedder for some documents, which remembers its passages and vectors when their message is tried again.

    `pause` is called after every few passages that were cut or embedded, and may raise an exception that ends this attempt.
    The next attempt goes on from there, also within a document.
    """

    def __init__(self, embedder: Embedder, *, pause: Callable[[], None] = lambda: None) -> None:
        self._embedder = embedder
        self._pause = pause
        self._splitter = splitter_of(embedder)
        self._splitting: Iterator[Passage] | None = None
        self._passages: dict[str, tuple[Passage, ...]] = {}
        """By the id of their document."""
        self._texts: list[str] = []
        self._vectors: dict[str, Vector] = {}
        self.fingerprint, self.dimension = embedder.fingerprint, embedder.dimension
        self.max_pieces = embedder.max_pieces
        self.count_pieces = embedder.count_pieces
        self.embed_questions = embedder.embed_questions
        self.warm = embedder.warm

    def take(self, items: Iterable[RawDocument | Skipped], known: Mapping[str, str]) -> None:
        """Split and embed the documents whose revision differs from the `known` one.  Call it with the same documents each
        time."""
        if self._splitting is None:
            self._splitting = self._split(items, known)
        for number, _ in enumerate(self._splitting, start=1):
            if number % PASSAGES_AT_ONCE == 0:
                self._pause()
        self._remember(self._texts, self._pause)

    def _split(self, items: Iterable[RawDocument | Skipped], known: Mapping[str, str]) -> Iterator[Passage]:
        for item in items:
            if not isinstance(item, RawDocument) or known.get(item.document_id) == revision_hash(item):
                continue
            passages: list[Passage] = []
            for passage in self._splitter.passages(item):
                passages.append(passage)
                yield passage
            self._passages[item.document_id] = tuple(passages)
            self._texts += self._splitter.texts_for_embedding(item, passages)

    def split(self, document: RawDocument) -> tuple[Passage, ...]:
        """The document's passages.  `take` has cut them if it has seen the document."""
        passages = self._passages.get(document.document_id)
        return self._splitter.split(document) if passages is None else passages

    def embed_passages(
        self, texts: Sequence[str], *, progress: Callable[[int], None] | None = None
    ) -> Matrix:
        # The namespace is held now: no pause.
        self._remember(texts, lambda: None)
        if progress is not None:
            progress(len(texts))
        return np.array([self._vectors[text] for text in texts], np.float32).reshape(-1, self.dimension)

    def _remember(self, texts: Sequence[str], pause: Callable[[], None]) -> None:
        new = list(dict.fromkeys(text for text in texts if text not in self._vectors))
        # Texts of like length are embedded together.
        for number, some in enumerate(in_batches(sorted(new, key=len), PASSAGES_AT_ONCE)):
            if number:
                pause()
            self._vectors.update(zip(some, self._embedder.embed_passages(some), strict=True))
