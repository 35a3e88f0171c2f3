"""A cancelled request has ended, and nobody continues it."""

from __future__ import annotations

import json

import pytest
from celery import Celery

from tests.support.ledger.script import (
    Script,
    accept,
    cancel,
    ends_by,
    finish,
    join,
    report,
    start,
    sweep,
    wait,
)


def test_a_cancelled_request_has_ended_without_hits(planned: Script) -> None:
    planned >> report("bm25") >> wait(30) >> cancel() << "cancelled"
    answer = (planned.result() or {})["result"]
    assert (answer["status"], answer["took_ms"]) == ("cancelled", 30)
    assert [(one["where"], one["reason"]) for one in answer["degraded"]] == [("plan", "cancelled")]
    assert [(one["status"], one["hits"]) for one in answer["questions"]] == [("cancelled", [])]
    planned >> ends_by() << [("it", "client")]
    assert b"result:bm25" in planned.stepped.outbox()[0]
    assert planned.stepped.moments() == {}


def test_no_worker_or_sweeper_continues_a_cancelled_request(planned: Script) -> None:
    planned >> start("bm25") >> cancel() << "cancelled" >> start("vector") << None
    planned >> report("bm25") << "closed" >> join(force=True) << None >> finish() << None
    planned >> sweep(500) << {} >> ends_by() << [("it", "client")]


def test_cancelling_an_ended_or_an_unknown_request_changes_nothing(planned: Script) -> None:
    planned >> finish() >> cancel() << "complete" >> cancel("never-sent") << None
    planned >> ends_by() << [("it", "fusion")]


# Celery's own way: a worker of the caller's application writes the state REVOKED


CELERYS_OWN = pytest.mark.filterwarnings("ignore:Call to deprecated setex")


def revoke(ledger: Script, task_id: str = "it") -> None:
    """As any worker of an application on this Redis does that hears of `AsyncResult(task_id).revoke()`."""
    options = ledger.stepped.client.connection_pool.connection_kwargs
    url = f"redis+socket://{options['path']}?virtual_host={options.get('db', 0)}"
    with Celery("shop", backend=url, broker="memory://", set_as_current=False) as app:
        app.backend.mark_as_revoked(task_id, reason="revoked", store_result=True)


def audited(ledger: Script) -> list[str]:
    return [json.loads(entry[b"answer"])["status"] for entry in ledger.stepped.outbox()]


@CELERYS_OWN
def test_a_revoked_request_keeps_its_state_and_is_cancelled_in_the_audit(planned: Script) -> None:
    planned >> report("bm25") >> report("vector")
    revoke(planned)
    planned >> finish()

    assert (planned.result() or {})["status"] == "REVOKED"
    assert audited(planned) == ["cancelled"]
    assert planned.stepped.moments() == {}


@CELERYS_OWN
def test_a_request_that_ended_before_it_was_revoked_stays_ended(planned: Script) -> None:
    planned >> finish()
    revoke(planned)

    assert (planned.result() or {})["status"] == "SUCCESS"
    assert audited(planned) == ["complete"]


@CELERYS_OWN
def test_a_request_whose_id_was_revoked_before_it_was_accepted_is_cancelled_once(script: Script) -> None:
    revoke(script)
    for _ in range(2):
        script >> accept() << "ended"
    script >> accept(top_k=3) << "conflict"

    assert (script.result() or {})["status"] == "REVOKED"
    assert audited(script) == ["cancelled"]
