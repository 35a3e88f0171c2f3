"""A fused hit as JSON in the answer, with the fields that the request included."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from fusion.fused_hits import BranchScore, FusedHit
from fusion.matches import matches_of
from fusion.question_terms import QuestionTerms
from fusion.snippets import best_snippet
from models.documents import PassageText

_ON_THE_HIT = ("source_type", "published_at", "language", "url")
"""Reserved metadata that are fields of the hit."""


def _explanation(hit: FusedHit) -> dict[str, Any]:
    return {
        "branches": {
            name: {field: getattr(branch, field) for field in BranchScore.__slots__}
            for name, branch in hit.branches.items()
        },
        "boosts": dict(hit.boosts),
    }


def _description(hit: FusedHit, metadata: dict[str, Any]) -> dict[str, Any]:
    described = {
        "source_type": hit.source_type or metadata.get("source_type"),
        "published_at": hit.published_at or metadata.get("published_at"),
        "language": metadata.get("language"),
        "url": metadata.get("url"),
    }
    rest = {name: value for name, value in metadata.items() if name not in _ON_THE_HIT}
    # A store of another package may return other types; they must not make the whole answer unreadable.
    texts = {name: value for name, value in described.items() if isinstance(value, str)}
    return {"found_by": list(hit.found_by), **texts, "metadata": rest}


def _after_fusion(hit: FusedHit) -> dict[str, Any]:
    wire: dict[str, Any] = {}
    if hit.rerank is not None:
        # A hit that was not reached has no score; null fields are always left out.
        reached = {} if hit.rerank.score is None else {"score": hit.rerank.score}
        wire["rerank"] = {**reached, "stage": str(hit.rerank.stage), "fused_score": hit.rerank.fused_score}
    if hit.pinned:
        wire["pinned"] = hit.pinned
    if hit.folded:
        wire["folded"] = [
            {"document_id": folded.document_id, "why": str(folded.why), "similarity": folded.similarity}
            for folded in hit.folded
        ]
    return wire


def hit_to_wire(
    hit: FusedHit,
    rank: int,
    *,
    score_kind: str,
    include: Collection[str],
    passages: Sequence[PassageText],
    terms: QuestionTerms,
    snippet_chars: int,
) -> dict[str, Any]:
    """Ids and score are always included; fields that need a missing text are left out.

    `passages` are those of the hit that have a text, first the one that stands for it; the snippet chooses among them.
    """
    passage, snippet = passages[0] if passages else None, None
    if passages and "snippets" in include:
        chosen, snippet = best_snippet([one.text for one in passages], terms, snippet_chars)
        passage = passages[chosen]
    wire: dict[str, Any] = {
        "rank": rank,
        "document_id": hit.document_id,
        "passage_id": passage.passage_id if passage else hit.passage_id,
        "score": hit.score,
        "score_kind": score_kind,
    }
    if "metadata" in include:
        if passage is not None:
            wire["title"] = passage.title
        wire |= _description(hit, dict(passage.metadata) if passage else {})
    if passage is not None:
        if snippet is not None:
            wire["snippet"] = {
                "text": snippet.text,
                "highlights": [[start, end] for start, end in snippet.highlights],
            }
        if "texts" in include:
            wire["text"] = passage.text
            wire["matches"] = matches_of(passage, terms)
    if "explanation" in include:
        wire |= _explanation(hit)
    return wire | _after_fusion(hit)
