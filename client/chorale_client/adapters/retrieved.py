"""An answer as documents and coverage, which every adapter puts into the types of its framework."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from chorale_client.answer import Answer, Hit
from chorale_client.coverage import Coverage, coverage_of
from chorale_client.request_options import RequestOptions

_FIELDS = ("source_type", "published_at", "language", "url")


@dataclass(frozen=True, slots=True)
class RetrievedDocument:
    """A hit: the best passage of a document, or with `fuse_by="passage"` one of its passages."""

    passage_id: str
    document_id: str
    title: str
    """The document's id if it has no title."""
    text: str
    """The passage, or its snippet or title if no store had the text in time."""
    url: str | None
    score: float
    metadata: dict[str, Any]
    """JSON values: the document's own metadata, its ids and other fields, `rank`, `score`, `score_kind` and `found_by`."""


@dataclass(frozen=True, slots=True)
class Retrieved:
    """The hits of an answer's first question, best first."""

    documents: tuple[RetrievedDocument, ...]
    coverage: Coverage


def retrieved(answer: Answer) -> Retrieved:
    """The documents and the coverage of an answer.  An answer without hits has no documents."""
    return Retrieved(tuple(map(_document, answer.hits)), coverage_of(answer))


def with_texts(*options: Mapping[str, Any] | None) -> RequestOptions:
    """The options of one request: later ones win, and without an `include` the hits have metadata and whole texts."""
    merged: dict[str, Any] = {"include": ("ids", "metadata", "texts")}
    for one in options:
        merged |= one or {}
    return cast("RequestOptions", merged)


def _document(hit: Hit) -> RetrievedDocument:
    title = hit.title or hit.document_id
    given = {name: value for name in _FIELDS if (value := getattr(hit, name)) is not None}
    return RetrievedDocument(
        passage_id=hit.passage_id,
        document_id=hit.document_id,
        title=title,
        text=hit.text or (hit.snippet.text if hit.snippet else None) or title,
        url=hit.url,
        score=hit.score,
        metadata={
            **hit.metadata,
            **given,
            "title": title,
            "document_id": hit.document_id,
            "passage_id": hit.passage_id,
            "rank": hit.rank,
            "score": hit.score,
            "score_kind": hit.score_kind,
            "found_by": list(hit.found_by),
        },
    )
