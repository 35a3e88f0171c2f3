"""The embedded store: one folder, no server.

Any number of processes and threads search it, beside one writer for each namespace.  All branches see a batch at
the same moment.  A killed process loses nothing that was acknowledged.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from models.documents import Document, Manifest, Matrix, NamespaceState, PassageText, Vector
from models.errors import BadIndex, ServiceError
from models.hits import Ranking
from search.analysis import question_terms
from search.checks import checked_questions
from search.deadline import Deadline
from search.documents import lookups
from search.embedded.corpus import Corpus, Pulse
from search.embedded.namespace_reader import NamespaceReader, View
from search.embedded.vector_search import search_matrix
from search.listing_order import listed
from search.protocol import Entry, Search

if TYPE_CHECKING:
    from search.embedded.writer import CorpusWriter
    from search.near_duplicate_rows import NearDuplicateRows

_NAME = "the embedded store"
_HEAL_WAIT_S = 0.05


class EmbeddedStore:
    """Implements `search.protocol.Store` and `WritingStore`; thread-safe.  Opens files at first use.

    `writer_wait_s`: how long a write waits for another writer of its namespace before it raises WriterBusy.
    `warm_text` and `warm_vectors`: what `warm` loads.  A process that searches only text needs no matrix, which
    takes 4 bytes x dimension for each passage.
    """

    def __init__(
        self, folder: Path, *, writer_wait_s: float = 5.0, warm_text: bool = True, warm_vectors: bool = True
    ) -> None:
        self._corpus = Corpus(Path(folder))
        self._writer_wait_s = writer_wait_s
        self._made_writer: CorpusWriter | None = None
        self._making = threading.Lock()
        self._warms = {"text": warm_text, "vectors": warm_vectors}
        self._readers: dict[str, NamespaceReader] = {}
        self._read_of = 0
        self._reading = threading.Lock()

    def search_text(self, namespace: str, texts: Sequence[str], search: Search) -> list[Ranking]:
        deadline = Deadline(search.timeout_s, _NAME)
        view = self._view(namespace, text=True, generation=search.generation)
        assert view.searcher is not None
        allowed = view.allowed(search, deadline)
        rankings = []
        for text in texts:
            if terms := question_terms(text, view.manifest.language):
                hits, total = view.searcher.search(
                    view.rows, terms, allowed=allowed.rows, depth=search.depth, deadline=deadline
                )
            else:
                hits, total = (), 0
            rankings.append(Ranking(hits, total, allowed.warnings))
        return rankings

    def search_vectors(self, namespace: str, vectors: Matrix, search: Search) -> list[Ranking]:
        deadline = Deadline(search.timeout_s, _NAME)
        view = self._view(namespace, vectors=True, generation=search.generation)
        assert view.vectors is not None
        questions = checked_questions(namespace, vectors, view.manifest.dimension)
        allowed = view.allowed(search, deadline)
        found = search_matrix(
            view.rows, view.vectors, questions, allowed=allowed.rows, depth=search.depth, deadline=deadline
        )
        figure = view.manifest.known_words
        return [Ranking(hits, None, allowed.warnings, known_words=figure) for hits in found]

    def score_text(
        self,
        namespace: str,
        texts: Sequence[str],
        passage_ids: Sequence[Sequence[str]],
        *,
        timeout_s: float = 1.0,
    ) -> list[dict[str, float]]:
        deadline = Deadline(timeout_s, _NAME)
        view = self._view(namespace, text=True)
        assert view.searcher is not None
        with self._corpus.reading() as connection:
            rids = lookups.rids(
                connection, view.pulse.namespace_id, [id_ for ids in passage_ids for id_ in ids]
            )
        found = []
        for text, ids in zip(texts, passage_ids, strict=True):
            deadline.check()
            terms = question_terms(text, view.manifest.language)
            names = {rids[id_]: id_ for id_ in ids if id_ in rids}
            scores = view.searcher.scores(terms, list(names)) if terms and names else {}
            found.append({names[rid]: score for rid, score in scores.items()})
        return found

    def list_documents(self, namespace: str, search: Search, *, order_by: str, descending: bool) -> Ranking:
        deadline = Deadline(search.timeout_s, _NAME)
        view = self._view(namespace)
        allowed = view.allowed(search, deadline)
        deadline.check()
        places = np.flatnonzero(view.rows.alive if allowed.rows is None else allowed.rows)
        # Rows are in the order of a document's passages: the first one stands for the document.
        versions, firsts = np.unique(view.rows.version_of[places], return_index=True)
        found = [view.rows.versions[version] for version in versions.tolist()]
        order = listed([(one.document_id, one.fields) for one in found], order_by, descending=descending)
        deadline.check()
        shown = places[firsts[order[: search.depth]]]
        return Ranking(view.rows.hits(shown, np.zeros(len(shown))), len(found), allowed.warnings)

    def vectors(
        self, namespace: str, passage_ids: Sequence[str], *, timeout_s: float = 10.0
    ) -> dict[str, Vector]:
        deadline = Deadline(timeout_s, _NAME)
        pulse = self._settled(namespace)
        with self._corpus.reading() as connection:
            return lookups.vectors(connection, pulse.namespace_id, passage_ids, deadline)

    def texts(
        self, namespace: str, passage_ids: Sequence[str], *, timeout_s: float = 0.5
    ) -> dict[str, PassageText]:
        deadline = Deadline(timeout_s, _NAME)
        pulse = self._settled(namespace)
        with self._corpus.reading() as connection:
            return lookups.texts(connection, pulse.namespace_id, passage_ids, deadline)

    def generation(self, namespace: str, *, timeout_s: float = 10.0) -> int:
        return self._settled(namespace).generation

    def warm(self, namespace: str | None = None) -> None:
        names = [state.name for state in self.namespaces()] if namespace is None else [namespace]
        for name in names:
            self._view(name, **self._warms)

    def create(self, namespace: str, manifest: Manifest) -> Manifest:
        return self._writer.create(namespace, manifest)

    def upsert(self, namespace: str, documents: Sequence[Document]) -> int:
        return self._writer.upsert(namespace, documents)

    def delete(self, namespace: str, document_ids: Iterable[str]) -> int:
        return self._writer.delete(namespace, document_ids)

    def drop(self, namespace: str) -> bool:
        return self._writer.drop(namespace)

    def raise_generation(self, namespace: str, least: int) -> None:
        self._writer.raise_generation(namespace, least)

    def make_room(self) -> Path | None:
        if not self._corpus.is_there:
            self.close()
            return None
        try:
            self.namespaces()
        except BadIndex:
            self.close()
            return self._corpus.set_aside()
        return None

    def settle(self, namespace: str) -> dict[str, str]:
        """Nothing is ever missing: every access first finishes what a killed writer left."""
        return {}

    def rebuilding(self, namespace: str, manifest: Manifest) -> None:
        """Returns None: a namespace is dropped before it is indexed again."""

    def exclusive(self, namespace: str) -> AbstractContextManager[None]:
        """Hold the namespace for several writes; others get WriterBusy, readers are not affected.

        The thread that entered it must leave it.
        """
        self._settled(namespace)
        return self._writer.exclusive(namespace)

    def namespaces(self) -> list[NamespaceState]:
        with self._corpus.reading() as connection:
            return lookups.namespaces(connection)

    def revisions(self, namespace: str, source: str | None = None) -> dict[str, str]:
        pulse = self._settled(namespace)
        with self._corpus.reading() as connection:
            return lookups.revisions(connection, pulse.namespace_id, source)

    def has(self, namespace: str) -> bool:
        return self._corpus.pulse(namespace) is not None

    def entries(self, namespace: str) -> Iterator[Entry]:
        pulse = self._settled(namespace)
        with self._corpus.reading() as connection:
            yield from lookups.entries(connection, pulse.namespace_id)

    def held(
        self, namespace: str, document_ids: Iterable[str], *, source: str | None = None
    ) -> dict[str, str]:
        pulse = self._settled(namespace)
        with self._corpus.reading() as connection:
            return lookups.held(connection, pulse.namespace_id, list(document_ids), source)

    def near_duplicate_rows(self, namespace: str) -> AbstractContextManager[NearDuplicateRows]:
        return self._writer.near_duplicate_rows(namespace)

    def close(self) -> None:
        """Release files and memory; the store opens again when it is used."""
        with self._reading:
            self._readers.clear()
        with self._making:
            if self._made_writer is not None:
                self._made_writer.close()
        self._corpus.close()

    @property
    def _writer(self) -> CorpusWriter:
        with self._making:
            if self._made_writer is None:
                # The import brings SQLAlchemy (.8 s), which a process that only searches does not need.
                from search.embedded.writer import CorpusWriter

                self._made_writer = CorpusWriter(self._corpus, wait_s=self._writer_wait_s)
            return self._made_writer

    def _view(
        self, namespace: str, *, text: bool = False, vectors: bool = False, generation: int | None = None
    ) -> View:
        """What is visible now; or what was visible in `generation`, if that is loaded."""
        reader = self._readers.get(namespace)
        if generation is not None and reader is not None and self._read_of == self._corpus.replaced:
            view = reader.loaded(generation, text=text, vectors=vectors)
            if view is not None:
                return view
        pulse = self._settled(namespace)
        with self._reading:
            if self._read_of != self._corpus.replaced:
                self._readers.clear()
                self._read_of = self._corpus.replaced
            if namespace not in self._readers:
                # The files and arrays of dropped namespaces would be kept for ever.
                for gone in self._readers.keys() - self._corpus.names():
                    del self._readers[gone]
            reader = self._readers.setdefault(namespace, NamespaceReader(self._corpus, namespace))
        return reader.view(pulse, text=text, vectors=vectors)

    def _settled(self, namespace: str) -> Pulse:
        """The namespace's state, after finishing what a killed writer left."""
        pulse = self._corpus.known(namespace)
        if not pulse.is_behind:
            return pulse
        # A free lock means that no writer is at work.  If this fails, the search shows the documents as they were
        # before that batch.
        with suppress(ServiceError), self._writer.exclusive(namespace, wait_s=0):
            self._writer.settle(namespace, sql_wait_s=_HEAL_WAIT_S)
        return self._corpus.known(namespace)
