"""Reading documents with plain SQL: texts, vectors, revisions, counts; all inside the caller's snapshot.

The same statements serve the embedded store (`sqlite3`, which imports no SQLAlchemy) and the documents' database.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from models.batching import distinct_in_batches
from models.documents import Manifest, NamespaceState, PassageText, Vector
from search.deadline import Deadline
from search.protocol import Entry

STORED = np.dtype("<f4")
"""A vector in the column `vector`."""

_AT_ONCE = 200
# The plus keeps SQLite from using the index on `sequence`, which here matches nearly every row.
_VISIBLE = "+{0}.sequence <= n.visible AND ({0}.ended IS NULL OR {0}.ended > n.visible)"

_NEWEST = "ORDER BY +p.sequence"
_OF_PASSAGES = """
    FROM chorale_namespace n JOIN chorale_passage p ON p.namespace_id = n.namespace_id
    WHERE n.namespace_id = ? AND {0} AND p.passage_id IN
"""
# No join, and a plus: a database that misjudges a table's size, as after the first batches, would read all of it.
_DOCUMENT = """
    FROM chorale_document d
    WHERE d.namespace_id = p.namespace_id AND d.document_id = p.document_id AND +d.sequence = p.sequence
"""
_TEXTS = f"""
    SELECT p.passage_id, p.document_id, (SELECT d.title {_DOCUMENT}), p.heading, p.text,
        (SELECT CAST(d.metadata AS TEXT) {_DOCUMENT})
    {_OF_PASSAGES}
"""
_ENTRIES = f"""
    SELECT d.document_id, p.passage_id, d.revision
    FROM chorale_namespace n JOIN chorale_document d ON d.namespace_id = n.namespace_id
    LEFT JOIN chorale_passage p
    ON p.namespace_id = d.namespace_id AND p.document_id = d.document_id AND +p.sequence = d.sequence
    WHERE n.namespace_id = ? AND {_VISIBLE.format("d")}
"""
_VECTORS = f"SELECT p.passage_id, p.vector {_OF_PASSAGES}"
_RIDS = f"SELECT p.passage_id, p.rid {_OF_PASSAGES}".format(_VISIBLE.format("p"))
_REVISIONS = f"""
    SELECT d.document_id, d.revision
    FROM chorale_namespace n JOIN chorale_document d ON d.namespace_id = n.namespace_id
    WHERE n.namespace_id = ? AND {_VISIBLE.format("d")}
"""
_STATES = f"""
    SELECT n.name,
        (SELECT count(*) FROM chorale_document d WHERE d.namespace_id = n.namespace_id
            AND {_VISIBLE.format("d")}),
        (SELECT count(*) FROM chorale_passage p WHERE p.namespace_id = n.namespace_id
            AND {_VISIBLE.format("p")}),
        coalesce(g.generation, 0), CAST(n.manifest AS TEXT)
    FROM chorale_namespace n LEFT JOIN chorale_generation g ON g.name = n.name
    WHERE n.name NOT LIKE '%%.%%' ORDER BY n.name
"""


@dataclass(frozen=True, slots=True)
class DocumentVersion:
    document_id: str
    fields: Mapping[str, Any]
    """The fields that filters see: the metadata, and `document_id` and `source` unless metadata has that name."""
    source_type: str | None
    published_at: str | None
    content_hash: str | None
    near_duplicate_group: str | None


class Executes(Protocol):
    """A connection of `sqlite3`, or `search.documents.database.Plain`."""

    def execute(self, statement: str, parameters: Sequence[Any] = ..., /) -> Any:
        """A cursor: rows in a loop, `fetchone`, `fetchall`."""
        ...


def texts(
    connection: Executes,
    namespace_id: int,
    passage_ids: Sequence[str],
    deadline: Deadline,
    *,
    with_ended: bool = False,
) -> dict[str, PassageText]:
    """`with_ended`: also passages that were replaced or deleted and whose rows are still there."""
    rows = _of_passages(connection, _TEXTS, namespace_id, passage_ids, deadline, with_ended=with_ended)
    return {row[0]: PassageText(row[0], row[1], row[2], row[3], row[4], json.loads(row[5])) for row in rows}


def vectors(
    connection: Executes,
    namespace_id: int,
    passage_ids: Sequence[str],
    deadline: Deadline,
    *,
    with_ended: bool = False,
) -> dict[str, Vector]:
    rows = _of_passages(connection, _VECTORS, namespace_id, passage_ids, deadline, with_ended=with_ended)
    return {name: np.frombuffer(raw, STORED).astype(np.float32) for name, raw in rows if raw is not None}


def _of_passages(
    connection: Executes,
    statement: str,
    namespace_id: int,
    passage_ids: Sequence[str],
    deadline: Deadline,
    *,
    with_ended: bool,
) -> Iterator[Any]:
    """Of several versions of a passage, the newest comes last."""
    chosen = statement.format("1 = 1" if with_ended else _VISIBLE.format("p"))
    for part in distinct_in_batches(passage_ids, _AT_ONCE):
        deadline.check()
        yield from connection.execute(f"{_in(chosen, part)} {_NEWEST}", (namespace_id, *part))


def rids(connection: Executes, namespace_id: int, passage_ids: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in distinct_in_batches(passage_ids, _AT_ONCE):
        found |= connection.execute(_in(_RIDS, part), (namespace_id, *part)).fetchall()
    return found


def revisions(connection: Executes, namespace_id: int, source: str | None) -> dict[str, str]:
    if source is None:
        rows = connection.execute(_REVISIONS, (namespace_id,))
    else:
        rows = connection.execute(f"{_REVISIONS} AND d.source = ?", (namespace_id, source))
    return {row[0]: row[1] for row in rows}


def held(
    connection: Executes, namespace_id: int, document_ids: Sequence[str], source: str | None
) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in distinct_in_batches(document_ids, _AT_ONCE):
        statement = _in(
            f"{_REVISIONS} AND (CAST(? AS TEXT) IS NULL OR d.source = ?) AND d.document_id IN", part
        )
        rows = connection.execute(statement, (namespace_id, source, source, *part))
        found |= {row[0]: row[1] for row in rows}
    return found


def entries(connection: Executes, namespace_id: int) -> Iterator[Entry]:
    return (Entry(*row) for row in connection.execute(_ENTRIES, (namespace_id,)))


def namespaces(connection: Executes) -> list[NamespaceState]:
    return [
        NamespaceState(name, documents, passages, generation, Manifest.from_stored(json.loads(manifest)))
        for name, documents, passages, generation, manifest in connection.execute(_STATES)
    ]


def _in(statement: str, names: Sequence[str]) -> str:
    return f"{statement} ({', '.join('?' * len(names))})"


def version_of(
    document_id: str, source: str, metadata: str, content_hash: str, near_duplicate_group: str | None
) -> DocumentVersion:
    known = json.loads(metadata)
    return DocumentVersion(
        document_id,
        {"document_id": document_id, "source": source, **known},
        _word(known.get("source_type")),
        _word(known.get("published_at")),
        content_hash or None,
        near_duplicate_group,
    )


def _word(value: object) -> str | None:
    return None if value is None else str(value)
