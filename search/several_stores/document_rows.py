"""A document to and from bytes, so that any database returns it unchanged."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from typing import Any

import numpy as np

from models.documents import Document, Passage

_VECTOR = np.dtype("<f4")
_QUICK = 1
"""zlib's fastest level: halves texts, and saves more time in writing than it takes."""


def row_of(document: Document, namespace_id: int, sequence: int) -> dict[str, Any]:
    """A row for `document_table`; `content` has title, metadata and passages."""
    passages = [
        [one.passage_id, one.position, one.text, one.heading, one.start, one.end, one.vector is not None]
        for one in document.passages
    ]
    content = json.dumps([document.title, dict(document.metadata), passages], separators=(",", ":"))
    vectors = [
        np.asarray(one.vector, _VECTOR).tobytes() for one in document.passages if one.vector is not None
    ]
    return {
        "namespace_id": namespace_id,
        "document_id": document.document_id,
        "sequence": sequence,
        "is_deleted": False,
        "source": document.source,
        "revision": document.revision,
        "content_hash": document.content_hash,
        "near_duplicate_group": document.near_duplicate_group,
        "passage_ids": [passage.passage_id for passage in document.passages],
        "passages": len(document.passages),
        "content": zlib.compress(content.encode(), _QUICK),
        "vectors": b"".join(vectors),
    }


def unpacked(row: Any) -> Document:
    """The document in a row of `document_table`."""
    title, metadata, told = json.loads(zlib.decompress(row.content))
    with_vector = sum(one[-1] for one in told)
    held = np.frombuffer(row.vectors, _VECTOR).astype(np.float32)
    vectors = iter(held.reshape(with_vector, -1) if with_vector else ())
    passages = [
        replace(Passage(*fields), vector=next(vectors)) if has_vector else Passage(*fields)
        for *fields, has_vector in told
    ]
    return Document(
        document_id=row.document_id,
        source=row.source,
        title=title,
        passages=tuple(passages),
        metadata=metadata,
        content_hash=row.content_hash,
        near_duplicate_group=row.near_duplicate_group,
        revision=row.revision,
    )
