"""A script whose step has another result says which step, what was expected and what was seen."""

from __future__ import annotations

import pytest
from chorale_client.scripts import PRELUDE
from redis.exceptions import ResponseError

from tests.support.ledger import stepped_ledger
from tests.support.ledger.script import Script, accept, plan, report, start, wait


def test_a_failure_shows_the_steps_what_was_expected_and_what_was_seen(script: Script) -> None:
    script >> accept(timeout_s=5) << "new" >> wait(1_200) >> plan("bm25") << "planned"
    with pytest.raises(AssertionError) as failure:
        script >> start("bm25") >> report("bm25", attempt=2) << "counted"
    assert str(failure.value).splitlines() == [
        "a step had another result",
        "      0 ms  >> accept(timeout_s=5) << 'new'",
        "      0 ms  >> wait(1200)",
        "  1,200 ms  >> plan('bm25') << 'planned'",
        "  1,200 ms  >> start('bm25')",
        "  1,200 ms  >> report('bm25', attempt=2)",
        "expected:   << 'counted'",
        "seen:       << 'joined'",
    ]


def test_a_step_that_raises_shows_the_steps_until_it(script: Script) -> None:
    with pytest.raises(ResponseError) as failure:
        script >> accept() >> wait(1) >> plan("bm25", limit_ms="soon")
    assert failure.value.__notes__[-1].splitlines() == [
        "      0 ms  >> accept()",
        "      0 ms  >> wait(1)",
        "      1 ms  >> plan('bm25', limit_ms='soon')",
    ]


@pytest.mark.parametrize(
    "text", [PRELUDE.replace("'TIME'", "'GET', KEYS[1]"), PRELUDE * 2], ids=["other", "two"]
)
def test_no_test_brings_its_clock_into_a_prelude_that_reads_another(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stepped_ledger, "prelude", lambda _: text)
    with pytest.raises(AssertionError, match="reads its clock in another way"):
        stepped_ledger.stepped_prelude()
