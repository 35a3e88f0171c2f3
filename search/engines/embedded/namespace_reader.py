"""The part of a namespace that one process has loaded, as views that stay valid while the namespace changes."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from models.documents import Manifest
from models.errors import BadIndex
from search.deadline import Deadline
from search.documents.reading import DocumentReader, VisibleIndex, read_visible_index
from search.engines.embedded.filter_masks import Allowed, Masks
from search.engines.embedded.lexical_index import DOCUMENTS, LexicalIndex, LexicalSearcher
from search.engines.embedded.passage_rows import Rows, RowTable
from search.engines.embedded.text_search import TextSearcher
from search.engines.embedded.vector_segments import VECTORS, SegmentFiles
from search.engines.embedded.vector_table import Vectors, VectorTable
from search.protocol import Search

_ATTEMPTS = 50
_RETRY_S = 0.002

_TOUCHED_NEXT = """
    SELECT rid, 1 FROM chorale_passage WHERE namespace_id = ? AND sequence = ?
    UNION ALL SELECT rid, 0 FROM chorale_passage WHERE namespace_id = ? AND ended = ? LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class View:
    """Rows, words and vectors as they were at one moment."""

    visible: VisibleIndex
    manifest: Manifest
    rows: Rows
    masks: Masks
    searcher: TextSearcher | None
    vectors: Vectors | None
    retry_at_s: float
    """When another process may have written vectors that this one has itself (monotonic)."""

    def allowed(self, search: Search, deadline: Deadline) -> Allowed:
        """The passages that the filters and exclusions of a search let through.  Raises StoreTimeout."""
        return self.masks.allowed(self.rows, search, deadline)

    def is_at(self, visible: VisibleIndex) -> bool:
        """Whether nothing visible to readers has changed since."""
        mine = self.visible
        return (
            mine.sequence == visible.sequence
            and mine.name == visible.name
            and mine.generation == visible.generation
        )


class NamespaceReader:
    """Loads what is needed and keeps it up to date.  Thread-safe."""

    def __init__(self, documents: DocumentReader, namespace: str, folder: Path) -> None:
        """`folder` has the lexical indexes by their names."""
        self._documents = documents
        self._namespace = namespace
        self._folder = folder
        self._catching_up = threading.Lock()
        self._view: View | None = None
        self._rows: RowTable | None = None
        self._vectors: VectorTable | None = None
        self._has_vectors = False
        self._masks = Masks()
        self._indexes: tuple[LexicalIndex, LexicalIndex] | None = None

    def loaded(self, generation: int, *, text: bool, vectors: bool) -> View | None:
        """The newest view, if it is of this generation and has what the call needs."""
        view = self._view
        is_it = view is not None and view.visible.generation == generation and _has(view, text, vectors)
        return view if is_it else None

    def view(self, visible: VisibleIndex, *, text: bool = False, vectors: bool = False) -> View:
        """A view at least as new as `visible` with what the call needs, and with everything loaded before."""
        view = self._view
        if view is not None and view.is_at(visible) and _has(view, text, vectors):
            return view
        with self._catching_up:
            view = self._view
            # Another thread may have caught up further than `visible` meanwhile.
            newest = self._documents.visible(self._namespace)
            if view is not None and view.is_at(newest) and _has(view, text, vectors):
                return view
            for _ in range(_ATTEMPTS):
                try:
                    view = self._caught_up(text, vectors)
                except BadIndex:
                    # A rebuild may have removed the old index after its name was read.
                    again = self._documents.visible(self._namespace)
                    if again.name == newest.name:
                        raise
                    newest = again
                    continue
                if view.searcher is None or not self._is_ahead(view, view.searcher.passages):
                    break
                time.sleep(_RETRY_S)
            assert view is not None
            self._view = view
            return view

    def _is_ahead(self, view: View, passages: LexicalSearcher) -> bool:
        """Whether the words already include a batch that the rows do not show yet.

        True only between the two commits of a batch.  A search at that moment would miss the passages that the
        batch replaces.
        """
        visible = self._documents.visible(self._namespace)
        if visible.committed == view.visible.sequence:
            return False
        if not view.is_at(visible):
            return True
        with self._documents.documents.reading() as rows:
            following = visible.sequence + 1
            parameters = (visible.namespace_id, following, visible.namespace_id, following)
            touched = rows.execute(_TOUCHED_NEXT, parameters).fetchone()
        return touched is not None and passages.has(touched[0]) == bool(touched[1])

    def _caught_up(self, text: bool, vectors: bool) -> View:
        self._has_vectors |= vectors
        with self._documents.documents.reading() as connection:
            visible = read_visible_index(connection, self._documents.store, self._namespace)
            name = visible.name_in(self._documents.store, self._namespace)
            manifest = visible.manifest
            table = self._rows
            if table is None or table.must_start_again(visible.namespace_id, visible.sequence):
                table = self._rows = RowTable(visible.namespace_id)
                self._vectors, self._masks = None, Masks()
            rows = table.snapshot
            if rows.visible != visible.sequence:
                rows = table.catch_up(connection, visible.sequence)
            loaded: Vectors | None = None
            if self._has_vectors:
                folder = self._folder / name / VECTORS
                if self._vectors is None or self._vectors.files.folder != folder:
                    self._vectors = VectorTable(
                        visible.namespace_id, SegmentFiles(folder, manifest.dimension)
                    )
                loaded = self._vectors.catch_up(connection, rows)
        searcher: TextSearcher | None = None
        if text or self._indexes is not None:
            path = self._folder / name
            if self._indexes is None or self._indexes[0].path != path:
                self._indexes = LexicalIndex(path), LexicalIndex(path / DOCUMENTS)
            passages, documents = self._indexes
            # In the opposite order of writing: if the passages are not ahead of the rows, the documents are not either.
            document_searcher = documents.reloaded()
            searcher = TextSearcher(passages.reloaded(), document_searcher)
        retry_at_s = math.inf if self._vectors is None else self._vectors.retry_at_s
        return View(visible, manifest, rows, self._masks, searcher, loaded, retry_at_s)


def _has(view: View, text: bool, vectors: bool) -> bool:
    has_vectors = view.vectors is not None and time.monotonic() < view.retry_at_s
    return (not text or view.searcher is not None) and (not vectors or has_vectors)
