"""The sweeper sends again what was lost, and ends each request in time."""

from __future__ import annotations

from typing import cast

import pytest
from chorale_client.protocol_constants import ProtocolConstants
from chorale_client.wire_names import QUEUE_FUSION

from tests.support.ledger.requests import CALLBACK
from tests.support.ledger.script import (
    Script,
    accept,
    finish,
    hasten,
    join,
    lose_entry,
    lose_messages,
    plan,
    queue,
    report,
    start,
    sweep,
    wait,
)


def test_only_one_sweeper_acts(script: Script, protocol: ProtocolConstants) -> None:
    script >> sweep(by="first") << [] >> sweep(by="second") << None
    script >> wait(protocol.sweeper_lease_ms) >> sweep(by="second") << None
    script >> wait(1) >> sweep(by="second") << [] >> sweep(by="first") << None


def test_a_sweeper_that_stands_by_waits_until_the_lease_of_the_other_ends(
    script: Script, protocol: ProtocolConstants
) -> None:
    script >> sweep(by="first") << [] >> wait(50)
    assert script.ledger.sweep("second").next_in_ms == protocol.sweeper_lease_ms - 50


def test_a_part_that_nobody_took_is_resent_at_most_twice(script: Script, protocol: ProtocolConstants) -> None:
    """And what was started is not."""
    every_ms = protocol.resend_every_ms
    script >> accept() >> plan("bm25", "vector", resend_ms=50) >> lose_messages("bm25", "vector")
    script >> start("vector") >> sweep(50 + 3 * every_ms)
    script << {50: ["part bm25"], 50 + every_ms: ["part bm25"]}


def test_a_started_part_without_an_answer_is_sent_again_after_its_lease(script: Script) -> None:
    """The worker that started it may have died."""
    script >> accept() >> plan("bm25", resend_ms=50, lease_ms=300) >> wait(10) >> start("bm25")
    script >> sweep(400) << {10 + 300: ["part bm25"]}


def test_a_part_that_still_waits_in_its_queue_is_not_sent_again(script: Script) -> None:
    script >> accept() >> plan("bm25", resend_ms=50) >> sweep(2_000) << {}


def test_the_callback_is_published_at_join_at(script: Script) -> None:
    script >> accept() >> plan("bm25", "vector", limit_ms=50) >> sweep(200) << {50: ["fuse"]}
    script.ledger.call_fusion(CALLBACK)
    assert script.stepped.queue(QUEUE_FUSION) == [CALLBACK]


def test_a_callback_that_still_waits_in_its_queue_is_not_sent_again(
    script: Script, protocol: ProtocolConstants
) -> None:
    """However long it waits, the fusion that takes it still has all its attempts."""
    every_ms = protocol.fuse_every_ms
    script >> accept() >> plan("bm25") >> report("bm25") << "joined" >> queue() << 1
    script >> sweep(8 * every_ms) << {} >> lose_messages()
    script >> sweep(5 * every_ms) << {9 * every_ms: ["fuse"], 10 * every_ms: ["fuse"]}


def test_a_dead_fusion_is_called_again_and_then_the_sweeper_ends_the_request(
    script: Script, protocol: ProtocolConstants
) -> None:
    every_ms = protocol.fuse_every_ms
    # Half of the time until the end for the first fusion, and `fuse_every_ms` for the second.
    timeout_ms = 4 * every_ms
    end_ms = timeout_ms - 60
    script >> accept(timeout_s=timeout_ms / 1000) >> plan("bm25") >> report("bm25") >> join() << {"bm25"}
    called = {end_ms // 2: ["fuse"], end_ms // 2 + every_ms: ["fuse"], end_ms: ["end"]}
    script >> sweep(end_ms) << called


def test_a_fusion_with_much_time_left_keeps_a_request_for_half_a_second_and_a_slow_one_may_still_end_it(
    script: Script, protocol: ProtocolConstants
) -> None:
    lease_ms, every_ms, end_ms = protocol.longest_fusion_lease_ms, protocol.fuse_every_ms, 10_000 - 60
    # Again whenever the lease of the sweeper that should end the request is over.
    again_ms = end_ms + protocol.sweeper_lease_ms
    script >> accept() >> plan("bm25") >> report("bm25") >> join() << {"bm25"} >> sweep(again_ms)
    script << {lease_ms: ["fuse"], lease_ms + every_ms: ["fuse"], end_ms: ["end"], again_ms: ["end"]}


def test_the_sweeper_ends_a_request_at_once_whose_callback_has_failed_each_time(
    script: Script, protocol: ProtocolConstants
) -> None:
    script >> accept() >> plan("bm25") >> report("bm25")
    for _ in range(protocol.fuses - 1):
        script >> join() << {"bm25"} >> hasten() >> sweep() << ["fuse"]
    script >> join() << {"bm25"} >> hasten() >> sweep() << ["end"]


def test_a_costly_fusion_keeps_half_of_the_time_and_a_slow_one_may_still_end_the_request(
    script: Script, protocol: ProtocolConstants
) -> None:
    every_ms, end_ms = protocol.fuse_every_ms, 10_000 - 60
    script >> accept() >> plan("bm25", is_costly=True) >> report("bm25") >> join() << {"bm25"}
    script >> sweep(end_ms) << {end_ms // 2: ["fuse"], end_ms // 2 + every_ms: ["fuse"], end_ms: ["end"]}


def test_a_late_fusion_has_a_moment_before_the_sweeper_ends_the_request(
    script: Script, protocol: ProtocolConstants
) -> None:
    end_ms = 10_000 - 60
    script >> accept() >> plan("bm25") >> wait(end_ms - 1) >> join() << set()
    # 1 ms is left until the end of the request.
    script >> wait(protocol.shortest_fusion_ms - 1) >> join() << None >> wait(1) >> join() << set()


def test_every_request_is_ended_before_its_deadline(script: Script) -> None:
    # The planner keeps 60 ms for the terminal write, and 160 ms for the fusion with it.
    script >> accept(timeout_s=0.5) >> plan("bm25", finish_ms=60, fusion_ms=160)
    script >> sweep(500 - 60) << {340: ["fuse"], 440: ["end"]} >> join(force=True) << set()


def test_an_end_that_a_sweeper_does_not_write_is_due_again_after_its_lease(
    planned: Script, protocol: ProtocolConstants
) -> None:
    """The sweeper may have died."""
    lease_ms, end_ms = protocol.sweeper_lease_ms, 10_000 - 60
    planned >> wait(end_ms) >> sweep(2 * lease_ms)
    planned << {at_ms: ["end"] for at_ms in (end_ms, end_ms + lease_ms, end_ms + 2 * lease_ms)}


@pytest.mark.parametrize("timeout_ms", [50, 203, 299, 10_000])
def test_a_fifth_of_the_time_and_at_most_60_ms_are_kept_for_the_end_of_a_request_without_a_plan(
    script: Script, protocol: ProtocolConstants, timeout_ms: int
) -> None:
    """The time is in whole milliseconds: a fifth of 203 ms counts as 40 ms."""
    end_ms = timeout_ms - min(timeout_ms // 5, protocol.longest_finish_reserve_ms)
    script >> accept(timeout_s=timeout_ms / 1000) >> wait(end_ms - 1) >> sweep()
    assert "end" not in cast("list[str]", script.seen)
    script >> wait(1) >> sweep() << ["end"]
    assert all(moment.is_integer() for moment in script.stepped.moments().values())


def test_a_failed_callback_makes_the_sweeper_act_at_once(planned: Script) -> None:
    planned >> join(force=True) >> hasten() >> sweep() << ["fuse"] >> finish() >> hasten()
    assert planned.stepped.moments() == {}


def test_a_request_that_was_joined_before_its_plan_is_ended_after_the_lease_of_a_sweeper(
    script: Script, protocol: ProtocolConstants
) -> None:
    """The sweeper that joined it may have died."""
    lease_ms = protocol.sweeper_lease_ms
    script >> accept() >> join(force=True) << set() >> sweep(lease_ms) << {lease_ms: ["end"]}
    # A follower too.
    (
        script
        >> accept("leader")
        >> accept("follower", timeout_s=20)
        >> plan("bm25", of="leader", coalescing_key="x")
    )
    (
        script
        >> plan("bm25", of="follower", coalescing_key="x")
        << "follows"
        >> join("follower", force=True)
        << set()
    )
    script >> hasten("follower") >> sweep() << ["end of follower"]


def test_the_sweeper_forgets_a_request_whose_entry_was_lost(planned: Script) -> None:
    planned >> lose_entry() >> wait(5_000) >> sweep() << []
    assert planned.stepped.moments() == {}
