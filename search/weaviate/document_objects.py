"""A document as Weaviate objects: one for each passage, or a single one that no search finds."""

from __future__ import annotations

import json
import uuid
from typing import Any

from weaviate.classes.data import DataObject

from models.documents import Document, Manifest, Passage
from search.analysis import analyser, indexed_text
from search.filter_terms import facets

Object = DataObject[dict[str, Any], None]


def passage_uuid(passage_id: str) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_OID, passage_id)


def document_uuid(document_id: str) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_OID, f"document {document_id}")


def objects(document: Document, manifest: Manifest, *, written_us: int) -> list[Object]:
    """The first one records that the document exists in its revision.  Raises ValueError for invalid Unicode."""
    given = {"document_id": document.document_id, "source": document.source}
    shared: dict[str, Any] = {
        "document": document_uuid(document.document_id),
        "document_id": document.document_id,
        "facets": facets(given | dict(document.metadata)),
        "written": written_us,
        "content_hash": document.content_hash or None,
        "near_duplicate_group": document.near_duplicate_group,
        "source_type": _word(document.metadata.get("source_type")),
        "published_at": _word(document.metadata.get("published_at")),
    }
    head = {"revision": document.revision}
    made = []
    for number, passage in enumerate(document.passages):
        properties = shared | (head if number == 0 else {}) | _of_passage(document, passage, manifest)
        vector = None if passage.vector is None else passage.vector.tolist()
        made.append(DataObject(properties, uuid=passage_uuid(passage.passage_id), vector=vector))
    if not made:
        made.append(DataObject(shared | head, uuid=document_uuid(document.document_id)))
    # Fails here, for this document only, if a message cannot hold the text.
    for stored in made:
        json.dumps(stored.properties, default=str, ensure_ascii=False).encode()
    return made


def _of_passage(document: Document, passage: Passage, manifest: Manifest) -> dict[str, Any]:
    indexed = indexed_text(document.title, passage.heading, passage.text, manifest)
    terms = " ".join(analyser(manifest.language).analyze(indexed))
    return {"is_passage": True, "passage_id": passage.passage_id, "terms": terms}


def _word(value: object) -> str | None:
    return None if value is None else str(value)
