"""Equal questions in flight: one request leads, and the others follow it."""

from __future__ import annotations

from typing import cast

import pytest
from chorale_client.keys import COALESCING
from chorale_client.protocol_constants import ProtocolConstants

from tests.support.ledger.script import (
    Script,
    accept,
    answer,
    cancel,
    ends_by,
    finish,
    lose_entry,
    plan,
    sweep,
    wait,
)


@pytest.fixture
def two(script: Script) -> Script:
    """`leader` and `it`, which follows."""
    script >> accept("leader") >> accept() >> plan("bm25", of="leader", coalescing_key="x") << "planned"
    return script >> plan("bm25", coalescing_key="x") << "follows"


def test_a_coalescing_key_has_one_leader_and_ends_with_it(two: Script) -> None:
    two >> finish(of="leader") >> answer("leader") << "complete" >> answer() << "complete"
    two >> ends_by() << [("leader", "fusion"), ("it", "leader")]
    assert [(two.result(one) or {})["result"]["request_id"] for one in ("leader", "it")] == ["leader", "it"]
    assert two.stepped.leaders() == {}


def test_a_leader_is_followed_only_if_its_end_is_not_later(script: Script) -> None:
    """A request's end is its deadline less its finish reserve."""
    script >> accept("leader", timeout_s=10) >> plan("bm25", of="leader", finish_ms=10, coalescing_key="x")
    script >> accept("same", timeout_s=10.05) >> accept("early", timeout_s=10.04)
    script >> plan("bm25", of="same", finish_ms=60, coalescing_key="x") << "follows"
    script >> plan("bm25", of="early", finish_ms=60, coalescing_key="x") << "planned"
    assert script.stepped.leaders() == {COALESCING + "x": "early"}


def test_a_follower_whose_leader_vanished_is_planned_anew(script: Script) -> None:
    script >> accept("leader", timeout_s=0.3) >> accept()
    (
        script
        >> plan("bm25", of="leader", finish_ms=10, coalescing_key="x")
        >> plan("bm25", finish_ms=10, coalescing_key="x")
    )
    # The sweeper misses the leader at the leader's next moment: 160 ms before its deadline the fusion is called.
    script >> lose_entry("leader") >> sweep(200) << {141: ["retrieve"]}


def test_a_follower_of_a_leader_that_is_late_waits_for_it_four_times(
    script: Script, protocol: ProtocolConstants
) -> None:
    every_ms = protocol.follower_every_ms
    script >> accept("leader", timeout_s=1) >> accept() >> plan("bm25", of="leader", coalescing_key="x")
    script >> plan("bm25", coalescing_key="x") << "follows" >> wait(1_000) >> sweep(5 * every_ms)
    swept = cast("dict[int, list[str]]", script.seen)
    assert [at for at, actions in swept.items() if "retrieve" in actions] == [1_000 + 5 * every_ms]


def test_a_follower_of_an_incomplete_answer_is_planned_anew_while_there_is_time(script: Script) -> None:
    script >> accept("leader") >> accept("early", timeout_s=30) >> accept("late", timeout_s=15)
    for name in ("leader", "early", "late"):
        script >> plan("bm25", of=name, coalescing_key="x")
    # One has 22.5 of 30 s left, the other just under half its time.
    script >> wait(7_501) >> finish("degraded", of="leader", by="sweeper")
    script >> answer("late") << "degraded" >> answer("early") << None
    script >> sweep() << ["retrieve of early"] >> plan("bm25", of="early", coalescing_key="x") << "planned"


def test_a_follower_that_is_planned_anew_is_resent_like_a_new_request(
    script: Script, protocol: ProtocolConstants
) -> None:
    script >> accept("leader") >> accept(timeout_s=30) >> plan("bm25", of="leader", coalescing_key="x")
    every_ms = protocol.plan_every_ms
    sent = {1: ["retrieve"], 2: ["retrieve"], 4: ["plan"], 7: ["plan"]}
    script >> sweep(8 * every_ms) << {at * every_ms: actions for at, actions in sent.items()}
    script >> plan("bm25", coalescing_key="x") << "follows" >> finish("degraded", of="leader", by="sweeper")
    # The first message is due at once, and the others at the same distances.
    again_ms = script.ms()
    script >> sweep(3_000) << {again_ms + (at - 1) * every_ms: actions for at, actions in sent.items()}


def test_an_id_that_was_lost_and_used_again_does_not_lead_its_old_coalescing_key(script: Script) -> None:
    script >> accept("leader", timeout_s=9) >> accept() >> plan("bm25", of="leader", coalescing_key="x")
    script >> lose_entry("leader") >> accept("leader", top_k=7) << "new"
    script >> plan("bm25", of="leader", coalescing_key="y") >> plan("bm25", coalescing_key="x") << "planned"


@pytest.mark.parametrize(("leader", "follower"), [("a", "b"), ("b", "a")])
def test_a_leader_that_ends_at_the_same_moment_ends_its_follower(
    script: Script, leader: str, follower: str
) -> None:
    script >> accept(leader, timeout_s=1) >> accept(follower, timeout_s=1)
    (
        script
        >> plan("bm25", of=leader, coalescing_key="x")
        >> plan("bm25", of=follower, coalescing_key="x")
        << "follows"
    )
    script >> sweep(940) << {840: [f"fuse of {leader}"], 940: [f"end of {leader}", f"end of {follower}"]}


def test_followers_of_a_cancelled_leader_are_planned_anew_even_late(two: Script) -> None:
    two >> wait(9_000) >> cancel("leader") << "cancelled" >> answer() << None
    two >> sweep() >> sweep() << ["retrieve"] >> plan("bm25", coalescing_key="x") << "planned"


def test_a_cancelled_follower_leaves_its_leader_alone(two: Script) -> None:
    two >> cancel() << "cancelled"
    assert two.stepped.leaders() == {COALESCING + "x": "leader"}
    two >> finish(of="leader") >> answer("leader") << "complete" >> answer() << "cancelled"


def test_a_follower_has_the_answer_and_no_scores_of_its_leader(two: Script) -> None:
    two >> finish(of="leader", completed="[{}]") >> ends_by() << [("leader", "fusion"), ("it", "leader")]
    assert [fields.get(b"completed") for fields in two.stepped.outbox()] == [b"[{}]", None]
