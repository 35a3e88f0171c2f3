"""An audit database that is away for long: the outbox stops growing, and everything goes on when it is back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from chorale_client.keys import OUTBOX
from chorale_client.words import QUEUE_RETRIEVE

from audit.database import open_database
from audit.queries import show
from ledger.outbox import OutboxBound, read_outbox_bound
from tasks.worker.warming import warm
from tests.support.ledger.audit_rows import count
from tests.support.pipelines.one_process import OneProcess
from tests.support.servers.redis_server import RedisServer

LIMIT = 4


@pytest.fixture
def pipeline() -> Iterator[OneProcess]:
    with RedisServer() as server, OneProcess(server, environment={"CHORALE_OUTBOX_LIMIT": str(LIMIT)}) as one:
        one.index()
        warm(one.app, [QUEUE_RETRIEVE])
        yield one


def test_a_full_outbox_takes_no_more_and_recovers_when_it_is_drained(pipeline: OneProcess) -> None:
    def ask(question: str) -> tuple[str, str]:
        answer = pipeline.ask(question)
        return answer.request_id, answer.status

    ids, statuses = zip(*(ask(f"ERR-4711 {number}") for number in range(LIMIT)), strict=True)
    assert statuses == ("complete",) * LIMIT

    for _ in range(3):
        refused = pipeline.client().retrieve("ERR-4711", timeout_s=30)
        assert (refused.status, refused.retry_after_s, refused.hits) == ("refused", 5.0, ())
    assert pipeline.redis.xlen(OUTBOX) == LIMIT
    assert read_outbox_bound(pipeline.redis) == OutboxBound(LIMIT, refused=3)

    pipeline.drain()
    last, status = ask("ERR-4711")
    assert status == "complete"
    pipeline.drain()

    engine = open_database(pipeline.resources.settings.audit_database_url)
    try:
        kept = {}
        for request_id in (*ids, last):
            found = show(engine, request_id)
            assert found is not None
            assert {branch.branch: branch.status for branch in found.branches} == {
                "bm25": "ok",
                "vector": "ok",
                "hyde": "ok",
            }
            assert found.questions[0].hits[0].document_id == "error"
            kept[request_id] = {len(branch.rankings) for branch in found.branches}
        assert kept == {ids[0]: {1}, ids[1]: {1}, ids[2]: {0}, ids[3]: {0}, last: {1}}
        assert count(engine) == LIMIT + 1, "what was refused is only counted"
    finally:
        engine.dispose()
