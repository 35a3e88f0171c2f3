"""Reading documents with plain SQL: texts, vectors, revisions, counts; all inside the caller's snapshot.

The same statements serve the embedded store (`sqlite3`, which imports no SQLAlchemy) and the documents' database.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from models.batching import distinct_in_batches
from models.documents import Manifest, NamespaceState, PassageText, Vector
from search.deadline import Deadline
from search.filters import filter_fields
from search.protocol import Entry

STORED = "<f4"
"""NumPy's name for a number of a vector in the column `vector`."""

OLD = ".old"
"""Follows the name of a namespace, which has no dot: the build that some stores still show after a rebuild."""

TOMBSTONE_BATCHES = 1_000
"""Rows that every store has replaced stay for this many batches, since a process may still have them loaded."""

_AT_ONCE = 200
# The pluses keep databases from indexes that match nearly every row, and the one join from reading a whole table whose
# size they misjudge, as after the first batches.
_DOCUMENT = """
    FROM chorale_document d
    WHERE d.namespace_id = p.namespace_id AND d.document_id = p.document_id AND +d.sequence = p.sequence
"""
# What a store shows comes last: a version that was valid at the last batch that its index contains.
_NEWEST = "ORDER BY CASE WHEN p.sequence <= ? THEN 1 ELSE 0 END, +p.sequence"
_AMONG_PASSAGES = "FROM chorale_passage p WHERE p.namespace_id = ? AND p.passage_id IN"
_TEXTS = f"""
    SELECT p.passage_id, p.document_id, (SELECT d.title {_DOCUMENT}), p.heading, p.text,
        (SELECT CAST(d.metadata AS TEXT) {_DOCUMENT}), coalesce(p.pages, '')
    {_AMONG_PASSAGES}
"""
_VECTORS = f"SELECT p.passage_id, p.vector {_AMONG_PASSAGES}"
_RIDS = f"SELECT p.passage_id, p.rid {_AMONG_PASSAGES}"
# The portion has ended versions too: with a condition on `ended` PostgreSQL would read and sort the whole table for each portion.
_ENTRIES = """
    SELECT d.document_id, p.passage_id, d.revision, d.sequence, d.ended FROM (
        SELECT * FROM chorale_document WHERE namespace_id = ? AND (document_id, sequence) > (?, ?)
        ORDER BY document_id, sequence LIMIT 1000
    ) d LEFT JOIN chorale_passage p
    ON p.namespace_id = d.namespace_id AND p.document_id = d.document_id AND +p.sequence = d.sequence AND d.ended IS NULL
    ORDER BY d.document_id, d.sequence
"""
_REVISIONS = "SELECT document_id, revision FROM chorale_document WHERE namespace_id = ? AND +ended IS NULL"
_STATES = """
    SELECT n.name,
        (SELECT count(*) FROM chorale_document d WHERE d.namespace_id = n.namespace_id AND +d.ended IS NULL),
        (SELECT count(*) FROM chorale_passage p WHERE p.namespace_id = n.namespace_id AND +p.ended IS NULL),
        coalesce(g.generation, 0), CAST(n.manifest AS TEXT)
    FROM (
        SELECT * FROM chorale_namespace WHERE name NOT LIKE '%%.%%' AND name > ? {chosen} ORDER BY name LIMIT ?
    ) n LEFT JOIN chorale_generation g ON g.name = n.name ORDER BY n.name
"""


@dataclass(frozen=True, slots=True)
class DocumentVersion:
    document_id: str
    fields: Mapping[str, Any]
    """Those of `search.filters.filter_fields`."""
    source_type: str | None
    published_at: str | None
    content_hash: str | None
    near_duplicate_group: str | None


class SqlConnection(Protocol):
    """A connection of `sqlite3`, or `search.documents.database.Plain`."""

    def execute(self, statement: str, parameters: Sequence[Any] = ..., /) -> Any:
        """A cursor: rows in a loop, `fetchone`, `fetchall`."""
        ...


@dataclass(frozen=True, slots=True)
class Passages:
    """Reads passages by their ids.  Unknown ids are left out; a replaced or deleted passage is read until it is removed."""

    connection: SqlConnection
    namespace_id: int
    visible: int
    """The last batch that the index of the store contains."""
    deadline: Deadline

    def texts(self, passage_ids: Sequence[str]) -> dict[str, PassageText]:
        # What every store has replaced has no document any more.
        return {
            row[0]: PassageText(row[0], row[1], row[2], row[3], row[4], json.loads(row[5]), row[6])
            for row in self._rows(_TEXTS, passage_ids)
            if row[5] is not None
        }

    def vectors(self, passage_ids: Sequence[str]) -> dict[str, Vector]:
        import numpy as np  # here, since a command that lists namespaces needs none of it

        rows = self._rows(_VECTORS, passage_ids)
        return {name: np.frombuffer(raw, STORED).astype(np.float32) for name, raw in rows if raw is not None}

    def rids(self, passage_ids: Sequence[str]) -> dict[str, int]:
        return dict(self._rows(_RIDS, passage_ids))

    def _rows(self, statement: str, passage_ids: Sequence[str]) -> Iterator[Any]:
        for part in distinct_in_batches(passage_ids, _AT_ONCE):
            self.deadline.check()
            values = (self.namespace_id, *part, self.visible)
            yield from self.connection.execute(f"{_in(statement, part)} {_NEWEST}", values)


def revisions(connection: SqlConnection, namespace_id: int, source: str | None) -> dict[str, str]:
    """Revision by id of every document, or of those of a source."""
    return dict(connection.execute(*_revisions(namespace_id, source)).fetchall())


def revisions_of(
    connection: SqlConnection, namespace_id: int, document_ids: Sequence[str], source: str | None
) -> dict[str, str]:
    """Revisions by id, of the documents that exist; with `source`, only of documents from that source."""
    statement, values = _revisions(namespace_id, source)
    return {
        document_id: revision
        for part in distinct_in_batches(document_ids, _AT_ONCE)
        for document_id, revision in connection.execute(
            _in(f"{statement} AND document_id IN", part), (*values, *part)
        )
    }


def _revisions(namespace_id: int, source: str | None) -> tuple[str, tuple[Any, ...]]:
    if source is None:
        return _REVISIONS, (namespace_id,)
    return f"{_REVISIONS} AND source = ?", (namespace_id, source)


def entries(connection: SqlConnection, namespace_id: int) -> Iterator[Entry]:
    """The entries in the order of the documents' ids; a thousand documents are read at once."""
    document_id, sequence = "", 0
    while portion := connection.execute(_ENTRIES, (namespace_id, document_id, sequence)).fetchall():
        yield from (Entry(*entry) for *entry, _, ended in portion if ended is None)
        document_id, _, _, sequence, _ = portion[-1]


def namespaces(
    connection: SqlConnection,
    *,
    after: str = "",
    limit: int | None = None,
    names: Collection[str] | None = None,
) -> list[NamespaceState]:
    """The namespaces behind the name `after`, in the order of names: at most `limit`, and only those of `names` if it is given.

    The documents of other namespaces are not counted.
    """
    # PostgreSQL refuses U+0000, which no name has.
    after, wanted = after.partition("\0")[0], [name for name in names or () if "\0" not in name]
    chosen = "" if names is None else f"AND name IN ({', '.join('?' * len(wanted)) or 'NULL'})"
    values = (after, *wanted, sys.maxsize if limit is None else limit)
    return [
        NamespaceState(name, documents, passages, generation, Manifest.from_stored(json.loads(manifest)))
        for name, documents, passages, generation, manifest in connection.execute(
            _STATES.format(chosen=chosen), values
        )
    ]


def _in(statement: str, names: Sequence[str]) -> str:
    return f"{statement} ({', '.join('?' * len(names))})"


def version_of(
    document_id: str, source: str, metadata: str, content_hash: str, near_duplicate_group: str | None
) -> DocumentVersion:
    known = json.loads(metadata)
    return DocumentVersion(
        document_id,
        filter_fields(document_id, source, known),
        _word(known.get("source_type")),
        _word(known.get("published_at")),
        content_hash or None,
        near_duplicate_group,
    )


def _word(value: object) -> str | None:
    return None if value is None else str(value)
