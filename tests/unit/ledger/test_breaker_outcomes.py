"""What the end of a request says about the branches and stores it asked."""

from __future__ import annotations

import pytest
from chorale_client.wire_names import REASONS, Reason

from ledger.breaker_outcomes import COUNTS, Outcome, outcomes
from models.branch_result import BranchResult, Degradation, StageNote
from models.plan import BranchPlan, Plan
from tests.unit.fusion.builders import branch as built_branch
from tests.unit.fusion.builders import plan as built_plan


def plan(*branches: BranchPlan) -> Plan:
    return built_plan(branches)


def branch(name: str, store: str = "local", limit_ms: int = 2_000) -> BranchPlan:
    return built_branch(name).model_copy(update={"store": store, "limit_ms": limit_ms})


def verdicts(branch_result: BranchResult | None, *, timeout_s: float = 2, limit_ms: int = 2_000) -> list[str]:
    """The verdicts on a branch with this branch result and on its store; None: the branch was not started."""
    one = branch("bm25", limit_ms=limit_ms)
    absent = {} if branch_result else {"bm25": Degradation("search.bm25", Reason.NOT_STARTED)}
    counted = outcomes(
        plan(one), {"bm25": branch_result} if branch_result else {}, absent, timeout_s=timeout_s
    )
    assert [one.name for one in counted] == ["bm25", "store:local"]
    return [one.verdict for one in counted]


@pytest.mark.parametrize("status", ["ok", "empty"])
def test_an_answer_counts_for_the_branch_and_for_its_store(status: str) -> None:
    assert verdicts(BranchResult("bm25", status)) == ["answered", "answered"]
    without_model = BranchResult("bm25", status, stages=(StageNote("expand", "partial"),))
    assert verdicts(without_model) == ["answered", "answered"]


ALONE = ("timeout", "late", "error", "invalid_answer", "model_missing", "next_year")
OF_THE_REQUEST = ("bad_index", "cancelled", "budget", "not_configured", "breaker_open")


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        *((reason, ["failed", "failed"]) for reason in ("unavailable", "unauthorised")),
        *((reason, ["failed", "says_nothing"]) for reason in ALONE),
        *((reason, ["says_nothing", "says_nothing"]) for reason in OF_THE_REQUEST),
    ],
)
def test_the_reason_of_a_failure_says_whether_it_counts_against_the_branch_and_its_store(
    reason: str, expected: list[str]
) -> None:
    assert verdicts(BranchResult.failed("bm25", reason)) == expected
    assert verdicts(None) == ["failed", "says_nothing"], "nobody started it"


def test_a_timeout_after_too_short_a_time_counts_against_nothing() -> None:
    assert verdicts(None, timeout_s=0.3, limit_ms=300) == ["says_nothing", "says_nothing"]
    # A limit that was declared for the branch counts as enough.
    assert verdicts(None, timeout_s=2, limit_ms=300) == ["failed", "says_nothing"]
    # A failure other than a timeout counts, however short the time was.
    assert verdicts(BranchResult.failed("bm25", "error"), timeout_s=0.3, limit_ms=300)[0] == "failed"


def test_an_answer_from_a_store_outweighs_the_failures_of_other_branches_on_it() -> None:
    both = plan(branch("bm25"), branch("vector"), branch("hyde", store="remote"))
    failures = {name: BranchResult.failed(name, "unavailable") for name in ("bm25", "hyde")}
    counted = outcomes(both, {**failures, "vector": BranchResult("vector", "empty")}, {}, timeout_s=2)
    assert {one.name: one.verdict for one in counted} == {
        "bm25": "failed",
        "vector": "answered",
        "hyde": "failed",
        "store:local": "answered",
        "store:remote": "failed",
    }


def test_an_answer_says_how_long_after_acceptance_it_came() -> None:
    whole = StageNote("search.bm25", ms=12.4, start_ms=30)
    answered = BranchResult("bm25", "ok", stages=(StageNote("embed", ms=9, start_ms=1), whole))
    (outcome, _) = outcomes(plan(branch("bm25")), {"bm25": answered}, {}, timeout_s=2)
    assert outcome == Outcome("bm25", "answered", answered_after_ms=42)


def test_the_table_knows_every_reason_that_degrades() -> None:
    assert {reason for reason, one in REASONS.items() if one.degrades} == set(COUNTS)


@pytest.mark.parametrize(
    ("status", "stage"), [("failed", "hypothesis"), ("failed", "expand"), ("skipped", "hypothesis")]
)
def test_a_language_model_counts_neither_for_nor_against_the_branch_and_its_store(
    status: str, stage: str
) -> None:
    failed = BranchResult.failed("bm25", "unavailable", stages=(StageNote(stage, status),))
    empty = BranchResult("bm25", "empty", stages=(StageNote(stage, status),))
    assert verdicts(failed) == verdicts(empty) == ["says_nothing", "says_nothing"]


@pytest.mark.parametrize("reason", ["timeout", "unavailable", "unauthorised", "breaker_open"])
def test_an_encoder_behind_an_address_counts_neither_for_nor_against_the_branch_and_its_store(
    reason: str,
) -> None:
    here = StageNote("embed", "failed", detail="model_missing")
    assert verdicts(BranchResult.failed("bm25", "model_missing", stages=(here,))) == [
        "failed",
        "says_nothing",
    ]
    away = StageNote("embed", "failed", detail=f"encoder:e5 {reason}")
    assert verdicts(BranchResult.failed("bm25", reason, stages=(away,))) == ["says_nothing", "says_nothing"]


@pytest.mark.parametrize("reason", ["timeout", "unavailable", "error", "late", "not_started"])
def test_of_a_costly_request_an_answer_counts_and_neither_a_failure_nor_its_duration(reason: str) -> None:
    costly = plan(branch("bm25").model_copy(update={"is_costly": True}))
    failed = outcomes(costly, {"bm25": BranchResult.failed("bm25", reason)}, {}, timeout_s=2)
    assert [one.verdict for one in failed] == ["says_nothing", "says_nothing"]
    note = StageNote("search.bm25", ms=9_000, start_ms=1_000)
    answered = outcomes(costly, {"bm25": BranchResult("bm25", "ok", stages=(note,))}, {}, timeout_s=60)
    assert [(one.verdict, one.answered_after_ms) for one in answered] == [("answered", None)] * 2
