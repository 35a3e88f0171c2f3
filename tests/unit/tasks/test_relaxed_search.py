"""Searching again with fewer filters, in a branch's own time."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from chorale_client import make_request

from models.errors import InvalidAnswer, StoreUnavailable
from models.hits import Ranking
from tasks.branches.branch_task import BranchTask
from tasks.request.search import search_relaxed
from tests.unit.fusion.builders import branch, hit

ONE_HIT = Ranking((hit("a"),))


def part(*texts: str, ends_at_s: float = 100.0) -> BranchTask:
    request = make_request(
        list(texts),
        filters={"year": 2024, "shop": "north", "kind": "rule"},
        relax=["filters.kind", "filters.year"],
    )
    nothing: Any = None
    return BranchTask(
        nothing, nothing, branch("bm25"), request, request.questions, ends_at_s, 0.0, clock=lambda: 0.0
    )


def searching(answer: Callable[[BranchTask], list[Ranking]]) -> tuple[Any, list[tuple[list[str], list[str]]]]:
    """A kind of branch, and the (questions, fields of filters) of each of its searches."""
    searches: list[tuple[list[str], list[str]]] = []

    def search(task: BranchTask) -> list[Ranking]:
        searches.append((task.texts, sorted(task.request.filters)))
        return answer(task)

    return SimpleNamespace(search=search), searches


def test_only_the_questions_that_found_nothing_are_searched_again() -> None:
    finds = {"bread": 3, "cake": 2, "tea": 1}
    kind, searches = searching(
        lambda task: [
            ONE_HIT if len(task.request.filters) <= finds.get(text, 0) else Ranking() for text in task.texts
        ]
    )
    task = part("cake", "bread", "nothing", "tea")
    assert [one.relaxed for one in search_relaxed(kind, task)] == [1, 0, 0, 2]
    assert searches == [
        (["cake", "bread", "nothing", "tea"], ["kind", "shop", "year"]),
        (["cake", "nothing", "tea"], ["shop", "year"]),
        (["nothing", "tea"], ["shop"]),
    ]
    assert [(note.n_in, note.detail) for note in task.notes] == [
        (3, "without 1 of the filters"),
        (2, "without 2 of the filters"),
    ]


@pytest.mark.parametrize(
    ("error", "reason", "detail"),
    [(StoreUnavailable("gone"), "unavailable", "gone"), (TypeError("a bug"), "error", "TypeError: a bug")],
)
def test_a_search_that_fails_later_or_has_no_time_leaves_the_first_answer_and_says_so(
    error: Exception, reason: str, detail: str
) -> None:
    def away_later(task: BranchTask) -> list[Ranking]:
        if len(task.request.filters) < 3:
            raise error
        return [ONE_HIT, Ranking()]

    kind, searches = searching(away_later)
    task, late = part("bread", "cake"), part("bread", "cake", ends_at_s=0.0)
    assert search_relaxed(kind, task) == [ONE_HIT, Ranking()]
    assert [one.to_wire() for one in task.degraded] == [
        {"where": "search.bm25", "reason": reason, "detail": f"without 1 of the filters: {detail}"}
    ]
    assert len(searches) == 2
    assert search_relaxed(kind, late) == [ONE_HIT, Ranking()]
    assert ([one.reason for one in late.degraded], len(searches)) == (["budget"], 3)


def test_a_kind_that_returns_too_few_rankings_gives_an_invalid_answer() -> None:
    kind, _ = searching(lambda task: [Ranking()] * (len(task.texts) - (len(task.request.filters) < 3)))
    with pytest.raises(InvalidAnswer, match="1 rankings for 2 questions without 1 of the filters"):
        search_relaxed(kind, part("bread", "cake"))
