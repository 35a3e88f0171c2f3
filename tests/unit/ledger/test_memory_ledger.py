"""The model of the ledger keeps the same promises as the scripts."""

from __future__ import annotations

import pytest

from tests.contracts.ledger import (
    AcceptingContract,
    EndingContract,
    JoiningContract,
    PlanningContract,
    ReportingContract,
    SubmittingContract,
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


class TestSubmitting(SubmittingContract): ...


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
