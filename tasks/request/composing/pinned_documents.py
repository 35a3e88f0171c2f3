"""Asks a store for the pinned documents that no branch has found: whether they exist, and meet the request's filters."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from chorale_client.request import Request
from chorale_client.wire_names import Stage

from fusion.branch_results import BranchAnswers, ranking_of
from fusion.page import PinLookup, not_found, rules_at
from models.branch_result import Degradation, StageNote
from models.errors import NotConfigured, StoreTimeout
from models.hits import Hit
from search.deadline import Deadline
from search.filter_meanings import expanded_filters
from search.protocol import Lists, Search
from tasks.request.composing.ending import failure_of
from tasks.wiring.resources import Resources


@dataclass(frozen=True, slots=True)
class PinLookups:
    of: Mapping[int, PinLookup] = field(default_factory=dict)
    """Key: the question's position in `plan.searched`."""
    note: StageNote | None = None
    why: Degradation | None = None
    """Why it is not known whether they are there."""


def look_up(resources: Resources, answers: BranchAnswers, deadline: Deadline) -> PinLookups:
    """One call to the first store of the plan that can list documents, for all questions."""
    plan = answers.plan
    if not any(ranking.pinned for ranking in plan.rules.values()):
        return PinLookups()
    missing_at: dict[int, list[str]] = {}
    for position in range(len(plan.searched)):
        rankings = [ranking_of(branch_result, position) for branch_result in answers.branch_results.values()]
        if missing := not_found(
            rules_at(plan, position), [ranking for ranking in rankings if ranking is not None]
        ):
            missing_at[position] = missing
    ids = list(dict.fromkeys(document for missing in missing_at.values() for document in missing))
    if not ids:
        return PinLookups()
    begun_s = time.monotonic()
    try:
        listed = _listed(resources, answers, ids, deadline)
    except Exception as error:
        failure = failure_of(error, "no pinned documents")
        return PinLookups(why=Degradation(Stage.RULES, failure.reason, f"pinned documents: {failure}"[:500]))
    return PinLookups(
        {
            position: PinLookup(
                listed.store, {id_: listed.hits[id_] for id_ in missing if id_ in listed.hits}
            )
            for position, missing in missing_at.items()
        },
        StageNote(Stage.RULES, ms=(time.monotonic() - begun_s) * 1000),
    )


def _listed(
    resources: Resources, answers: BranchAnswers, ids: Sequence[str], deadline: Deadline
) -> PinLookup:
    """The documents of `ids` that the store has and the filters of the request allow."""
    for name in dict.fromkeys(branch.store for branch in answers.plan.branches):
        if (remaining_s := deadline.remaining_s) <= 0:
            raise StoreTimeout("no time left to look for them")
        if isinstance(store := resources.store(name), Lists):
            with suppress(NotConfigured):  # Weaviate without texts
                return PinLookup(name, _documents(store, answers.request, ids, remaining_s))
    return PinLookup()


def _documents(store: Lists, request: Request, ids: Sequence[str], timeout_s: float) -> dict[str, Hit]:
    search = Search(len(ids), expanded_filters(request), request.excluded_ids, timeout_s, only_ids=ids)
    ranking = store.list_documents(request.namespace, search, order_by="published_at", descending=True)
    wanted = set(ids)  # a store of another package may know no `only_ids`
    return {hit.document_id: hit for hit in ranking.hits if hit.document_id in wanted}
