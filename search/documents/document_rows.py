"""Writing the rows of documents and passages, inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from sqlalchemy import Connection, insert, text

from models.document_tables import document_table, passage_table
from models.documents import Document
from models.errors import PartlyWritten
from search.checks import refusal_reason
from search.documents.lookups import STORED


def taken(documents: Sequence[Document], namespace: str, put: Callable[[Sequence[Document]], int]) -> int:
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


def insert_documents(
    connection: Connection, namespace_id: int, sequence: int, documents: Sequence[Document]
) -> None:
    if not documents:
        return
    of_batch = {"namespace_id": namespace_id, "sequence": sequence}
    connection.execute(
        insert(document_table),
        [
            {
                **of_batch,
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
            **of_batch,
            "passage_id": passage.passage_id,
            "document_id": document.document_id,
            "position": passage.position,
            "heading": passage.heading,
            "text": passage.text,
            "start": passage.start,
            "end": passage.end,
            "vector": None if passage.vector is None else np.asarray(passage.vector, STORED).tobytes(),
        }
        for document in documents
        for passage in document.passages
    ]
    if passages:
        connection.execute(insert(passage_table), passages)
