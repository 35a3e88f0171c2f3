"""A part without an answer is sent a second time: an answer of either attempt counts, and a failure of both."""

from __future__ import annotations

import json

import pytest
from chorale_client.protocol_constants import ProtocolConstants

from tests.support.ledger.script import (
    Script,
    accept,
    finish,
    join,
    lose_messages,
    plan,
    report,
    start,
    sweep,
    wait,
)


@pytest.fixture
def hedged(script: Script) -> Script:
    """A request with two branches: `bm25` has answered, and `vector` was sent a second time."""
    script >> accept() >> plan("bm25", "vector", hedge_ms=80) >> report("bm25") >> start("vector")
    return script >> sweep(100) << {80: ["hedge vector"]}


def reported(script: Script) -> dict[str, object]:
    result: dict[str, object] = json.loads(script.entry().branch_results["vector"])
    return result


def test_a_part_without_an_answer_is_hedged_once(script: Script, protocol: ProtocolConstants) -> None:
    script >> accept() >> plan("bm25", resend_ms=200, hedge_ms=80) >> lose_messages("bm25") >> sweep(2_000)
    # The message that was lost is sent again besides.
    again_ms = 200 + protocol.resend_every_ms
    script << {80: ["hedge bm25"], 200: ["part bm25"], again_ms: ["part bm25"]}


def test_a_part_that_still_waits_in_its_queue_is_hedged(script: Script) -> None:
    script >> accept() >> plan("bm25", resend_ms=50, hedge_ms=80) >> sweep(700) << {80: ["hedge bm25"]}


def test_a_hedge_is_not_sent_beyond_the_limit_of_its_branch(script: Script) -> None:
    script >> accept() >> plan("bm25", limit_ms=80, hedge_ms=80) >> sweep(100) << {80: ["fuse"]}


@pytest.mark.parametrize("first_fails", [False, True])
def test_the_first_answer_of_either_attempt_wins(hedged: Script, first_fails: bool) -> None:
    """Also over the failure of the other attempt."""
    if first_fails:
        hedged >> report("vector", "failed") << "waits"
    hedged >> start("vector") << 10_000 - 160 - 100 >> report("vector", attempt=2) << "joined"
    hedged >> report("vector") << "duplicate"
    assert (reported(hedged)["attempt"], reported(hedged)["status"]) == (2, "ok")


@pytest.mark.parametrize(("first", "second"), [(1, 2), (2, 1)])
def test_a_failure_counts_only_when_the_other_attempt_failed_too(
    hedged: Script, first: int, second: int
) -> None:
    hedged >> report("vector", "failed", attempt=first) << "waits" >> join() << None
    hedged >> report("vector", "failed", attempt=first) << "duplicate"
    hedged >> report("vector", "failed", attempt=second) << "joined"


def test_a_failure_is_named_if_the_other_attempt_never_reports(hedged: Script) -> None:
    hedged >> report("vector", "failed", detail="bad index") << "waits" >> wait(10_000)
    hedged >> join() << {"bm25", "vector"}
    assert reported(hedged)["detail"] == "bad index"
    hedged >> finish("degraded")
    assert json.loads(hedged.stepped.outbox()[0][b"result:vector"])["detail"] == "bad index"


def test_a_failure_before_the_hedge_counts_at_once(script: Script) -> None:
    script >> accept() >> plan("bm25", "vector", hedge_ms=80) >> report("vector")
    script >> report("bm25", "failed") << "joined" >> sweep(200) << {}


def test_a_decisive_branch_decides_when_both_attempts_failed(script: Script) -> None:
    script >> accept() >> plan("bm25", "vector", hedge_ms=80, decisive=["vector"]) >> sweep(100)
    script >> report("vector", "failed") << "waits" >> start("bm25") << 10_000 - 160 - 100
    script >> report("vector", "failed", attempt=2) << "joined"
