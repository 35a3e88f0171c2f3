"""The rows of documents and of their passages, with the texts and vectors: a batch inserts and ends them, `prune` deletes them.

All functions that take a connection work inside the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import numpy as np
from sqlalchemy import Connection, and_, delete, func, insert, or_, select, text, update

from models.batching import in_batches
from models.documents import Document
from models.errors import PartlyWritten
from models.tables.documents import document_table, index_table, passage_table, refused_table
from search.checks import refusal_reason
from search.documents import lookups
from search.documents.index_rows import AT_ONCE
from search.documents.lookups import STORED

_I, _P, _R = (table.c for table in (index_table, passage_table, refused_table))


def put_storable(
    documents: Sequence[Document], namespace: str, put: Callable[[Sequence[Document]], int]
) -> int:
    """The result of `put` for the documents that a database can take; raises PartlyWritten naming the others."""
    refused = {document.document_id: why for document in documents if (why := refusal_reason(document))}
    try:
        generation = put(
            [_storable(document) for document in documents if document.document_id not in refused]
        )
    except PartlyWritten as error:
        if not refused:
            raise
        # These documents are in the table, where `settle` finds them.
        refused |= error.failures
        generation = error.generation
    if refused:
        raise PartlyWritten(namespace, refused, generation)
    return generation


def _storable(document: Document) -> Document:
    """The document without what no column of text takes: NUL and lone surrogates."""
    passages = tuple(
        replace(passage, text=_text(passage.text), heading=_text(passage.heading))
        for passage in document.passages
    )
    return replace(document, title=_text(document.title), passages=passages)


def _text(value: str) -> str:
    return value.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def insert_documents(
    connection: Connection, namespace_id: int, sequence: int, documents: Sequence[Document]
) -> None:
    if not documents:
        return
    batch_columns = {"namespace_id": namespace_id, "sequence": sequence}
    connection.execute(
        insert(document_table),
        [
            {
                **batch_columns,
                "document_id": document.document_id,
                "source": document.source,
                "title": document.title,
                "metadata": dict(document.metadata),
                "content_hash": document.content_hash,
                "near_duplicate_group": document.near_duplicate_group,
                "revision": document.revision,
            }
            for document in documents
        ],
    )
    passages = [
        {
            **batch_columns,
            "passage_id": passage.passage_id,
            "document_id": document.document_id,
            "position": passage.position,
            "heading": passage.heading,
            "text": passage.text,
            "start": passage.start,
            "end": passage.end,
            "pages": passage.pages,
            "vector": None if passage.vector is None else np.asarray(passage.vector, STORED).tobytes(),
        }
        for document in documents
        for passage in document.passages
    ]
    if passages:
        connection.execute(insert(passage_table), passages)


def end_documents(
    connection: Connection, namespace_id: int, sequence: int, document_ids: Sequence[str]
) -> int:
    """Mark documents and their passages as ended; returns how many documents existed."""
    ended = 0
    rows = [{"now": sequence, "namespace": namespace_id, "document": name} for name in document_ids]
    for table in (passage_table, document_table) if rows else ():
        # The plus keeps SQLite from the index on `ended`, which matches nearly every row.
        statement = text(
            f"UPDATE {table.name} SET ended = :now "
            "WHERE namespace_id = :namespace AND document_id = :document AND +ended IS NULL"
        )
        ended = connection.execute(statement, rows).rowcount
    return ended


_PORTION = 1_000
# One portion of whole batches, by the indexes on `sequence` and `ended`.
_LAST = text("""
    SELECT max(batch) FROM (SELECT batch FROM (
        SELECT * FROM (SELECT sequence AS batch FROM chorale_document
            WHERE namespace_id = :namespace AND sequence > :after ORDER BY sequence LIMIT :portion) AS begun
        UNION ALL
        SELECT * FROM (SELECT ended AS batch FROM chorale_document
            WHERE namespace_id = :namespace AND ended > :after ORDER BY ended LIMIT :portion) AS over
    ) AS both_kinds ORDER BY batch LIMIT :portion) AS portion
""")
_CHANGED = text("""
    SELECT document_id FROM (
        SELECT document_id FROM chorale_document
        WHERE namespace_id = :namespace AND sequence > :after AND sequence <= :last
        UNION
        SELECT document_id FROM chorale_document
        WHERE namespace_id = :namespace AND ended > :after AND ended <= :last
    ) AS changed WHERE NOT EXISTS (
        SELECT 1 FROM chorale_document later WHERE later.namespace_id = :namespace
        AND later.document_id = changed.document_id AND (+later.sequence > :last OR +later.ended > :last)
    )
""")


def changed_since(connection: Connection, namespace_id: int, sequence: int) -> tuple[list[str], int] | None:
    """The next batches after `sequence`: the documents that no later batch changed again, and the last of the batches.

    These are whole batches of about a thousand documents together; None if no later batch has left a trace.
    """
    values = {"namespace": namespace_id, "after": sequence}
    last = connection.scalar(_LAST, values | {"portion": _PORTION})
    if last is None:
        return None
    return list(connection.scalars(_CHANGED, values | {"last": last})), last


def prune(
    connection: Connection, namespace_id: int, document_ids: Collection[str], stores: Collection[str]
) -> None:
    """Delete of these documents what every one of `stores` has replaced or deleted.

    A passage loses its text and vector now, and its row later.
    """
    mine = and_(_I.namespace_id == namespace_id, _I.store.in_(stores))
    least = connection.scalar(select(func.min(_I.sequence)).where(mine))
    if least is None:
        return
    is_refused = select(_R.document_id).where(_R.namespace_id == namespace_id)
    for part in in_batches(sorted(document_ids), AT_ONCE):
        for table in (passage_table, document_table):
            done = and_(
                table.c.namespace_id == namespace_id,
                table.c.document_id.in_(part),
                # The plus keeps databases from the index on `ended`.
                text(f"+{table.name}.ended <= {least}"),
                table.c.document_id.not_in(is_refused),
            )
            if table is document_table:
                connection.execute(delete(table).where(done))
            else:
                emptied = update(table).where(done, or_(_P.vector.is_not(None), _P.text != ""))
                connection.execute(emptied.values(text="", heading="", vector=None))
    is_empty = and_(_P.vector.is_(None), _P.text == "", _P.ended <= least - lookups.TOMBSTONE_BATCHES)
    connection.execute(delete(passage_table).where(_P.namespace_id == namespace_id, is_empty))
