"""What the store of a server answers from the documents' database: everything but searching."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from models.batching import in_batches
from models.documents import NamespaceState, PassageText, Vector
from models.errors import NotConfigured, UnknownNamespace
from models.hits import Hit, Ranking
from search.deadline import Deadline
from search.documents import lookups
from search.documents.lookups import DocumentVersion
from search.filters import compile_filters, elements, unknown_field_warning
from search.listing_order import listed
from search.protocol import Search

if TYPE_CHECKING:
    from search.documents.document_table import DocumentTable

_T = TypeVar("_T")

_THREADS = 32
_AT_ONCE = 500
_NAMESPACES_S = 10.0

_SHOWN = """
    SELECT coalesce(o.namespace_id, n.namespace_id), coalesce(g.generation, 0)
    FROM chorale_namespace n LEFT JOIN chorale_generation g ON g.name = n.name
    LEFT JOIN chorale_stored_rebuild r ON r.namespace_id = n.namespace_id AND r.store = ?
    LEFT JOIN chorale_namespace o ON o.name = ? AND r.store IS NOT NULL
    WHERE n.name = ?
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
class _Asked:
    """One call: a snapshot of the build that the store shows."""

    rows: lookups.Executes
    namespace_id: int
    generation: int
    deadline: Deadline


class DocumentReader:
    """Reads for one store; thread-safe.  Connects at first use."""

    def __init__(self, table: DocumentTable, store: str) -> None:
        self._table = table
        self._store = store

    def read(self, namespace: str, timeout_s: float, work: Callable[[_Asked], _T]) -> _T:
        """Raises UnknownNamespace, StoreTimeout, StoreUnavailable."""
        deadline = Deadline(timeout_s, "the documents' database")

        def ask() -> _T:
            from search.documents.document_table import OLD

            with self._table.reading() as rows:
                shown: Any = rows.execute(_SHOWN, (self._store, namespace + OLD, namespace)).fetchone()
                if shown is None:
                    raise UnknownNamespace(namespace, "the documents' database")
                return work(_Asked(rows, shown[0], shown[1], deadline))

        return self._within(deadline, ask)

    def namespaces(self) -> list[NamespaceState]:
        return self._within(Deadline(_NAMESPACES_S, "the documents' database"), self._table.namespaces)

    def _within(self, deadline: Deadline, ask: Callable[[], _T]) -> _T:
        """In a thread, because connecting and a lost network take longer than any call may."""
        left_s = deadline.check()
        try:
            return self._threads.submit(ask).result(left_s)
        except TimeoutError:
            raise deadline.over() from None

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(_THREADS, thread_name_prefix="documents")


class FromDocuments:
    """Inherit in the store of a server, which then implements `search.protocol.Searches` and `Lists`.

    A passage that was replaced or deleted is still read while some store shows it.
    """

    documents: DocumentReader | None = None
    """Set by whoever opens the store."""

    @property
    def _read(self) -> DocumentReader:
        if self.documents is None:
            raise NotConfigured("the store was opened without the documents' database")
        return self.documents

    def texts(
        self, namespace: str, passage_ids: Sequence[str], *, timeout_s: float = 0.5
    ) -> dict[str, PassageText]:
        def work(asked: _Asked) -> dict[str, PassageText]:
            return lookups.texts(asked.rows, asked.namespace_id, passage_ids, asked.deadline, with_ended=True)

        return self._read.read(namespace, timeout_s, work)

    def vectors(
        self, namespace: str, passage_ids: Sequence[str], *, timeout_s: float = 10.0
    ) -> dict[str, Vector]:
        def work(asked: _Asked) -> dict[str, Vector]:
            return lookups.vectors(
                asked.rows, asked.namespace_id, passage_ids, asked.deadline, with_ended=True
            )

        return self._read.read(namespace, timeout_s, work)

    def generation(self, namespace: str, *, timeout_s: float = 10.0) -> int:
        return self._read.read(namespace, timeout_s, lambda asked: asked.generation)

    def namespaces(self) -> list[NamespaceState]:
        return self._read.namespaces()

    def list_documents(self, namespace: str, search: Search, *, order_by: str, descending: bool) -> Ranking:
        """Takes time in proportion to the namespace, or to `only_ids`."""

        def work(asked: _Asked) -> Ranking:
            return _list_documents(asked, search, order_by, descending=descending)

        return self._read.read(namespace, search.timeout_s, work)


def _list_documents(asked: _Asked, search: Search, order_by: str, *, descending: bool) -> Ranking:
    compiled = compile_filters(search.filters or {})
    if compiled.warnings:
        return Ranking((), 0, compiled.warnings)
    unknown, excluded = set(compiled.fields), set(search.exclude_ids)
    kept: list[tuple[str, DocumentVersion]] = []
    for passage_id, document in _documents(asked, search.only_ids):
        matches, has = compiled.judged(document.fields)
        unknown.difference_update(field for field, one in zip(compiled.fields, has, strict=True) if one)
        if matches and document.document_id not in excluded:
            kept.append((passage_id, document))
    if search.only_ids and kept and unknown:
        # A document without a field meets `not` and `exists: false`, but not if no document has the field.
        for _, document in _documents(asked, ()):
            unknown = {field for field in unknown if not elements(document.fields, field)}
            if not unknown:
                break
    if unknown and (kept or not search.only_ids):
        warnings = [unknown_field_warning(field) for field in compiled.fields if field in unknown]
        return Ranking((), 0, tuple(warnings))
    fields = [(document.document_id, document.fields) for _, document in kept]
    order = listed(fields, order_by, descending=descending)
    hits = [_hit(*kept[place]) for place in order[: search.depth]]
    return Ranking(tuple(hits), len(kept))


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


def _documents(asked: _Asked, only_ids: Sequence[str]) -> Iterator[tuple[str, DocumentVersion]]:
    """The first passage and the document, for all documents that have passages or for those of `only_ids`."""
    statements: list[tuple[str, list[Any]]] = [(_LISTED, [asked.namespace_id])]
    if only_ids:
        statements = [
            (f"{_LISTED} AND d.document_id IN ({', '.join('?' * len(part))})", [asked.namespace_id, *part])
            for part in in_batches(dict.fromkeys(only_ids), _AT_ONCE)
        ]
    for statement, values in statements:
        for passage_id, *row in asked.rows.execute(statement, values):
            asked.deadline.check()
            if passage_id is not None:
                yield passage_id, lookups.version_of(*row)
