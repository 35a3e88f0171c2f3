"""What a namespace holds, for people who browse it: pages of documents, and a document as it was split."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from search.documents.lookups import SqlConnection, version_of
from search.documents.reading import read_visible_index
from search.filters import compile_filters

PAGE = 50
"""Documents of a page, and passages of a document."""
SCANNED = 2_000
"""Documents that a page with filters reads."""

_FIELDS = "d.document_id, d.source, CAST(d.metadata AS TEXT), d.content_hash, d.near_duplicate_group, d.title"
_DOCUMENTS = f"""
    SELECT {_FIELDS}, (
        SELECT count(*) FROM chorale_passage p
        WHERE p.namespace_id = d.namespace_id AND p.document_id = d.document_id AND +p.ended IS NULL
    ) FROM chorale_document d WHERE d.namespace_id = ? AND +d.ended IS NULL
"""
_SPLIT = """
    SELECT passage_id, position, heading, text, start, "end", coalesce(pages, ''), vector IS NOT NULL FROM chorale_passage
    WHERE namespace_id = ? AND document_id = ? AND +ended IS NULL AND position >= ? ORDER BY position LIMIT ?
"""


def namespace(rows: SqlConnection, name: str, after: str, filters: Mapping[str, Any]) -> dict[str, Any]:
    """How the namespace was built, and its documents that meet the filters, in the order of their ids.

    `next` is the `after` of the next page, and None on the last one.  With filters a page may have few documents, or none.
    Raises UnknownNamespace.
    """
    visible = read_visible_index(rows, "", name)
    most = SCANNED if filters else PAGE + 1
    in_order = f"{_DOCUMENTS} AND d.document_id > ? ORDER BY d.document_id LIMIT ?"
    scanned = rows.execute(in_order, (visible.namespace_id, after, most)).fetchall()
    conditions = compile_filters(filters)
    matching = [row for row in scanned if conditions.matches(version_of(*row[:5]).fields)]
    next_ = scanned[-1][0] if len(scanned) == most else None
    if len(matching) > PAGE:
        next_ = matching[PAGE - 1][0]
    return {
        "manifest": asdict(visible.manifest),
        "documents": [
            {"document_id": id_, "source": source, "title": title, "passages": passages}
            for id_, source, _, _, _, title, passages in matching[:PAGE]
        ],
        "next": next_,
    }


def document(
    rows: SqlConnection, name: str, document_id: str, first: int, filters: Mapping[str, Any]
) -> dict[str, Any] | None:
    """A document with its passages from position `first` on; None for a document that is not there or meets no filter.

    Raises UnknownNamespace.
    """
    visible = read_visible_index(rows, "", name)
    key = (visible.namespace_id, document_id)
    row = rows.execute(f"{_DOCUMENTS} AND d.document_id = ?", key).fetchone()
    if row is None or not compile_filters(filters).matches(version_of(*row[:5]).fields):
        return None
    _, source, metadata, content_hash, near_duplicate_group, title, count = row
    split = rows.execute(_SPLIT, (*key, first, PAGE)).fetchall()
    fields = ("passage_id", "position", "heading", "text", "start", "end", "pages", "has_vector")
    return {
        "document_id": document_id,
        "source": source,
        "title": title,
        "metadata": json.loads(metadata),
        "content_hash": content_hash,
        "near_duplicate_group": near_duplicate_group,
        "passage_count": count,
        "passages": [dict(zip(fields, passage, strict=True)) for passage in split],
    }
