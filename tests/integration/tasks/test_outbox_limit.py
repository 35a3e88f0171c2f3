"""An audit database that is away for long: the outbox stops growing, and everything goes on when it is back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from chorale_client.keys import OUTBOX
from chorale_client.wire_names import QUEUE_RETRIEVE

from ledger.backlog import OutboxBound, read_outbox_bound
from records.database import open_database
from tasks.worker.warming import warm
from tests.support.faults.observers import audited
from tests.support.ledger.audit_rows import count
from tests.support.pipelines.one_process import OneProcess
from tests.support.servers.redis_server import RedisServer

LIMIT = 4
BRANCHES = ("bm25", "vector", "hyde")


@pytest.fixture
def pipeline() -> Iterator[OneProcess]:
    with RedisServer() as server, OneProcess(server, environment={"CHORALE_OUTBOX_LIMIT": str(LIMIT)}) as one:
        one.index()
        warm(one.app, [QUEUE_RETRIEVE])
        yield one


def test_a_full_outbox_takes_no_more_and_recovers_when_it_is_drained(pipeline: OneProcess) -> None:
    answers = [pipeline.ask(f"ERR-4711 {number}") for number in range(LIMIT)]
    for _ in range(3):
        refused = pipeline.client().retrieve("ERR-4711", timeout_s=30)
        assert (refused.status, refused.retry_after_s, refused.hits) == ("refused", 5.0, ())
    assert pipeline.redis.xlen(OUTBOX) == LIMIT
    assert read_outbox_bound(pipeline.redis) == OutboxBound(LIMIT, refused=3)

    pipeline.drain()
    answers.append(pipeline.ask("ERR-4711"))
    pipeline.drain()
    assert {answer.status for answer in answers} == {"complete"}

    engine = open_database(pipeline.resources.settings.audit_database_url)
    assert count(engine) == LIMIT + 1, "what was refused is only counted"
    engine.dispose()
    ranking_counts = []
    for answer in answers:
        row = audited(pipeline, answer.request_id)
        assert {branch.branch: branch.status for branch in row.branches} == dict.fromkeys(BRANCHES, "ok")
        assert row.questions[0].hits[0].document_id == "error"
        ranking_counts.append({len(branch.rankings) for branch in row.branches})
    assert ranking_counts == [{1}, {1}, {0}, {0}, {1}]
