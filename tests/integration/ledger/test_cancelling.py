"""A cancelled request has ended, and nobody continues it."""

from __future__ import annotations

from tests.support.ledger.script import Script, cancel, ends_by, finish, join, report, start, sweep, wait


def test_a_cancelled_request_has_ended_without_hits(planned: Script) -> None:
    planned >> report("bm25") >> wait(30) >> cancel() << "cancelled"
    answer = (planned.result() or {})["result"]
    assert (answer["status"], answer["took_ms"]) == ("cancelled", 30)
    assert [(one["where"], one["reason"]) for one in answer["degraded"]] == [("plan", "cancelled")]
    assert [(one["status"], one["hits"]) for one in answer["questions"]] == [("cancelled", [])]
    planned >> ends_by() << [("it", "client")]
    assert b"envelope:bm25" in planned.stepped.outbox()[0]
    assert planned.stepped.moments() == {}


def test_no_worker_or_sweeper_continues_a_cancelled_request(planned: Script) -> None:
    planned >> start("bm25") >> cancel() << "cancelled" >> start("vector") << None
    planned >> report("bm25") << "closed" >> join(force=True) << None >> finish() << None
    planned >> sweep(500) << {} >> ends_by() << [("it", "client")]


def test_cancelling_an_ended_or_an_unknown_request_changes_nothing(planned: Script) -> None:
    planned >> finish() >> cancel() << "complete" >> cancel("never-sent") << None
    planned >> ends_by() << [("it", "fusion")]
