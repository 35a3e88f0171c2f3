"""Embeds a message's passages before the worker holds the namespace: workers embed for one namespace at the same time, and
write one after the other.  After every few passages, other messages may come first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from inference.protocol import Embedder
from ingest.hashes import revision_hash
from ingest.raw_documents import RawDocument, Skipped
from models.batching import in_batches
from models.documents import Matrix, Vector
from tasks.indexing.batches import splitter_of

PASSAGES_AT_ONCE = 16


class EmbeddedAhead:
    """An embedder for some documents, which remembers its vectors when their message is tried again.

    `pause` is called after every few passages, and may raise an exception that ends this attempt.
    """

    def __init__(self, embedder: Embedder, *, pause: Callable[[], None] = lambda: None) -> None:
        self._embedder = embedder
        self._pause = pause
        self._vectors: dict[str, Vector] = {}
        self._texts: list[str] | None = None
        self.fingerprint, self.dimension = embedder.fingerprint, embedder.dimension
        self.max_pieces = embedder.max_pieces
        self.count_pieces = embedder.count_pieces
        self.embed_questions = embedder.embed_questions
        self.warm = embedder.warm

    def take(self, items: Iterable[RawDocument | Skipped], known: Mapping[str, str]) -> None:
        """Embed the documents whose revision differs from the `known` one.  Call it with the same documents each time."""
        if self._texts is None:
            splitter, texts = splitter_of(self._embedder), list[str]()
            for item in items:
                if isinstance(item, RawDocument) and known.get(item.document_id) != revision_hash(item):
                    texts += splitter.texts_for_embedding(item, splitter.split(item))
            self._texts = texts
        self._remember(self._texts, self._pause)

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
