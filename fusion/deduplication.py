"""Folds copies of a document into the one with the best score, which lists them; scores are not added up.

Needs no texts: indexing computed the content hash and the near-duplicate group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from models.hits import Hit


class Why(StrEnum):
    EXACT_COPY = "exact_copy"
    NEAR_DUPLICATE = "near_duplicate"


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A document that was folded into a copy with a better score."""

    document_id: str
    why: Why
    similarity: float | None
    """1 for an exact copy; None for a near-duplicate, since groups store no similarity."""


def deduplicate(hits: Sequence[Hit]) -> list[tuple[int, list[Duplicate]]]:
    """The hits that stay, in order (best first), as (index into `hits`, documents folded into it).

    Two hits are exact copies if their content hashes are equal; they are near-duplicates if their groups are equal, or
    if the group of one is the other's document id.  A hit is compared only with hits that stayed, so there are no
    chains.  Passages of one document are never folded.
    """
    unique: list[tuple[int, list[Duplicate]]] = []
    by_hash: dict[str, int] = {}
    by_group: dict[str, int] = {}
    by_document: dict[str, int] = {}
    for index, hit in enumerate(hits):
        document_id, content_hash, group = hit.document_id, hit.content_hash, hit.near_duplicate_group
        if document_id not in by_document:
            why, into = Why.EXACT_COPY, by_hash.get(content_hash) if content_hash else None
            if into is None:
                why, into = Why.NEAR_DUPLICATE, by_group.get(document_id)
                if into is None and group:
                    into = by_group.get(group, by_document.get(group))
            if into is not None:
                folded = unique[into][1]
                if all(other.document_id != document_id for other in folded):
                    folded.append(Duplicate(document_id, why, 1.0 if why is Why.EXACT_COPY else None))
                continue
            place = by_document[document_id] = len(unique)
            if content_hash:
                by_hash.setdefault(content_hash, place)
            if group:
                by_group.setdefault(group, place)
        unique.append((index, []))
    return unique
