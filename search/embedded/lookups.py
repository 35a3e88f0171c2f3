"""Reading by id: texts, vectors, revisions, counts; all inside the caller's snapshot."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

import numpy as np

from models.batching import distinct_in_batches
from models.documents import Manifest, NamespaceState, PassageText, Vector
from search.deadline import Deadline
from search.embedded.vector_search import STORED

_AT_ONCE = 200
# The plus keeps SQLite from using the index on `sequence`, which here matches nearly every row.
_VISIBLE = "+{0}.sequence <= n.visible AND ({0}.ended IS NULL OR {0}.ended > n.visible)"

_TEXTS = f"""
    SELECT p.passage_id, p.document_id, d.title, p.heading, p.text, d.metadata
    FROM chorale_namespace n JOIN chorale_passage p ON p.namespace_id = n.namespace_id
    JOIN chorale_document d
    ON d.namespace_id = p.namespace_id AND d.document_id = p.document_id AND d.sequence = p.sequence
    WHERE n.namespace_id = ? AND {_VISIBLE.format("p")} AND p.passage_id IN
"""
_OF_PASSAGES = f"""
    FROM chorale_namespace n JOIN chorale_passage p ON p.namespace_id = n.namespace_id
    WHERE n.namespace_id = ? AND {_VISIBLE.format("p")} AND p.passage_id IN
"""
_VECTORS = f"SELECT p.passage_id, p.vector {_OF_PASSAGES}"
_RIDS = f"SELECT p.passage_id, p.rid {_OF_PASSAGES}"
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
        coalesce(g.generation, 0), n.manifest
    FROM chorale_namespace n LEFT JOIN chorale_generation g ON g.name = n.name ORDER BY n.name
"""


def texts(
    connection: sqlite3.Connection, namespace_id: int, passage_ids: Sequence[str], deadline: Deadline
) -> dict[str, PassageText]:
    found = {}
    for part in distinct_in_batches(passage_ids, _AT_ONCE):
        deadline.check()
        for row in connection.execute(_in(_TEXTS, part), (namespace_id, *part)):
            found[row[0]] = PassageText(row[0], row[1], row[2], row[3], row[4], json.loads(row[5]))
    return found


def vectors(
    connection: sqlite3.Connection, namespace_id: int, passage_ids: Sequence[str]
) -> dict[str, Vector]:
    found = {}
    for part in distinct_in_batches(passage_ids, _AT_ONCE):
        for name, vector in connection.execute(_in(_VECTORS, part), (namespace_id, *part)):
            if vector is not None:
                found[name] = np.frombuffer(vector, STORED).astype(np.float32)
    return found


def rids(connection: sqlite3.Connection, namespace_id: int, passage_ids: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in distinct_in_batches(passage_ids, _AT_ONCE):
        found |= connection.execute(_in(_RIDS, part), (namespace_id, *part)).fetchall()
    return found


def revisions(connection: sqlite3.Connection, namespace_id: int, source: str | None) -> dict[str, str]:
    if source is None:
        rows = connection.execute(_REVISIONS, (namespace_id,))
    else:
        rows = connection.execute(f"{_REVISIONS} AND d.source = ?", (namespace_id, source))
    return {row[0]: row[1] for row in rows}


def held(
    connection: sqlite3.Connection, namespace_id: int, document_ids: Sequence[str], source: str | None
) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in distinct_in_batches(document_ids, _AT_ONCE):
        statement = _in(f"{_REVISIONS} AND (d.source = ? OR ? IS NULL) AND d.document_id IN", part)
        rows = connection.execute(statement, (namespace_id, source, source, *part))
        found |= {row[0]: row[1] for row in rows}
    return found


def namespaces(connection: sqlite3.Connection) -> list[NamespaceState]:
    return [
        NamespaceState(name, documents, passages, generation, Manifest.from_stored(json.loads(manifest)))
        for name, documents, passages, generation, manifest in connection.execute(_STATES)
    ]


def _in(statement: str, names: Sequence[str]) -> str:
    return f"{statement} ({', '.join('?' * len(names))})"
