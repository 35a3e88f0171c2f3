"""Deleted requests that wait for the tables never reach them, whatever a drainer is doing."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from chorale_client.keys import OUTBOX
from redis import Redis
from sqlalchemy import Engine, event

from records.audit import deletion
from records.audit.drainer import Drainer
from records.audit.outbox import UNREADABLE
from records.database import open_database
from tests.support.ledger.audit_entries import make_request, put, whole_entry
from tests.support.ledger.audit_rows import count

REQUESTS = (
    ("a", "customer-1", "law"),
    ("b", "customer-2", "law"),
    ("c", "customer-1", "news"),
    ("d", None, "default"),
)
"""Request, correlation id, namespace."""


def entry_of(name: str, correlation: str | None, namespace: str) -> dict[str, str]:
    return whole_entry(make_request("who?", request_id=name, correlation_id=correlation, namespace=namespace))


def aside(client: Redis, fields: dict[str, str]) -> None:
    entry: dict[Any, Any] = {**fields, "error": "EOF"}
    client.xadd(UNREADABLE, entry)


def ids_in(client: Redis, stream: str) -> list[str]:
    entries: Any = client.xrange(stream)
    return [fields[b"id"].decode() for _, fields in entries]


@pytest.mark.parametrize(
    ("column", "value", "stays"),
    [
        ("request_id", "b", ["a", "c", "d"]),
        ("correlation_id", "customer-1", ["b", "d"]),
        ("namespace", "law", ["c", "d"]),
        ("namespace", "default", ["a", "b", "c"]),
        ("request_id", "nobody", ["a", "b", "c", "d"]),
    ],
)
def test_entries_that_wait_or_are_set_aside_are_deleted_by_one_field(
    redis_client: Redis, monkeypatch: pytest.MonkeyPatch, column: str, value: str, stays: list[str]
) -> None:
    """Also if there are several pages of entries."""
    monkeypatch.setattr(deletion, "PAGE", 1)
    for fields in REQUESTS:
        put(redis_client, entry_of(*fields))
        aside(redis_client, {**entry_of(*fields), "answer": "{"})
    assert deletion.count_waiting(redis_client, column, value) == 2 * (4 - len(stays))
    assert deletion.erase_waiting(redis_client, column, value) == 2 * (4 - len(stays))
    assert (ids_in(redis_client, OUTBOX), ids_in(redis_client, UNREADABLE)) == (stays, stays)


@pytest.mark.parametrize(
    ("column", "value"),
    [("request_id", "a"), ("correlation_id", "müller"), ("correlation_id", "o'hara"), ("namespace", "law")],
)
def test_unreadable_entries_with_the_value_are_deleted(redis_client: Redis, column: str, value: str) -> None:
    torn = f'{{"v":1,"request_id":"a","correlation_id":"{value}","namespace":"law","questions":[{{"te'
    aside(redis_client, {"request": torn})
    aside(redis_client, {"id": "other", "request": '{"v":1,"request_id":"other","que'})
    assert deletion.erase_waiting(redis_client, column, value) == 1
    assert ids_in(redis_client, UNREADABLE) == ["other"]


@pytest.mark.parametrize("moment", ["before_cursor_execute", "after_cursor_execute", "commit"])
def test_an_entry_deleted_while_a_drainer_has_it_does_not_reach_the_tables(
    redis_client: Redis, engine: Engine, moment: str
) -> None:
    """Deletes before the drainer's INSERT, after it, or after its check of the entries."""
    put(redis_client, entry_of(*REQUESTS[0]), entry_of(*REQUESTS[1]))
    other = open_database(engine.url)

    def erase() -> None:
        deletion.erase_waiting(redis_client, "request_id", "a")
        deletion.wait_for_drainers(other)
        deletion.remove_rows(other, deletion.requests_of("request_id", "a"))

    thread = threading.Thread(target=erase)

    def begin(*_: object) -> None:
        if thread.ident is None:
            thread.start()
            # The thread waits for the commit of this transaction, so an unlimited join would be a deadlock.
            thread.join(0.5)

    event.listen(engine, moment, begin)
    drainer = Drainer(redis_client, engine, keep_texts=True)
    while drainer.drain_once(1):
        pass
    thread.join(20)
    assert not thread.is_alive()
    other.dispose()
    assert (count(engine), redis_client.xlen(OUTBOX)) == (1, 0)


def test_an_entry_deleted_while_a_drainer_finds_it_unreadable_is_not_set_aside(
    redis_client: Redis, engine: Engine
) -> None:
    request = make_request(request_id="a")
    put(redis_client, {**whole_entry(request), "answer": "{"}, {**entry_of(*REQUESTS[1]), "answer": "{"})

    class Slow(Drainer):
        def _set_aside(self, wrong: Any) -> None:
            deletion.erase_waiting(redis_client, "request_id", "a")
            super()._set_aside(wrong)

    assert Slow(redis_client, engine, keep_texts=True).drain_once(1) == 2
    assert ids_in(redis_client, UNREADABLE) == ["b"]
    assert redis_client.xlen(OUTBOX) == 0
