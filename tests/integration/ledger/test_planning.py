"""A plan is written once, and its branches start until their time is over."""

from __future__ import annotations

from tests.support.ledger.script import Script, accept, finish, plan, queue, report, start, wait


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
