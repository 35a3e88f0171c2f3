"""Which branches of a plan are not asked, given the states of breakers and queues.

`tests/integration/tasks/test_breakers.py` opens and probes breakers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest
from chorale_client import Request, make_request
from redis.exceptions import ConnectionError as RedisAway

from ledger.backlog import Load
from ledger.breakers import Breaker, LoadSnapshot
from models.branch_result import StageNote
from models.plan import Plan
from tasks.request.planning.answer_cache import CacheLookup
from tasks.request.planning.branch_selection import fails_policy, select_branches
from tasks.request.planning.plans import built
from tests.unit.tasks.test_planning import plan_of

NOW_MS = 100_000


class Known:
    """Given breakers; the first request that claims one gets it."""

    def __init__(self, snapshot: LoadSnapshot, *, is_away: bool = False) -> None:
        self.known, self.is_away = snapshot, is_away
        self.claimed: list[tuple[tuple[str, ...], bool]] = []

    @property
    def breakers(self) -> Known:
        return self

    def read(self, names: object) -> LoadSnapshot:
        if self.is_away:
            raise RedisAway("gone")
        return self.known

    def claim(self, request_id: str, names: Sequence[str], *, timeout_s: float, early: bool = False) -> bool:
        self.claimed.append((tuple(names), early))
        return True


def opened(name: str, *, half: bool = False) -> Breaker:
    return Breaker(name, 90_000, NOW_MS + (-1 if half else 5_000), False, 5, "timeout")


def known(*breakers: Breaker, **loads: Load) -> Known:
    by_queue = {f"chorale.{branch}": load for branch, load in loads.items()}
    return Known(LoadSnapshot(NOW_MS, {one.name: one for one in breakers}, by_queue))


def selected(breakers: Known, **options: Any) -> tuple[dict[str, str], Plan, Request]:
    """The reasons by branch."""
    request = make_request("bread", **options)
    plan = plan_of(request)
    selection = select_branches(cast(Any, breakers), request, plan.branches)
    branches = tuple(branch for branch in plan.branches if branch.name not in selection.missing)
    return (
        {name: one.reason for name, one in selection.missing.items()},
        built(plan, CacheLookup(StageNote("cache")), branches, selection.missing),
        request,
    )


def test_every_branch_is_asked_if_no_breaker_is_open_or_redis_is_away() -> None:
    reasons, plan, _ = selected(known(bm25=Load(5, 100)))
    assert (reasons, len(plan.branches)) == ({}, 3)
    assert selected(Known(LoadSnapshot(0), is_away=True))[0] == {}


def test_a_request_tries_early_if_the_store_of_all_its_branches_is_open() -> None:
    breakers = known(opened("vector", half=True), opened("store:local"))
    request = make_request("bread", branches=["vector", "bm25"])
    selection = select_branches(cast(Any, breakers), request, plan_of(request).branches)
    # Both branches use this store: one request tries it before its time is over.
    assert selection.missing == {}
    assert {early for _, early in breakers.claimed} == {True}


@pytest.mark.parametrize(
    ("load", "timeout_s", "is_searched"),
    [
        (Load(5_000, None, "length"), 2, False),
        (Load(5_000, 10, "length"), 60, False),
        # The oldest has waited for 1.2 s: more than half of two seconds, less than half of three.
        (Load(50, 1_200, "age"), 2, False),
        (Load(50, 1_200, "age"), 3, True),
        (Load(50, 1_200, ""), 2, True),
    ],
)
def test_an_overloaded_branch_is_left_out_unless_its_limit_is_long_enough(
    load: Load, timeout_s: float, is_searched: bool
) -> None:
    reasons, _, _ = selected(known(vector=load), timeout_s=timeout_s)
    assert reasons == ({} if is_searched else {"vector": "overload"})


FULL = Load(5_000, None, "length")


@pytest.mark.parametrize(
    ("loads", "options"),
    [
        ({"bm25": FULL, "vector": FULL, "hyde": FULL}, {}),
        ({"vector": FULL}, {"require": ["vector"]}),
        ({"vector": FULL}, {"on_missing": "fail"}),
        ({"vector": FULL}, {"min_branches": 3}),
    ],
)
def test_an_accepted_request_asks_an_overloaded_branch_that_it_would_fail_without(
    loads: dict[str, Load], options: dict[str, Any]
) -> None:
    assert selected(known(**loads), **options)[0] == {}
    # Also if the breakers of all others are open.
    reasons, _, _ = selected(known(opened("vector"), opened("hyde"), bm25=FULL))
    assert reasons == {"vector": "breaker_open", "hyde": "breaker_open"}


@pytest.mark.parametrize(
    ("options", "fails"),
    [
        ({}, False),
        ({"require": ["vector"]}, True),
        ({"require": ["bm25"]}, False),
        ({"min_branches": 3}, True),
        ({"min_branches": 2}, False),
        ({"on_missing": "fail"}, True),
        ({"on_missing": "fail", "require": ["bm25"]}, False),
        ({"on_missing": "empty"}, False),
    ],
)
def test_whether_a_request_fails_without_a_branch_follows_the_rules_of_the_answer(
    options: dict[str, Any], fails: bool
) -> None:
    request = make_request("bread", **options)
    assert fails_policy(request, plan_of(request).branches, ["vector"]) is fails
