"""A plan is written once, its branches start until their time is over, and one fusion takes the request."""

from __future__ import annotations

import pytest
from chorale_client.protocol_constants import ProtocolConstants

from tests.support.ledger.script import (
    Script,
    accept,
    finish,
    join,
    lose_messages,
    plan,
    queue,
    report,
    start,
    sweep,
    wait,
)


def test_the_plan_is_written_and_published_once(planned: Script) -> None:
    planned >> plan("bm25", "vector") << "known" >> queue("bm25") << 1 >> queue("vector") << 1
    assert planned.stepped.queue("queue.bm25") == [b"message of bm25"]


def test_an_ended_request_is_not_planned(script: Script) -> None:
    script >> accept() >> finish() >> plan("bm25") << "closed" >> queue("bm25") << 0


def test_what_is_not_planned_is_neither_started_nor_reported(script: Script) -> None:
    script >> accept() >> start("bm25") << None >> report("bm25") << "closed"
    script >> plan("bm25") >> start("hyde") << None >> report("hyde") << "closed"


def test_a_started_part_gets_the_time_left_until_join_at(planned: Script) -> None:
    # The deadline less the fusion reserve, less the 40 ms that have passed.
    planned >> wait(40) >> start("bm25") << 10_000 - 160 - 40
    started = planned.ledger.start("it", "vector")
    assert started is not None
    assert started.since_accepted_ms == 40


def test_only_one_fusion_takes_a_request_and_none_before_its_branches_have_reported(planned: Script) -> None:
    planned >> join() << None >> report("bm25") << "counted" >> join() << None
    planned >> report("vector") << "joined" >> join() << {"bm25", "vector"} >> join() << None


def test_from_join_at_on_the_fusion_takes_the_reports_that_have_come(script: Script) -> None:
    script >> accept() >> plan("bm25", "vector", limit_ms=50) >> report("bm25") >> wait(49) >> join() << None
    script >> wait(1)
    snapshot = script.ledger.join("it")
    assert snapshot is not None
    assert (list(snapshot.branch_results), snapshot.state) == (["bm25"], "planned")


def test_a_second_sweeper_sees_whether_a_fusion_worker_had_joined_the_request(script: Script) -> None:
    def state_before(request_id: str, *, force: bool) -> str:
        snapshot = script.ledger.join(request_id, force=force)
        assert snapshot is not None
        return snapshot.state

    script >> accept() >> plan("bm25", limit_ms=50)
    script >> accept("fused") >> plan("bm25", of="fused", limit_ms=50) >> wait(50)
    assert [state_before("it", force=True), state_before("it", force=True)] == ["planned", "planned"]
    assert [state_before("fused", force=False), state_before("fused", force=True)] == ["planned", "fusing"]


def test_a_request_whose_branches_never_begin_is_joined_without_them(script: Script) -> None:
    script >> accept(timeout_s=1) >> plan("bm25", "vector", resend_ms=2_000)
    # The deadline less the fusion reserve.
    script >> sweep(840) << {840: ["fuse"]} >> start("bm25") << 0 >> join() << set()
    script >> finish("failed") << 840


def test_a_report_that_comes_while_the_callback_waits_is_in_the_snapshot(script: Script) -> None:
    script >> accept() >> plan("bm25", "vector", limit_ms=50) >> report("bm25") >> sweep(50) << {50: ["fuse"]}
    script >> wait(20) >> report("vector") << "joined" >> join() << {"bm25", "vector"}


def test_a_part_whose_message_was_lost_is_sent_again_and_answers(script: Script) -> None:
    script >> accept() >> plan("bm25", "vector", resend_ms=50) >> report("bm25") >> lose_messages("vector")
    script >> sweep(50) << {50: ["part vector"]} >> start("vector") << 10_000 - 160 - 50
    script >> report("vector") << "joined" >> join() << {"bm25", "vector"} >> finish() << 50


# The failure of a decisive branch ends the wait for the others


@pytest.fixture
def strict(script: Script) -> Script:
    """A request with three branches that fails without `vector`."""
    return script >> accept() >> plan("bm25", "hyde", "vector", decisive=["vector"])


def test_the_failure_of_a_decisive_branch_pushes_the_callback_at_once(strict: Script) -> None:
    strict >> report("vector", "failed") << "joined" >> queue() << 1
    assert strict.entry().decided_by == "vector"
    strict >> join() << {"vector"}


def test_the_ledger_waits_for_no_branch_after_a_decisive_failure(strict: Script) -> None:
    strict >> start("hyde") << 10_000 - 160 >> report("vector", "failed")
    strict >> start("bm25") << None >> start("vector") << None
    strict >> report("hyde") << "closed" >> report("vector") << "closed"


def test_neither_another_branchs_failure_nor_a_decisive_answer_ends_the_request(strict: Script) -> None:
    strict >> report("bm25", "failed") << "counted" >> start("hyde") << 10_000 - 160 >> join() << None
    strict >> report("vector") << "counted" >> report("vector", "failed") << "duplicate" >> join() << None


def test_a_callback_that_was_lost_is_sent_again_and_no_part_is(
    strict: Script, protocol: ProtocolConstants
) -> None:
    every_ms = protocol.fuse_every_ms
    strict >> report("vector", "failed") >> lose_messages()
    strict >> sweep(2 * every_ms) << {every_ms: ["fuse"], 2 * every_ms: ["fuse"]}
