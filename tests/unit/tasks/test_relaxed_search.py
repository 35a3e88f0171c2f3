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

FOUND = Ranking((hit("a"),))


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
    """A kind of branch, and what it was asked: (questions, fields of filters) of each search."""
    asked: list[tuple[list[str], list[str]]] = []

    def search(given: BranchTask) -> list[Ranking]:
        asked.append((given.texts, sorted(given.request.filters)))
        return answer(given)

    return SimpleNamespace(search=search), asked


def test_only_the_questions_that_found_nothing_are_searched_again() -> None:
    finds = {"bread": 3, "cake": 2, "tea": 1}
    kind, asked = searching(
        lambda given: [
            FOUND if len(given.request.filters) <= finds.get(text, 0) else Ranking() for text in given.texts
        ]
    )
    given = part("cake", "bread", "nothing", "tea")
    assert [one.relaxed for one in search_relaxed(kind, given)] == [1, 0, 0, 2]
    assert asked == [
        (["cake", "bread", "nothing", "tea"], ["kind", "shop", "year"]),
        (["cake", "nothing", "tea"], ["shop", "year"]),
        (["nothing", "tea"], ["shop"]),
    ]
    assert [(note.n_in, note.detail) for note in given.notes] == [
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
    def away_later(given: BranchTask) -> list[Ranking]:
        if len(given.request.filters) < 3:
            raise error
        return [FOUND, Ranking()]

    kind, asked = searching(away_later)
    given, late = part("bread", "cake"), part("bread", "cake", ends_at_s=0.0)
    assert search_relaxed(kind, given) == [FOUND, Ranking()]
    assert [one.to_wire() for one in given.degraded] == [
        {"where": "search.bm25", "reason": reason, "detail": f"without 1 of the filters: {detail}"}
    ]
    assert len(asked) == 2
    assert search_relaxed(kind, late) == [FOUND, Ranking()]
    assert ([one.reason for one in late.degraded], len(asked)) == (["budget"], 3)


def test_a_kind_that_forgets_a_question_is_told_apart() -> None:
    kind, _ = searching(lambda given: [Ranking()] * (len(given.texts) - (len(given.request.filters) < 3)))
    with pytest.raises(InvalidAnswer, match="1 rankings for 2 questions without 1 of the filters"):
        search_relaxed(kind, part("bread", "cake"))
