"""Which requests a process ends without reports."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from chorale_client import make_request
from chorale_client.request_factory import request_json

from ledger.local_join import join_locally
from ledger.protocol import Started, UnreportedResult
from models.branch_result import BranchResult
from tests.support.ledger.audit_entries import make_plan
from tests.support.ledger.requests import failed, ok

REQUEST = make_request("bread", request_id="7")
PLAN = make_plan(REQUEST).model_copy(update={"fusion_reserve_ms": 100})
BRANCHES = [branch.name for branch in PLAN.branches]
STARTED = Started(
    1_000,
    request_json(REQUEST).encode(),
    PLAN.to_json(),
    since_accepted_ms=10,
    accepted_at_ms=5_000,
    deadline_ms=7_000,
    coalescing_key="key",
)


def started_with(**changes: Any) -> Started:
    """A part like STARTED, with these values of each branch of the plan."""
    branches = tuple(branch.model_copy(update=changes) for branch in PLAN.branches)
    return replace(STARTED, plan=PLAN.model_copy(update={"branches": branches}).to_json())


def test_a_local_join_returns_what_the_join_would_return() -> None:
    entry = join_locally("7", [(ok(name), STARTED) for name in BRANCHES], 20)
    assert entry is not None
    assert (entry.request, entry.plan) == (STARTED.request, STARTED.plan)
    assert (entry.request_id, entry.state, entry.coalescing_key) == ("7", "planned", "key")
    assert (entry.accepted_at_ms, entry.now_ms, entry.deadline_ms) == (5_000, 5_000 + 10 + 20, 7_000)
    assert entry.reported == {name: ok(name) for name in BRANCHES}
    assert entry.unreported == [UnreportedResult(name, "ok", ok(name).to_wire()) for name in BRANCHES]


@pytest.mark.parametrize(
    "last",
    [
        (failed(BRANCHES[-1]), STARTED),
        (ok(BRANCHES[-1], attempt=2), STARTED),
        (ok(BRANCHES[-1]), replace(STARTED, is_sent_again=True)),
        (ok(BRANCHES[-1]), replace(STARTED, is_signed=False)),
        (ok("other"), STARTED),
        (ok(BRANCHES[0]), STARTED),
    ],
    ids=["failed", "attempt 2", "sent again", "forged", "of no branch", "of a branch that is here already"],
)
def test_one_part_that_is_not_the_first_answer_of_its_branch_lets_all_be_reported(
    last: tuple[BranchResult, Started],
) -> None:
    assert join_locally("7", [*((ok(name), STARTED) for name in BRANCHES[:-1]), last], 20) is None


def test_a_request_is_reported_while_a_branch_is_missing() -> None:
    assert join_locally("7", [(ok(name), STARTED) for name in BRANCHES[:-1]], 20) is None


@pytest.mark.parametrize(
    ("started", "searched_ms", "is_local"),
    [
        # 1,000 ms are left at the start, and 100 are for the fusion.
        (STARTED, 900, True),
        (STARTED, 901, False),
        # The request is 10 ms old at the start.
        (started_with(hedge_after_ms=100), 89, True),
        (started_with(hedge_after_ms=100), 90, False),
        (started_with(lease_ms=400), 399, True),
        (started_with(lease_ms=400), 400, False),
        (started_with(is_costly=True), 20, False),
    ],
)
def test_a_process_joins_a_request_itself_only_while_nobody_else_can_begin_to_work_on_it(
    started: Started, searched_ms: float, is_local: bool
) -> None:
    entry = join_locally("7", [(ok(name), started) for name in BRANCHES], searched_ms)
    assert (entry is not None) == is_local
