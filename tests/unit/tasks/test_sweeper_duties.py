"""The duties of a sweeper process whose database refuses its login."""

from __future__ import annotations

import pytest
from sqlalchemy.exc import OperationalError

from evaluation.tuning.adapting import Adapting
from models.duty import Duty
from records.audit.deletion import Retention
from records.audit.drainer import Drainer
from records.audit.months import MonthsAhead
from records.rules.store import RuleCopying
from tasks.jobs.feeder import Feeder
from tasks.service_calls import ServiceCalls
from tasks.sweeping.shadows import Shadows


@pytest.mark.parametrize(
    "duty", [Adapting, Drainer, Feeder, MonthsAhead, Retention, RuleCopying, ServiceCalls, Shadows]
)
def test_a_database_that_is_away_is_logged_without_a_traceback(duty: type[Duty]) -> None:
    assert issubclass(OperationalError, duty.expected)
