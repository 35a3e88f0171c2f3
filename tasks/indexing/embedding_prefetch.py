"""Embeds a message's passages before the worker holds the namespace: workers embed for one namespace at the same time, and
write one after the other.  After every few passages, other messages may come first."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Any

import numpy as np

from inference.protocol import Embedder
from ingest.document_ids import revision_hash
from ingest.raw_documents import RawDocument, Skipped
from models.batching import in_batches
from models.documents import Matrix, Passage, Vector
from tasks.indexing.batches import splitter_of
from tasks.indexing.indexing_run import BATCH_CHARACTERS
from tasks.indexing.message_order import TurnOver

PASSAGES_AT_ONCE = 16
PORTION_CHARACTERS = 4 * BATCH_CHARACTERS
"""So much is written before more is embedded; a larger document is written alone.  A worker that dies loses no more."""
WINDOW_PASSAGES = 64
"""Documents of about this many passages are embedded together, and can be written when a turn is over.  A longer document
is embedded by itself, and a turn may end within it."""


class EmbeddingPrefetch:
    """An embedder for some documents, which remembers its passages and vectors when their message is tried again.

    `is_over` is called after every few passages, and says whether this attempt ends.  The next attempt goes on from there,
    also within a document if `has_capacity` says that the document's vectors can be kept until then.
    """

    def __init__(
        self,
        embedder: Embedder,
        *,
        is_over: Callable[[], bool] = lambda: False,
        has_capacity: Callable[[], bool] = lambda: True,
    ) -> None:
        self._embedder = embedder
        self._is_over, self._has_capacity = is_over, has_capacity
        self._splitter = splitter_of(embedder)
        self._steps: Iterator[bool] | None = None
        self._passages: dict[str, tuple[Passage, ...]] = {}
        """By the id of their document."""
        self._vectors: dict[str, Vector] = {}
        self.ready: list[RawDocument | Skipped] = []
        """What can be written: the first of the items that were not written yet.  Whoever writes them clears the list."""
        self.is_within = False
        """Whether the last attempt ended within a document."""
        self._characters = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._embedder, name)

    def take(
        self, items: Iterable[RawDocument | Skipped], known: Mapping[str, str]
    ) -> list[RawDocument | Skipped]:
        """Split and embed the documents whose revision differs from the `known` one, a portion at most, and return what is
        `ready`.

        Later calls go on with the items of the first call.  Raises TurnOver if the turn is over and nothing is ready.
        """
        if self._steps is None:
            self._steps = self._in_steps(items, known)
        self.is_within = False
        for is_within in self._steps:
            if self._is_over() and (not is_within or self._has_capacity()):
                self.is_within = is_within
                if not self.ready:
                    raise TurnOver
                break
            if not is_within and self._characters >= PORTION_CHARACTERS:
                break
        return list(self.ready)

    def _in_steps(self, items: Iterable[RawDocument | Skipped], known: Mapping[str, str]) -> Iterator[bool]:
        """Yields whether the step ended within a document."""
        window: list[RawDocument | Skipped] = []
        texts: list[str] = []
        for item in items:
            if isinstance(item, RawDocument) and known.get(item.document_id) != revision_hash(item):
                self._characters += len(item.text)
                passages = yield from self._split(item)
                new = self._splitter.texts_for_embedding(item.title, passages)
                if len(new) > WINDOW_PASSAGES:
                    self._embed_window(window, texts)
                    window, texts = [], []
                    yield from self._embed(new)
                    self.ready.append(item)
                    yield False
                    continue
                texts += new
            window.append(item)
            if len(texts) >= WINDOW_PASSAGES:
                self._embed_window(window, texts)
                window, texts = [], []
                yield False
        self._embed_window(window, texts)

    def _split(self, document: RawDocument) -> Generator[bool, None, list[Passage]]:
        passages: list[Passage] = []
        for passage in self._splitter.passages(document):
            passages.append(passage)
            if len(passages) % WINDOW_PASSAGES == 0:
                yield True
        self._passages[document.document_id] = tuple(passages)
        return passages

    def _embed_window(self, window: Iterable[RawDocument | Skipped], texts: Sequence[str]) -> None:
        deque(self._embed(texts), maxlen=0)
        self.ready += window

    def _embed(self, texts: Sequence[str]) -> Iterator[bool]:
        new = list(dict.fromkeys(text for text in texts if text not in self._vectors))
        # Texts of like length are embedded together.
        for batch in in_batches(sorted(new, key=len), PASSAGES_AT_ONCE):
            self._vectors.update(zip(batch, self._embedder.embed_passages(batch), strict=True))
            yield True

    def split(self, document: RawDocument) -> tuple[Passage, ...]:
        """The document's passages.  `take` has split the document if it has seen it."""
        passages = self._passages.get(document.document_id)
        return self._splitter.split(document) if passages is None else passages

    def embed_passages(
        self, texts: Sequence[str], *, progress: Callable[[int], None] | None = None, timeout_s: float = inf
    ) -> Matrix:
        # The namespace is held now: no turn ends.
        self._embed_window((), texts)
        if progress is not None:
            progress(len(texts))
        return np.array([self._vectors[text] for text in texts], np.float32).reshape(-1, self.dimension)
