"""Asks a store for the pinned documents that no branch has found: whether they exist, and meet the request's filters."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from chorale_client.wire_names import Reason, Stage
from structlog import get_logger

from fusion.branch_results import BranchAnswers, ranking_of
from fusion.page import PinLookup, not_found, rules_at
from models.branch_result import Degradation, StageNote
from models.errors import NotConfigured, StageFailure, StoreTimeout
from search.filter_meanings import meant_filters
from search.protocol import Lists, Search
from wiring.resources import Resources

log = get_logger("chorale.rules")


@dataclass(frozen=True, slots=True)
class LookedUp:
    of: Mapping[int, PinLookup] = field(default_factory=dict)
    """Key: the question's position in `plan.asked`."""
    note: StageNote | None = None
    why: Degradation | None = None
    """Why it is not known whether they are there."""


def look_up(resources: Resources, found: BranchAnswers, *, limit_s: float) -> LookedUp:
    """One call to the first store of the plan that can list documents, for all questions."""
    plan = found.plan
    if not any(one.pinned for one in plan.rules.values()):
        return LookedUp()
    wanted: dict[int, list[str]] = {}
    for position in range(len(plan.asked)):
        rankings = [ranking_of(envelope, position) for envelope in found.envelopes.values()]
        if missing := not_found(rules_at(plan, position), [one for one in rankings if one is not None]):
            wanted[position] = missing
    ids = list(dict.fromkeys(document for missing in wanted.values() for document in missing))
    if not ids:
        return LookedUp()
    begun_s = time.monotonic()
    try:
        looked = _listed(resources, found, ids, begun_s + limit_s)
    except (StageFailure, TimeoutError) as error:
        reason = error.reason if isinstance(error, StageFailure) else Reason.BUDGET
        return LookedUp(why=Degradation(Stage.RULES, reason, f"pinned documents: {error}"[:500]))
    except Exception as error:  # a store from outside may raise anything
        log.exception("no pinned documents")
        said = f"{type(error).__name__}: {error}"[:500]
        return LookedUp(why=Degradation(Stage.RULES, Reason.ERROR, said))
    return LookedUp(
        {
            position: PinLookup(
                looked.store, {id_: looked.hits[id_] for id_ in missing if id_ in looked.hits}
            )
            for position, missing in wanted.items()
        },
        StageNote(Stage.RULES, ms=(time.monotonic() - begun_s) * 1000),
    )


def _listed(resources: Resources, found: BranchAnswers, ids: Sequence[str], ends_at_s: float) -> PinLookup:
    """The documents of `ids` that the store has and the filters of the request allow."""
    request = found.request
    for name in dict.fromkeys(branch.store for branch in found.plan.branches):
        left_s = ends_at_s - time.monotonic()
        if left_s <= 0:
            raise StoreTimeout("no time left to look for them")
        store = resources.store(name)
        if isinstance(store, Lists):
            search = Search(len(ids), meant_filters(request), request.exclude_ids, left_s, only_ids=ids)
            with suppress(NotConfigured):  # Weaviate without texts
                ranking = store.list_documents(
                    request.namespace, search, order_by="published_at", descending=True
                )
                wanted = set(ids)  # a store of another package may know no `only_ids`
                return PinLookup(
                    name, {hit.document_id: hit for hit in ranking.hits if hit.document_id in wanted}
                )
    return PinLookup()
