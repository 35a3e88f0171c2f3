"""What an answer says of its filters: values of another type than those of the documents, and conditions that nothing meets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pydantic_core import to_json

from fusion.branch_results import BranchAnswers
from fusion.fused_hits import FusedQuestion
from models.documents import PassageText
from models.extensions import BranchKind
from search.filter_meanings import asked_filters, type_warnings

_SHOWN_CHARS = 200


def filter_warnings(
    found: BranchAnswers,
    kinds: Mapping[str, BranchKind],
    pages: Iterable[FusedQuestion],
    texts: Mapping[str, PassageText],
) -> tuple[str, ...]:
    """Needs no further search: types are those of the shown hits, whose `texts` are by passage id."""
    if not found.request.filters:
        return ()
    asked = asked_filters(found.request)
    ids = dict.fromkeys(hit.passage_id for one in pages for hit in one.hits)
    documents = [texts[id_].metadata for id_ in ids if id_ in texts]
    return (*type_warnings(asked, documents), *_unmet(found, kinds, asked))


def _unmet(
    found: BranchAnswers, kinds: Mapping[str, BranchKind], asked: Mapping[str, object]
) -> tuple[str, ...]:
    """A branch that compares vectors, or lists documents, finds something wherever some document meets the filters.

    A key may find only what it may see, and exclusions narrow it too: nothing is said of other documents.
    """
    answered = [
        (branch, envelope.rankings)
        for branch in found.plan.branches
        if (envelope := found.envelopes.get(branch.name)) is not None and envelope.answered
    ]
    tells = any(
        branch.kind == "document" or "questions" in kinds[branch.kind].needs
        for branch, rankings in answered
        if rankings
    )
    if not asked or not tells or any(one.hits or one.warnings for _, every in answered for one in every):
        return ()
    shown = to_json(asked).decode()
    shown = shown if len(shown) <= _SHOWN_CHARS else f"{shown[:_SHOWN_CHARS]}…"
    fields = ", ".join(map(repr, asked))[:_SHOWN_CHARS]
    return (f"filter {fields}: no document that may be found meets {shown}",)
