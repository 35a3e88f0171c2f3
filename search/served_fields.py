"""What a server's index keeps of a document with each of its passages."""

from __future__ import annotations

from typing import Any

from models.documents import Document
from models.hits import Hit
from search.filter_terms import facets
from search.filters import filter_fields

HIT_FIELDS = [name for name in Hit._fields if name != "score"]
"""What a search reads of each passage: the ids of passage and document, and then fields of the document."""
_LONGEST_WORD = 8_000
"""Characters: a keyword of Elasticsearch has at most 32,766 bytes."""


def served_fields(document: Document) -> dict[str, Any]:
    """The fields that are not missing, by name."""
    fields = {
        "document_id": document.document_id,
        "facets": facets(filter_fields(document.document_id, document.source, document.metadata)),
        "content_hash": document.content_hash or None,
        "near_duplicate_group": document.near_duplicate_group,
        **{name: _word(document.metadata.get(name)) for name in ("source_type", "published_at")},
    }
    return {name: value for name, value in fields.items() if value is not None}


def _word(value: object) -> str | None:
    # No message can hold lone surrogates.
    return None if value is None else str(value)[:_LONGEST_WORD].encode("utf-8", "replace").decode()
