"""Searches again, with fewer filters, for the questions that found nothing: for requests with `relax`."""

from __future__ import annotations

from dataclasses import replace

from chorale_client.wire_names import Reason, Stage
from structlog import get_logger

from branches.branch_task import BranchTask
from fusion.branch_results import branch_stage
from fusion.conditions import relaxable_filters, without_filters
from models.branch_result import Degradation
from models.errors import InvalidAnswer, StageFailure
from models.extensions import BranchKind
from models.hits import Ranking

log = get_logger("chorale.search")


def search_relaxed(kind: BranchKind, part: BranchTask) -> list[Ranking]:
    """One ranking a question, in the part's own time.  A search that fails after the first one leaves its questions empty."""
    rankings = list(kind.search(part))
    filters = relaxable_filters(part.request)
    for count in range(1, len(filters) + 1):
        empty = [place for place, ranking in enumerate(rankings) if not ranking.hits]
        if not empty or len(rankings) != len(part.questions):
            break
        # Stages and reasons are kept in audit trails that must not name filters.
        started_s, said = part.clock(), f"without {count} of the filters"
        again = replace(
            part,
            request=without_filters(part.request, count),
            questions=[part.questions[place] for place in empty],
            notes=[],
        )
        why: Degradation | None = None
        where = branch_stage(part.branch.name)
        if started_s >= part.ends_at_s:
            why = Degradation(where, Reason.BUDGET, f"no time to search {said}")
        else:
            try:
                found = kind.search(again)
            except StageFailure as failure:
                why = Degradation(where, failure.reason, f"{said}: {failure.detail}"[:500])
            except Exception as error:  # a package's kind may raise anything
                log.exception("relaxed search failed", branch=part.branch.name)
                why = Degradation(where, Reason.ERROR, f"{said}: {type(error).__name__}: {error}"[:500])
        if why is not None:
            part.degraded.append(why)
            break
        if len(found) != len(empty):
            raise InvalidAnswer(f"{len(found)} rankings for {len(empty)} questions {said}")
        again.timed(Stage.SEARCH, started_s, said)
        part.notes.append(again.notes[-1])
        for place, ranking in zip(empty, found, strict=True):
            if ranking.hits:
                rankings[place] = replace(ranking, relaxed=count)
    return rankings
