"""At most so many hits of one document, or with the same value of a metadata field; the next hits take the places of others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from chorale_client.request import Grouping
from pydantic_core import to_json

from fusion.fused_hits import FusedHit, FusedQuestion
from models.documents import PassageText

_ON_THE_HIT = {"document": "document_id", "source_type": "source_type", "published_at": "published_at"}
"""What a hit knows without its text, by the name of the grouping."""


def needs_metadata(grouping: Grouping) -> bool:
    return grouping.field not in _ON_THE_HIT


def _group_of(hit: FusedHit, field: str, texts: Mapping[str, PassageText]) -> bytes | None:
    """Equal for hits of one group; None for a hit without the field.  A list or an object counts as a whole."""
    value: Any = None
    if (own := _ON_THE_HIT.get(field)) is not None:
        value = getattr(hit, own)
    elif hit.passage_id in texts:
        value = texts[hit.passage_id].metadata.get(field)
    return None if value is None else to_json(value)


def grouped(one: FusedQuestion, grouping: Grouping) -> FusedQuestion:
    """The question with the best hits of each group, in order; a hit without a group stays.

    Metadata are those of `one.texts`.  A warning says if no hit has the field.
    """
    groups = [_group_of(hit, grouping.field, one.texts) for hit in one.hits]
    seen: Counter[bytes | None] = Counter()
    kept = []
    for hit, group in zip(one.hits, groups, strict=True):
        seen[group] += 1
        if hit.pinned or group is None or seen[group] <= grouping.size:
            kept.append(hit)
    unknown = () if not groups or any(groups) else (f"group_by: no hit has the field {grouping.field!r}",)
    return replace(
        one,
        hits=tuple(kept),
        removed={**one.removed, "group_by": len(groups) - len(kept)},
        warnings=(*one.warnings, *unknown),
    )
