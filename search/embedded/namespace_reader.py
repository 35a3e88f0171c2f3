"""The part of a namespace that one process has loaded, as views that stay valid while the namespace changes."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from models.documents import Manifest
from models.errors import BadIndex
from search.deadline import Deadline
from search.embedded.corpus import Corpus, Pulse, read_pulse
from search.embedded.filter_masks import Allowed, Masks
from search.embedded.lexical_index import LexicalIndex, LexicalSearcher
from search.embedded.passage_rows import Rows, RowTable
from search.embedded.vector_search import Vectors, VectorTable
from search.protocol import Search

_LOOKS = 50
_LOOK_AGAIN_S = 0.002

_TOUCHED_NEXT = """
    SELECT rid, 1 FROM chorale_passage WHERE namespace_id = ? AND sequence = ?
    UNION ALL SELECT rid, 0 FROM chorale_passage WHERE namespace_id = ? AND ended = ? LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class View:
    """Rows, words and vectors as they were at one moment."""

    pulse: Pulse
    manifest: Manifest
    rows: Rows
    masks: Masks
    searcher: LexicalSearcher | None
    vectors: Vectors | None

    def allowed(self, search: Search, deadline: Deadline) -> Allowed:
        """The passages that the filters and exclusions of a search let through.  Raises StoreTimeout."""
        return self.masks.allowed(self.rows, search, deadline)

    def shows(self, pulse: Pulse) -> bool:
        """Whether nothing visible to readers has changed since."""
        mine = self.pulse
        return (
            mine.visible == pulse.visible
            and mine.namespace_id == pulse.namespace_id
            and mine.lexical == pulse.lexical
            and mine.generation == pulse.generation
        )


class NamespaceReader:
    """Loads what is needed and keeps it up to date.  Thread-safe."""

    def __init__(self, corpus: Corpus, namespace: str) -> None:
        self._corpus = corpus
        self._namespace = namespace
        self._catching_up = threading.Lock()
        self._view: View | None = None
        self._rows: RowTable | None = None
        self._vectors: VectorTable | None = None
        self._has_vectors = False
        self._masks = Masks()
        self._index: LexicalIndex | None = None

    def loaded(self, generation: int, *, text: bool, vectors: bool) -> View | None:
        """The newest view, if it shows this generation and has what is asked for."""
        view = self._view
        is_it = view is not None and view.pulse.generation == generation and _has(view, text, vectors)
        return view if is_it else None

    def view(self, pulse: Pulse, *, text: bool = False, vectors: bool = False) -> View:
        """A view at least as new as `pulse` with what is asked for, and with everything loaded before."""
        view = self._view
        if view is not None and view.shows(pulse) and _has(view, text, vectors):
            return view
        with self._catching_up:
            view = self._view
            # Another thread may have caught up further than `pulse` meanwhile.
            newest = self._corpus.pulse(self._namespace)
            if view is not None and newest and view.shows(newest) and _has(view, text, vectors):
                return view
            for _ in range(_LOOKS):
                try:
                    view = self._caught_up(text, vectors)
                except BadIndex:
                    # A rebuild may have removed the old index after its name was read.
                    again = self._corpus.pulse(self._namespace)
                    if newest is None or again is None or again.lexical == newest.lexical:
                        raise
                    newest = again
                    continue
                if view.searcher is None or not self._is_ahead(view, view.searcher):
                    break
                time.sleep(_LOOK_AGAIN_S)
            assert view is not None
            self._view = view
            return view

    def _is_ahead(self, view: View, searcher: LexicalSearcher) -> bool:
        """Whether the words already include a batch that the rows do not show yet.

        True only between the two commits of a batch.  A search at that moment would miss the passages that the
        batch replaces.
        """
        pulse = self._corpus.pulse(self._namespace)
        if pulse is None or pulse.sequence == view.pulse.visible:
            return False
        if not view.shows(pulse):
            return True
        with self._corpus.reading() as connection:
            following = pulse.visible + 1
            parameters = (pulse.namespace_id, following, pulse.namespace_id, following)
            touched = connection.execute(_TOUCHED_NEXT, parameters).fetchone()
        return touched is not None and searcher.has(touched[0]) == bool(touched[1])

    def _caught_up(self, text: bool, vectors: bool) -> View:
        self._has_vectors |= vectors
        with self._corpus.reading() as connection:
            pulse = self._corpus.existing(self._namespace, read_pulse(connection, self._namespace))
            manifest = pulse.manifest
            table = self._rows
            if table is None or table.must_start_again(pulse.namespace_id, pulse.visible):
                table = self._rows = RowTable(pulse.namespace_id)
                self._vectors, self._masks = None, Masks()
            rows = table.snapshot
            if rows.visible != pulse.visible:
                rows = table.catch_up(connection, pulse.visible)
            loaded: Vectors | None = None
            if self._has_vectors:
                if self._vectors is None:
                    self._vectors = VectorTable(pulse.namespace_id, manifest.dimension)
                loaded = self._vectors.catch_up(connection, rows)
        searcher: LexicalSearcher | None = None
        if text or self._index is not None:
            path = self._corpus.lexical_folder(pulse.lexical)
            if self._index is None or self._index.path != path:
                self._index = LexicalIndex(path)
            searcher = self._index.reloaded()
        return View(pulse, manifest, rows, self._masks, searcher, loaded)


def _has(view: View, text: bool, vectors: bool) -> bool:
    return (not text or view.searcher is not None) and (not vectors or view.vectors is not None)
