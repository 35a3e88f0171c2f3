"""Warnings about the values and conditions of filters, where filters find nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from chorale_client.wire_names import StageStatus
from pydantic_core import to_json

from fusion.branch_results import BranchAnswers, ranking_of
from fusion.fused_hits import FusedQuestion
from models.declarations.extensions import BranchKind
from models.documents import PassageText
from search.filter_meanings import requested_filters, type_warnings
from search.filters import composed, unknown_field_warning

_MAX_CHARS = 200


def filter_warnings(
    answers: BranchAnswers,
    kinds: Mapping[str, BranchKind],
    pages: Iterable[FusedQuestion],
    texts: Mapping[str, PassageText],
) -> tuple[str, ...]:
    """Needs no further search: types are those of the returned hits, whose `texts` are by passage id."""
    if not answers.request.filters:
        return ()
    filters = requested_filters(answers.request)
    ids = dict.fromkeys(hit.passage_id for page in pages for hit in page.hits)
    documents = [texts[id_].metadata for id_ in ids if id_ in texts]
    return (*type_warnings(filters, documents), *_unmet(answers, kinds, filters))


def without_contradictions(
    answers: BranchAnswers, pages: Mapping[int, FusedQuestion]
) -> dict[int, FusedQuestion]:
    """The pages without "no document has this field" of one branch where another found documents that meet the filters."""
    contradicted = {unknown_field_warning(composed(field)) for field in answers.request.filters}
    return {
        index: replace(page, warnings=tuple(line for line in page.warnings if line not in contradicted))
        if contradicted.intersection(page.warnings) and _has_met(answers, position)
        else page
        for position, (index, page) in enumerate(pages.items())
    }


def _has_met(answers: BranchAnswers, position: int) -> bool:
    rankings = (ranking_of(branch_result, position) for branch_result in answers.branch_results.values())
    return any(ranking is not None and ranking.hits and not ranking.relaxed for ranking in rankings)


def _unmet(
    answers: BranchAnswers, kinds: Mapping[str, BranchKind], filters: Mapping[str, object]
) -> tuple[str, ...]:
    """A key may find only what it may see, and exclusions narrow it too: the warning says nothing of other documents."""
    answered = [
        (branch, branch_result)
        for branch in answers.plan.branches
        if (branch_result := answers.branch_results.get(branch.name)) is not None and branch_result.answered
    ]
    # A branch that writes its queries leaves out questions for which it has none, and its stage says so.
    would_find_any = any(
        branch_result.rankings
        and kinds[branch.kind].always_finds(branch.options)
        and all(note.status == StageStatus.OK for note in branch_result.stages)
        for branch, branch_result in answered
    )
    if (
        not filters
        or not would_find_any
        or any(
            ranking.hits or ranking.warnings
            for _, branch_result in answered
            for ranking in branch_result.rankings
        )
    ):
        return ()
    condition = to_json(filters).decode()
    condition = condition if len(condition) <= _MAX_CHARS else f"{condition[:_MAX_CHARS]}…"
    fields = ", ".join(map(repr, filters))[:_MAX_CHARS]
    return (f"filter {fields}: no document that may be found meets {condition}",)
