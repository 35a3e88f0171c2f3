"""Embedding a message's passages before its namespace is held: workers embed for one namespace at the same time, and
only write one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from inference.protocol import Embedder
from ingest.hashes import revision_hash
from ingest.raw_documents import RawDocument, Skipped
from models.documents import Matrix, Vector
from tasks.indexing.batches import splitter_of
from tasks.indexing.indexing_run import BATCH_CHARACTERS

AHEAD_CHARACTERS = 4 * BATCH_CHARACTERS
"""The rest of a larger message is embedded batch by batch while it is written, so that a crash loses little."""


class EmbeddedAhead:
    """An embedder for one message, which remembers its vectors when the message is tried again."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._vectors: dict[str, Vector] = {}
        self.fingerprint, self.dimension = embedder.fingerprint, embedder.dimension
        self.max_pieces = embedder.max_pieces
        self.count_pieces = embedder.count_pieces
        self.embed_questions = embedder.embed_questions
        self.warm = embedder.warm

    def take(self, items: Iterable[RawDocument | Skipped], known: Mapping[str, str]) -> None:
        """Embed the documents whose revision differs from the `known` one."""
        splitter, texts, characters = splitter_of(self._embedder), list[str](), 0
        for item in items:
            if isinstance(item, Skipped) or known.get(item.document_id) == revision_hash(item):
                continue
            if (characters := characters + len(item.text)) > AHEAD_CHARACTERS:
                break
            texts += splitter.texts_for_embedding(item, splitter.split(item))
        self._remember(texts)

    def embed_passages(
        self, texts: Sequence[str], *, progress: Callable[[int], None] | None = None
    ) -> Matrix:
        self._remember(texts)
        if progress is not None:
            progress(len(texts))
        return np.array([self._vectors[text] for text in texts], np.float32).reshape(-1, self.dimension)

    def _remember(self, texts: Sequence[str]) -> None:
        new = list(dict.fromkeys(text for text in texts if text not in self._vectors))
        if new:
            self._vectors.update(zip(new, self._embedder.embed_passages(new), strict=True))
