from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from ledger.expiring import Expiring
from ledger.memory import MemoryLedger
from tests.contracts.ledger import (
    TAIL,
    AcceptingContract,
    EndingContract,
    JoiningContract,
    PlanningContract,
    ReportingContract,
    a_request,
    ok,
    plan,
)
from tests.contracts.ledger_outbox import OutboxContract
from tests.contracts.ledger_policies import (
    CancellingContract,
    DecidingContract,
    HedgingContract,
    RefusingContract,
)
from tests.contracts.ledger_sweeping import FollowingContract, SweepingContract
from tests.support.ledger.stepped_ledgers import SteppedMemory


@pytest.fixture
def stepped() -> SteppedMemory:
    return SteppedMemory()


class TestAccepting(AcceptingContract): ...


class TestPlanning(PlanningContract): ...


class TestReporting(ReportingContract): ...


class TestJoining(JoiningContract): ...


class TestEnding(EndingContract): ...


class TestSweeping(SweepingContract): ...


class TestFollowing(FollowingContract): ...


class TestCancelling(CancellingContract): ...


class TestDeciding(DecidingContract): ...


class TestHedging(HedgingContract): ...


class TestRefusing(RefusingContract): ...


class TestOutbox(OutboxContract): ...


def test_without_a_clock_of_its_own_it_goes_by_the_machines() -> None:
    before_ms = time.time_ns() // 1_000_000
    accepted = MemoryLedger().accept(a_request())
    assert before_ms <= accepted.accepted_at_ms <= time.time_ns() // 1_000_000


def test_of_many_threads_that_end_a_request_one_wins() -> None:
    ledger = MemoryLedger()
    request = a_request()
    ledger.accept(request)
    plan(ledger, request, "bm25")
    with ThreadPoolExecutor(8) as threads:
        ends = list(
            threads.map(
                lambda by: ledger.finish(request.request_id, by=str(by), tail=TAIL, is_complete=True),
                range(40),
            )
        )
    assert sum(took_ms is not None for took_ms in ends) == 1
    assert len(ledger.outbox) == 1


def test_of_many_threads_that_report_the_last_branch_one_joins() -> None:
    ledger = MemoryLedger()
    request = a_request()
    ledger.accept(request)
    branches = [f"b{number}" for number in range(20)]
    plan(ledger, request, *branches)
    with ThreadPoolExecutor(8) as threads:
        outcomes = list(
            threads.map(lambda name: ledger.report(request.request_id, name, ok(name)), branches * 3)
        )
    assert sorted(set(outcomes)) == ["counted", "duplicate", "joined"]
    assert outcomes.count("joined") == 1
    assert list(ledger.queues["queue.fusion"]) == [b"message of fuse"]


def test_nothing_is_kept_after_its_time() -> None:
    stepped = SteppedMemory()
    request = a_request()
    accepted = stepped.ledger.accept(request)
    assert json.loads(stepped.ledger.finish_failed(request, accepted.accepted_at_ms))["status"] == "SUCCESS"
    stepped.step(600_001)
    assert stepped.ledger.result(request.request_id) is None


class TestExpiring:
    def test_a_value_put_again_lives_until_its_newer_moment(self) -> None:
        kept: Expiring[str] = Expiring()
        kept.put("a", "first", until_ms=10)
        kept.put("a", "second", until_ms=20)
        kept.forget(15)
        assert kept.get("a") == "second"
        kept.forget(21)
        assert kept.get("a") is None

    def test_a_value_is_there_at_its_moment_and_gone_after_it(self) -> None:
        kept: Expiring[str] = Expiring()
        kept.put("a", "value", until_ms=10)
        kept.forget(10)
        assert "a" in kept
        kept.forget(11)
        assert "a" not in kept
