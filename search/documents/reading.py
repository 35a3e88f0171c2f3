"""What a process reads from the documents' database: which index a store shows, and everything but searching."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from models.batching import in_batches
from models.documents import Manifest, NamespaceState, PassageText, Vector
from models.errors import BadIndex, NotConfigured, StageFailure, StoreUnavailable, UnknownNamespace
from models.hits import Hit, Ranking
from search.deadline import Deadline
from search.documents import lookups
from search.documents.file_reading import DocumentsFile, file_of
from search.documents.lookups import OLD, DocumentVersion, Passages, SqlConnection
from search.filters import compile_filters, unknown_field_warnings
from search.listing_order import listed
from search.protocol import Index, Search

if TYPE_CHECKING:
    from search.documents.document_table import DocumentTable

_T = TypeVar("_T")

_THREADS = 32
_AT_ONCE = 500
_TIMEOUT_S = 10.0
_SUBJECT = "the documents' database"

_VISIBLE_INDEX = """
    SELECT n.namespace_id, n.sequence, coalesce(g.generation, 0), CAST(n.manifest AS TEXT), i.name, i.sequence
    FROM chorale_namespace n LEFT JOIN chorale_generation g ON g.name = ?
    LEFT JOIN chorale_index i ON i.namespace_id = n.namespace_id AND i.store = ? AND i.is_shown
    WHERE n.name IN (?, ?) ORDER BY n.name, i.name DESC
"""
# The pluses keep a database without statistics from indexes that match nearly every row.
_LISTED = """
    SELECT (
        SELECT p.passage_id FROM chorale_passage p WHERE p.namespace_id = d.namespace_id
        AND p.document_id = d.document_id AND +p.sequence = d.sequence AND p.position = 0
    ), d.document_id, d.source, CAST(d.metadata AS TEXT), d.content_hash, d.near_duplicate_group
    FROM chorale_document d WHERE d.namespace_id = ? AND +d.ended IS NULL
"""


@dataclass(frozen=True, slots=True)
class VisibleIndex:
    """What a store shows of a namespace now."""

    store: str
    """The name of the store, or of the one to which the namespace was moved."""
    namespace_id: int
    """Of the build that is shown; of the current build if no index is."""
    committed: int
    """The last batch of that build."""
    generation: int
    manifest_json: str
    name: str | None
    """The name of the index in the store; None if the store has none yet."""
    sequence: int
    """The last batch that the index contains."""

    @property
    def manifest(self) -> Manifest:
        return Manifest.from_stored(json.loads(self.manifest_json))

    def name_in(self, store: str, namespace: str) -> str:
        """The name of the index in this store; raises BadIndex if it has none."""
        if self.store != store:
            raise BadIndex(f"namespace {namespace!r} was moved from the store {store!r} to {self.store!r}")
        if self.name is None:
            raise BadIndex(
                f"the store {store!r} has no index of namespace {namespace!r} yet; `chorale verify --namespace {namespace}` "
                "builds it"
            )
        return self.name


def read_visible_index(rows: SqlConnection, store: str, namespace: str) -> VisibleIndex:
    """Raises UnknownNamespace."""
    names = (namespace, namespace + OLD)
    builds = rows.execute(_VISIBLE_INDEX, (namespace, store, *names)).fetchall()
    if not builds:
        raise UnknownNamespace(namespace, _SUBJECT, _names(rows)[:20])
    # A generation is read without a store for each request.
    stores = json.loads(builds[0][3]).get("stores") if store else None
    if stores and store not in stores:
        store = stores[0]
        builds = rows.execute(_VISIBLE_INDEX, (namespace, store, *names)).fetchall()
    build = next((build for build in builds if build[4] is not None), builds[0])
    namespace_id, committed, generation, manifest_json, name, sequence = build
    return VisibleIndex(store, namespace_id, committed, generation, manifest_json, name, sequence or 0)


def _names(rows: SqlConnection) -> list[str]:
    return sorted(name for (name,) in rows.execute("SELECT name FROM chorale_namespace") if "." not in name)


class Documents:
    """The documents' database as a process uses it; thread-safe.  Connects at first use."""

    def __init__(self, address: str | Path, *, writer_wait_s: float = 5.0) -> None:
        """`address`: a file, or an address as SQLAlchemy takes it."""
        self.address = address
        self._writer_wait_s = writer_wait_s
        path = address if isinstance(address, Path) else file_of(address)
        self.file = None if path is None else DocumentsFile(path, lambda: self.table.prepare())
        self._making = threading.Lock()
        self._table: DocumentTable | None = None

    @property
    def table(self) -> DocumentTable:
        """For writing."""
        with self._making:
            if self._table is None:
                # SQLAlchemy takes .8 s to import.
                from search.documents.document_table import DocumentTable

                self._table = DocumentTable(self.address, writer_wait_s=self._writer_wait_s)
            return self._table

    @contextmanager
    def reading(self) -> Iterator[SqlConnection]:
        """One snapshot, which later writes do not change."""
        with (self.table if self.file is None else self.file).reading() as rows:
            yield rows

    def within(self, timeout_s: float, work: Callable[[SqlConnection, Deadline], _T]) -> _T:
        """The answer; raises StoreTimeout.

        A server is read in a thread, because connecting and a lost network take longer than any call may.
        """
        deadline = Deadline(timeout_s, _SUBJECT)
        remaining_s = deadline.check()

        def read() -> _T:
            with self.reading() as rows:
                return work(rows, deadline)

        if self.file is not None:
            return read()
        try:
            return self._threads.submit(read).result(remaining_s)
        except TimeoutError:
            raise deadline.over() from None

    def generation(self, namespace: str, *, timeout_s: float = _TIMEOUT_S) -> int:
        return self.within(timeout_s, lambda rows, _: read_visible_index(rows, "", namespace).generation)

    def raise_generation(self, namespace: str, least: int) -> None:
        with self.table.exclusive(namespace):
            self.table.raise_generation(namespace, least)

    def names(self) -> list[str]:
        """All namespaces."""
        return self.within(_TIMEOUT_S, lambda rows, _: _names(rows))

    def namespaces(
        self, *, after: str = "", limit: int | None = None, names: Collection[str] | None = None
    ) -> list[NamespaceState]:
        """As `lookups.namespaces`."""
        return self.within(
            _TIMEOUT_S, lambda rows, _: lookups.namespaces(rows, after=after, limit=limit, names=names)
        )

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
        if self._table is not None:
            self._table.close()

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(_THREADS, thread_name_prefix="documents")


class DocumentReader:
    """Reads for one store; thread-safe."""

    def __init__(self, documents: Documents, store: str) -> None:
        self.documents = documents
        self.store = store
        self._visible: dict[str, VisibleIndex] = {}

    def visible(self, namespace: str, timeout_s: float = _TIMEOUT_S) -> VisibleIndex:
        """What the store shows now; raises UnknownNamespace."""
        return self.read(namespace, timeout_s, lambda _rows, visible, _deadline: visible)

    def read(
        self, namespace: str, timeout_s: float, work: Callable[[SqlConnection, VisibleIndex, Deadline], _T]
    ) -> _T:
        """The result of `work` in a snapshot; raises UnknownNamespace, StoreTimeout, StoreUnavailable."""
        return self.documents.within(
            timeout_s,
            lambda rows, deadline: work(rows, read_visible_index(rows, self.store, namespace), deadline),
        )

    def index(self, namespace: str, timeout_s: float, generation: int | None = None) -> Index:
        """The index that the store shows, or showed in `generation`, if this process has read it since; raises BadIndex."""
        known = self._known(namespace, timeout_s, generation)
        return Index(namespace, known.namespace_id, known.name_in(self.store, namespace), known.manifest)

    def serving(self, namespace: str, timeout_s: float, generation: int | None = None) -> str:
        """The store that serves the namespace in place of this one since it was moved; otherwise this one."""
        return self._known(namespace, timeout_s, generation).store

    def warmed(self, namespace: str | None) -> list[str]:
        """The namespace, or all that this store serves."""
        names = self.documents.names() if namespace is None else [namespace]
        return [name for name in names if namespace or self.serving(name, _TIMEOUT_S) == self.store]

    def _known(self, namespace: str, timeout_s: float, generation: int | None) -> VisibleIndex:
        known = self._visible.get(namespace)
        if known is None or known.generation != generation:
            try:
                self._visible[namespace] = known = self.visible(namespace, timeout_s)
            except StoreUnavailable:
                # A search of the server needs nothing else from the database.
                if known is None:
                    raise
        return known


class FromDocuments:
    """Inherit in a store, which then implements `search.protocol.Lists` and most of `search.protocol.Searches`."""

    reader: DocumentReader | None = None
    """Set by whoever opens the store."""

    @property
    def documents(self) -> DocumentReader:
        if self.reader is None:
            raise NotConfigured("the store was opened without the documents' database")
        return self.reader

    def on_index(
        self,
        namespace: str,
        deadline: Deadline,
        work: Callable[[Index], _T],
        *,
        generation: int | None = None,
    ) -> _T:
        """The result of `work` for the index that the store shows; repeated if a rebuild has replaced it meanwhile."""
        index = self.documents.index(namespace, deadline.check(), generation)
        while True:
            try:
                return work(index)
            except StageFailure:
                searched = index
                if deadline.remaining_s <= 0:
                    raise
                index = self.documents.index(namespace, deadline.remaining_s)
                if index == searched:
                    raise

    def texts(
        self, namespace: str, passage_ids: Sequence[str], *, timeout_s: float = 0.5
    ) -> dict[str, PassageText]:
        return self._read(namespace, timeout_s, lambda passages: passages.texts(passage_ids))

    def vectors(
        self, namespace: str, passage_ids: Sequence[str], *, timeout_s: float = 10.0
    ) -> dict[str, Vector]:
        return self._read(namespace, timeout_s, lambda passages: passages.vectors(passage_ids))

    def _read(self, namespace: str, timeout_s: float, work: Callable[[Passages], _T]) -> _T:
        def read(rows: SqlConnection, visible: VisibleIndex, deadline: Deadline) -> _T:
            return work(Passages(rows, visible.namespace_id, visible.sequence, deadline))

        return self.documents.read(namespace, timeout_s, read)

    def generation(self, namespace: str, *, timeout_s: float = 10.0) -> int:
        return self.documents.visible(namespace, timeout_s).generation

    def manifest(self, namespace: str, *, timeout_s: float, generation: int | None = None) -> Manifest:
        return self.documents.index(namespace, timeout_s, generation).manifest

    def namespaces(self) -> list[NamespaceState]:
        return self.documents.documents.namespaces()

    def list_documents(self, namespace: str, search: Search, *, order_by: str, descending: bool) -> Ranking:
        """Takes time in proportion to the namespace, or to `only_ids`."""

        def work(rows: SqlConnection, visible: VisibleIndex, deadline: Deadline) -> Ranking:
            listing = _Listing(rows, visible.namespace_id, deadline)
            return _list_documents(listing, search, order_by, descending=descending)

        return self.documents.read(namespace, search.timeout_s, work)


@dataclass(frozen=True, slots=True)
class _Listing:
    rows: SqlConnection
    namespace_id: int
    deadline: Deadline

    def documents(self, only_ids: Sequence[str]) -> Iterator[tuple[str, DocumentVersion]]:
        """The first passage and the document, for all documents that have passages or for those of `only_ids`."""
        statements: list[tuple[str, list[Any]]] = [(_LISTED, [self.namespace_id])]
        if only_ids:
            statements = [
                (f"{_LISTED} AND d.document_id IN ({', '.join('?' * len(part))})", [self.namespace_id, *part])
                for part in in_batches(dict.fromkeys(only_ids), _AT_ONCE)
            ]
        for statement, values in statements:
            for passage_id, *row in self.rows.execute(statement, values):
                self.deadline.check()
                if passage_id is not None:
                    yield passage_id, lookups.version_of(*row)


def _list_documents(listing: _Listing, search: Search, order_by: str, *, descending: bool) -> Ranking:
    compiled = compile_filters(search.filters or {})
    if compiled.warnings:
        return Ranking((), 0, compiled.warnings)
    unknown, excluded = set(compiled.fields), set(search.exclude_ids)
    matching: list[tuple[str, DocumentVersion]] = []
    for passage_id, document in listing.documents(search.only_ids):
        matches, has = compiled.judged(document.fields)
        unknown.difference_update(field for field, known in zip(compiled.fields, has, strict=True) if known)
        if matches and document.document_id not in excluded:
            matching.append((passage_id, document))
    if unknown and not search.only_ids:
        known = (field not in unknown for field in compiled.fields)
        return Ranking((), 0, unknown_field_warnings(compiled.fields, known))
    fields = [(document.document_id, document.fields) for _, document in matching]
    order = listed(fields, order_by, descending=descending)
    hits = [_hit(*matching[place]) for place in order[: search.depth]]
    return Ranking(tuple(hits), len(matching))


def _hit(passage_id: str, document: DocumentVersion) -> Hit:
    return Hit(
        passage_id,
        document.document_id,
        0.0,
        document.source_type,
        document.published_at,
        document.content_hash,
        document.near_duplicate_group,
    )
