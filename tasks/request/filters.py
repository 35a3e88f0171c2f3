"""Filters that find nothing: searches again with fewer of them (`relax`), and warnings about values and conditions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from chorale_client.wire_names import Reason, Stage
from pydantic_core import to_json

from fusion.branch_results import BranchAnswers, branch_stage, ranking_of
from fusion.conditions import relaxable_filters, without_filters
from fusion.fused_hits import FusedQuestion
from models.branch_result import Degradation
from models.documents import PassageText
from models.errors import InvalidAnswer
from models.extensions import BranchKind
from models.hits import Ranking
from search.filter_meanings import asked_filters, type_warnings
from search.filters import composed, unknown_field_warning
from tasks.branches.branch_task import BranchTask
from tasks.request.ending import failure_of


def search_relaxed(kind: BranchKind, part: BranchTask) -> list[Ranking]:
    """One ranking a question, in the part's own time.  A search that fails after the first one leaves its questions empty."""
    rankings = list(kind.search(part))
    filters = relaxable_filters(part.request)
    for count in range(1, len(filters) + 1):
        empty = [place for place, ranking in enumerate(rankings) if not ranking.hits]
        if not empty or len(rankings) != len(part.questions):
            break
        # Stages and reasons are kept in audit trails that must not name filters.
        started_s, filters_left = part.clock(), f"without {count} of the filters"
        again = replace(
            part,
            request=without_filters(part.request, count),
            questions=[part.questions[place] for place in empty],
            notes=[],
        )
        why: Degradation | None = None
        where = branch_stage(part.branch.name)
        if started_s >= part.ends_at_s:
            why = Degradation(where, Reason.BUDGET, f"no time to search {filters_left}")
        else:
            try:
                again_rankings = kind.search(again)
            except Exception as error:
                failure = failure_of(error, "relaxed search failed", branch=part.branch.name)
                why = Degradation(where, failure.reason, f"{filters_left}: {failure.detail}"[:500])
        if why is not None:
            part.degraded.append(why)
            break
        if len(again_rankings) != len(empty):
            raise InvalidAnswer(f"{len(again_rankings)} rankings for {len(empty)} questions {filters_left}")
        again.timed(Stage.SEARCH, started_s, filters_left)
        part.notes.append(again.notes[-1])
        for place, ranking in zip(empty, again_rankings, strict=True):
            if ranking.hits:
                rankings[place] = replace(ranking, relaxed=count)
    return rankings


_SHOWN_CHARS = 200


def filter_warnings(
    answers: BranchAnswers,
    kinds: Mapping[str, BranchKind],
    pages: Iterable[FusedQuestion],
    texts: Mapping[str, PassageText],
) -> tuple[str, ...]:
    """Needs no further search: types are those of the shown hits, whose `texts` are by passage id."""
    if not answers.request.filters:
        return ()
    filters = asked_filters(answers.request)
    ids = dict.fromkeys(hit.passage_id for page in pages for hit in page.hits)
    documents = [texts[id_].metadata for id_ in ids if id_ in texts]
    return (*type_warnings(filters, documents), *_unmet(answers, kinds, filters))


def without_contradictions(
    answers: BranchAnswers, pages: Mapping[int, FusedQuestion]
) -> dict[int, FusedQuestion]:
    """The pages without "no document has this field" of one branch where another found documents that meet the filters."""
    said = {unknown_field_warning(composed(field)) for field in answers.request.filters}
    return {
        index: replace(page, warnings=tuple(line for line in page.warnings if line not in said))
        if said.intersection(page.warnings) and _has_met(answers, position)
        else page
        for position, (index, page) in enumerate(pages.items())
    }


def _has_met(answers: BranchAnswers, position: int) -> bool:
    rankings = (ranking_of(branch_result, position) for branch_result in answers.branch_results.values())
    return any(ranking is not None and ranking.hits and not ranking.relaxed for ranking in rankings)


def _unmet(
    answers: BranchAnswers, kinds: Mapping[str, BranchKind], filters: Mapping[str, object]
) -> tuple[str, ...]:
    """A branch that compares vectors, or lists documents, finds something wherever some document meets the filters.

    A key may find only what it may see, and exclusions narrow it too: nothing is filters_left of other documents.
    """
    answered = [
        (branch, branch_result.rankings)
        for branch in answers.plan.branches
        if (branch_result := answers.branch_results.get(branch.name)) is not None and branch_result.answered
    ]
    tells = any(
        branch.kind == "document" or "questions" in kinds[branch.kind].needs
        for branch, rankings in answered
        if rankings
    )
    if (
        not filters
        or not tells
        or any(
            ranking.hits or ranking.warnings
            for _, rankings_of_branch in answered
            for ranking in rankings_of_branch
        )
    ):
        return ()
    condition = to_json(filters).decode()
    condition = condition if len(condition) <= _SHOWN_CHARS else f"{condition[:_SHOWN_CHARS]}…"
    fields = ", ".join(map(repr, filters))[:_SHOWN_CHARS]
    return (f"filter {fields}: no document that may be found meets {condition}",)
