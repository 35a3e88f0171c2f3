"""Requests and their shadows in the audit trail, on each kind of database."""

from __future__ import annotations

from redis import Redis
from sqlalchemy import Engine

from records.audit.drainer import Drainer
from records.audit.queries import Which
from records.audit.shadow_pairs import shadow_pairs
from tests.support.ledger.audit_entries import (
    ACCEPTED_AT_MS,
    make_answer,
    make_entry,
    make_plan,
    make_request,
    put,
)


def entry(request_id: str, at: int, configuration: str, *documents: str, ms: float = 1) -> dict[str, str]:
    request = make_request(request_id=request_id, namespace="docs")
    hits = [{"rank": rank, "document_id": document} for rank, document in enumerate(documents, start=1)]
    answer = make_answer(
        request,
        questions=[{"status": "complete", "hits": hits}],
        stages=[{"stage": "search.bm25", "status": "ok", "ms": ms, "start_ms": 7.0}],
    )
    plan = make_plan(request, configuration=configuration)
    return make_entry(request, plan=plan, answer=answer, accepted_at_ms=ACCEPTED_AT_MS + at)


def test_each_request_stands_beside_its_own_shadow_newest_first(redis_client: Redis, engine: Engine) -> None:
    put(
        redis_client,
        # This id was used again later.
        entry("again", 1, "rrf", "old"),
        entry("again.shadow", 2, "reranked", "old shadow"),
        entry("again", 1_000, "rrf", "a", "b", ms=5),
        entry("again.shadow", 1_001, "reranked", "b", "c", "b", ms=9),
        entry("first", 500, "rrf", *(f"{number}" for number in range(12))),
        entry("first.shadow", 501, "reranked"),
        entry("no-shadow", 600, "rrf", "a"),
        entry("other", 700, "rrf", "a"),
        entry("other.shadow", 701, "bm25", "a"),
    )
    Drainer(redis_client, engine, keep_texts=True).drain_once(1)
    newest, first = shadow_pairs(engine, "rrf", "reranked")
    assert (newest.request_id, newest.namespace, newest.statuses) == (
        "again",
        "docs",
        ("complete", "complete"),
    )
    assert newest.documents == (["a", "b"], ["b", "c"])
    assert newest.work_ms == (5, 9)
    assert (first.request_id, first.documents) == ("first", ([f"{number}" for number in range(10)], []))
    assert first.text_hash == newest.text_hash != ""
    assert shadow_pairs(engine, "reranked", "rrf") == []
    assert shadow_pairs(engine, "rrf", "reranked", Which(owner="f")) == [first]
    # Of the newest three requests under A, `other` and `no-shadow` have none under B.
    assert shadow_pairs(engine, "rrf", "reranked", newest=3) == [newest]
    assert shadow_pairs(engine, "rrf", "reranked", newest=4) == [newest, first]
