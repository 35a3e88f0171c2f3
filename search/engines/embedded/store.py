"""The embedded store: no server, and no files but the lexical indexes and, inside of them, the vectors.

Any number of processes and threads search it, beside one writer for each namespace.  All branches see a batch at
the same moment.  A killed process loses nothing that was acknowledged.
"""

from __future__ import annotations

import shutil
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import tee
from pathlib import Path

import numpy as np

from models.batching import in_batches
from models.documents import Document, Matrix
from models.errors import BadIndex, ServiceError
from models.hits import Ranking
from search.analysis import indexed_texts, question_terms
from search.checks import checked_questions
from search.deadline import Deadline
from search.documents.lookups import Passages, SqlConnection
from search.documents.reading import FromDocuments, VisibleIndex
from search.engines.embedded.lexical_index import (
    DOCUMENTS,
    check_index,
    create_index,
    indexed_among,
    write_index,
)
from search.engines.embedded.namespace_reader import NamespaceReader, View
from search.engines.embedded.vector_search import search_matrix
from search.listing_order import listed
from search.protocol import Entry, Index, Search

_NAME = "the embedded store"
MOST_OPEN = 128
"""Namespaces that a process keeps open.  Each has about 16 memory maps, and two threads of tantivy, which look for commits twice a
second."""
_AT_ONCE = 500
_LISTED_AT_ONCE = 10_000
_ROWS = """
    SELECT rid, passage_id, document_id, ended FROM chorale_passage WHERE namespace_id = ? AND document_id IN ({0})
"""
_ALL_PASSAGES = """
    SELECT p.rid, p.document_id, p.passage_id, d.revision FROM chorale_passage p JOIN chorale_document d
    ON d.namespace_id = p.namespace_id AND d.document_id = p.document_id AND d.sequence = p.sequence
    WHERE p.namespace_id = ?
"""
_BARE = """
    SELECT document_id, revision FROM chorale_document d WHERE namespace_id = ? AND +ended IS NULL AND NOT EXISTS (
        SELECT 1 FROM chorale_passage p
        WHERE p.namespace_id = d.namespace_id AND p.document_id = d.document_id AND +p.sequence = d.sequence
    )
"""


class EmbeddedStore(FromDocuments):
    """Implements `search.protocol.Engine`, `Searches`, `Lists` and `ScoresText`; thread-safe.  Opens files at first use.

    `warm_text` and `warm_vectors`: what `warm` loads.
    """

    def __init__(self, folder: Path, *, warm_text: bool = True, warm_vectors: bool = True) -> None:
        self._folder = Path(folder)
        self._warms = {"text": warm_text, "vectors": warm_vectors}
        self._readers: OrderedDict[str, NamespaceReader] = OrderedDict()
        """The one that was used last is at the end."""
        self._read_of = 0
        self._reading = threading.Lock()

    def search_text(self, namespace: str, texts: Sequence[str], search: Search) -> list[Ranking]:
        deadline = Deadline(search.timeout_s, _NAME)
        view = self._view(namespace, text=True, generation=search.generation)
        assert view.searcher is not None
        view.searcher.check()
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
        questions = checked_questions(namespace, vectors, view.manifest, search.embedders)
        allowed = view.allowed(search, deadline)
        rankings = search_matrix(
            view.rows, view.vectors, questions, allowed=allowed.rows, depth=search.depth, deadline=deadline
        )
        figure = view.manifest.known_words
        return [Ranking(hits, None, allowed.warnings, known_words=figure) for hits in rankings]

    def score_text(
        self,
        namespace: str,
        texts: Sequence[str],
        passage_ids: Sequence[Sequence[str]],
        *,
        timeout_s: float = 1.0,
    ) -> list[dict[str, float]]:
        view = self._view(namespace, text=True)
        assert view.searcher is not None
        all_ids = [passage_id for ids in passage_ids for passage_id in ids]
        visible = view.visible

        def read(rows: SqlConnection, _: VisibleIndex, deadline: Deadline) -> dict[str, int]:
            return Passages(rows, visible.namespace_id, visible.sequence, deadline).rids(all_ids)

        deadline = Deadline(timeout_s, _NAME)
        rids = self.documents.read(namespace, timeout_s, read)
        scores = []
        for text, ids in zip(texts, passage_ids, strict=True):
            deadline.check()
            terms = question_terms(text, view.manifest.language)
            names = {rids[passage_id]: passage_id for passage_id in ids if passage_id in rids}
            text_scores = view.searcher.scores(view.rows, terms, list(names)) if terms and names else {}
            scores.append({names[rid]: score for rid, score in text_scores.items()})
        return scores

    def list_documents(self, namespace: str, search: Search, *, order_by: str, descending: bool) -> Ranking:
        deadline = Deadline(search.timeout_s, _NAME)
        if self.documents.serving(namespace, search.timeout_s, search.generation) != self.documents.store:
            return super().list_documents(namespace, search, order_by=order_by, descending=descending)
        view = self._view(namespace)
        allowed = view.allowed(search, deadline)
        deadline.check()
        places = np.flatnonzero(view.rows.alive if allowed.rows is None else allowed.rows)
        # Rows are in the order of a document's passages: the first one stands for the document.
        versions, firsts = np.unique(view.rows.version_of[places], return_index=True)
        documents = [view.rows.versions[version] for version in versions.tolist()]
        fields = [(document.document_id, document.fields) for document in documents]
        order = listed(fields, order_by, descending=descending)
        deadline.check()
        chosen = places[firsts[order[: search.depth]]]
        return Ranking(view.rows.hits(chosen, np.zeros(len(chosen))), len(documents), allowed.warnings)

    def generation(self, namespace: str, *, timeout_s: float = 10.0) -> int:
        return self._settled(namespace).generation

    def warm(self, namespace: str | None = None) -> None:
        for name in self.documents.warmed(namespace):
            self._view(name, **self._warms)

    def create(self, index: Index) -> None:
        if self.has(index):
            return
        create_index(self._path(index))
        with self.documents.documents.reading() as rows:
            known = {name for (name,) in rows.execute("SELECT name FROM chorale_index")}
        # What a crash has left.
        for folder in (self._folder / "lexical").glob(f"{index.namespace}.*"):
            if folder.name not in known:
                shutil.rmtree(folder, ignore_errors=True)

    def has(self, index: Index) -> bool:
        with suppress(BadIndex):
            check_index(self._path(index))
            return True
        return False

    def write(self, index: Index, documents: Sequence[Document], deleted: Sequence[str]) -> None:
        """Two commits, durable on return: a reader that sees the second one, of whole documents, sees the first one too."""
        ids = [*(document.document_id for document in documents), *deleted]
        gone: list[int] = []
        rids: dict[str, int] = {}
        with self.documents.documents.reading() as rows:
            for part in in_batches(ids, _AT_ONCE):
                statement = _ROWS.format(", ".join("?" * len(part)))
                for rid, passage_id, _, ended in rows.execute(statement, (index.namespace_id, *part)):
                    # New ones too: a killed writer may have indexed them.
                    gone.append(rid)
                    if ended is None:
                        rids[passage_id] = rid
        passages: list[tuple[int, str]] = []
        whole: list[tuple[int, str]] = []
        for document in documents:
            texts = indexed_texts(document, index.manifest)
            document_passages = [
                (rids[passage.passage_id], text)
                for passage, text in zip(document.passages, texts.passages, strict=True)
                if passage.passage_id in rids
            ]
            passages += document_passages
            whole += [(min(rid for rid, _ in document_passages), texts.document)] if document_passages else []
        path = self._path(index)
        write_index(path, delete=gone, add=passages)
        write_index(path / DOCUMENTS, delete=gone, add=whole)

    def drop(self, index: Index) -> None:
        """Open readers keep their files."""
        shutil.rmtree(self._path(index), ignore_errors=True)

    def entries(self, index: Index) -> Iterator[Entry]:
        """The passages that the lexical index has, and the documents that have none."""
        with self.documents.documents.reading() as rows:
            portions = in_batches(rows.execute(_ALL_PASSAGES, (index.namespace_id,)), _LISTED_AT_ONCE)
            for_rids, portions = tee(portions)
            rids = ([rid for rid, *_ in portion] for portion in for_rids)
            for indexed, portion in zip(indexed_among(self._path(index), rids), portions, strict=True):
                yield from (Entry(*entry) for rid, *entry in portion if rid in indexed)
            for document_id, revision in rows.execute(_BARE, (index.namespace_id,)):
                yield Entry(document_id, None, revision)

    def close(self) -> None:
        """Release files and memory; the store opens again when it is used."""
        with self._reading:
            self._readers.clear()

    def _path(self, index: Index) -> Path:
        return self._folder / "lexical" / index.name

    def _view(
        self, namespace: str, *, text: bool = False, vectors: bool = False, generation: int | None = None
    ) -> View:
        """What is visible now; or what was visible in `generation`, if that is loaded."""
        with suppress(KeyError):
            self._readers.move_to_end(namespace)
        reader = self._readers.get(namespace)
        if generation is not None and reader is not None and self._read_of == self._replaced:
            view = reader.loaded(generation, text=text, vectors=vectors)
            if view is not None:
                return view
        visible = self._settled(namespace)
        with self._reading:
            if self._read_of != self._replaced:
                self._readers.clear()
                self._read_of = self._replaced
            if namespace not in self._readers:
                # The files and arrays of dropped namespaces would be kept for ever.
                for gone in self._readers.keys() - set(self.documents.documents.names()):
                    del self._readers[gone]
                while len(self._readers) >= MOST_OPEN:
                    self._readers.popitem(last=False)
            reader = self._readers.setdefault(
                namespace, NamespaceReader(self.documents, namespace, self._folder / "lexical")
            )
        return reader.view(visible, text=text, vectors=vectors)

    @property
    def _replaced(self) -> int:
        file = self.documents.documents.file
        return 0 if file is None else file.replaced

    def _settled(self, namespace: str) -> VisibleIndex:
        """What the store shows, after finishing what a killed writer left."""
        visible = self.documents.visible(namespace)
        is_ours = visible.store == self.documents.store
        if not is_ours:
            # The reader would keep the files and arrays of the namespace for ever.
            self._readers.pop(namespace, None)
        if not is_ours or (visible.name is not None and visible.sequence == visible.committed):
            return visible
        # A free lock means that no writer is at work.  If this fails, the search shows the documents as they were
        # before that batch.
        from search.documents.store import DocumentStore

        table = self.documents.documents.table
        with suppress(ServiceError), table.exclusive(namespace, wait_s=0):
            DocumentStore({self.documents.store: self}, table, is_whole=False).settle(namespace)
        return self.documents.visible(namespace)
